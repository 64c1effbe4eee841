"""At which dose each service level breaks, along a factor of numbers, for each candidate. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lastro.analysis.decision import SlaDecision, grouped, metric_trials
from lastro.stats.breaking_point import BreakingPoint, breaking_points
from lastro.study.fraction import Fraction
from lastro.study.model import Factor
from lastro.study.service_level import ServiceLevel, is_choice


@dataclass(frozen=True, slots=True)
class BrokenLevel:
    """Where a level breaks: the candidate by its number in the decision, and what else holds: 'anomaly = cpu'.

    `point` is None for a candidate that was not measured at every dose."""

    factor: str
    level: ServiceLevel
    candidate: int
    given: str
    point: BreakingPoint | None


def broken_levels(decision: SlaDecision) -> Iterator[BrokenLevel]:
    """Yield where each level breaks along each factor of numbers that is a condition with two levels or more."""
    report = decision.report
    halved = Fraction.of(report.study).halved  # no two doses have the same conditions
    for factor in report.varying:
        if not is_choice(factor.name) and factor.name not in halved and _doses(factor):
            yield from _along(factor, decision)


def _along(factor: Factor, decision: SlaDecision) -> Iterator[BrokenLevel]:
    report, doses = decision.report, _doses(factor)
    chosen = list(decision.candidates[0].levels) if decision.candidates else []
    rest = [each.name for each in report.varying if each.name not in (*chosen, factor.name)]
    labels = [dict(each.levels) for each in decision.candidates]
    groups, of_group = grouped(report.rows, rest)
    candidates, of_candidate = grouped(report.rows, chosen)
    for number, given in enumerate(groups):
        rows = [row for row in report.rows if of_group[row.treatment.index] == number]
        rows = [row for row in rows if candidates[of_candidate[row.treatment.index]] in labels]
        at = {
            row.treatment.index: (
                labels.index(candidates[of_candidate[row.treatment.index]]),
                doses.index(float(row.treatment.levels[factor.name])),
            )
            for row in rows
        }
        for level in decision.question.levels:
            trials = metric_trials(report, rows, at, level.metric.name)
            if not trials.cells:
                continue
            points = breaking_points(
                trials, doses, len(labels), level.limit, level.at_least, 1 - decision.question.confidence
            )
            named = ", ".join(f"{name} = {each}" for name, each in given.items())
            for candidate, point in enumerate(points):
                yield BrokenLevel(factor.name, level, candidate, named, point)


def _doses(factor: Factor) -> Sequence[float]:
    """Return the levels of a factor of two numbers or more in ascending order; none for another factor."""
    numbers = [level for level in factor.levels if isinstance(level, int | float) and not isinstance(level, bool)]
    return sorted(map(float, numbers)) if len(numbers) == len(factor.levels) >= 2 else []
