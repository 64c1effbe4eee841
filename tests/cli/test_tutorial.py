"""The tutorial and the README as a reader follows them: what needs no root runs and prints what they show, and the
campaigns that they show are made of the values that they show. The rest runs in tests/system/test_tutorial.py."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lastro import papers, registry
from lastro.campaign.duration import forecast
from lastro.campaign.progress import PlainProgress
from lastro.cli import main
from lastro.results.rows import TrialRow
from lastro.results.samples import LARGE_SEGMENTS, Outcome, Remark
from lastro.scenarios.base import schemas
from lastro.study import design
from lastro.study.load import load, parse
from lastro.study.model import Study

from ..support.campaigns import Levels, make_campaign
from ..support.shown import ROOT, Command, alike, candidates, commands

TUTORIAL, README = ROOT / "docs" / "tutorial.md", ROOT / "README.md"
PAPERS = ROOT / "docs" / "reference-papers.md"
SHAPER, DEMO = ROOT / "examples" / "shaper.toml", papers.find("demo")
NO_ROOT = 3  # the exit code of what is refused to those who are not root
STUDENT = 2.776  # t of four degrees of freedom: half an interval of five values is t times their spread over root 5

Values = Mapping[tuple[int, str], dict[str, float]]


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Somebody without root, in a directory that has the examples, at a terminal of 100 columns."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LASTRO_PARTS", "")
    registry.scan.cache_clear()
    yield tmp_path
    registry.scan.cache_clear()


@pytest.fixture
def shaper_part(reader: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LASTRO_PARTS", "examples/parts")


def run_shown() -> Command:
    """The run of which the tutorial shows what it printed."""
    (found,) = [command for command in commands(TUTORIAL) if command.as_root and command.shown]
    return found


def shown_values() -> Values:
    """(block, function) of each trial in the lines of that run, with what was measured."""
    line = r"\] block (\d+)  (\w+)  throughput (\S+) Mbit/s  latency_mean (\S+) ms"
    found = re.findall(line, run_shown().shown[0])
    return {
        (int(block), name): {"throughput": float(throughput), "latency_mean": float(latency)}
        for block, name, throughput, latency in found
    }


def study_of(file: Path, profile: str | None = None) -> Study:
    return load(file, schemas()) if profile is None else load(file, schemas()).with_profile(profile)


# The tutorial


def test_a_reader_sees_what_the_tutorial_shows(
    reader: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values, compared = shown_values(), 0
    for command in commands(TUTORIAL):
        program, *words = shlex.split(command.line)
        if program == "export":
            monkeypatch.setenv(*words[0].split("=", 1))
            registry.scan.cache_clear()
            continue
        assert main(words) == (NO_ROOT if command.as_root else 0), command.line
        printed = capsys.readouterr().out
        if command.as_root and words[0] == "run":
            study = study_of(Path(words[1]), "quick")
            known = values if study.name == "shaper" else None
            make_campaign(Path(words[-1]), study, **({"value": value_of(known)} if known else {}))
        elif words[0] == "decide":
            assert candidates(*command.shown) == candidates(printed) and len(candidates(printed)[0]) == 4
        elif command.shown:
            compared += 1
            assert command.shown == (printed,), command.line
        if words[:2] == ["parts", "function"]:
            assert re.search(r"^  shaper  .* 100 Mbit/s", printed, re.MULTILINE)
    assert compared == 1
    assert Path("first/report.html").exists() and Path("first.csv").exists()
    assert main(["results", "shaped"]) == 0
    path, _, table = run_shown().shown[1].partition("\n")  # the path comes first, as in `lastro run`
    assert path == "shaped/report.html" and alike(table, capsys.readouterr().out)


def value_of(known: Values) -> Any:
    return lambda levels, block, metric: known[block, str(levels["function"])].get(metric)


def test_the_lines_of_the_run_are_those_that_a_campaign_prints(
    shaper_part: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order of its schedule, its numbers rounded as they are; the time that is left is what was measured."""
    study, values = study_of(SHAPER, "quick"), shown_values()
    treatments = design.treatments(study)
    lines = run_shown().shown[0].splitlines()
    left_s = [int(found[1]) if (found := re.search(r"(\d+) s left$", line)) else 0 for line in lines]
    progress = PlainProgress(len(lines), 0, tuple((metric.name, metric.unit) for metric in study.metrics))
    trials = list(design.trials(study, len(treatments)))
    for trial, left in zip(trials, left_s, strict=True):
        treatment = treatments[trial.treatment]
        row = TrialRow(trial.number, trial.block, trial.treatment, "pending", 0)
        progress.started(row, treatment, 0)
        progress.finished(row, Outcome(values[trial.block, str(treatment.levels["function"])]), "valid", left)
    assert lines == capsys.readouterr().err.splitlines()
    assert left_s == sorted(left_s, reverse=True)


def test_the_folder_of_the_part_holds_one_file_and_makes_the_difference(
    shaper_part: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [file.name for file in (ROOT / "examples" / "parts").rglob("*") if file.is_file()]
    assert [name for name in files if not name.endswith(".pyc")] == ["shaper.py"]
    assert main(["plan", "examples/shaper.toml"]) == 0
    monkeypatch.setenv("LASTRO_PARTS", "")
    registry.scan.cache_clear()
    assert main(["plan", "examples/shaper.toml"]) == 2
    assert "no function is named 'shaper'" in capsys.readouterr().err


# Figures in sentences. Those of the translations are compared with these in tests/unit/test_docs.py.


def expected_s(study: Study) -> float:
    scenario = registry.get("scenario", study.scenario)
    return forecast(study, scenario, design.treatments(study)).total_s


def figures() -> dict[tuple[Path, str], Any]:
    """What a sentence says, by its page and a pattern with one group: a count as it is, a duration within a tenth."""
    assert main(["new", "first.toml"]) == 0
    first, shaper = study_of(Path("first.toml")), study_of(SHAPER, "quick")
    quick = first.with_profile("quick")
    kagami = study_of(papers.find("kagami2017"))

    def about(seconds: float, unit_s: float) -> Any:
        return pytest.approx(seconds / unit_s, rel=0.1)

    values = shown_values()
    plain = [value["throughput"] for (_, name), value in values.items() if name == "none"]
    shaped = [value["throughput"] for (_, name), value in values.items() if name == "shaper"]
    return {
        (TUTORIAL, r"two campaigns take about\s(\S+) minutes"): about(expected_s(quick) + expected_s(shaper), 60),
        (TUTORIAL, r"The (\d+) replicates of the quick profile"): quick.design.replicates,
        (TUTORIAL, r"Without `--profile quick` the study has (\d+)"): first.design.replicates,
        (TUTORIAL, r"takes about (\d+) minutes"): about(expected_s(first), 60),
        (TUTORIAL, r"The run takes about (\d+) seconds"): about(expected_s(shaper), 1),
        (TUTORIAL, r"lets the flow out at (\d+) Mbit/s"): 100,
        (README, r"the shaper passed (\S+) Mbit/s"): pytest.approx(sum(shaped) / len(shaped), abs=0.06),
        (README, r"plain forwarding (\S+) Gbit/s"): pytest.approx(sum(plain) / len(plain) / 1000, abs=0.06),
        (PAPERS, r"make\s(\d+) treatments on Docker"): len(design.treatments(kagami)),
        (DEMO, r"About (\S+) minutes"): about(expected_s(study_of(DEMO)), 60),
    }


def test_figures_in_sentences_are_those_of_the_plan(shaper_part: None) -> None:
    for (page, pattern), true in figures().items():
        found = re.findall(pattern, page.read_text(encoding="utf-8"))
        assert [float(number) for number in found] == [true], (page.name, pattern)


def test_the_study_of_the_readme_has_as_many_treatments_as_its_comment_says() -> None:
    text = next(text for text in re.findall(r"```toml\n(.*?)```", README.read_text(), re.DOTALL) if "[factors]" in text)
    (says,) = re.findall(r"one treatment: .* = (\d+)", text)
    assert len(design.treatments(parse(text, "README.md", schemas()))) == int(says)


@pytest.mark.parametrize("profile", ["quick", "standard", "paper"])
def test_the_table_of_profiles_is_that_of_the_plan(profile: str) -> None:
    study = study_of(papers.find("kagami2017"), profile)
    (row,) = re.findall(rf"^\| `{profile}` \| (\d+) \| (\d+) \| (\d+) (h|min) \|$", PAPERS.read_text(), re.MULTILINE)
    replicates, trials, amount, unit = row
    assert int(replicates) == study.design.replicates
    assert int(trials) == study.design.replicates * len(design.treatments(study))
    assert int(amount) == pytest.approx(expected_s(study) / {"min": 60, "h": 3600}[unit], rel=0.1)


# The table of the README


def demo_cells(table: str) -> dict[tuple[str, ...], list[tuple[float, float]]]:
    """By levels, the mean of each metric and half the width of its interval."""
    rows = re.findall(r"^(\w+) +(\w+) +(\w+) +5  (\d.* ± .*)$", table, re.MULTILINE)
    return {
        tuple(levels): [(float(mean), float(half)) for mean, half in re.findall(r"(\d\S*) ± (\S+)", means)]
        for *levels, means in rows
    }


def demo_table() -> str:
    (shown,) = [shown for command in commands(README) for shown in command.shown]
    return shown


def test_the_table_of_the_readme_is_one_that_lastro_prints_of_the_demo(
    reader: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A campaign with the same means and spreads gives the same table, but for what depends on the single values: the
    intervals of ratios and what follows from them."""
    cells, study = demo_cells(demo_table()), study_of(DEMO)
    names = [metric.name for metric in study.metrics]

    def value(levels: Levels, block: int, metric: str) -> float:
        mean, half_width = cells[tuple(map(str, levels.values()))][names.index(metric)]
        return mean + (block - 3) * half_width * 2**0.5 / STUDENT

    segments = Outcome()
    segments.add_caveat(Remark(LARGE_SEGMENTS, "as the kernel's offloads make them", ("throughput",)))
    make_campaign(reader / "demo", study, value=value, notes=lambda levels, block: segments.notes)
    assert main(["results", "demo"]) == 0
    printed = capsys.readouterr().out
    assert demo_cells(printed) == cells and len(cells) == 8
    assert without_ratios(printed) == without_ratios(demo_table())


def without_ratios(table: str) -> list[str]:
    """The title, the heads of the columns, the means."""
    lines = (" ".join(line.split()) for line in table.partition("\n\n±")[0].splitlines())
    return [line for line in lines if not re.match("([▲▼≈] ×|undecided|──)", line)]


def test_the_answer_of_the_readme_is_that_of_its_means() -> None:
    cells = demo_cells(demo_table())

    def mean(anomaly: str, isolation: str) -> float:
        return sum(cells[platform, anomaly, isolation][0][0] for platform in ("native", "docker")) / 2

    ideal, without, protected = mean("none", "none"), mean("cpu", "none"), mean("cpu", "cgroups")
    taken, back = 1 - without / ideal, (protected - without) / (ideal - without)
    answer = " ".join(demo_table().split())
    recovery = re.search(
        r"(?:recovers|the recovery by cgroups is not distinguishable from zero \()\s*(\d+) % \[", answer
    )
    assert f"takes {100 * taken:.0f} % [" in answer and recovery is not None
    assert int(recovery[1]) == pytest.approx(100 * back, abs=1)


def test_ratios_and_marks_of_the_readmes_table_are_those_of_its_means() -> None:
    """A ratio of geometric means lies where these do: between the harmonic means, by the spreads, and the means."""
    lines, base, checked = demo_table().splitlines(), list[tuple[str, str]](), 0
    geometric = re.findall(r"^(\w+): ratios of geometric means", demo_table(), re.MULTILINE)
    on_logs = [metric.name in geometric for metric in study_of(DEMO).metrics]
    for line, below in itertools.pairwise(lines):
        means = re.findall(r"(\d\S*) ± (\S+)", line)
        base = means if "baseline" in below else base
        ratios = re.findall(r"[▲▼≈] ×\S+ \[.*?\]|undecided", below)
        for own, reference, log, cell in zip(means, base, on_logs, ratios, strict=False):
            if found := re.fullmatch(r"(.) ×(\S+) \[(\S+), (\S+)\]", cell):
                mark, ratio, low, high = found.groups()
                (least, most), (least_base, most_base) = (_mean(*side, log=log) for side in (own, reference))
                assert least / most_base <= _rounded(ratio)[1] and _rounded(ratio)[0] <= most / least_base, line
                assert (mark == "≈") is (float(low) <= 1 <= float(high)), line
                checked += 1
    assert checked == 6 * len(on_logs)


def _mean(mean: str, half_width: str, *, log: bool) -> tuple[float, float]:
    """The least and the greatest mean of a cell of five trials; with `log`, geometric mean."""
    least, most = _rounded(mean)
    spread = float(half_width) * 5**0.5 / STUDENT / least if log else 0.0
    return least / (1 + spread**2), most


def _rounded(text: str) -> tuple[float, float]:
    """What a number may have been before it was rounded, from the least to the most."""
    half = 0.5 * 10.0 ** -len(text.partition(".")[2])
    return float(text) - half, float(text) + half
