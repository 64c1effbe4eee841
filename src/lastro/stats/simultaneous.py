"""All pairs of groups that were measured in the same blocks, with intervals that hold together.

Values may be logarithms: then a pair is compared by the ratio of its geometric means, as the factors of group and block
then add up. Else it is compared by the difference of its means.

The critical value is Tukey's, for the model group + block. The error of a pair is the pooled one or that of its own
differences within blocks, whichever is larger: so a pair with a noisy group is not judged by the spread of quiet
groups. How often any interval of a family misses the truth was simulated (tests/known/test_simultaneous.py).

Source: Tukey (1953); Montgomery, Design and Analysis of Experiments (8th ed.), section 4.1."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from lastro.stats.intervals import Interval, sample_covariance, sample_mean, t_quantile
from lastro.stats.student import least_paired_p, without_rounding
from lastro.stats.studentized_range import range_quantile

MOST_BLOCKS = 1000  # beyond it, no number of blocks is named


@dataclass(frozen=True, slots=True)
class Pair:
    """One group against another: the ratio of their means, or their difference in the unit of the values.

    `interval` holds together with those of all pairs of the `n_groups` groups. `error` is the standard error, of the
    logarithm where `relative`. `scale` is the size of the two means, with which a difference can be compared."""

    value: float
    interval: Interval
    relative: bool
    error: float
    scale: float
    n_blocks: int
    n_groups: int

    @property
    def differs(self) -> bool:
        """True if the interval excludes a difference of zero, or a ratio of 1."""
        return not self._unproven and not self.interval.holds(1.0 if self.relative else 0.0)

    @property
    def distance(self) -> float:
        """The distance between the two in either order: a ratio as a logarithm, a difference in the values' unit."""
        return abs(math.log(self.value)) if self.relative else abs(self.value)

    @property
    def most(self) -> float:
        """The most by which either mean exceeds the other: a fraction of it for a ratio, else in the values' unit."""
        low, high = self.interval.low, self.interval.high
        return max(high, 1 / low) - 1 if self.relative else max(abs(low), abs(high))

    def alike(self, share: float) -> bool:
        """Return whether the whole interval lies within this fraction of the means, to either side of no difference."""
        return not self._unproven and self.most <= (share if self.relative else share * self.scale)

    def blocks_to_decide(self, share: float) -> int | None:
        """Return how many blocks, in all, would show that the means differ, or that they are alike within `share`.

        Value and spread are taken to stay as they are. None where `MOST_BLOCKS` would not be enough, or nothing
        varies."""
        if self.differs or self.alike(share):
            return self.n_blocks
        margin = math.log1p(share) if self.relative else share * self.scale
        wanted, one_block = max(self.distance, margin - self.distance), self.error * math.sqrt(self.n_blocks)
        if one_block == 0:
            return None

        def enough(n_blocks: int) -> bool:
            critical = critical_value(self.interval.confidence, self.n_groups, n_blocks)
            return critical * one_block / math.sqrt(n_blocks) < wanted

        n = bisect_left(range(MOST_BLOCKS + 1), True, lo=self.n_blocks + 1, key=enough)
        return n if n <= MOST_BLOCKS else None

    @property
    def _unproven(self) -> bool:
        """True if nothing varied, in so few blocks that a test of signs could not show a difference either."""
        least = math.comb(self.n_groups, 2) * least_paired_p(self.n_blocks)
        return self.error == 0 and least >= 1 - self.interval.confidence


def critical_value(confidence: float, n_groups: int, n_blocks: int) -> float:
    """Return the critical value for all pairs together, in standard errors of a difference; for two, Student's."""
    df = (n_groups - 1) * (n_blocks - 1)
    if n_groups == 2:
        return t_quantile(confidence, df)
    return range_quantile(confidence, n_groups, df) / math.sqrt(2)


def all_pairs(
    groups: Mapping[str, Sequence[float]], confidence: float, *, logs: bool = False
) -> dict[tuple[str, str], Pair]:
    """Return {(group, other): group against other}, in both orders; groups[name][i] was measured in block i.

    With `logs` the values are natural logarithms, and the pairs are ratios.

    Raises: ValueError unless there are two groups or more, all of the same two blocks or more."""
    sizes = {len(values) for values in groups.values()}
    if len(groups) < 2 or len(sizes) > 1 or min(sizes) < 2:
        raise ValueError(
            f"{len(groups)} groups of {sorted(sizes)} blocks: two groups in the same two blocks are needed"
        )
    left = residuals(list(groups.values()))
    pooled = math.sqrt(2 * mean_square(left) / len(left[0]))
    critical = critical_value(confidence, len(groups), len(left[0]))
    found = {}
    for name, other in permutations(groups, 2):
        means = [sample_mean(groups[group]) for group in (name, other)]
        size = max(abs(value) for group in (name, other) for value in groups[group])
        gaps = without_rounding([a - b for a, b in zip(groups[name], groups[other], strict=True)], size)
        gap, error = sample_mean(gaps), math.sqrt(sample_covariance(gaps, gaps) / len(gaps))
        error = max(error, pooled)
        ends = gap, gap - critical * error, gap + critical * error
        value, low, high = map(_exp, ends) if logs else ends
        scale = 1.0 if logs else sample_mean([abs(mean) for mean in means])
        found[name, other] = Pair(value, Interval(low, high, confidence), logs, error, scale, len(gaps), len(groups))
    return found


def _exp(value: float) -> float:
    """Return the exponential, kept within the range of a float and above zero."""
    return math.exp(min(700.0, max(-700.0, value)))


def residuals(groups: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the residual of each group in each block, after subtracting the means of its group and its block.

    It is zero where it is rounding alone."""
    means = [sample_mean(group) for group in groups]
    blocks = [sample_mean(column) for column in zip(*groups, strict=True)]
    grand, size = sample_mean(means), max(abs(value) for group in groups for value in group)
    left = [
        [value - mean - block + grand for value, block in zip(group, blocks, strict=True)]
        for group, mean in zip(groups, means, strict=True)
    ]
    n = len(blocks)
    flat = without_rounding([value for group in left for value in group], size)
    return [flat[at : at + n] for at in range(0, len(flat), n)]


def mean_square(left: Sequence[Sequence[float]]) -> float:
    """Return the mean square of residuals of groups in blocks: (groups - 1) (blocks - 1) degrees of freedom."""
    df = (len(left) - 1) * (len(left[0]) - 1)
    return math.fsum(value**2 for values in left for value in values) / df
