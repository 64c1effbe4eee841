"""The interval of the median from order statistics: valid for every continuous distribution.

Source: David and Nagaraja, Order Statistics (2003), section 7.1. Which ranks bracket the median depends on n alone,
never on the values, so the confidence is exact; it comes in steps, and the interval holds the achieved one."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.stats.intervals import Estimate, Interval
from lastro.stats.notes import steps_too_coarse
from lastro.stats.quantiles import quantile


def median_interval(values: Sequence[float], confidence: float) -> Estimate:
    """Return the median with an interval from the k-th least to the k-th greatest value.

    k is the largest with the requested confidence, and the interval has the one achieved; there is none for n <= 5 at
    95 %. Source: David and Nagaraja (2003), section 7.1. Raises: ValueError when there are no values."""
    from scipy.special import bdtr

    n = len(values)
    median = quantile(values, 0.5)
    k = sum(1 for below in range((n + 1) // 2) if 2 * float(bdtr(below, n, 0.5)) <= (1 - confidence) * (1 + 1e-12))
    if k == 0:
        return Estimate(median, None, n, steps_too_coarse(n, 1 - 2 * 0.5**n, confidence))
    ordered = sorted(values)
    achieved = 1 - 2 * float(bdtr(k - 1, n, 0.5))
    return Estimate(median, Interval(ordered[k - 1], ordered[-k], achieved), n)
