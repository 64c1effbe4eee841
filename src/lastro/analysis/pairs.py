"""Pairs of levels of every factor, averaged over the other factors. Pairs without the reference are one family."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

from lastro.analysis.metric_values import MetricValues, Sides
from lastro.analysis.model import FactorPairs, LevelEffect
from lastro.stats.contrasts import MeanComparison, compare
from lastro.stats.intervals import alpha_of
from lastro.stats.simultaneous import Pair

MOST_LEVELS = 40  # of a factor whose levels are compared in pairs: 200 levels have 19,900 pairs, which take a minute
LEAST_BLOCKS = 2  # for an interval of a difference


def factor_pairs(
    data: MetricValues, effects: Sequence[LevelEffect], floor: float | None = None
) -> tuple[FactorPairs, ...]:
    """Compare the levels of each factor that varies: with the reference level (`effects`), and the others in pairs.

    A factor with more than `MOST_LEVELS` levels has only the comparisons with the reference. `floor` is the noise floor
    of a comparison of two treatments, as a fraction. Empty if the metric has no model."""
    if data.model is None:
        return ()
    measured = []
    for factor, levels in data.factors.items():
        others = [level for level in levels if level != data.references[factor]]
        wanted = [(b, a) for a, b in combinations(others, 2)] if len(levels) <= MOST_LEVELS else []
        for (level, other), sides in zip(wanted, data.sides(factor, wanted), strict=True):
            if any(sides):
                measured.append((factor, level, other, sides))
    comparisons = compare(data.model, [sides for *_, sides in measured], data.confidence)
    means = {index: math.fsum(cell.values()) / len(cell) for index, cell in data.cells.items()}
    alpha = alpha_of(data.confidence)
    pairs: dict[str, dict[tuple[str, str], Pair]] = {factor: {} for factor in data.factors}
    for (factor, level, other, sides), comparison in zip(measured, comparisons, strict=True):
        if comparison.error is not None:
            pairs[factor][level, other] = _pair(comparison, sides, means, alpha)
            pairs[factor][other, level] = _pair(comparison.reversed(), sides, means, alpha)
    result = []
    for factor, levels in data.factors.items():
        reference = data.references[factor]
        of_factor = [effect for effect in effects if effect.factor == factor and effect.comparison.error is not None]
        sides_of_effects = data.sides(factor, [(effect.level, reference) for effect in of_factor])
        with_reference = {
            effect.level: _pair(effect.comparison, sides, means, alpha)
            for effect, sides in zip(of_factor, sides_of_effects, strict=True)
        }
        # Levels without an effect are left out of both kinds of comparison.
        compared = {reference, *with_reference} if with_reference else set()
        result.append(
            FactorPairs(
                factor=factor,
                reference=reference,
                levels=tuple(level for level in levels if level in compared),
                effects=with_reference,
                pairs={both: pair for both, pair in pairs[factor].items() if compared.issuperset(both)},
                strata=max((pair.strata for pair in with_reference.values()), default=0),
                all_strata=data.planned_combinations(factor),
                left_out=tuple(level for level in levels if level not in compared) if compared else (),
                floor=floor,
                aliases=data.aliases(factor),
            )
        )
    return tuple(result)


def _pair(comparison: MeanComparison, sides: Sides, means: Mapping[int, float], alpha: float) -> Pair:
    """Return the pair of two compared levels; its scale is the average of the absolute values of their means."""
    of_sides = [math.fsum(weight * means[at] for at, weight in side.items()) for side in sides]
    return Pair(comparison, math.fsum(map(abs, of_sides)) / 2, len(sides[0]), alpha)
