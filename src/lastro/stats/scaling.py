"""Slope, intercept and bend of the least-squares line of means over sizes, each as weights for the means."""

from __future__ import annotations

import math
from collections.abc import Sequence


def slope_weights(x: Sequence[float]) -> list[float]:
    """Return the weights of the slope of the line over `x`, which varies.

    Source: Jain, The Art of Computer Systems Performance Analysis (1991), section 14.2."""
    centred = _centred(x)
    spread = math.fsum(a * a for a in centred)
    return [a / spread for a in centred]


def intercept_weights(x: Sequence[float]) -> list[float]:
    """Return the weights of the intercept, the value of the line at 0; `x` varies."""
    mean = math.fsum(x) / len(x)
    return [1 / len(x) - mean * weight for weight in slope_weights(x)]


def bend_weights(x: Sequence[float]) -> list[float]:
    """Return the weights of c in y = a + b x + c x^2, which is 0 if the means lie on a line.

    `x` has three distinct values or more. By the theorem of Frisch, Waugh and Lovell (1933, 1963), c is the slope of y
    over the residuals of a linear fit of x^2 over x."""
    centred = _centred(x)
    squares = _centred([a * a for a in centred])
    slope = math.fsum(a * b for a, b in zip(slope_weights(x), squares, strict=True))
    residuals = [square - slope * a for square, a in zip(squares, centred, strict=True)]
    spread = math.fsum(a * a for a in residuals)
    return [a / spread for a in residuals]


def _centred(x: Sequence[float]) -> list[float]:
    mean = math.fsum(x) / len(x)
    return [a - mean for a in x]
