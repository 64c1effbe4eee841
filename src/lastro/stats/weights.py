"""Weights {cell: weight} of sums and differences of weighted sums, and of the least-squares line of means."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def minus(of: Mapping[K, float], to: Mapping[K, float]) -> dict[K, float]:
    """Return the weights of the difference of two weighted sums: `of` minus `to`."""
    return weighted_sum([(of, 1.0), (to, -1.0)])


def weighted_sum(terms: Iterable[tuple[Mapping[K, float], float]]) -> dict[K, float]:
    """Return the weights of a sum of weighted sums; `terms` are (weights, factor)."""
    total: dict[K, list[float]] = {}
    for weights, factor in terms:
        for key, weight in weights.items():
            total.setdefault(key, []).append(factor * weight)
    return {key: math.fsum(parts) for key, parts in total.items()}


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
