"""Bounds for treatments of which many trials have no valid value.

If trials were lost because of what they measured, no mean of the others is right, and no statistic shows that it is
wrong. So each lost trial is given the least and the greatest valid value of its own treatment, and the two results are
bounds. Their intervals, and that of the valid trials, together allow for chance as well.

They hold if no lost trial was outside of the range of the valid ones, which nothing in the data can show.

Sources: Horowitz and Manski, J. Am. Stat. Assoc. 95 (2000) 77-84; Imbens and Manski, Econometrica 72 (2004)
1845-1857."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from lastro.analysis.build import MANY_LOST, decide, describe_points, fit_model
from lastro.analysis.campaign import CampaignResults, Cell, MetricView, Point, Row
from lastro.analysis.model import LostTrials
from lastro.results.members import campaigns_of_blocks
from lastro.stats.contrasts import MeanComparison, compare
from lastro.stats.families import MOST_PLANNED
from lastro.stats.intervals import Interval, alpha_of

Extreme = Callable[..., Point]  # min or max


@dataclass(frozen=True, slots=True)
class _ExactTreatment:
    """A treatment with exact values {block: point}, and the blocks in which its trial was lost."""

    row: Row
    cell: Cell
    values: Mapping[int, Point]
    lost: frozenset[int]

    @property
    def many(self) -> bool:
        return len(self.lost) > MANY_LOST * (len(self.lost) + len(self.values))

    def completed(self, extreme: Extreme) -> list[Point]:
        """Return the points, and for each lost trial one with an extreme value of them."""
        far = extreme(self.values.values(), key=attrgetter("value"))
        return [*self.values.values(), *(far._replace(block=block) for block in sorted(self.lost))]


def lost_trials(view: MetricView) -> tuple[LostTrials, ...]:
    """Return bounds for every treatment that lost more than a tenth of its finished trials, or whose baseline did.

    The largest fraction of lost trials is first."""
    ended = _ended(view.report)
    known = {
        row.treatment.index: _ExactTreatment(
            row,
            cell,
            values := {p.block: p for p in cell.points},
            frozenset(ended[row.treatment.index] - values.keys()),
        )
        for row, cell in view
        if cell.points and not cell.bounded
    }
    if not any(each.many for each in known.values()):
        return ()
    cases = (_compared(known, view, min, max), _compared(known, view, max, min))
    bounds = []
    for index, each in known.items():
        baseline = known[each.row.baseline.index] if each.row.baseline and each.cell.comparison else None
        if each.many or (baseline is not None and baseline.many):
            bounds.append(_bounds(each, baseline, [case[index] for case in cases if index in case], view))
    return tuple(sorted(bounds, key=lambda each: -each.lost / each.trials))


def _ended(report: CampaignResults) -> Mapping[int, set[int]]:
    """Return for each treatment the blocks of its valid trials, and of those that stayed invalid."""
    found = defaultdict[int, set[int]](set)
    for attempt in report.attempts:
        if attempt.valid:
            found[attempt.treatment].add(attempt.block)
    for invalid in report.invalid_attempts:
        if invalid.trial_state == "invalid":
            found[invalid.treatment.index].add(invalid.block)
    return found


def _compared(
    known: Mapping[int, _ExactTreatment], view: MetricView, treated: Extreme, baseline: Extreme
) -> dict[int, MeanComparison]:
    """Return {treatment: its comparison with the baseline} if each lost trial was the extreme of its treatment.

    The scale and the family are those of the valid trials."""
    comparisons = {index: each.cell.comparison for index, each in known.items() if each.cell.comparison}
    cells = {index: each.completed(baseline if each.row.is_baseline else treated) for index, each in known.items()}
    campaigns = campaigns_of_blocks(view.report.members)
    model = fit_model(view.metric, cells, campaigns, any(comparison.log for comparison in comparisons.values()))
    if model is None or not comparisons:
        return {}
    baselines = [(index, known[index].row.baseline) for index in comparisons]
    sides = [({index: 1.0}, {baseline.index: 1.0}) for index, baseline in baselines if baseline is not None]
    with_extremes = compare(model, sides, view.confidence, planned=len(sides) <= MOST_PLANNED)
    return dict(zip(comparisons, with_extremes, strict=True))


def _bounds(
    each: _ExactTreatment, baseline: _ExactTreatment | None, cases: list[MeanComparison], view: MetricView
) -> LostTrials:
    extremes: tuple[Extreme, Extreme] = (min, max)
    completed = map(each.completed, extremes)
    ends = [describe_points(view.metric, points, view.confidence, view.step).interval for points in completed]
    own, ratio = each.cell.summary, each.cell.ratio
    ends.append(own.interval if own else None)
    ratios = [*(case.ratio.interval for case in cases), ratio.interval if ratio else None]
    few = len(each.values) < 2, baseline is not None and len(baseline.values) < 2
    return LostTrials(
        treatment=each.row.treatment,
        lost=len(each.lost),
        trials=len(each.lost) + len(each.values),
        baseline_lost=len(baseline.lost) if baseline else 0,
        summary=each.cell.summary,
        ratio=each.cell.ratio,
        mean=None if few[0] else _span(ends),
        bounds=None if any(few) else _span(ratios),
        holds=None if any(few) else _holds(each.cell, cases, alpha_of(view.confidence)),
    )


def _span(ends: list[Interval | None]) -> Interval | None:
    """Return what the intervals of both cases and of the valid trials span; None if one of them is unknown."""
    known = [each for each in ends if each is not None]
    if len(known) < 3:
        return None
    return Interval(min(each.low for each in known), max(each.high for each in known), known[0].confidence)


def _holds(cell: Cell, cases: list[MeanComparison], alpha: float) -> bool | None:
    """Return whether the verdict on a cell is the same in all cases; None without a verdict."""
    own = cell.comparison
    if own is None or cell.decision == "unknown":
        return None
    return all(
        decide(case.p_adjusted, alpha) == cell.decision and (cell.decision == "same" or _above(case) == _above(own))
        for case in cases
    )


def _above(comparison: MeanComparison) -> bool:
    return comparison.difference.value is not None and comparison.difference.value > 0
