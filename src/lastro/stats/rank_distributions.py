"""Exact null distributions of rank statistics, by counting: the base of exact tests and distribution-free intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Up to these sizes the distributions are exact: all counts stay below 2**53, so doubles hold them without rounding.
EXACT_BOTH = 50
EXACT_PAIRS = 50


def mid_ranks(values: Sequence[float]) -> list[float]:
    """Return ranks from 1; tied values share their mean rank. Source: Hollander and Wolfe (1999), section 4.1."""
    from scipy.stats import rankdata

    return [float(rank) for rank in rankdata(values)]


def at_ranks(values: NDArray[np.float64], *ranks: int) -> tuple[float, ...]:
    """Return the values of these ranks, from 1, without sorting the rest."""
    import numpy as np

    places = [rank - 1 for rank in ranks]
    return tuple(np.partition(values, sorted(set(places)))[places].tolist())


def median_of(values: NDArray[np.float64]) -> float:
    """Return the middle value, or the mean of the two in the middle."""
    low, high = at_ranks(values, (values.size + 1) // 2, values.size // 2 + 1)
    return (low + high) / 2


def tie_term(ranks: Sequence[float]) -> float:
    """Return the sum of t^3 - t over groups of t tied ranks, by which ties lessen the variance of a rank sum."""
    return float(sum(size**3 - size for size in Counter(ranks).values()))


@lru_cache(maxsize=256)
def rank_sum_cdf(doubled_ranks: tuple[int, ...], m: int) -> tuple[float, ...]:
    """Return P(twice the sum of m of these ranks <= s) for s = 0, 1, …, every choice of m being equally likely.

    Ranks come doubled, so that those of ties are integers too: the distribution is exact given the ties."""
    import numpy as np

    counts = np.zeros((m + 1, sum(doubled_ranks) + 1))
    counts[0, 0] = 1
    for rank in doubled_ranks:
        counts[1:, rank:] += counts[:-1, :-rank].copy()
    return tuple((np.cumsum(counts[m]) / math.comb(len(doubled_ranks), m)).tolist())


@lru_cache(maxsize=256)
def signed_rank_cdf(doubled_ranks: tuple[int, ...]) -> tuple[float, ...]:
    """Return P(twice the sum of the positive ranks <= s) for s = 0, 1, …, all patterns of signs equally likely."""
    import numpy as np

    counts = np.zeros(sum(doubled_ranks) + 1)
    counts[0] = 1
    for rank in doubled_ranks:
        counts[rank:] += counts[:-rank].copy()
    return tuple((np.cumsum(counts) / 2.0 ** len(doubled_ranks)).tolist())


def exact_two_sided(cdf: Sequence[float], statistic: int) -> float:
    """Return twice the smaller tail, with the statistic itself in both; at most 1."""
    below = cdf[statistic - 1] if statistic else 0.0
    return min(1.0, 2 * min(cdf[statistic], 1 - below))


def normal_two_sided(distance: float, variance: float) -> float:
    """Return the two-sided p of an integer statistic this far from its mean, with continuity correction."""
    if variance <= 0:
        return 1.0
    return min(1.0, 2 * NormalDist().cdf(-max(0.0, abs(distance) - 0.5) / math.sqrt(variance)))


@lru_cache(maxsize=256)
def _mann_whitney_below(m: int, n: int) -> tuple[float, ...]:
    """Return P(U <= u) for u = 0, 1, …, without ties."""
    least = m * (m + 1)
    cdf = rank_sum_cdf(tuple(range(2, 2 * (m + n) + 1, 2)), m)
    return cdf[least::2][: m * n + 1]


def mann_whitney_order(m: int, n: int, confidence: float) -> tuple[int, float]:
    """Return (k, achieved confidence) for the largest k whose order statistics bracket the shift.

    They are the k-th least and the k-th greatest of the m n differences. k = 0 when not even the outermost bracket it
    with the requested confidence; the confidence is then theirs. Source: Hollander and Wolfe (1999), section 4.3
    (Moses)."""
    if m + n > EXACT_BOTH:
        return _normal_order(m * n / 2, m * n * (m + n + 1) / 12, confidence)
    return _exact_order(_mann_whitney_below(m, n), confidence)


def signed_rank_order(n: int, confidence: float) -> tuple[int, float]:
    """Return the same as `mann_whitney_order`, for the n (n + 1) / 2 Walsh averages of n differences.

    Source: Hollander and Wolfe (1999), section 3.3 (Tukey)."""
    if n > EXACT_PAIRS:
        return _normal_order(n * (n + 1) / 4, n * (n + 1) * (2 * n + 1) / 24, confidence)
    return _exact_order(signed_rank_cdf(tuple(range(2, 2 * n + 1, 2)))[::2], confidence)


def _exact_order(cdf: Sequence[float], confidence: float) -> tuple[int, float]:
    # The slack keeps a tail of exactly (1 - confidence) / 2 from being lost to rounding.
    k = sum(1 for p in cdf if 2 * p <= (1 - confidence) * (1 + 1e-12))
    return k, 1 - 2 * cdf[max(k, 1) - 1]


def _normal_order(mean: float, variance: float, confidence: float) -> tuple[int, float]:
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return max(1, math.floor(mean + 0.5 - z * math.sqrt(variance))), confidence


@lru_cache(maxsize=64)
def discordant_cdf(n: int) -> tuple[float, ...]:
    """Return P(D <= d) for d = 0, 1, … pairs out of order in n values without ties, all orders being equally likely.

    Source: Kendall, Rank Correlation Methods (1975), chapter 5."""
    import numpy as np

    shares = np.ones(1)
    for size in range(2, n + 1):
        shares = np.convolve(shares, np.full(size, 1 / size))
    return tuple(np.minimum(np.cumsum(shares), 1.0).tolist())


def kendall_order(n: int, variance: float, confidence: float) -> tuple[int, float]:
    """Return the same as `mann_whitney_order`, for the n (n - 1) / 2 slopes between n points.

    `variance` is that of Kendall's S. Source: Sen, J. Am. Stat. Assoc. 63 (1968) 1379-1389; Hollander and Wolfe (1999),
    section 9.3."""
    if n > EXACT_PAIRS:
        return _normal_order(n * (n - 1) / 4, variance / 4, confidence)
    return _exact_order(discordant_cdf(n), confidence)
