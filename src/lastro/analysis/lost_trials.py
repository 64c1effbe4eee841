"""Bounds for treatments of which many trials have no valid value.

If trials were lost because of their values, the mean of the remaining trials is biased, and no statistic shows it. So
each lost trial is given the least valid value of its treatment, and then the greatest: the two results are bounds. The
span of three intervals (of both results, and of the valid trials only) also takes chance into account.

The bounds are right if no lost value was outside the range of the valid values, which the data cannot show.

Sources: Horowitz and Manski, J. Am. Stat. Assoc. 95 (2000) 77-84; Imbens and Manski, Econometrica 72 (2004)
1845-1857."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from lastro.analysis.build import MANY_LOST, decision_by_p, describe_points, fit_model
from lastro.analysis.campaign import Cell, MetricView, Point, Row
from lastro.analysis.model import LostTrials
from lastro.results.members import campaigns_of_blocks
from lastro.stats.contrasts import MeanComparison, compare
from lastro.stats.families import MOST_PLANNED
from lastro.stats.intervals import Interval, alpha_of

Extreme = Callable[..., Point]  # min or max


@dataclass(frozen=True, slots=True)
class _ExactTreatment:
    """A treatment with exact values, {block: point}, and the blocks in which its trial was lost."""

    row: Row
    cell: Cell
    values: Mapping[int, Point]
    lost: frozenset[int]

    @property
    def many_lost(self) -> bool:
        """True if more than a tenth of the finished trials were lost."""
        return len(self.lost) > MANY_LOST * (len(self.lost) + len(self.values))

    def with_lost_as(self, extreme: Extreme) -> list[Point]:
        """Return the points of the valid trials, and for each lost trial a point with the `extreme` of their values."""
        point = extreme(self.values.values(), key=attrgetter("value"))
        return [*self.values.values(), *(point._replace(block=block) for block in sorted(self.lost))]


def lost_trials(view: MetricView) -> tuple[LostTrials, ...]:
    """Return bounds for treatments that lost over a tenth of their trials, or whose baseline did; the most first."""
    # The blocks of finished trials: of valid trials, and of trials that remained invalid.
    finished = defaultdict[int, set[int]](set)
    for attempt in view.report.attempts:
        if attempt.valid:
            finished[attempt.treatment].add(attempt.block)
    for invalid in view.report.invalid_attempts:
        if invalid.trial_state == "invalid":
            finished[invalid.treatment.index].add(invalid.block)
    known = {}
    for row, cell in view:
        if cell.points and not cell.bounded:
            values = {point.block: point for point in cell.points}
            lost = frozenset(finished[row.treatment.index] - values.keys())
            known[row.treatment.index] = _ExactTreatment(row, cell, values, lost)
    if not any(treatment.many_lost for treatment in known.values()):
        return ()
    cases = (_compare_with_extremes(known, view, min, max), _compare_with_extremes(known, view, max, min))
    bounds = []
    for index, treatment in known.items():
        reference = treatment.row.baseline if treatment.cell.comparison else None
        baseline = known[reference.index] if reference else None
        if treatment.many_lost or (baseline is not None and baseline.many_lost):
            bounds.append(_bounds(treatment, baseline, [case[index] for case in cases if index in case], view))
    return tuple(sorted(bounds, key=lambda treatment: -treatment.lost / treatment.trials))


def _compare_with_extremes(
    known: Mapping[int, _ExactTreatment], view: MetricView, treated: Extreme, baseline: Extreme
) -> dict[int, MeanComparison]:
    """Return {treatment: its comparison with the baseline}, with an extreme value in place of each lost trial.

    `treated` selects the extreme for lost trials of treatments, and `baseline` the extreme for lost trials of
    baselines. The scale (values or logarithms) and the family are the same as for the valid trials only."""
    comparisons = {index: exact.cell.comparison for index, exact in known.items() if exact.cell.comparison}
    cells = {
        index: exact.with_lost_as(baseline if exact.row.is_baseline else treated) for index, exact in known.items()
    }
    campaigns = campaigns_of_blocks(view.report.members)
    model = fit_model(view.metric, cells, campaigns, any(comparison.log for comparison in comparisons.values()))
    if model is None or not comparisons:
        return {}
    baselines = [(index, known[index].row.baseline) for index in comparisons]
    sides = [({index: 1.0}, {baseline.index: 1.0}) for index, baseline in baselines if baseline is not None]
    with_extremes = compare(model, sides, view.confidence, planned=len(sides) <= MOST_PLANNED)
    return dict(zip(comparisons, with_extremes, strict=True))


def _bounds(
    treatment: _ExactTreatment, baseline: _ExactTreatment | None, cases: list[MeanComparison], view: MetricView
) -> LostTrials:
    """Return the bounds of one treatment; `cases` are its two comparisons, one for each extreme of the lost trials."""
    extremes: tuple[Extreme, Extreme] = (min, max)
    completed = map(treatment.with_lost_as, extremes)
    means = [describe_points(view.metric, points, view.confidence, view.step).interval for points in completed]
    summary, ratio = treatment.cell.summary, treatment.cell.ratio
    means.append(summary.interval if summary else None)
    ratios = [*(case.ratio.interval for case in cases), ratio.interval if ratio else None]
    has_spread = len(treatment.values) >= 2
    both_have_spread = has_spread and (baseline is None or len(baseline.values) >= 2)
    return LostTrials(
        treatment=treatment.row.treatment,
        lost=len(treatment.lost),
        trials=len(treatment.lost) + len(treatment.values),
        baseline_lost=len(baseline.lost) if baseline else 0,
        summary=summary,
        ratio=ratio,
        mean=_span(means) if has_spread else None,
        bounds=_span(ratios) if both_have_spread else None,
        holds=_holds(treatment.cell, cases, alpha_of(view.confidence)) if both_have_spread else None,
    )


def _span(intervals: list[Interval | None]) -> Interval | None:
    """Return the span of three intervals (both cases and the valid trials only); None if one is unknown."""
    known = [interval for interval in intervals if interval is not None]
    if len(known) < 3:
        return None
    low, high = min(interval.low for interval in known), max(interval.high for interval in known)
    return Interval(low, high, known[0].confidence)


def _holds(cell: Cell, cases: list[MeanComparison], alpha: float) -> bool | None:
    """Return whether all cases have the decision and the direction of the cell; None if the cell has no decision."""
    comparison = cell.comparison
    if comparison is None or cell.decision == "unknown":
        return None
    if any(decision_by_p(case.p_adjusted, alpha) != cell.decision for case in cases):
        return False
    return cell.decision == "same" or all(_is_increase(case) == _is_increase(comparison) for case in cases)


def _is_increase(comparison: MeanComparison) -> bool:
    return comparison.difference.value is not None and comparison.difference.value > 0
