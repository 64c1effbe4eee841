"""Sentences below a table of results: what its numbers and marks mean, and what its cells lack. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from lastro.analysis.campaign import CampaignResults, Cell, Row
from lastro.analysis.verdicts import Verdict
from lastro.stats.notes import N_
from lastro.words.language import Language
from lastro.words.numbers import GEOMETRIC, UNDECIDED, WIDEST, is_undecided, percent, verdict_text

DASH = "—"
_MEAN = N_("± is half the width of the {confidence} interval of the mean over n valid trials.")
_RATIO = N_(
    "× is the ratio to the baseline ({baseline}; other factors equal) with its {confidence} interval, corrected for "
    "the number of ratios of its metric: {marks}."
)
_NO_RATIO = N_("— below a mean: no ratio, because the baseline has no value.")
_NO_RATIOS = N_("No ratios: no baseline has a value.")
ALONE = N_("Means and ratios of one trial (n = 1) have no interval.")


def has_ratios(report: CampaignResults) -> bool:
    """Return whether any treatment has a ratio; if not, the table needs no dashes for missing ratios."""
    return any(cell.ratio is not None for row in report.rows for cell in row.cells)


def lacks_ratio(row: Row, cell: Cell) -> bool:
    """Return whether a measured treatment lacks a ratio because its baseline has no value."""
    return cell.summary is not None and cell.ratio is None and row.baseline is not None and not row.is_baseline


def lacks_spread(cell: Cell) -> bool:
    """Return whether a mean, or its ratio, has no interval because only one trial is behind it."""
    if cell.summary is None:
        return False
    if cell.summary.n == 1 and not cell.summary.bounded:
        return True
    return cell.ratio is not None and cell.ratio.interval is None and min(cell.ratio.sides) == 1


def explanations(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield what means and ratios are, and why ratios or intervals are missing, if the table of results has any."""
    cells = [(row, cell) for row in report.rows for cell in row.cells]
    confidence = percent(report.study.design.confidence, say)
    if any(cell.summary and cell.summary.interval for _, cell in cells):
        yield say(_MEAN, confidence=confidence)
    if has_ratios(report):
        baseline = ", ".join(f"{name} = {level}" for name, level in (report.study.design.baseline or {}).items())
        neutral = [metric.better == "neither" for metric in report.metrics]
        verdicts: list[Verdict] = [] if all(neutral) else ["better", "worse"]
        verdicts += ["higher", "lower", "same"] if any(neutral) else ["same"]
        marks = ", ".join(verdict_text(verdict, say) for verdict in verdicts)  # that ratios of these metrics may have
        yield say(_RATIO, baseline=baseline, confidence=confidence, marks=marks)
    if any(lacks_ratio(row, cell) for row, cell in cells):
        yield say(_NO_RATIO if has_ratios(report) else _NO_RATIOS)
    if any(lacks_spread(cell) for _, cell in cells):
        yield say(ALONE)


def remarks_on_ratios(report: CampaignResults, say: Language) -> Iterator[str]:
    """Yield which ratios are geometric, what 'undecided' means, and why ratios have no interval, each reason once."""
    ratios = [(cell.metric.name, cell.ratio) for row in report.rows for cell in row.cells if cell.ratio]
    if report.on_logs:
        yield f"{', '.join(report.on_logs)}: {say(GEOMETRIC)}."
    if any(is_undecided(ratio) for _, ratio in ratios):
        yield say(UNDECIDED, widest=WIDEST)
    absent = ((name, ratio.absent_because) for name, ratio in ratios if min(ratio.sides) > 1)
    yield from sorted({f"{name}: {say.note(why)}." for name, why in absent if why})
