"""The short form of the report in Markdown: it fits into a comment whatever a campaign holds, and counts the rest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lastro.analysis import analyse
from lastro.analysis.build import build_report
from lastro.builders.content import Content
from lastro.render.fitting import LIMIT
from lastro.results.read import load_campaign
from lastro.results.samples import Metric
from lastro.results.store import Store
from lastro.words.language import LANGUAGES, language

from ...support.campaigns import make_campaign, make_study
from ...support.documents import render_short

COMMENT = 60 * 1024  # bytes; GitHub takes 64 KiB
WIDE = "<@&" * 33  # a level of many characters, each of which has to be escaped
LONG = tuple(f"{number:02d}{WIDE}" for number in range(20))


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign of 420 treatments."""
    factors = {
        "attachment": tuple(f"veth-bridge-{number}" for number in range(20)),
        "function": tuple(f"firewall-{number}" for number in range(7)),
        "isolation": ("none", "cgroups", "cgroups+apparmor"),
    }
    study = make_study(factors, replicates=2, baseline={"isolation": "none"})
    return make_campaign(tmp_path_factory.mktemp("huge") / "c", study)


@pytest.fixture(scope="module")
def wordy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign whose every text is as long as a study or a tool can make it, and needs escaping."""
    metrics = tuple(Metric(f"m{number}{'_x' * 20}", "Mbit/s" * 5, "higher", WIDE) for number in range(12))
    study = make_study({"function": LONG, "anomaly": LONG[:3]}, replicates=1, metrics=metrics, title=WIDE * 2)
    words = {level: f"{WIDE * 100} {chr(97 + at) * 5}" for at, level in enumerate(LONG)}
    return make_campaign(
        tmp_path_factory.mktemp("wordy") / "c",
        study,
        doubts=lambda levels, block, attempt: [words[str(levels["function"])]] if levels["function"] > "1" else [],
        unavailable=lambda levels: (words[str(levels["function"])],) * 2 if levels["function"] < "05" else None,
    )


def short(directory: Path, code: str, figures: dict[str, str] | None = None) -> str:
    with Store.open(directory, readonly=True) as store:
        report = build_report(load_campaign(store))
    return render_short(Content(report, analyse(report), language(code)), figures)


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_huge_study_fits_into_a_comment_and_its_other_rows_are_counted(huge: Path, code: str) -> None:
    text = short(huge, code)
    assert LIMIT - 2000 < len(text.encode()) <= LIMIT < COMMENT, "as many rows as fit"
    rows = sum(line.startswith("| veth-bridge-") for line in text.splitlines())
    more, shown = {"en": ("and {} more rows", "Show {} of 420"), "pt-BR": ("e mais {} linhas", "Mostrar {} de 420")}[
        code
    ]
    assert f"{more.format(420 - rows)}: `lastro report --format md --full`" in text.splitlines()
    assert f"<summary>{shown.format(rows)}</summary>" in text and text.count("<details>") == text.count("</details>")
    assert text.rstrip().splitlines()[-2].endswith("--full" + ("" if code == "en" else f" --lang {code}"))


@pytest.mark.parametrize("code", LANGUAGES)
def test_no_text_of_a_campaign_breaks_the_limit(wordy: Path, code: str) -> None:
    text = short(wordy, code, {f"{WIDE} {number}": f"figures/{number}.svg" for number in range(99)})
    assert len(text.encode()) <= LIMIT
    assert "--format md --full" in text and "…" in text and "<@" not in text
    assert re.search(r"^- (and|e mais) \d+( more)?$", text, re.MULTILINE), "reasons that do not fit are counted"


def test_it_has_the_answer_the_ratios_and_what_was_invalid(tmp_path: Path) -> None:
    directory = make_campaign(
        tmp_path,
        doubts=lambda levels, block, attempt: [f"lost {block} packets"] if attempt == 1 and block < 4 else [],
        unavailable=lambda levels: ("no runc here", "install it") if levels["platform"] == "runc" else None,
    )
    parts = short(directory, "en").split("\n\n")
    assert parts[0] == "# What isolation costs on this host" and parts[1].startswith("**")
    rows = next(part for part in parts if part.startswith("| platform")).splitlines()[2:]
    assert len(rows) == 3 and "(baseline)" in rows[0] and "×" in rows[1] and "×" in rows[2]
    missing = r"- \[1\] platform = runc · 3 treatments, 15 trials. no runc here. Remedy: install it"
    assert missing in parts
    assert any(re.fullmatch(r"- lost 1 to 3 packets \(trials (\d+, ){5}\d+ and 3 others\)", part) for part in parts)
    assert parts[-1] == f"```sh\nlastro report {directory} --format md --full\n```\n"
