"""What a report says of campaigns whose truth is known."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from lastro.analysis.build import build_report
from lastro.analysis.campaign import CampaignResults, Cell, Row
from lastro.analysis.doses import doses_of
from lastro.analysis.verdicts import cell_verdict
from lastro.results.read import load_campaign
from lastro.results.samples import Metric
from lastro.results.store import Store
from lastro.stats.contrasts import ONE_VALUE
from lastro.stats.intervals import Estimate, Interval, Summary, describe
from lastro.stats.notes import UNBOUNDED_BY_BASELINE, ZERO_BASELINE, Note
from lastro.words.campaign import limitations, summary
from lastro.words.estimates import estimate_text
from lastro.words.language import ENGLISH
from lastro.words.numbers import comparison_text, mean_text, ratio_text

from ...support.campaigns import METRICS, make_campaign, make_study

NO_APPARMOR = ("AppArmor is not in this kernel", "boot another kernel")


def report_of(directory: Path, **options: bool) -> CampaignResults:
    with Store.open(directory, readonly=True) as store:
        return build_report(load_campaign(store), **options)


def row_of(report: CampaignResults, *levels: str) -> Row:
    return next(row for row in report.rows if tuple(row.treatment.levels.values()) == levels)


def test_a_whole_campaign(tmp_path: Path) -> None:
    report = report_of(make_campaign(tmp_path))
    assert [row.status for row in report.rows] == ["measured"] * 6
    assert report.progress.finished and report.progress.counts == {"valid": 30}
    assert {row.treatment.levels["platform"] for row in report.rows if row.is_baseline} == {"native", "runc"}
    cell = row_of(report, "runc", "cgroups").cells[0]
    assert cell.summary == describe([point.value for point in cell.points], 0.95)
    assert [point.block for point in cell.points] == [1, 2, 3, 4, 5]
    assert cell.ratio is not None and (cell.ratio.pairing, cell.ratio.sides) == ("paired", (5, 5))
    assert row_of(report, "runc", "none").cells[0].ratio is None, "a baseline has no ratio to itself"


def test_invalid_attempts_enter_no_mean_and_only_the_valid_one_counts(tmp_path: Path) -> None:
    def doubts(levels, block, attempt):
        return ["no traffic"] if block == 2 and attempt == 1 else []

    def value(levels, block, metric):
        return 5.0

    report = report_of(make_campaign(tmp_path, value=value, doubts=doubts))
    assert [row.status for row in report.rows] == ["measured"] * 6
    assert {(a.attempt, a.reasons, a.trial_state) for a in report.invalid_attempts} == {(1, ("no traffic",), "valid")}
    assert all(point.attempt == (2 if point.block == 2 else 1) for row in report.rows for point in row.cells[0].points)


def test_statuses(tmp_path: Path) -> None:
    def doubts(levels, block, attempt):
        bad = levels["isolation"] == "cgroups" and (levels["platform"] == "native" or block == 1)
        return ["no traffic"] if bad else []

    def unavailable(levels):
        return NO_APPARMOR if levels["isolation"] == "apparmor" else None

    report = report_of(make_campaign(tmp_path, doubts=doubts, unavailable=unavailable))
    statuses = {row.treatment.label: row.status for row in report.rows}
    assert statuses == {
        "native · none": "measured",
        "native · cgroups": "invalid",
        "native · apparmor": "unavailable",
        "runc · none": "measured",
        "runc · cgroups": "partly",
        "runc · apparmor": "unavailable",
    }
    (gap,) = report.gaps
    assert (gap.where, len(gap.treatments), gap.n_trials) == ("isolation = apparmor", 2, 10)
    assert (gap.reason, gap.remedy) == NO_APPARMOR
    assert "2 treatments" not in summary(report, ENGLISH) and "10 cannot run on this host" in summary(report, ENGLISH)


def test_an_unfinished_campaign(tmp_path: Path) -> None:
    report = report_of(make_campaign(tmp_path, stop_after=4))
    assert not report.progress.finished
    assert sorted(row.status for row in report.rows) == ["partly"] * 4 + ["pending"] * 2
    assert any("unfinished" in sentence for sentence in limitations(report, ENGLISH))
    nothing = report_of(make_campaign(tmp_path / "none", stop_after=0))
    assert {row.status for row in nothing.rows} == {"pending"} and nothing.progress.first_utc is None


def test_one_replicate_has_no_interval(tmp_path: Path) -> None:
    report = report_of(make_campaign(tmp_path, make_study(replicates=1, baseline={"isolation": "none"})))
    cell = row_of(report, "native", "cgroups").cells[0]
    assert cell.summary is not None and cell.summary.interval is None
    assert cell.ratio is not None and cell.ratio.absent_because == ONE_VALUE
    assert cell.decision == "unknown" and cell.comparison is not None and cell.comparison.p is None
    assert "no interval" in comparison_text(row_of(report, "native", "cgroups"), cell, "")


def test_a_baseline_that_cannot_run_leaves_no_ratio(tmp_path: Path) -> None:
    def unavailable(levels):
        return NO_APPARMOR if levels["isolation"] == "none" else None

    report = report_of(make_campaign(tmp_path, unavailable=unavailable))
    row = row_of(report, "runc", "cgroups")
    assert row.cells[0].ratio is None
    assert comparison_text(row, row.cells[0], "") == "no baseline value"


def test_values_that_are_no_numbers_are_missing_not_zero(tmp_path: Path) -> None:
    def value(levels, block, metric):
        return {1: math.nan, 2: None}.get(block, 3.0)

    cell = report_of(make_campaign(tmp_path, value=value)).rows[0].cells[0]
    assert cell.summary is not None and (cell.summary.n, cell.missing) == (3, 2)


def test_generator_limited_marks_what_has_a_ceiling(tmp_path: Path) -> None:
    def notes(levels, block):
        return {"generator_limited": levels["platform"] == "native", "ceiling": {"throughput": 21_000.0}}

    report = report_of(make_campaign(tmp_path, notes=notes))
    cells = row_of(report, "native", "none").cells
    assert [[(mark.kind, mark.n) for mark in cell.marks] for cell in cells] == [[("generator-limited", 5)], [], [], []]
    assert report.n_limited == 3
    assert any("lower bound" in sentence for sentence in limitations(report, ENGLISH))


def test_residual_differences(tmp_path: Path) -> None:
    residuals = report_of(make_campaign(tmp_path)).residuals
    assert residuals.columns == ("native", "runc")
    assert [row.name for row in residuals.rows if row.differs] == ["storage path"]


@pytest.mark.parametrize(
    "notes", [{"residuals": "text", "usage": [1], "doses": {"a": None}, "host": {"x": math.inf}}, {}]
)
def test_notes_of_any_shape_do_no_harm(tmp_path: Path, notes: dict[str, object]) -> None:
    report = report_of(make_campaign(tmp_path, notes=lambda levels, block: dict(notes)))
    assert not report.residuals and not report.properties.usage and not doses_of(report).rows


def test_other_metrics_on_request(tmp_path: Path) -> None:
    """As the scenario declared them; one that it did not declare has no unit to show."""
    loss = Metric("loss", "%", "lower", "what did not arrive")
    study = make_study(all_metrics=(*METRICS, loss))
    directory = make_campaign(tmp_path, study, extra={"loss": 0.5, "unheard_of": 1.0})
    assert report_of(directory).metrics == METRICS
    assert report_of(directory, all_metrics=True).metrics[-2:] == (loss, Metric("unheard_of", "", "neither", ""))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([20000.0, 20100.0, 20200.0], "20100 ± 248"),
        ([0.0111, 0.0121, 0.0116], "0.0116 ± 0.0012"),
        ([5.0, 5.0], "5.0000 ± 0"),
        ([-3.0, -3.1], "−3.05 ± 0.64"),
        ([4.0], "4.0000"),
        ([2e12, 2.2e12], "2.100e+12 ± 1.3e+12"),
    ],
)
def test_means_as_text(values: list[float], text: str) -> None:
    assert mean_text(describe(values, 0.95)) == text


def test_ratios_as_text() -> None:
    interval = Interval(0.881, 0.912, 0.95)
    assert ratio_text(Estimate(0.8964, interval, 5)) == "×0.896 [0.881, 0.912]"
    assert ratio_text(Estimate(None, None, 5, Note(ZERO_BASELINE))) == "no ratio"
    assert ratio_text(Estimate(1.5, None, 5, Note(UNBOUNDED_BY_BASELINE))) == "×1.50 unbounded"


def test_a_narrow_interval_of_tiny_numbers_keeps_its_digits() -> None:
    for value, half, text in (
        (-2.1063e-05, 2.75e-8, "−2.1063e−05 [−2.1091e−05, −2.1036e−05]"),
        (4.6e-7, 7e-8, "4.60e−07 [3.90e−07, 5.30e−07]"),
        (1e-12, 0.0, "1.00e−12 [1.00e−12, 1.00e−12]"),
    ):
        assert estimate_text(value, Interval(value - half, value + half, 0.95), ENGLISH) == text


@pytest.mark.parametrize(("least", "text"), [(168_668.0, "≥ 168668"), (64.0, "≥ 64"), (0.5, "≥ 0.5"), (0.0, "≥ 0")])
def test_a_lower_bound_has_no_exponent_and_no_decimals_that_say_nothing(least: float, text: str) -> None:
    assert mean_text(Summary(1, least, None, None, bounded=1)) == text
    assert Summary(1, 1.0, None, None).interval is None


@pytest.mark.parametrize(
    ("better", "value", "decision", "said"),
    [
        ("higher", 0.9, "different", "worse"),
        ("higher", 1.1, "different", "better"),
        ("lower", 1.1, "different", "worse"),
        ("lower", 0.9, "different", "better"),
        ("neither", 1.1, "different", "higher"),
        ("neither", 0.9, "different", "lower"),
        ("lower", 1.1, "same", "same"),
        ("lower", 1.1, "unknown", ""),
        ("lower", None, "different", ""),
    ],
)
def test_a_verdict_is_that_of_the_decision_whatever_interval_is_beside_it(better, value, decision, said) -> None:
    metric = Metric("m", "s", better, "")
    for interval in (None, Interval(0.5, 2.0, 0.95), Interval(0.98, 0.99, 0.95)):
        ratio = Estimate(value, interval, 5)
        assert cell_verdict(Cell(metric, (), None, ratio, decision=decision)) == said
    assert cell_verdict(Cell(metric, (), None, None, decision=decision)) == ""


def test_the_model_does_no_io() -> None:
    code = (
        "import sys, lastro.analysis.build, lastro.words.campaign, lastro.builders.data.results;"
        "print([m for m in ('sqlite3', 'lastro.results.store', 'matplotlib', 'numpy', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
