"""The interval in which the next trial of a treatment will lie.

A confidence interval says where a mean lies; a prediction interval, where a new value will. The next trial, in another
block, differs from the mean by the noise of a trial and by the effect of its block, and the mean itself is uncertain.
The trials of one treatment are in different blocks, so their own spread contains both. It is used alone: drawing it
towards that of other treatments, as comparisons do, would promise too much for a noisy one.

Source: Hahn and Meeker, Statistical Intervals (1991), chapter 4. The ratio of the next campaign is
`contrasts.replicated`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lastro.stats.contrasts import NO_SPREAD, ONE_VALUE, exponential
from lastro.stats.intervals import Estimate, Interval, alpha_of, describe, t_quantile
from lastro.stats.notes import Note
from lastro.stats.resolution import rounding, rounding_of_mean


def next_trial(
    values: Sequence[float], confidence: float, step: float = 0.0, *, log: bool = False, non_negative: bool = False
) -> Estimate:
    """Predict one more value, from values that a tool reads in steps of `step`; with `log`, on their logarithms.

    Two equal readings do not show how much they vary. If values are `non_negative` by nature, the interval ends at
    zero. Raises: ValueError when there are no values."""
    found = describe([math.log(value) for value in values] if log else values, confidence)
    value, n = exponential(found.mean) if log else found.mean, found.n
    if found.sd is None:
        return Estimate(value, None, n, Note(ONE_VALUE))
    if found.sd == 0 and (n == 2 or (step == 0 and _may_differ_next(n, alpha_of(confidence)))):
        return Estimate(value, None, n, Note(NO_SPREAD))
    step = step / value if log else step
    half = t_quantile(confidence, n - 1) * found.sd * math.sqrt(1 + 1 / n)
    half += rounding_of_mean(found.sd, step, n, confidence) + rounding(found.sd, step)  # of the mean, and of the value
    low, high = found.mean - half, found.mean + half
    if log:
        low, high = exponential(low), exponential(high)
    interval = Interval(low, high, confidence)
    return Estimate(value, interval.above_zero() if non_negative else interval, n)


def _may_differ_next(n: int, alpha: float) -> bool:
    """Return whether n equal values and then another one could have a probability of alpha or more.

    If a value comes with probability q, that is q^n (1 - q), which is largest for q = n / (n + 1)."""
    return (n / (n + 1)) ** n / (n + 1) >= alpha
