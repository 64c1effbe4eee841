"""The exact null distribution of Kendall's rank correlation, by counting: for the test and interval of a drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXACT_PAIRS = 50  # points up to which the distribution is exact


def at_ranks(values: NDArray[np.float64], *ranks: int) -> tuple[float, ...]:
    """Return the values of these ranks, from 1, without sorting the rest."""
    import numpy as np

    places = [rank - 1 for rank in ranks]
    return tuple(np.partition(values, sorted(set(places)))[places].tolist())


def median_of(values: NDArray[np.float64]) -> float:
    """Return the middle value, or the mean of the two in the middle."""
    low, high = at_ranks(values, (values.size + 1) // 2, values.size // 2 + 1)
    return (low + high) / 2


def exact_two_sided(cdf: Sequence[float], statistic: int) -> float:
    """Return twice the smaller tail, with the statistic itself in both; at most 1."""
    below = cdf[statistic - 1] if statistic else 0.0
    return min(1.0, 2 * min(cdf[statistic], 1 - below))


def normal_two_sided(distance: float, variance: float) -> float:
    """Return the two-sided p of an integer statistic this far from its mean, with continuity correction."""
    if variance <= 0:
        return 1.0
    return min(1.0, 2 * NormalDist().cdf(-max(0.0, abs(distance) - 0.5) / math.sqrt(variance)))


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
    """Return (k, achieved confidence) for the largest k whose order statistics bracket the slope of n points.

    They are the k-th least and the k-th greatest of the n (n - 1) / 2 slopes between the points. k = 0 when not even
    the outermost bracket it with the requested confidence; the confidence is then theirs. `variance` is that of
    Kendall's S. Source: Sen, J. Am. Stat. Assoc. 63 (1968) 1379-1389; Hollander and Wolfe (1999), section 9.3."""
    if n > EXACT_PAIRS:
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        return max(1, math.floor(n * (n - 1) / 4 + 0.5 - z * math.sqrt(variance / 4))), confidence
    cdf = discordant_cdf(n)
    # The slack keeps a tail of exactly (1 - confidence) / 2 from being lost to rounding.
    k = sum(1 for p in cdf if 2 * p <= (1 - confidence) * (1 + 1e-12))
    return k, 1 - 2 * cdf[max(k, 1) - 1]
