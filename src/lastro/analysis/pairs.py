"""Comparisons of all pairs of levels of a factor with three to eight levels, averaged over the other factors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations

from lastro.analysis.measured import Measured
from lastro.analysis.model import LevelPairs
from lastro.stats.adjust import holm
from lastro.stats.comparisons import PairComparison, tukey_from_model
from lastro.stats.differences import paired_difference
from lastro.stats.intervals import sample_mean
from lastro.stats.residual_checks import brown_forsythe
from lastro.stats.simultaneous import mean_square, residuals

LEAST_LEVELS, MOST_LEVELS = 3, 8
_LEAST_BLOCKS = 3
_ROUNDING = 1e-14  # relative to a mean: a smaller spread is a rounding error


def level_pairs(data: Measured) -> tuple[LevelPairs, ...]:
    """Compare the levels of each factor with three to eight levels and enough blocks that have values of all levels."""
    found = []
    for factor, levels in data.factors.items():
        if LEAST_LEVELS <= len(levels) <= MOST_LEVELS:
            groups = level_means(data, factor)
            if len({value for group in groups.values() for value in group}) > 1:
                found.append(_compared(factor, groups, data.confidence))
    return tuple(found)


def _compared(factor: str, groups: Mapping[str, Sequence[float]], confidence: float) -> LevelPairs:
    """Compare all pairs of levels by Tukey's method, with the blocks in the model.

    If the levels have different spreads, pairs are compared within blocks. The same is done if all residuals are zero,
    because Tukey's p would then be 0 for any number of blocks. Spreads are tested on the residuals after level and
    block (Brown and Forsythe): block effects are common to all levels and would hide a noisy level."""
    means = {level: sample_mean(values) for level, values in groups.items()}
    n_blocks = len(next(iter(groups.values())))
    left = residuals(list(groups.values()))
    left_over = max(abs(value) for values in left for value in values)
    _, p = brown_forsythe(left)
    if left_over <= _ROUNDING * max(map(abs, means.values())) or (p is not None and p < 1 - confidence):
        return LevelPairs(factor, "paired-holm", n_blocks, means, _pair_by_pair(groups, confidence))
    df = (len(groups) - 1) * (n_blocks - 1)
    comparisons = tukey_from_model(means, dict.fromkeys(means, n_blocks), mean_square(left), df, confidence)
    return LevelPairs(factor, "tukey-hsd", n_blocks, means, comparisons)


def _pair_by_pair(groups: Mapping[str, Sequence[float]], confidence: float) -> tuple[PairComparison, ...]:
    """Compare each pair by its own differences within blocks: p by Holm, intervals at Bonferroni's confidence."""
    pairs = list(combinations(groups, 2))
    each = 1 - (1 - confidence) / len(pairs)
    found = [paired_difference(groups[first], groups[second], each) for second, first in pairs]
    corrected = holm([one.p for one in found])
    return tuple(
        PairComparison(first, second, one.value, one.interval, p)
        for (second, first), one, p in zip(pairs, found, corrected, strict=True)
    )


def level_means(data: Measured, factor: str, least_blocks: int = _LEAST_BLOCKS) -> dict[str, list[float]]:
    """Return {level: [its mean in each block]}, over combinations of the other factors with every level measured.

    It is empty if fewer than `least_blocks` blocks have a mean for every level. The effect of each combination is
    removed first, so that a lost trial does not shift the mean of its level."""
    levels = data.factors[factor]
    combinations = [at for at in data.combinations(factor, {}) if len(at) == len(levels)]
    if not combinations:
        return {}
    centres = [
        sample_mean([sample_mean(list(data.cells[index].values())) for index in at.values()]) for at in combinations
    ]
    sums: dict[str, dict[int, list[float]]] = {level: defaultdict(list) for level in levels}
    for at, centre in zip(combinations, centres, strict=True):
        for level, index in at.items():
            for block, value in data.cells[index].items():
                sums[level][block].append(value - centre)
    blocks = sorted(set.intersection(*(set(by_block) for by_block in sums.values())))
    if len(blocks) < least_blocks:
        return {}
    grand = sample_mean(centres)
    return {level: [grand + sample_mean(by_block[block]) for block in blocks] for level, by_block in sums.items()}
