"""What is read of a suite: results, claims, status and the page on all of its studies; and what is for one study."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import duckdb
import pytest

from .conftest import is_error, lastro
from .suites import GOOD, WITH_A_GAP, write_folder


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three studies that ran and one that could not."""
    home = tmp_path_factory.mktemp("suite")
    folder = write_folder(home / "mine", WITH_A_GAP, order=("cpu", "disk", "memory", "uplink"))
    assert lastro("run", folder, "-o", home / "out", "--no-report").code == 3
    return home / "out"


@pytest.fixture(scope="module")
def begun(suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, before any study has begun."""
    place = tmp_path_factory.mktemp("begun") / "out"
    for name in ("cpu", "disk", "memory", "uplink"):
        (place / name).mkdir(parents=True)
        (place / name / "study.toml").write_bytes((suite / name / "study.toml").read_bytes())
    (place / "cpu" / "claims.toml").write_bytes((suite / "cpu" / "claims.toml").read_bytes())
    (place / "suite.json").write_bytes((suite / "suite.json").read_bytes())
    return place


def test_status(suite: Path, begun: Path) -> None:
    facts = lastro("status", suite, "--json").json
    assert set(facts) == {
        "format", "suite", "title", "profile", "counts", "trials", "finished", "remaining_s", "next", "studies",
    }  # fmt: skip
    assert facts["counts"] == {"valid": 22, "invalid": 0, "unavailable": 8, "running": 0, "pending": 0}
    assert facts["finished"] and facts["remaining_s"] == 0 and facts["next"] == f"lastro report {suite}"
    assert {"suite_study", "begun", "stopped", "counts", "attempts", "last_event"} <= set(facts["studies"][0])
    text = lastro("status", suite).out
    assert "A suite of tests" in text and "22 of 22 trials" in text
    assert re.search(r"^memory +· +· +2 +· +· +could not run$", text, re.MULTILINE)
    assert "memory could not run: no treatment" in text and "\n  remedy: `lastro doctor` shows what can" in text
    waiting = lastro("status", begun, "--json").json
    assert waiting["counts"]["pending"] == 30 and waiting["remaining_s"] is not None
    assert "not begun" in lastro("status", begun).out


def test_results_of_all_studies(suite: Path, begun: Path) -> None:
    text = lastro("results", suite).out
    places = [text.index(f"\n{name}\n") for name in ("disk", "memory", "uplink")]
    assert text.startswith("cpu\n") and places == sorted(places) and "this fault cannot be had here" in text
    document = lastro("results", suite, "--json").json
    assert document["format"] == "lastro-suite-results/1" and document["not_begun"] == []
    assert [member["suite_study"] for member in document["studies"]] == ["cpu", "disk", "memory", "uplink"]
    assert all(member["format"] == "lastro-results/1" for member in document["studies"])
    missing = lastro("results", begun, "--json").json
    assert [member["suite_study"] for member in missing["not_begun"]] == ["cpu", "disk", "memory", "uplink"]
    table = lastro("results", begun, "--lang", "pt-BR").out
    assert "Solução: `lastro doctor` shows what can" in table and "\nNão começou.\n" in table


def test_every_value_of_all_studies(suite: Path, tmp_path: Path) -> None:
    done = lastro("results", suite, "--csv", "-", "--parquet", tmp_path / "all.parquet")
    found = list(csv.DictReader(io.StringIO(done.out)))
    assert list(found[0])[:5] == ["suite_study", "treatment", "level", "fault", "step"]
    assert {row["suite_study"] for row in found} == set(WITH_A_GAP)
    valid = [row for row in found if row["valid"] == "true"]
    assert len(valid) == 22 * 2, "two metrics of each valid trial"
    assert {row["step"] for row in valid if row["suite_study"] == "uplink"} == {"1", "2"}
    assert {row["step"] for row in valid if row["suite_study"] == "cpu"} == {""}
    with duckdb.connect() as db:
        counted = db.execute(
            f"SELECT count(*), count(DISTINCT suite_study) FROM '{tmp_path / 'all.parquet'}'"
        ).fetchone()
    assert counted == (len(found), 4)


def test_claims_of_all_studies_follow_each_other(suite: Path, begun: Path) -> None:
    text = lastro("claims", suite)
    assert text.code == 0 and "2 claims: 1 reproduced, 1 contradicted" in text.out
    assert re.search(r"^cpu\n\n\S reproduced: ", text.out, re.MULTILINE)
    assert "The claims of each study are a separate family." in text.out
    document = lastro("claims", suite, "--json").json
    assert document["format"] == "lastro-suite-claims/1" and document["not_begun"] == []
    assert [(claim["suite_study"], claim["id"]) for claim in document["claims"]] == [
        ("cpu", "b-is-faster"), ("cpu", "b-is-slower"),
    ]  # fmt: skip
    assert document["tally"]["reproduced"] == document["tally"]["contradicted"] == 1
    assert document["studies"][0]["source"]["title"] == "A synthetic paper"
    assert lastro("claims", suite, "--fail-on", "contradicted").code == 4
    assert lastro("claims", begun, "--fail-on", "contradicted").code == 0
    waiting = lastro("claims", begun, "--fail-on", "not-reproduced")
    assert waiting.code == 4, "what was never judged was not reproduced"
    assert "Study cpu has not started: its claims are not judged." in waiting.out
    assert "O estudo cpu não começou" in lastro("claims", begun, "--lang", "pt-BR").out


def test_claims_that_are_for_one_study_or_are_nowhere(suite: Path, tmp_path: Path) -> None:
    mine = suite / "cpu" / "claims.toml"
    is_error(lastro("claims", suite, "--claims", mine), 2, "--claims FILE takes one of them", f"{suite / 'cpu'}")
    assert lastro("claims", suite / "cpu", "--claims", mine).code == 0
    folder = write_folder(tmp_path / "mine", {"uplink": GOOD["uplink"]}, claims="")
    assert lastro("run", folder, "-o", tmp_path / "out", "--no-report").code == 0
    is_error(lastro("claims", tmp_path / "out"), 2, "no study of", "has claims")


def test_the_page_answers_for_all_studies_and_links_to_theirs(suite: Path) -> None:
    done = lastro("report", suite, drawn="suite")
    assert done.code == 0
    pages = [str(suite / name / "report.html") for name in ("cpu", "disk", "memory", "uplink")]
    assert done.out.split() == [*pages, str(suite / "report.html")]
    page = (suite / "report.html").read_text()
    links = re.findall(r'href="([^"#]+)"', page)
    assert links == [f"{name}/report.html" for name in ("cpu", "disk", "memory", "uplink")]
    assert all((suite / link).is_file() for link in links)
    assert all(f'id="study-{name}"' in page for name in WITH_A_GAP)
    assert page.count("<figure>") == 3, "the key figure of each study that has measured something"
    assert len(re.findall(r"<figcaption><b>[^<]*(?:Every trial of| against )", page)) == 3, (
        "with its values, as in reports"
    )
    assert "b is faster than a" in page
    assert "2 claims: 1 reproduced, 1 contradicted." in page.partition("</header>")[0], "the answer is below the title"
    assert "this fault cannot be had here" in page and "could not run" in page
    assert "Remedy: `lastro doctor` shows what can" in page and "its claims are not judged" not in page
    assert "<script" not in page and not re.search(r'(src|href)="https?:', page)


def test_the_page_elsewhere_in_portuguese_and_before_anything_has_run(suite: Path, begun: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert lastro("report", suite, "-o", page, "--lang", "pt-BR", drawn=False).code == 0
    text = page.read_text()
    assert '<html lang="pt-BR">' in text and "O relatório completo deste estudo" in text
    assert (tmp_path / re.findall(r'href="([^"#]+)"', text)[0]).resolve() == suite / "cpu" / "report.html"
    early = lastro("report", begun, drawn=False)
    assert early.code == 0 and early.out.split() == [str(begun / "report.html")]
    text = (begun / "report.html").read_text()
    assert "It has not started." in text and 'href="#claims"' in text and 'id="claims"' in text
    assert text.count("has not started: its claims are not judged.") == 1, "of the one study that has claims"
    assert "Study cpu has not started: its claims are not judged." in text and "0 claims" not in text


@pytest.mark.parametrize(
    "words",
    [
        ("show", "{}", "3"),
        ("advise-replicates", "{}"),
        ("noise-floor", "{}"),
        ("compare", "{}", "{}/cpu"),
        ("report", "{}", "--format", "md"),
        ("report", "{}", "--format", "latex"),
    ],
    ids=lambda words: " ".join(words[::2]),
)
def test_what_makes_no_sense_of_several_names_the_studies(suite: Path, words: tuple[str, ...]) -> None:
    told = is_error(lastro(*(word.format(suite) for word in words)), 2, f"{suite / 'cpu'}, {suite / 'disk'}")
    assert "is a suite of 4 studies" in told
