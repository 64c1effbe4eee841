"""Intervals of quantiles from order statistics: valid for every continuous distribution.

Source: David and Nagaraja, Order Statistics (2003), section 7.1. Which ranks bracket the quantile depends on n alone,
never on the values, so the confidence is exact; it comes in steps, and the interval holds the achieved one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lastro.stats.intervals import Interval
from lastro.stats.notes import Note, steps_too_coarse
from lastro.stats.quantiles import least_n_for, quantile

NOT_ESTIMABLE = "not estimable: n = {n}, needs {needed}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value of `n` trials with its interval, in the unit of the metric. `absent_because` explains what is None.

    The confidence in `interval` is the one achieved, at least the one requested. `at_least`: the value is only a lower
    bound (`stats.censored`)."""

    value: float | None
    interval: Interval | None
    n: int
    absent_because: Note | None = None
    at_least: bool = False


def median_interval(values: Sequence[float], confidence: float) -> Estimate:
    """Return the median with an interval from the k-th least to the k-th greatest value.

    k is the largest with the requested confidence; there is none for n <= 5 at 95 %. Source: David and Nagaraja (2003),
    section 7.1. Raises: ValueError when there are no values."""
    from scipy.special import bdtr

    n = len(values)
    median = quantile(values, 0.5)
    k = sum(1 for below in range((n + 1) // 2) if 2 * float(bdtr(below, n, 0.5)) <= (1 - confidence) * (1 + 1e-12))
    if k == 0:
        return Estimate(median, None, n, steps_too_coarse(n, _range_confidence(n, 0.5), confidence))
    ordered = sorted(values)
    achieved = 1 - 2 * float(bdtr(k - 1, n, 0.5))
    return Estimate(median, Interval(ordered[k - 1], ordered[-k], achieved), n)


def quantile_interval(values: Sequence[float], q: float, confidence: float) -> Estimate:
    """Return the q-quantile between two order statistics: those fewest ranks apart with the requested confidence.

    Not estimable, with neither value nor interval, below `quantiles.least_n_for`: 299 values for p99, 2,995 for p99.9
    at 95 %. Source: David and Nagaraja (2003), section 7.1.

    Raises: ValueError unless 0 < q < 1 and 0 < confidence < 1."""
    n, needed = len(values), least_n_for(max(q, 1 - q), confidence)
    if n < needed:
        return Estimate(None, None, n, Note(NOT_ESTIMABLE, n=n, needed=needed))
    ranks = _narrowest_ranks(n, q, confidence)
    if ranks is None:
        why = steps_too_coarse(n, _range_confidence(n, q), confidence)
        return Estimate(quantile(values, q), None, n, why)
    low, high, achieved = ranks
    ordered = sorted(values)
    return Estimate(quantile(values, q), Interval(ordered[low - 1], ordered[high - 1], achieved), n)


def _range_confidence(n: int, q: float) -> float:
    """Return the confidence with which the least and the greatest of n values bracket the q-quantile."""
    return 1 - q**n - (1 - q) ** n


def _narrowest_ranks(n: int, q: float, confidence: float) -> tuple[int, int, float] | None:
    """Return (low, high, achieved): ranks from 1, fewest apart; among equals, those with the greatest confidence.

    With B values below the quantile, the low-th value is below it and the high-th above when low <= B < high."""
    import numpy as np
    from scipy.special import bdtr

    below = bdtr(np.arange(n), n, q)
    high = np.searchsorted(below, (below + confidence) * (1 - 1e-12)) + 1
    low = np.arange(1, n + 1)
    possible = high <= n
    if not possible.any():
        return None
    low, high = low[possible], high[possible]
    achieved = below[high - 1] - below[low - 1]
    best = np.lexsort((-achieved, high - low))[0]
    return int(low[best]), int(high[best]), float(achieved[best])
