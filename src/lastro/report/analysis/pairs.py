"""Every pair of levels of a factor, with the other factors removed, for factors of three to eight levels."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from lastro.report.analysis.measured import Measured
from lastro.report.analysis.model import LevelPairs
from lastro.stats.comparisons import games_howell, tukey_from_model
from lastro.stats.residual_checks import brown_forsythe

LEAST_LEVELS, MOST_LEVELS = 3, 8
_LEAST_BLOCKS = 3


def level_pairs(data: Measured) -> tuple[LevelPairs, ...]:
    """One for each factor that has as many levels, and enough blocks in which all of them have values."""
    found = []
    for factor, levels in data.factors.items():
        if LEAST_LEVELS <= len(levels) <= MOST_LEVELS:
            groups = level_means(data, factor)
            if len({value for group in groups.values() for value in group}) > 1:
                found.append(_compared(factor, groups, data.confidence))
    return tuple(found)


def _compared(factor: str, groups: Mapping[str, Sequence[float]], confidence: float) -> LevelPairs:
    """By Tukey, with the blocks in the model, unless the levels' variances differ (Brown and Forsythe)."""
    means = {level: _mean(values) for level, values in groups.items()}
    n_blocks = len(next(iter(groups.values())))
    _, p = brown_forsythe(list(groups.values()))
    if p is not None and p < 1 - confidence:
        return LevelPairs(factor, "games-howell", n_blocks, means, games_howell(groups, confidence))
    df = (len(groups) - 1) * (n_blocks - 1)
    square = _interaction_square(groups, means) / df
    comparisons = tukey_from_model(means, dict.fromkeys(means, n_blocks), square, df, confidence)
    return LevelPairs(factor, "tukey-hsd", n_blocks, means, comparisons)


def _interaction_square(groups: Mapping[str, Sequence[float]], means: Mapping[str, float]) -> float:
    """What is left of every level's mean in every block once its level and its block are taken away, squared."""
    blocks = [_mean(column) for column in zip(*groups.values(), strict=True)]
    grand = _mean(list(means.values()))
    return math.fsum(
        (value - means[level] - block + grand) ** 2
        for level, values in groups.items()
        for value, block in zip(values, blocks, strict=True)
    )


def level_means(data: Measured, factor: str) -> dict[str, list[float]]:
    """{level: its mean in each block}, over those combinations of the other factors in which every level was measured;

    empty with fewer than three blocks in which all have one. What a combination does to all of its levels is removed
    first, so that a lost trial does not shift the mean of its level."""
    levels = data.factors[factor]
    combinations = [at for at in data.combinations(factor, {}) if len(at) == len(levels)]
    if not combinations:
        return {}
    centres = [_mean([_mean(list(data.cells[index].values())) for index in at.values()]) for at in combinations]
    sums: dict[str, dict[int, list[float]]] = {level: defaultdict(list) for level in levels}
    for at, centre in zip(combinations, centres, strict=True):
        for level, index in at.items():
            for block, value in data.cells[index].items():
                sums[level][block].append(value - centre)
    blocks = sorted(set.intersection(*(set(by_block) for by_block in sums.values())))
    if len(blocks) < _LEAST_BLOCKS:
        return {}
    grand = _mean(centres)
    return {level: [grand + _mean(by_block[block]) for block in blocks] for level, by_block in sums.items()}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
