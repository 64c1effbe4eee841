"""The cost of a noisy neighbour and the recovery by isolation, in a study that varies both.

The effects are computed in the same way as those of claims: from statements of comparison and recovery, with the
contrasts and intervals of `claim_effects`. There are three families of tests: losses to the neighbours, recoveries, and
costs of isolation. All intervals of a family hold simultaneously, so any may be reported. Pure: a report in, effects
out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from lastro.analysis.campaign import CampaignResults
from lastro.analysis.claim_cells import Comparisons, Untestable
from lastro.analysis.claim_effects import ClaimContrast, ClaimEffects, difference_of, measured_effects, recovery_of
from lastro.analysis.claims import too_few_blocks, why_absent
from lastro.grouping import by_key
from lastro.results.samples import Metric
from lastro.stats.notes import N_, Note
from lastro.study.fraction import Fraction
from lastro.study.levels import NONE
from lastro.study.model import Level, Levels

NEIGHBOUR, ISOLATION = "anomaly", "isolation"
_DECIDED = (-1.0, 2.0)  # an interval of a recovery that extends further is too wide to be useful


class Change(NamedTuple):
    """A change with its interval, None without one: in percent where `relative`, otherwise in the metric's unit."""

    value: float
    low: float | None
    high: float | None
    relative: bool = True


@dataclass(frozen=True, slots=True)
class TestedLevel:
    """A level with the effects of its statement, or with the reasons why there are none.

    Intervals and `p` are corrected for `family`, the number of tests in its family."""

    level: Level
    metric: Metric
    alpha: float
    effects: ClaimEffects | None
    why_not: tuple[Note, ...] = ()
    family: int = 1

    @property
    def part(self) -> ClaimContrast:
        assert self.effects is not None
        return self.effects.parts[0]

    @property
    def raw_p(self) -> float | None:
        """The uncorrected p of no effect in either direction."""
        if self.effects is None or self.part.p_for is None or self.part.p_against is None:
            return None
        return min(self.part.p_for, self.part.p_against)

    @property
    def p(self) -> float | None:
        return None if self.raw_p is None else min(1.0, self.family * self.raw_p)

    @property
    def distinguishable(self) -> bool:
        return self.p is not None and self.p < self.alpha

    @property
    def lost_to_correction(self) -> bool:
        """True if the effect would be significant without correction for the number of tests."""
        return self.raw_p is not None and self.raw_p < self.alpha <= (self.p or 0.0)

    @property
    def is_loss(self) -> bool:
        return self.distinguishable and (self.metric.better == "neither" or self.change.value > 0)

    @property
    def change(self) -> Change:
        """The loss from `to` to `of`, positive if `of` is worse.

        It is a percentage if the ratio has an interval and `to` is above zero, and otherwise a difference."""
        part, sign = self.part, -1.0 if self.metric.better == "higher" else 1.0
        gap, above = part.beside, (part.effect.value or 0.0) - 1
        below_zero = gap is not None and (gap.value or 0.0) * above < 0
        relative = part.measure == "ratio" and not below_zero
        relative = relative and bool(part.effect.interval or not gap or gap.interval is None)
        effect, scale, least = (part.effect, 100 * sign, 1.0) if relative else (gap or part.effect, sign, 0.0)
        value = scale * ((effect.value or 0.0) - least)
        if effect.interval is None:
            return Change(value, None, None, relative)
        low, high = sorted(scale * (end - least) for end in (effect.interval.low, effect.interval.high))
        return Change(value, low, high, relative)

    @property
    def decided(self) -> bool:
        """True if the recovered fraction is known well enough to be reported."""
        if self.effects is None or self.effects.nothing:
            return False
        interval = self.part.effect.interval
        return interval is not None and _DECIDED[0] <= interval.low and interval.high <= _DECIDED[1]

    @property
    def recovered(self) -> Change:
        """The recovered fraction of a loss, where it is `decided`."""
        effect = self.part.effect
        assert effect.value is not None and effect.interval is not None
        return Change(100 * effect.value, 100 * effect.interval.low, 100 * effect.interval.high)


@dataclass(frozen=True, slots=True)
class Interference:
    """The effects of neighbours and of isolation on the study's first metric.

    `losses` has every neighbour, the worst first; `recoveries` has the neighbours that cause a loss. `costs` are the
    effects of isolation without a neighbour, the worst first. `only_with` has the levels of isolation of a study in
    which every trial had isolation."""

    metric: Metric
    n_blocks: int
    losses: tuple[TestedLevel, ...]
    recoveries: Mapping[Level, tuple[TestedLevel, ...]]
    costs: tuple[TestedLevel, ...]
    only_with: tuple[Level, ...]


def interference(report: CampaignResults) -> Interference | None:
    """Return the effects of neighbours and isolation on the first metric; None if they cannot be estimated.

    This needs a factor of neighbours with the level "none", valid values, and a design that does not halve the
    neighbour or the isolation: such a fraction has no treatments that differ in only one of them. The main effects then
    include theirs."""
    levels = _levels(report, NEIGHBOUR)
    if NONE not in levels or len(levels) < 2 or not report.metrics:
        return None
    if not report.views[0].n_blocks or Fraction.of(report.study).halved & {NEIGHBOUR, ISOLATION}:
        return None
    return _Tests(report).all()


def reports_isolation(report: CampaignResults) -> bool:
    """Return whether the effects of neighbours include those of isolation.

    They do if the study compares isolation with none, and the first metric declares which direction is better."""
    levels = _levels(report, ISOLATION)
    return NONE in levels and len(levels) > 1 and report.metrics[0].better != "neither"


_Effects = Callable[[Comparisons], ClaimEffects]


class _Tests:
    """The statements of one study and their tests."""

    def __init__(self, report: CampaignResults) -> None:
        self.report, self.metric = report, report.metrics[0]
        self.alpha = report.study.design.alpha
        self.neighbours = [level for level in _levels(report, NEIGHBOUR) if level != NONE]
        isolations = _levels(report, ISOLATION)
        self.unprotected: Levels = {ISOLATION: (NONE,)} if NONE in isolations else {}
        self.isolations = [level for level in isolations if level != NONE] if self.unprotected else []
        self.n_blocks = report.views[0].n_blocks

    def all(self) -> Interference:
        alone: Levels = {NEIGHBOUR: (NONE,), **self.unprotected}
        tested = self._tested(
            [(level, self._worse({NEIGHBOUR: (level,), **self.unprotected}, alone)) for level in self.neighbours]
        )
        held = _levels(self.report, ISOLATION) or [self.report.study.settings.get(ISOLATION, NONE)]
        losses = sorted((one for one in tested if one.effects), key=_rank)
        return Interference(
            metric=self.metric,
            n_blocks=self.n_blocks,
            losses=(*losses, *(one for one in tested if not one.effects)),
            recoveries=self._recoveries([one.level for one in losses if one.is_loss]),
            costs=tuple(self._costs()),
            only_with=() if NONE in held else tuple(held),
        )

    # Statements

    def _worse(self, of: Levels, to: Levels) -> _Effects:
        return partial(difference_of, of, to, {}, self.metric.better != "higher")

    def _recovery(self, neighbour: Level, isolation: Level) -> _Effects:
        return partial(
            recovery_of,
            {NEIGHBOUR: (NONE,), **self.unprotected},
            {NEIGHBOUR: (neighbour,), **self.unprotected},
            {NEIGHBOUR: (neighbour,), ISOLATION: (isolation,)},
            {},
        )

    # Tests

    def _tested(self, statements: Sequence[tuple[Level, _Effects]]) -> list[TestedLevel]:
        """Test the statements; those that can be tested are one family, by Bonferroni's method."""
        tested = [self._one(level, statement, 1) for level, statement in statements]
        n = sum(one.raw_p is not None for one in tested)
        return [self._one(level, statement, n) for level, statement in statements] if n > 1 else tested

    def _one(self, level: Level, statement: _Effects, family: int) -> TestedLevel:
        def unknown(*why: Note) -> TestedLevel:
            return TestedLevel(level, self.metric, self.alpha, None, why)

        if self.n_blocks < 2:
            return unknown(too_few_blocks(self.n_blocks))
        try:
            effects = measured_effects(self.report, [self.metric.name], statement, 1 - self.alpha / family)
        except Untestable as untestable:
            return unknown(*untestable.why)
        found = TestedLevel(level, self.metric, self.alpha, effects, family=family)
        if found.part.measure == "share":
            return found
        if found.part.open:
            return unknown(Note(N_("only a lower bound is known for {levels}"), levels=effects.bounded))
        return found if found.raw_p is not None else unknown(why_absent(found.part.beside, found.part.effect))

    def _recoveries(self, neighbours: Iterable[Level]) -> dict[Level, tuple[TestedLevel, ...]]:
        pairs = [(neighbour, isolation) for neighbour in neighbours for isolation in self.isolations]
        tested = self._tested([(isolation, self._recovery(neighbour, isolation)) for neighbour, isolation in pairs])
        found = by_key((neighbour, one) for (neighbour, _), one in zip(pairs, tested, strict=True))
        return {neighbour: tuple(recoveries) for neighbour, recoveries in found.items()}

    def _costs(self) -> list[TestedLevel]:
        """Return the costs and gains of isolation without a neighbour, as far as they are known."""
        if not reports_isolation(self.report):
            return []
        alone: Levels = {NEIGHBOUR: (NONE,)}
        statements = [
            (level, self._worse({ISOLATION: (level,), **alone}, {**self.unprotected, **alone}))
            for level in self.isolations
        ]
        return sorted((one for one in self._tested(statements) if one.effects), key=_rank)


def _rank(tested: TestedLevel) -> tuple[bool, float]:
    """Return a sort key: the worst first, then those that are not distinguishable."""
    size = tested.change.value
    return not tested.distinguishable, -abs(size) if tested.metric.better == "neither" else -size


def _levels(report: CampaignResults, factor: str) -> list[Level]:
    """Return the levels of a factor; empty if the study has no such factor."""
    return next((list(found.levels) for found in report.study.factors if found.name == factor), [])
