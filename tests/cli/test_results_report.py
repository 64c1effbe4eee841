"""`lastro results`, `report` and `status` on synthetic campaigns of every fate, as a user sees them."""

from __future__ import annotations

import csv
import html.parser
import itertools
import json
import re
from pathlib import Path

import pytest

from lastro.cli import main
from lastro.words.language import LANGUAGES

from ..support.campaigns import KAGAMI, METRICS, Levels, make_campaign, make_study
from ..support.fates import CAMPAIGNS, NO_APPARMOR
from ..support.products import combinations
from .conftest import is_error, lastro


@pytest.fixture(params=CAMPAIGNS, scope="module")
def campaign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return CAMPAIGNS[request.param](tmp_path_factory.mktemp("campaigns") / request.param)


@pytest.mark.parametrize("width", ["60", "80", "100", "200"])
def test_the_table_fits_any_terminal(campaign: Path, width: str, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert main(["results", str(campaign)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    if campaign.name != "hostile":  # whose one level alone is wider than a narrow terminal
        assert max(len(line) for line in out.splitlines()) <= int(width)


def test_json_is_json(campaign: Path, capsys) -> None:
    assert main(["results", str(campaign), "--json", "--all-metrics"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert document["format"] == "lastro-results/1"
    assert (
        sum(document["counts"][s] for s in ("valid", "invalid", "unavailable", "pending", "running"))
        == (document["counts"]["trials"])
    )
    assert len(document["treatments"]) == len({treatment["id"] for treatment in document["treatments"]})
    for metric in document["metrics"]:
        found = document["analysis"][metric["name"]]
        assert (found["anova"] is None) == (found["why_no_anova"] is not None)
        assert found["headline"]["different"] == sum(each["decision"] == "different" for each in found["comparisons"])


class _Tags(html.parser.HTMLParser):
    """What a browser would be asked to load or run, and whether tags close."""

    void = {"meta", "br", "link", "img", "hr", "input"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        for name, value in attrs:
            if name.startswith("on") or (name in ("src", "href", "xlink:href") and not (value or "").startswith("#")):
                self.outside.append(f"{tag} {name}={value}")
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


# One of each kind of page: with few figures and none, of one treatment, of hostile words; `partial` has all figures.
PAGES = ("not-begun", "wild", "one-treatment", "one-level-left", "hostile")
OTHER_PAGES = [pytest.param(name, "en", marks=pytest.mark.slow) for name in CAMPAIGNS if name not in PAGES]


@pytest.mark.parametrize(("campaign", "code"), [*combinations(PAGES, LANGUAGES), *OTHER_PAGES], indirect=["campaign"])
def test_the_report_is_self_contained(campaign: Path, code: str, capsys) -> None:
    assert main(["report", str(campaign), "--lang", code]) == 0
    page = Path(capsys.readouterr().out.strip())
    assert page == campaign / "report.html"
    assert_self_contained(page.read_text(encoding="utf-8"), code)


def assert_self_contained(text: str, code: str) -> None:
    tags = _Tags()
    tags.feed(text)
    assert tags.open == [] and tags.outside == []
    assert not tags.names & {"script", "link", "iframe", "img", "object", "embed"}
    assert "<script>alert" not in text and "url(http" not in text
    assert f'<html lang="{code}">' in text


def test_status_says_what_next(campaign: Path, capsys) -> None:
    assert main(["status", str(campaign)]) == 0
    text = capsys.readouterr().out
    assert main(["status", str(campaign), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    wanted = "resume" if campaign.name in ("unfinished", "not-begun") else "report"
    assert facts["next"] == f"lastro {wanted} {campaign}" and facts["next"] in text
    assert facts["finished"] == (wanted == "report")
    assert "\x1b" not in text


@pytest.fixture(scope="module")
def partial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """AppArmor cannot run, and one trial stayed invalid."""
    return make_campaign(
        tmp_path_factory.mktemp("campaigns") / "partial",
        make_study(metrics=METRICS[:2]),
        unavailable=lambda levels: NO_APPARMOR if levels["isolation"] == "apparmor" else None,
        doubts=lambda levels, block, attempt: ["no traffic"] if (levels["isolation"], block) == ("cgroups", 3) else [],
    )


@pytest.fixture(scope="module")
def page(partial: Path) -> str:
    """Its report."""
    assert main(["report", str(partial)]) == 0
    return page_of(partial)


def test_a_report_with_all_figures_is_self_contained(page: str) -> None:
    assert_self_contained(page, "en")


@pytest.mark.slow  # that of a bundle is, in another process and on another processor
def test_the_report_is_the_same_twice(partial: Path, page: str, tmp_path: Path, capsys) -> None:
    assert main(["report", str(partial), "-o", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page


def test_what_is_missing_is_said(partial: Path, page: str, capsys) -> None:
    assert main(["results", str(partial)]) == 0
    table = capsys.readouterr().out
    assert "[1] isolation = apparmor · 2 treatments, 10 trials\n  AppArmor is not in this kernel\n" in table
    assert re.search(r"^Invalid attempts\nno traffic \(trials \d+ and \d+\)$", table, re.MULTILINE)
    for text in ("AppArmor is not in this kernel", "Remedy: boot another kernel", "no traffic", "4 of 5"):
        assert text in page and text in table
    assert "✕ unavailable" in page, "figures mark the levels that are missing"


def test_each_figure_is_there_for_a_desk_and_for_a_telephone(page: str) -> None:
    """One of the two is hidden, so neither may lean on what the other defines."""
    svgs = re.findall(r'<svg class="(desk|phone)".*?viewBox="0 0 ([\d.]+) [^>]*>(.*?)</svg>', page, re.DOTALL)
    assert [kind for kind, _, _ in svgs] == ["desk", "phone"] * (len(svgs) // 2) and len(svgs) > 6
    assert {(kind, round(float(width))) for kind, width, _ in svgs} == {("desk", 360), ("phone", 241)}
    seen: set[str] = set()
    for _, _, body in svgs:
        ids = set(re.findall(r' id="([^"]+)"', body))
        assert ids.isdisjoint(seen) and set(re.findall(r'(?:url\(#|href="#)([^")]+)', body)) <= ids
        seen |= ids


def page_of(directory: Path) -> str:
    return (directory / "report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("undrawn")
def test_generator_limited_is_marked_and_explained(tmp_path: Path, capsys) -> None:
    directory = make_campaign(tmp_path / "limited", notes=lambda levels, block: {"generator_limited": True})
    assert main(["results", str(directory)]) == 0
    table = capsys.readouterr().out
    assert "†" in table and re.search(r"lower\s+bound", table)
    assert main(["report", str(directory)]) == 0
    assert "generator-limited" in (directory / "report.html").read_text()


def test_exports(partial: Path, tmp_path: Path, capsys) -> None:
    files = [tmp_path / "all.csv", tmp_path / "all.parquet"]
    assert main(["results", str(partial), "--csv", str(files[0]), "--parquet", str(files[1])]) == 0
    assert all(file.stat().st_size for file in files)
    assert capsys.readouterr().out == ""
    assert main(["results", str(partial), "--csv", "-"]) == 0
    assert capsys.readouterr().out == files[0].read_text()


@pytest.mark.usefixtures("undrawn")
def test_figures_as_files(tmp_path: Path, capsys) -> None:
    study = make_study({"platform": ("native", "runc")}, metrics=METRICS[:1])
    campaign = make_campaign(tmp_path / "campaign", study)
    assert main(["report", str(campaign), "--figures"]) == 0
    written = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert {path.name for path in (campaign / "figures").iterdir()} == {path.name for path in written[1:]}
    stems = {path.stem for path in written[1:]}
    assert len(written) == 1 + 3 * len(stems) and {"throughput", "effects-throughput", "course"} <= stems
    assert all((campaign / "figures" / f"{stem}.pdf").read_bytes().startswith(b"%PDF") for stem in stems)
    assert "n = 5 unless noted" in (campaign / "figures" / "throughput.svg").read_text()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "words",
    [
        ["report", "DIR", "-o", "FILE/x.html"],
        ["results", "DIR", "--csv", "FILE/x"],
        ["results", "DIR", "--parquet", "FILE/x"],
    ],
)
def test_an_unwritable_output_is_one_clear_error(partial: Path, tmp_path: Path, capsys, words: list[str]) -> None:
    (tmp_path / "file").write_text("")
    places = {"DIR": str(partial)}
    argv = [places.get(word, word).replace("FILE", str(tmp_path / "file")) for word in words]
    assert main(argv) == 3
    error = capsys.readouterr().err
    assert "cannot be written" in error and "Traceback" not in error and len(error.splitlines()) == 2


@pytest.mark.parametrize("command", ["results", "report", "status"])
def test_no_campaign_and_a_damaged_one(tmp_path: Path, capsys, command: str) -> None:
    assert main([command, str(tmp_path)]) == 2
    assert "holds no campaign" in capsys.readouterr().err
    (tmp_path / "campaign.db").write_bytes(b"not a database at all, and long enough to be looked at" * 40)
    assert main([command, str(tmp_path)]) == 5
    assert "not a readable campaign" in capsys.readouterr().err


@pytest.fixture(scope="module")
def kagami(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole of kagami2017: 180 treatments, 12 blocks, 4 metrics, half of it unavailable or not."""
    study = make_study(KAGAMI, replicates=12, baseline={"isolation": "none", "anomaly": "none"})
    return make_campaign(tmp_path_factory.mktemp("big") / "kagami", study)


@pytest.mark.slow
def test_a_report_of_2160_trials(kagami: Path, capsys) -> None:
    assert main(["report", str(kagami)]) == 0
    assert (kagami / "report.html").stat().st_size < 5_000_000
    capsys.readouterr()
    assert main(["results", str(kagami)]) == 0
    assert "macvlan-bridge · cgroups+apparmor" in capsys.readouterr().out


def test_the_table_shows_what_is_chosen_the_best_first(tmp_path: Path) -> None:
    rates = {"native": 300.0, "runc": 200.0, "docker": 250.0}

    def value(levels: Levels, block: int, metric: str) -> float:
        return rates[str(levels["platform"])] + (1 if levels["anomaly"] == "none" else 0) + block / 100

    study = make_study({"platform": tuple(rates), "anomaly": ("none", "cpu")}, replicates=3, metrics=METRICS[:2])
    directory = make_campaign(tmp_path / "c", study, value=value)

    def platforms(*args: str) -> list[str]:
        return re.findall(
            r"^(native|runc|docker) +(?:none|cpu) ", lastro("results", directory, *args).out, re.MULTILINE
        )

    assert platforms("--sort", "throughput", "--where", "anomaly=cpu") == ["native", "docker", "runc"]
    assert platforms("--sort=-throughput", "--where", "anomaly=cpu") == ["runc", "docker", "native"]
    assert platforms("--sort", METRICS[1].name, "--top", "2") == ["runc", "runc"]
    assert platforms("--where", "platform=docker,runc", "--where", "anomaly=none") == ["runc", "docker"]
    assert "2 of 6 treatments shown" in lastro("results", directory, "--top", "2").out
    best = ("--sort", "throughput", "--where", "platform=docker,runc", "--top", "3")
    labels = ["platform=docker anomaly=none", "platform=docker anomaly=cpu", "platform=runc anomaly=none"]
    wanted = [dict(pair.split("=") for pair in label.split()) for label in labels]
    found = lastro("results", directory, *best, "--json").json
    assert [each["levels"] for each in found["treatments"]] == wanted
    assert found["shown"]["top"] == 3 and found["shown"]["where"] == {"platform": ["docker", "runc"]}
    assert found["counts"]["trials"] == 18 and len(found["analysis"]["throughput"]["comparisons"]) == 0
    rows = list(csv.DictReader(lastro("results", directory, *best, "--csv", "-").out.splitlines()))
    levels = [{name: row[name] for name in ("platform", "anomaly")} for row in rows]
    assert [each for each, _ in itertools.groupby(levels)] == wanted and len(rows) == 3 * 3 * 2
    filtered = lastro("results", directory, "--where", "platform=docker", "--csv", "-").out.splitlines()
    assert filtered == [line for line in lastro("results", directory, "--csv", "-").out.splitlines()
                        if ",docker," in line or line.startswith("treatment,")]  # fmt: skip
    for args, words in (
        (["--sort", "sped"], "has no metric 'sped'"), (["--where", "platform=dokcer"], "did you mean 'docker'?"),
        (["--where", "platform"], "--where: 'platform' is not FACTOR=LEVEL"), (["--top", "0"], "give 1 or more"),
        (["--top", "0", "--json"], "give 1 or more"), (["--sort=", "--json"], "has no metric ''"),
        (["--sort="], "has no metric ''"), (["--sort=-"], "has no metric ''"),
        (["--where", "platform=dokcer", "--csv", "-"], "did you mean 'docker'?"),
    ):  # fmt: skip
        is_error(lastro("results", directory, *args), 2, words)


def test_with_service_levels_the_table_has_the_order_of_the_decision(tmp_path: Path) -> None:
    rates, costs = {"native": 300.0, "runc": 200.0, "docker": 250.0}, {"native": 3.0, "runc": 1.0, "docker": 2.0}

    def value(levels: Levels, block: int, metric: str) -> float:
        return (rates if metric == "throughput" else costs)[str(levels["platform"])] + block / 100

    study = make_study(
        {"platform": tuple(rates), "anomaly": ("none", "cpu")}, replicates=3, metrics=METRICS[:2],
        sla={"throughput": ">= 220 Mbit/s"}, cost={"jitter": 1.0},
    )  # fmt: skip
    directory = make_campaign(tmp_path / "c", study, value=value)

    def order(*args: str) -> list[str]:
        return re.findall(r"^(\w+) +(?:none|cpu) ", lastro("results", directory, *args).out, re.MULTILINE)

    assert order() == ["docker", "docker", "native", "native", "runc", "runc"]
    assert order("--sort", "throughput", "--top", "3") == ["native", "native", "docker"]
    assert "what holds them first, the cheapest at the top" in lastro("results", directory).out
    assert "what holds them first" not in lastro("results", directory, "--sort", "throughput").out

    def in_json(*args: str) -> list[str]:
        found = lastro("results", directory, "--json", *args).json
        return [each["levels"]["platform"] for each in found["treatments"]]

    assert in_json("--top", "3") == ["docker", "docker", "native"]
    assert in_json() == ["native", "native", "runc", "runc", "docker", "docker"]


def test_effects_and_statistics_are_where_a_page_has_them_if_asked_for(tmp_path: Path) -> None:
    study = make_study(replicates=4, metrics=METRICS[:2], baseline={"isolation": "none"})
    directory = make_campaign(tmp_path / "c", study)
    plain, shown = (lastro("results", directory, *args).out for args in ((), ("--stats",)))
    for words in ("The statistics behind it", "Effect of each level on throughput", "Analysis of variance of jitter",
                  "Comparisons with the baseline in throughput", "Type II, n = 24"):  # fmt: skip
        assert words in shown and words not in plain
    order = ("What each factor does", "\nResults\n", "The statistics behind it")
    assert sorted(order, key=shown.index) == list(order)
    assert set(plain.splitlines()) <= set(shown.splitlines()) and shown.endswith(plain.rpartition("\n\n")[2])
    is_error(lastro("results", directory, "--stats", "--json"), 2, "--stats is for the table", "`analysis`")
