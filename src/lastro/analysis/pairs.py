"""All pairs of levels of every factor, averaged over the other factors: one family for each metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from lastro.analysis.measured import Measured
from lastro.analysis.model import FactorPairs, LevelEffect
from lastro.stats.contrasts import MeanComparison, compare
from lastro.stats.simultaneous import Pair

LEAST_BLOCKS = 2  # the least for which a difference has an interval


def factor_pairs(data: Measured, effects: Sequence[LevelEffect], floor: float | None = None) -> tuple[FactorPairs, ...]:
    """Compare the levels of each factor that varies: with its reference as in `effects`, and all others in pairs.

    `floor` is the noise floor of one treatment against another, as a fraction."""
    wanted = [
        (factor, second, first, data.sides(factor, second, first))
        for factor, levels in data.factors.items()
        for first, second in combinations(levels, 2)
    ]
    known = [each for each in wanted if each[-1][0]] if data.model else []
    found = compare(data.model, [sides for *_, sides in known], data.confidence) if data.model and known else ()
    pairs: dict[str, dict[tuple[str, str], Pair]] = {factor: {} for factor in data.factors}
    for (factor, level, other, sides), comparison in zip(known, found, strict=True):
        if comparison.error is not None:
            pairs[factor][level, other] = _pair(data, comparison, sides)
            pairs[factor][other, level] = _pair(data, comparison.reversed(), sides)
    return tuple(_of_factor(data, factor, pairs[factor], effects, floor) for factor in data.factors)


def _of_factor(
    data: Measured,
    factor: str,
    pairs: dict[tuple[str, str], Pair],
    effects: Sequence[LevelEffect],
    floor: float | None,
) -> FactorPairs:
    own = {
        effect.level: effect for effect in effects if effect.factor == factor and effect.comparison.error is not None
    }
    reference = data.references[factor]
    against = {
        level: _pair(data, effect.comparison, data.sides(factor, level, reference)) for level, effect in own.items()
    }
    levels = tuple(level for level in data.factors[factor] if level in against or (level == reference and against))
    kept = {at: pair for at, pair in pairs.items() if set(at) <= set(levels)}
    return FactorPairs(
        factor=factor,
        reference=reference,
        levels=levels,
        effects=against,
        pairs=kept,
        strata=max((pair.strata for pair in against.values()), default=0),
        all_strata=data.planned_combinations(factor),
        left_out=tuple(level for level in data.factors[factor] if level not in levels) if against else (),
        floor=floor,
    )


def _pair(data: Measured, comparison: MeanComparison, sides: tuple[dict[int, float], dict[int, float]]) -> Pair:
    means = [
        math.fsum(weight * math.fsum(data.cells[at].values()) / len(data.cells[at]) for at, weight in side.items())
        for side in sides
    ]
    scale = math.fsum(map(abs, means)) / 2
    return Pair(comparison, scale, len(sides[0]), 1 - data.confidence)
