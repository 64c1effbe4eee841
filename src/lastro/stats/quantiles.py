"""Quantiles, only where the sample is large enough to estimate them. Pure Python: the trial code imports this."""

from __future__ import annotations

import math
from collections.abc import Sequence


def least_n_for(q: float, confidence: float = 0.95) -> int:
    """Return the least sample size whose maximum lies above the q-quantile with this confidence.

    The maximum of n independent samples is below the q-quantile with probability q**n. So the result is the least n
    with 1 - q**n >= confidence: 59 for p95, 299 for p99, 2,995 for p99.9. A smaller sample may have no value beyond the
    quantile. Source: David and Nagaraja, Order Statistics (2003), section 7.1 (Wilks 1941).

    Raises: ValueError unless 0 < q < 1 and 0 < confidence < 1."""
    if not (0 < q < 1 and 0 < confidence < 1):
        raise ValueError(f"q = {q} and confidence = {confidence} must both lie between 0 and 1")
    # The subtraction prevents a rounding error from lifting log(1 - 0.95) / log(q) to the next integer.
    return max(1, math.ceil(math.log1p(-confidence) / math.log(q) - 1e-9))


def quantile(values: Sequence[float], q: float) -> float:
    """Return the q-quantile of `values`, in their unit, by linear interpolation between order statistics.

    Source: definition 7 of Hyndman and Fan (1996), the default of R and of numpy.

    Raises: ValueError when there are no values."""
    if not values:
        raise ValueError("there are no values, so no quantile")
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def quantile_if_estimable(values: Sequence[float], q: float, confidence: float = 0.95) -> float | None:
    """Return the q-quantile; None if the sample is smaller than `least_n_for` requires.

    A low quantile requires the same sample size as its mirror image: p1 the same as p99."""
    if len(values) < least_n_for(max(q, 1 - q), confidence):
        return None
    return quantile(values, q)
