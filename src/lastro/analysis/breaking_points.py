"""The dose (the level of a numeric factor) at which each candidate breaks each service level, and the strictest limits.

Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lastro.analysis.campaign import Row
from lastro.analysis.decision import SlaDecision, campaigns_of, group_by_levels, levels_text, metric_trials
from lastro.analysis.table_choice import is_under
from lastro.stats.breaking_point import breaking_points
from lastro.stats.campaign_effects import linked
from lastro.stats.intervals import Estimate
from lastro.study.fraction import Fraction
from lastro.study.model import Factor
from lastro.study.service_level import ServiceLevel, is_choice


@dataclass(frozen=True, slots=True)
class BrokenLevel:
    """The dose of `factor` at which a candidate breaks a service level."""

    factor: str
    level: ServiceLevel
    candidate: int  # index of the candidate in the decision
    given: str  # levels of the other conditions: 'anomaly = cpu'
    doses: tuple[float, float]  # the least and the greatest measured dose
    point: Estimate | None  # None if the candidate was not measured at every dose


def broken_levels(decision: SlaDecision) -> Iterator[BrokenLevel]:
    """Yield the breaking points of all service levels along each numeric factor that users do not choose.

    A numeric factor has two or more levels in the conditions of the question, which are all numbers. Factors that a
    fractional design halves are left out."""
    report = decision.report
    halved = Fraction.of(report.study).halved  # different doses of a halved factor never have equal conditions
    rows = [row for row in report.rows if is_under(report, row, decision.question.under)]
    for factor in report.varying:
        levels = {row.treatment.levels[factor.name] for row in rows}
        numbers = [level for level in levels if isinstance(level, int | float) and not isinstance(level, bool)]
        is_dose = len(numbers) == len(levels) >= 2
        if is_dose and not is_choice(factor.name) and factor.name not in halved:
            yield from _broken_along(factor, sorted(map(float, numbers)), rows, decision)


def _broken_along(
    factor: Factor, doses: Sequence[float], all_rows: Sequence[Row], decision: SlaDecision
) -> Iterator[BrokenLevel]:
    """Yield the breaking points along one factor, for each combination of the other conditions in these rows."""
    report = decision.report
    campaigns = campaigns_of(report)
    chosen = list(decision.candidates[0].levels) if decision.candidates else []
    rest = [other.name for other in report.varying if other.name not in (*chosen, factor.name)]
    labels = [dict(candidate.levels) for candidate in decision.candidates]
    groups, of_group = group_by_levels(all_rows, rest)
    for number, given in enumerate(groups):
        rows, at = [], {}
        for row in all_rows:
            levels = {name: str(row.treatment.levels[name]) for name in chosen}
            if of_group[row.treatment.index] == number and levels in labels:
                rows.append(row)
                dose = float(row.treatment.levels[factor.name])
                at[row.treatment.index] = (labels.index(levels), doses.index(dose))
        for level in decision.question.levels:
            trials = metric_trials(report, rows, at, level.metric.name)
            if not trials.cells or (campaigns and not linked(trials, campaigns)):
                continue
            points = breaking_points(
                trials, doses, len(labels), level.limit, level.at_least, decision.question.alpha, campaigns
            )
            for candidate, point in enumerate(points):
                yield BrokenLevel(factor.name, level, candidate, levels_text(given), (doses[0], doses[-1]), point)


@dataclass(frozen=True, slots=True)
class StrictestLimit:
    """The strictest limit of a service level that the recommended candidate holds almost surely.

    `beyond` is (index, limit) of the other accepted candidate that holds the strictest limit of all; None if no other
    candidate holds a stricter limit than the recommended one."""

    level: ServiceLevel
    limit: float
    beyond: tuple[int, float] | None


def strictest_limits(decision: SlaDecision) -> Iterator[StrictestLimit]:
    """Yield the strictest limit for each service level; nothing without a recommended candidate."""
    if (best := decision.choice.recommended) is None:
        return
    for number, level in enumerate(decision.question.levels):
        ends = {}  # never looser than the limit itself, which a separate test shows for an accepted candidate
        for at in decision.choice.accepted:
            if (odds := decision.choice.odds[at].limits[number]) is not None:
                _, low, high = odds.mean.spread
                ends[at] = max(low, level.limit) if level.at_least else min(high, level.limit)
        strictest = (max if level.at_least else min)(ends, key=ends.__getitem__)
        is_stricter = ends[strictest] != ends[best]
        yield StrictestLimit(level, ends[best], (strictest, ends[strictest]) if is_stricter else None)
