"""Pairwise comparisons of the levels of every factor, with simultaneous intervals for all factors of a metric."""

from __future__ import annotations

import math
from dataclasses import replace

from lastro.analysis.measured import Measured
from lastro.analysis.model import FactorPairs
from lastro.analysis.pairs import level_means
from lastro.stats.simultaneous import all_pairs

LEAST_BLOCKS = 2  # the least for which a difference has an interval


def joint_pairs(data: Measured, floor: float | None = None) -> tuple[FactorPairs, ...]:
    """Compare all pairs of levels of each factor that varies: Bonferroni over the factors, Tukey within each factor.

    Where all values of the metric are above zero, means are geometric and pairs are ratios; otherwise means are
    arithmetic and pairs are differences. `floor` is the noise floor of one treatment against another, as a fraction."""
    each = 1 - (1 - data.confidence) / max(1, len(data.factors))
    logs = min((value for _, _, value in data.trials()), default=0.0) > 0
    if logs:
        data = replace(data, cells={at: {b: math.log(v) for b, v in cell.items()} for at, cell in data.cells.items()})
    return tuple(_of_factor(data, factor, each, floor, logs) for factor in data.factors)


def _of_factor(data: Measured, factor: str, confidence: float, floor: float | None, logs: bool) -> FactorPairs:
    levels = tuple(level for level in data.factors[factor] if _n_blocks(data, factor, level) >= LEAST_BLOCKS)
    left_out = tuple(level for level in data.factors[factor] if level not in levels)
    cells = {at: cell for at, cell in data.cells.items() if data.levels[at][factor] in levels}
    data = replace(data, cells=cells, factors={**data.factors, factor: levels})
    strata = sum(len(at) == len(levels) for at in data.combinations(factor, {}))
    groups = level_means(data, factor, LEAST_BLOCKS) if len(levels) > 1 else {}
    reference = data.references[factor] if data.references[factor] in levels else next(iter(levels), "")
    return FactorPairs(
        factor=factor,
        reference=reference,
        levels=levels,
        pairs=all_pairs(groups, confidence, logs=logs) if groups else {},
        strata=strata,
        all_strata=data.planned_combinations(factor),
        left_out=left_out,
        floor=None if floor is None else floor / math.sqrt(max(1, strata)),
    )


def _n_blocks(data: Measured, factor: str, level: str) -> int:
    """Return the number of blocks in which this level was measured."""
    return len({block for at, cell in data.cells.items() if data.levels[at][factor] == level for block in cell})
