"""The cost of a noisy neighbour and the recovery by isolation, in a study that varies both.

The effects are computed like those of claims: from statements of comparison and recovery, with the contrasts and
intervals of `claim_effects`. There are three families of tests: losses to the neighbours, recoveries, and costs of
isolation. The intervals of a family are simultaneous, so that any of them may be reported. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claim_cells import Comparisons, Untestable
from lastro.analysis.claim_effects import (
    ClaimContrast,
    ClaimEffects,
    direction_effects,
    measured_effects,
    recovery_effects,
)
from lastro.analysis.claims import too_few_blocks, why_absent
from lastro.grouping import by_key
from lastro.results.samples import Metric
from lastro.stats.intervals import Estimate
from lastro.stats.notes import N_, Note
from lastro.study.fraction import Fraction
from lastro.study.levels import NONE
from lastro.study.model import Level, Levels

NEIGHBOUR, ISOLATION = "anomaly", "isolation"
_USEFUL = (-1.0, 2.0)  # an interval of a recovered fraction that extends further is too wide to be useful


@dataclass(frozen=True, slots=True)
class TestedLevel:
    """The test of a statement about one level of a factor: the estimated effects, or why they cannot be estimated.

    Intervals and `p` are corrected for `family`, the number of tests in its family."""

    level: Level
    metric: Metric
    alpha: float
    effects: ClaimEffects | None
    why_not: tuple[Note, ...] = ()
    family: int = 1

    @property
    def part(self) -> ClaimContrast:
        """The only contrast of the statement. Needs `effects`."""
        assert self.effects is not None
        return self.effects.parts[0]

    @property
    def raw_p(self) -> float | None:
        """The uncorrected p-value of no effect, the smaller of the two directions; None without a test."""
        if self.effects is None or self.part.p_for is None or self.part.p_against is None:
            return None
        return min(self.part.p_for, self.part.p_against)

    @property
    def p(self) -> float | None:
        """The p-value of no effect, corrected for the family (Bonferroni); None without a test."""
        return None if self.raw_p is None else min(1.0, self.family * self.raw_p)

    @property
    def distinguishable(self) -> bool:
        """True if the effect is significant after correction."""
        return self.p is not None and self.p < self.alpha

    @property
    def lost_to_correction(self) -> bool:
        """True if the effect is not significant, but would be without correction for the number of tests."""
        return self.raw_p is not None and self.raw_p < self.alpha <= (self.p or 0.0)

    @property
    def is_loss(self) -> bool:
        """True if the effect is significant and makes the metric worse; without a better direction, if significant."""
        return self.distinguishable and (self.metric.better == "neither" or (self.change.value or 0.0) > 0)

    @property
    def relative(self) -> bool:
        """True if the change is given as a percentage, False if in the unit of the metric.

        It is a percentage if the statement has a ratio, unless only the difference has an interval or the means are
        negative."""
        part = self.part
        difference, excess = part.beside, (part.effect.value or 0.0) - 1
        below_zero = difference is not None and (difference.value or 0.0) * excess < 0
        has_interval = part.effect.interval is not None or difference is None or difference.interval is None
        return part.measure == "ratio" and not below_zero and has_interval

    @property
    def change(self) -> Estimate:
        """The change of the metric from the level of comparison to the tested level; positive is worse."""
        part, sign = self.part, -1.0 if self.metric.better == "higher" else 1.0
        if self.relative:
            return part.effect.mapped(lambda ratio: 100 * sign * (ratio - 1))
        return (part.beside or part.effect).mapped(lambda difference: sign * difference)

    @property
    def decided(self) -> bool:
        """True if the recovered fraction is known well enough to be reported."""
        if self.effects is None or self.effects.nothing:
            return False
        interval = self.part.effect.interval
        return interval is not None and _USEFUL[0] <= interval.low and interval.high <= _USEFUL[1]

    @property
    def recovered(self) -> Estimate:
        """The recovered fraction of a loss in percent, if it is `decided`."""
        return self.part.effect.mapped(lambda share: 100 * share)


@dataclass(frozen=True, slots=True)
class Interference:
    """The effects of neighbours and of isolation on the study's first metric."""

    metric: Metric
    n_blocks: int
    # The test of every neighbour: significant ones first, then the worst first, untested ones last.
    losses: tuple[TestedLevel, ...]
    recoveries: Mapping[Level, tuple[TestedLevel, ...]]  # {neighbour that causes a loss: the test of each isolation}
    costs: tuple[TestedLevel, ...]  # effects of isolation without a neighbour, in the same order as `losses`
    # All levels of isolation if the study lacks the level "none", so that losses are losses under isolation; else
    # empty.
    only_with: tuple[Level, ...]


def interference(report: CampaignResults) -> Interference | None:
    """Return the effects of neighbours and isolation on the first metric; None if they cannot be estimated.

    The study must vary the neighbour, including the level "none", and there must be valid values. The design must not
    halve the factors of neighbour and isolation: a fraction that halves them has no treatments that differ in only one
    of these factors, so only main effects can be reported."""
    neighbours, isolations = _levels(report, NEIGHBOUR), _levels(report, ISOLATION)
    if NONE not in neighbours or len(neighbours) < 2 or not report.metrics:
        return None
    if not report.views[0].n_blocks or Fraction.of(report.study).halved & {NEIGHBOUR, ISOLATION}:
        return None
    unprotected: Levels = {ISOLATION: (NONE,)} if NONE in isolations else {}
    alone: Levels = {NEIGHBOUR: (NONE,), **unprotected}
    protections = [level for level in isolations if level != NONE] if unprotected else []

    def worse(of: Levels) -> _Effects:
        """Return the statement that the metric is worse at the levels `of` than without a neighbour or isolation."""
        return partial(direction_effects, of, alone, {}, report.metrics[0].better != "higher")

    beside = [(level, worse({NEIGHBOUR: (level,), **unprotected})) for level in neighbours if level != NONE]
    tested = _test_family(report, beside)
    losses = sorted((test for test in tested if test.effects), key=_rank)
    pairs = list(itertools.product((loss.level for loss in losses if loss.is_loss), protections))
    statements = []
    for neighbour, isolation in pairs:
        without: Levels = {NEIGHBOUR: (neighbour,), **unprotected}
        protected: Levels = {NEIGHBOUR: (neighbour,), ISOLATION: (isolation,)}
        statements.append((isolation, partial(recovery_effects, alone, without, protected, {})))
    recovered = zip(pairs, _test_family(report, statements), strict=True)
    recoveries = by_key((neighbour, test) for (neighbour, _), test in recovered)
    without_neighbour = [(level, worse({NEIGHBOUR: (NONE,), ISOLATION: (level,)})) for level in protections]
    costs = _test_family(report, without_neighbour if reports_isolation(report) else [])
    always = isolations or [report.study.settings.get(ISOLATION, NONE)]
    return Interference(
        metric=report.metrics[0],
        n_blocks=report.views[0].n_blocks,
        losses=(*losses, *(test for test in tested if not test.effects)),
        recoveries={neighbour: tuple(tests) for neighbour, tests in recoveries.items()},
        costs=tuple(sorted((test for test in costs if test.effects), key=_rank)),
        only_with=() if NONE in always else tuple(always),
    )


def reports_isolation(report: CampaignResults) -> bool:
    """Return whether `interference` also reports the effects of isolation.

    It does if the study compares isolation with none, and the first metric declares which direction is better."""
    levels = _levels(report, ISOLATION)
    return NONE in levels and len(levels) > 1 and report.metrics[0].better != "neither"


_Effects = Callable[[Comparisons], ClaimEffects]


def _test_family(report: CampaignResults, statements: Sequence[tuple[Level, _Effects]]) -> list[TestedLevel]:
    """Test each statement on its level; all that can be tested are one family, corrected by Bonferroni's method."""
    tested = [_test(report, level, statement, 1) for level, statement in statements]
    n = sum(test.raw_p is not None for test in tested)
    return [_test(report, level, statement, n) for level, statement in statements] if n > 1 else tested


def _test(report: CampaignResults, level: Level, statement: _Effects, family: int) -> TestedLevel:
    """Test a statement on a level, in a family of this many tests."""
    metric, alpha, n_blocks = report.metrics[0], report.study.design.alpha, report.views[0].n_blocks

    def unknown(*why: Note) -> TestedLevel:
        return TestedLevel(level, metric, alpha, None, why)

    if n_blocks < 2:
        return unknown(too_few_blocks(n_blocks))
    try:
        effects = measured_effects(report, [metric.name], statement, 1 - alpha / family)
    except Untestable as untestable:
        return unknown(*untestable.why)
    tested = TestedLevel(level, metric, alpha, effects, family=family)
    if tested.part.measure == "share":
        return tested
    if tested.part.open:
        return unknown(Note(N_("only a lower bound is known for {levels}"), levels=effects.bounded))
    return tested if tested.raw_p is not None else unknown(why_absent(tested.part.beside, tested.part.effect))


def _rank(tested: TestedLevel) -> tuple[bool, float]:
    """Return a sort key: significant changes before others, and within each of the two groups the worst first."""
    size = tested.change.value or 0.0
    return not tested.distinguishable, -abs(size) if tested.metric.better == "neither" else -size


def _levels(report: CampaignResults, factor: str) -> list[Level]:
    """Return the levels of a factor; empty if the study has no such factor."""
    return next((list(known.levels) for known in report.study.factors if known.name == factor), [])
