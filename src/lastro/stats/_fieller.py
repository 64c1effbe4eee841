"""Fieller's interval of a ratio a / b, widened because the rounding of readings may have moved a and b.

Source: Fieller, J. R. Stat. Soc. B 16 (1954) 175-185."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence


def ends_of_ratio(
    a: float, b: float, covariances: Sequence[float], critical: float, biases: Sequence[float]
) -> tuple[float, float] | None:
    """Return the lower and the upper end of the interval of a / b; None if it is unbounded.

    The interval contains the ratios r at which a - r b is not distinguishable from zero. `covariances` has the variance
    of a, the variance of b, and their covariance. `critical` is the critical value, in standard errors. `biases` has
    the distances by which rounding may have moved a and b."""
    var_a, var_b, cov = covariances

    def excess(r: float) -> float:
        """Return by how much |a - r b| exceeds what chance and rounding explain if its true value is zero."""
        spread = math.sqrt(max(0.0, var_a - 2 * r * cov + r * r * var_b))
        return abs(a - r * b) - critical * spread - biases[0] - abs(r) * biases[1]

    if abs(b) <= critical * math.sqrt(var_b) + biases[1]:
        return None
    square = b**2 - critical**2 * var_b
    linear = a * b - critical**2 * cov
    # Rounding errors can make the discriminant negative if the variances are zero or the pairs exactly proportional.
    root = math.sqrt(max(0.0, linear**2 - square * (a**2 - critical**2 * var_a)))
    low, high = (linear - root) / square, (linear + root) / square
    return (_widen(excess, low, -1), _widen(excess, high, 1)) if any(biases) else (low, high)


def _widen(excess: Callable[[float], float], end: float, side: int) -> float:
    """Return an end of the interval with biases: move the `end` of the interval without biases outwards.

    The result is a zero of `excess`. `side` is -1 for the lower end, and 1 for the upper end."""
    from scipy.optimize import brentq

    if excess(end) >= 0:  # biases are smaller than the rounding of floating-point numbers
        return end
    step = side * 1e-12 * max(1.0, abs(end))
    while excess(end + step) <= 0:
        step *= 2
    return float(brentq(excess, end, end + step))
