"""What restricts the use of means: a second mode and lost trials, from a campaign to the pages of its report."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from lastro.analysis import analyse
from lastro.analysis.build import build_report
from lastro.analysis.campaign import CampaignResults
from lastro.analysis.model import LostTrials, MetricAnalysis
from lastro.builders.content import Content
from lastro.builders.data.results import document
from lastro.builders.statistics import statistics_sentences
from lastro.results.read import load_campaign
from lastro.results.store import Store
from lastro.words.language import language

from ...support.campaigns import METRICS, Levels, make_campaign, make_study
from ...support.documents import render_html, render_latex, render_markdown

PLATFORMS = ("native", "runc", "docker", "kvm")
SLOW = {("runc", 2), ("runc", 5), ("docker", 1), ("docker", 6), ("docker", 7), ("kvm", 4)}


def report_of(
    directory: Path, *, slow: float = 1.0, lost: dict[str, int] | None = None, baseline: str = "native",
    replicates: int = 10, **more: Any,
) -> CampaignResults:  # fmt: skip
    """A campaign of four platforms: some trials are slower by a factor, and the first blocks of some lose theirs."""

    def value(levels: Levels, block: int, metric: str) -> float:
        at = str(levels["platform"])
        noise = random.Random(f"{at}{block}").gauss(0, 0.02)
        away = slow if (at, block) in SLOW else 1.0
        return 1000 * (1 - 0.05 * PLATFORMS.index(at)) * away * (1 + noise) * (1 + 0.02 * (block % 3))

    def doubts(levels: Levels, block: int, attempt: int) -> list[str]:
        return ["disturbed"] if block <= (lost or {}).get(str(levels["platform"]), 0) else []

    study = make_study(
        {"platform": PLATFORMS},
        metrics=METRICS[:1],
        replicates=replicates,
        baseline={"platform": baseline} if baseline else {},
    )
    with Store.open(make_campaign(directory, study, value=value, doubts=doubts, **more), readonly=True) as store:
        return build_report(load_campaign(store))


def analysed(report: CampaignResults) -> MetricAnalysis:
    return analyse(report).metrics[0]


def content(report: CampaignResults, code: str = "en") -> Content:
    return Content(report, analyse(report), language(code))


def sentences(report: CampaignResults, code: str = "en") -> str:
    return " ".join(statistics_sentences(analysed(report), language(code)))


def by_platform(lost: tuple[LostTrials, ...]) -> dict[str, LostTrials]:
    return {str(each.treatment.levels["platform"]): each for each in lost}


# A second mode


def test_a_campaign_with_one_mode_and_every_trial_says_nothing(tmp_path: Path) -> None:
    report = report_of(tmp_path / "c")
    metric = analysed(report)
    assert metric.second_mode is None and metric.lost == () and not report.kinds_of_marks
    page = render_markdown(content(report))
    assert "second mode" not in page and "lost" not in page
    assert document(report)["analysis"]["throughput"]["second_mode"] is None


def test_a_second_mode_is_counted_for_each_treatment_and_marked(tmp_path: Path) -> None:
    report = report_of(tmp_path / "c", slow=0.7)
    modes = analysed(report).second_mode
    assert modes is not None and (modes.n, modes.trials) == (6, 40) and modes.distance == pytest.approx(0.7, abs=0.02)
    counts = [(treatment.levels["platform"], n, trials) for treatment, n, trials in modes.counts]
    assert counts == [("docker", 3, 10), ("runc", 2, 10), ("kvm", 1, 10), ("native", 0, 10)]
    marks = {row.treatment.levels["platform"]: row.cells[0].marks for row in report.rows}
    assert not marks["native"] and [(mark.kind, mark.n) for mark in marks["docker"]] == [("second mode", 3)]


@pytest.mark.usefixtures("undrawn")
def test_every_document_reports_a_second_mode(tmp_path: Path) -> None:
    report = report_of(tmp_path / "c", slow=0.7)
    said = sentences(report)
    assert said.startswith(
        "A second mode: in 6 of 40 trials (15.0\xa0%), throughput is about 0.71 times that of the others"
    )
    assert "docker 3 of 10; runc 2 of 10; kvm 1 of 10." in said
    page = render_markdown(content(report))
    assert " ⁑" in page
    assert "A second mode: in 6 of 40 trials" in render_html(content(report))
    assert "A second mode: in 6 of 40 trials" in render_latex(content(report))
    assert "Uma segunda moda: em 6 de 40 ensaios (15,0\xa0%)" in sentences(report, "pt-BR")
    found = document(report)["analysis"]["throughput"]["second_mode"]
    assert (found["n"], found["trials"], found["relative"]) == (6, 40, True)
    assert [each["n"] for each in found["treatments"]] == [3, 2, 1, 0]


def test_without_a_baseline_a_second_mode_has_no_table(tmp_path: Path) -> None:
    report = report_of(tmp_path / "c", slow=0.7, baseline="")
    assert "A second mode" in sentences(report)
    assert "Medians and quantiles against" not in render_markdown(content(report))


# Lost trials


def test_up_to_a_tenth_of_lost_trials_has_no_bounds(tmp_path: Path) -> None:
    report = report_of(tmp_path / "c", lost={"runc": 1})
    assert analysed(report).lost == () and "lost trials" not in report.kinds_of_marks


def test_bounds_contain_the_interval_of_the_valid_trials(tmp_path: Path) -> None:
    report = report_of(tmp_path / "c", lost={"runc": 3})
    (runc,) = analysed(report).lost
    assert (runc.lost, runc.trials, runc.baseline_lost) == (3, 10, 0)
    assert runc.bounds and runc.ratio and runc.ratio.interval and runc.mean and runc.summary
    assert runc.bounds.low < runc.ratio.value < runc.bounds.high  # type: ignore[operator]
    assert runc.mean.low < runc.summary.mean < runc.mean.high
    marks = {row.treatment.levels["platform"]: row.cells[0].marks for row in report.rows}
    assert ("lost trials", 3) in [(mark.kind, mark.n) for mark in marks["runc"]] and not marks["kvm"]


def test_lost_trials_of_the_baseline_give_bounds_to_every_comparison(tmp_path: Path) -> None:
    lost = by_platform(analysed(report_of(tmp_path / "c", lost={"native": 3, "runc": 2})).lost)
    assert list(lost) == ["native", "runc", "docker", "kvm"], "the largest fraction first"
    assert lost["native"].bounds is None and lost["native"].mean is not None
    assert (lost["docker"].lost, lost["docker"].baseline_lost) == (0, 3) and lost["docker"].bounds is not None
    alone = by_platform(analysed(report_of(tmp_path / "d", lost={"runc": 2})).lost)["runc"]
    both = lost["runc"]
    assert both.bounds and alone.bounds and both.bounds.low < alone.bounds.low, "the worst of both sides together"


def test_a_verdict_holds_at_both_ends_or_depends_on_the_lost_trials(tmp_path: Path) -> None:
    lost = by_platform(analysed(report_of(tmp_path / "c", lost={"runc": 4, "kvm": 4})).lost)
    assert lost["kvm"].holds is True
    near = by_platform(analysed(report_of(tmp_path / "d", slow=0.93, lost={"runc": 1, "docker": 4})).lost)
    assert near["docker"].holds is not None


def test_too_few_valid_trials_have_no_bounds(tmp_path: Path) -> None:
    report = report_of(tmp_path / "c", lost={"runc": 9})
    (runc,) = analysed(report).lost
    assert (runc.mean, runc.bounds, runc.holds) == (None, None, None)
    assert "9 of 10 trials lost; too few are valid for bounds." in sentences(report)


@pytest.mark.usefixtures("undrawn")
def test_every_document_reports_lost_trials(tmp_path: Path) -> None:
    report = report_of(tmp_path / "c", lost={"native": 2, "runc": 3})
    said = sentences(report)
    assert "runc: 3 of 10 trials lost, and 2 of its baseline; the valid ones have a ratio of ×0.9" in said
    assert "native: 2 of 10 trials lost; the valid ones have a mean of" in said
    assert "Bounds hold if no lost trial was outside of the range" in said
    for render in (render_markdown, render_html, render_latex):
        assert "runc: 3 of 10 trials lost" in render(content(report))  # type: ignore[operator]
    assert "runc: 3 de 10 ensaios perdidos, e 2 da sua linha de base" in sentences(report, "pt-BR")
    found = document(report)["analysis"]["throughput"]["lost"]
    assert set(found[0]) == {"treatment", "lost", "trials", "baseline_lost", "mean", "bounds", "holds"}
    assert " ∅" in render_markdown(content(report))


def test_six_treatments_are_named_and_the_others_counted(tmp_path: Path) -> None:
    names = tuple(f"p{number}" for number in range(9))
    study = make_study({"platform": names}, metrics=METRICS[:1], replicates=4, baseline={"platform": "p0"})
    directory = make_campaign(tmp_path / "c", study, doubts=lambda levels, block, attempt: ["x"] if block == 1 else [])
    with Store.open(directory, readonly=True) as store:
        report = build_report(load_campaign(store))
    assert len(analysed(report).lost) == 9
    assert sentences(report).count("1 of 4 trials lost") == 6 and "Further treatments: 3." in sentences(report)


def test_trials_that_have_not_run_are_not_lost(tmp_path: Path) -> None:
    report = report_of(tmp_path / "c", stop_after=25)
    assert not report.progress.finished and analysed(report).lost == ()
