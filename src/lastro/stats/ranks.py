"""Tests and effects from ranks: the distribution-free counterparts of the tests of Student and Welch.

Source: Hollander and Wolfe, Nonparametric Statistical Methods, 2nd edition (1999), chapters 3 and 4. Small samples
get exact p-values, given the ties; larger ones the normal approximation with corrections for ties and continuity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from lastro.stats.intervals import Interval
from lastro.stats.rank_distributions import (
    EXACT_BOTH,
    EXACT_PAIRS,
    at_ranks,
    exact_two_sided,
    mann_whitney_order,
    median_of,
    mid_ranks,
    normal_two_sided,
    rank_sum_cdf,
    signed_rank_cdf,
    signed_rank_order,
    tie_term,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RankTest:
    """A statistic and its two-sided p, both None when there is no test; `n` counts the values that took part."""

    statistic: float | None
    p: float | None
    n: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shift:
    """The shift of one distribution against another, in the unit of the metric, by Hodges and Lehmann.

    The confidence in `interval` is the one achieved, at least the one requested: ranks come in steps. None where even
    the widest interval falls short of it."""

    value: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Delta:
    """Cliff's delta: P(a > b) - P(a < b), from -1 to 1; 0 when neither sample tends to be greater."""

    value: float
    interval: Interval | None


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> RankTest:
    """Test whether two samples share one distribution; the statistic counts pairs with a > b, ties as a half.

    The samples are independent. Exact, given the ties, up to 50 values in all. Source: Hollander and Wolfe (1999),
    section 4.1."""
    n = (len(a), len(b))
    if 0 in n:
        return RankTest(None, None, n)
    ranks = mid_ranks([*a, *b])
    u = math.fsum(ranks[: n[0]]) - n[0] * (n[0] + 1) / 2
    total = sum(n)
    if total <= EXACT_BOTH:
        doubled = [round(2 * rank) for rank in ranks]
        cdf = rank_sum_cdf(tuple(sorted(doubled)), n[0])
        return RankTest(u, exact_two_sided(cdf, sum(doubled[: n[0]])), n)
    variance = n[0] * n[1] / 12 * (total + 1 - tie_term(ranks) / (total * (total - 1)))
    return RankTest(u, normal_two_sided(u - n[0] * n[1] / 2, variance), n)


def wilcoxon_signed_rank(a: Sequence[float], b: Sequence[float]) -> RankTest:
    """Test whether the differences a[i] - b[i] within blocks are symmetric about zero.

    The statistic is V, the rank sum of the positive ones. Differences of zero are left out, and `n` counts the rest.
    Exact, given the ties, up to 50 differences. Source: Hollander and Wolfe (1999), section 3.1.

    Raises: ValueError when the samples differ in length."""
    differences = [x - y for x, y in zip(a, b, strict=True) if x != y]
    n = len(differences)
    if n == 0:
        return RankTest(None, None, (0,))
    ranks = mid_ranks([abs(difference) for difference in differences])
    v = math.fsum(rank for rank, difference in zip(ranks, differences, strict=True) if difference > 0)
    if n <= EXACT_PAIRS:
        cdf = signed_rank_cdf(tuple(sorted(round(2 * rank) for rank in ranks)))
        return RankTest(v, exact_two_sided(cdf, round(2 * v)), (n,))
    variance = (n * (n + 1) * (2 * n + 1) - tie_term(ranks) / 2) / 24
    return RankTest(v, normal_two_sided(v - n * (n + 1) / 4, variance), (n,))


def hodges_lehmann(a: Sequence[float], b: Sequence[float], confidence: float) -> Shift:
    """Return the shift a - b of two independent samples: the median of all differences, with Moses' interval.

    Source: Hollander and Wolfe (1999), sections 4.2 and 4.3. Raises: ValueError when a sample is empty."""
    n = (len(a), len(b))
    if 0 in n:
        raise ValueError("there are no values, so no shift")
    import numpy as np

    differences = np.subtract.outer(np.asarray(a, dtype=float), np.asarray(b, dtype=float)).ravel()
    return _shift(differences, mann_whitney_order(*n, confidence))


def paired_hodges_lehmann(a: Sequence[float], b: Sequence[float], confidence: float) -> Shift:
    """Return the shift a - b within blocks: the median of the differences' Walsh averages, with Tukey's interval.

    Source: Hollander and Wolfe (1999), sections 3.2 and 3.3.

    Raises: ValueError when the samples are empty or differ in length."""
    differences = [x - y for x, y in zip(a, b, strict=True)]
    if not differences:
        raise ValueError("there are no values, so no shift")
    import numpy as np

    n = len(differences)
    first, second = np.triu_indices(n)
    walsh = (np.array(differences)[first] + np.array(differences)[second]) / 2
    return _shift(walsh, signed_rank_order(n, confidence))


def cliffs_delta(a: Sequence[float], b: Sequence[float], confidence: float) -> Delta:
    """Return Cliff's delta of two independent samples, with Newcombe's interval, which does not vanish at -1 and 1.

    For samples from the same blocks the interval is wider than necessary: it ignores what they share.

    Sources: Cliff, Dominance statistics, Psychological Bulletin 114 (1993) 494-509; the interval is method 5 of
    Newcombe, Statistics in Medicine 25 (2006) 559-573, for P(a > b), of which delta is a linear function.

    Raises: ValueError when a sample is empty."""
    n = (len(a), len(b))
    if 0 in n:
        raise ValueError("there are no values, so no delta")
    theta = (math.fsum(mid_ranks([*a, *b])[: n[0]]) - n[0] * (n[0] + 1) / 2) / (n[0] * n[1])
    if min(n) < 2:
        return Delta(2 * theta - 1, None)
    z2 = NormalDist().inv_cdf((1 + confidence) / 2) ** 2
    low, high = (_newcombe_end(theta, end, n, z2) for end in (0.0, 1.0))
    return Delta(2 * theta - 1, Interval(2 * low - 1, 2 * high - 1, confidence))


def _shift(all_shifts: NDArray[np.float64], order: tuple[int, float]) -> Shift:
    k, achieved = order
    if k == 0:
        return Shift(median_of(all_shifts), None)
    low, high = at_ranks(all_shifts, k, all_shifts.size + 1 - k)
    return Shift(median_of(all_shifts), Interval(low, high, achieved))


def _newcombe_end(theta: float, limit: float, n: tuple[int, int], z2: float) -> float:
    """Return the t between `theta` and `limit` at which (theta - t)^2 is z2 times the variance at t, by bisection."""
    spare = sum(n) / 2 - 1

    def too_near(t: float) -> bool:
        variance = t * (1 - t) * (1 + spare * ((1 - t) / (2 - t) + t / (1 + t))) / (n[0] * n[1])
        return (theta - t) ** 2 <= z2 * variance

    near, far = theta, limit
    for _ in range(60):
        middle = (near + far) / 2
        near, far = (middle, far) if too_near(middle) else (near, middle)
    return (near + far) / 2
