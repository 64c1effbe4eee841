"""All pairs of levels of every factor, averaged over the other factors: one family for each metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from lastro.analysis.metric_values import MetricValues, Sides
from lastro.analysis.model import FactorPairs, LevelEffect
from lastro.stats.contrasts import MeanComparison, compare
from lastro.stats.intervals import alpha_of
from lastro.stats.simultaneous import Pair

MOST_LEVELS = 40  # with more, only those with the reference: 200 levels have 19,900 pairs, which take a minute
LEAST_BLOCKS = 2  # the least for which a difference has an interval


def factor_pairs(
    data: MetricValues, effects: Sequence[LevelEffect], floor: float | None = None
) -> tuple[FactorPairs, ...]:
    """Compare the levels of each factor that varies: with its reference as in `effects`, and all others in pairs.

    Of a factor with more than MOST_LEVELS levels, only the comparisons with the reference are there.
    `floor` is the noise floor of one treatment against another, as a fraction."""
    if data.model is None:
        return ()
    wanted = {
        factor: [(b, a) for a, b in combinations(levels, 2)] if len(levels) <= MOST_LEVELS else []
        for factor, levels in data.factors.items()
    }
    known = [
        (factor, *pair, sides)
        for factor, of_factor in wanted.items()
        for pair, sides in zip(of_factor, data.sides(factor, of_factor), strict=True)
        if sides[0]
    ]
    comparisons = compare(data.model, [sides for *_, sides in known], data.confidence)
    means = {index: math.fsum(cell.values()) / len(cell) for index, cell in data.cells.items()}
    alpha = alpha_of(data.confidence)
    pairs: dict[str, dict[tuple[str, str], Pair]] = {factor: {} for factor in data.factors}
    for (factor, level, other, sides), comparison in zip(known, comparisons, strict=True):
        if comparison.error is not None:
            pairs[factor][level, other] = _pair(comparison, sides, means, alpha)
            pairs[factor][other, level] = _pair(comparison.reversed(), sides, means, alpha)
    return tuple(_of_factor(data, factor, pairs[factor], effects, means, floor) for factor in data.factors)


def _of_factor(
    data: MetricValues,
    factor: str,
    pairs: dict[tuple[str, str], Pair],
    effects: Sequence[LevelEffect],
    means: Mapping[int, float],
    floor: float | None,
) -> FactorPairs:
    own = {
        effect.level: effect for effect in effects if effect.factor == factor and effect.comparison.error is not None
    }
    reference = data.references[factor]
    sides = data.sides(factor, [(level, reference) for level in own])
    against = {
        level: _pair(effect.comparison, each, means, alpha_of(data.confidence))
        for (level, effect), each in zip(own.items(), sides, strict=True)
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
        aliases=data.aliases(factor),
    )


def _pair(comparison: MeanComparison, sides: Sides, means: Mapping[int, float], alpha: float) -> Pair:
    both = [math.fsum(weight * means[at] for at, weight in side.items()) for side in sides]
    return Pair(comparison, math.fsum(map(abs, both)) / 2, len(sides[0]), alpha)
