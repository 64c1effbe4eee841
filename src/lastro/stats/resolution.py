"""Readings at the resolution of a tool: their step, and how far rounding may have moved a mean.

A tool that prints two decimals shows 42.00 for any value from 41.995 to 42.005. If the noise is smaller than half of
such a step, readings are equal more often than values, and their spread understates the uncertainty of the mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from lastro.stats._projections import Floats

N = TypeVar("N", float, "Floats")

_MOST_DIGITS = 12  # a number with more significant digits was computed, not read from a tool


def resolution(values: Sequence[float]) -> float:
    """Return the step of readings with a fixed number of decimals: 0.01 for 41.25 and 41.3, 1 for whole numbers.

    It is 0 if a value has so many digits that it must have been computed, and if all values are zero."""
    decimals = 0
    for value in dict.fromkeys(values):
        _, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
        if len(digits) > _MOST_DIGITS or not isinstance(exponent, int):
            return 0.0
        decimals = max(decimals, -exponent)
    return 10.0**-decimals if any(values) else 0.0


def rounding(sd: N, step: N) -> N:
    """Return the distance by which rounding may have moved a mean: half a step if the noise `sd` is less, else 0."""
    return step / 2 * (sd < step / 2)


def rounding_of_mean(sd: float, step: float, n: int, confidence: float) -> float:
    """Return the distance by which rounding may have moved the mean of `n` readings with standard deviation `sd`.

    It is as in `rounding`, but may exceed half a step for few readings, which may be equal by chance."""
    half = rounding(sd, step)
    return half * equal_readings(n, confidence) if half else 0.0


@cache
def equal_readings(n: int, confidence: float) -> float:
    """Return how many half steps the true mean may be away from `n` equal readings: at 95 %, 1 for 5 readings or more.

    At any larger distance, no normal noise makes the readings equal with a probability above 1 - confidence. If the
    mean is m half steps away, equal readings are most probable with noise of the variance
    m / (2 log((m + 1) / (m - 1))), in squared steps."""
    of_one: float = (1 - confidence) ** (1 / n)  # probability that one reading has the common value
    if of_one >= 0.5:  # just above one half step, the probability is less than this with any noise
        return 1.0
    from scipy.optimize import brentq

    def excess(m: float) -> float:
        noise = NormalDist(m / 2, math.sqrt(m / 2 / math.log((m + 1) / (m - 1))))
        return noise.cdf(0.5) - noise.cdf(-0.5) - of_one

    return float(brentq(excess, 1 + 1e-9, 2 / of_one))  # where `excess` is positive, and negative
