"""Mean, standard deviation and Student's interval of the values of one metric, one value per trial.

Values may be censored. A search that reached the end of its range without an answer gives a lower bound
(right-censored). A search that found an answer gives an interval of its grid, between whose ends the truth lies
(interval-censored). The mean of lower bounds is a lower bound of the mean, and has no interval: the values do not show
how far above it the truth lies. Source: Helsel, Statistics for Censored Environmental Data (2nd ed., 2012)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal

from lastro.stats.notes import UNBOUNDED, UNBOUNDED_BY_BASELINE, ZERO_BASELINE, ZERO_DENOMINATOR, Note
from lastro.stats.resolution import rounding_of_mean

if TYPE_CHECKING:
    from lastro.stats._projections import Floats

RATIO_IS_BOUND = "one of the means is only a lower bound, so the ratio is also only a bound"
BOTH_ARE_BOUNDS = "both means are only lower bounds, so their ratio is not known"

# The truth is at least the value (≥), or at most the value (≤); empty if the value is not a bound.
Bound = Literal["", "≥", "≤"]
Pairing = Literal["paired", "unpaired"]  # whether values of several cells are compared block by block


def alpha_of(confidence: float) -> float:
    """Return the level of significance that belongs to a confidence: exactly 0.05 for 0.95."""
    return round(1 - confidence, 12)


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval, in the unit of its estimate; `confidence` is between 0 and 1."""

    low: float
    high: float
    confidence: float

    @classmethod
    def around(cls, value: float, half_width: float, confidence: float) -> Interval:
        return cls(value - half_width, value + half_width, confidence)

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def has_middle(self, value: float) -> bool:
        """Return whether `value` is the middle of the interval, so that it can be written as value ± half width."""
        return abs(self.high - value - (value - self.low)) <= 1e-9 * max(self.half_width, abs(value))

    def above_zero(self) -> Interval:
        """Return the part of the interval that is not negative, for a quantity that cannot be negative."""
        return replace(self, low=max(0.0, self.low), high=max(0.0, self.high))

    def mapped(self, function: Callable[[float], float]) -> Interval:
        """Return the interval of a monotonic function of the quantity."""
        low, high = sorted((function(self.low), function(self.high)))
        return Interval(low, high, self.confidence)


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimated value and its interval: of a mean, a weighted sum of means, a ratio of means, or a new value."""

    value: float | None
    interval: Interval | None
    # Number of blocks if `pairing` is "paired", else of values, or of the hosts or draws that the estimate comes from.
    n: int
    absent_because: Note | None = None  # the reason if the value or the interval is None
    bound: Bound = ""  # if set, the truth is only known to be at least, or at most, the value
    # Of the hypothesis that the value is zero; for a ratio: that it is 1, or that its numerator is zero.
    p: float | None = None
    df: float | None = None  # degrees of freedom of `p`
    pairing: Pairing = "unpaired"
    # For a ratio to a baseline, the numbers of values of the treatment and of the baseline.
    sides: tuple[int, int] = (0, 0)

    @property
    def unbounded(self) -> bool:
        """True if a ratio has no interval, or no value, because its denominator may be zero."""
        why = self.absent_because
        return why is not None and why.message in (ZERO_DENOMINATOR, UNBOUNDED, ZERO_BASELINE, UNBOUNDED_BY_BASELINE)

    @property
    def differs(self) -> bool:
        """True if the interval of a ratio excludes 1, that is, no difference."""
        return self.interval is not None and not self.interval.holds(1.0)

    @property
    def spread(self) -> tuple[float, float, float]:
        """The value, and the low and the high end of its interval, both of which must exist."""
        assert self.value is not None and self.interval is not None
        return self.value, self.interval.low, self.interval.high

    def above_zero(self) -> Estimate:
        """Return the estimate with the part of its interval that is not negative."""
        return self if self.interval is None else replace(self, interval=self.interval.above_zero())

    def mapped(self, function: Callable[[float], float]) -> Estimate:
        """Return the estimate of a monotonic function of the quantity."""
        value = None if self.value is None else function(self.value)
        return replace(self, value=value, interval=self.interval and self.interval.mapped(function))

    def without(self, why: Note) -> Estimate:
        """Return this estimate without its interval; `why` becomes `absent_because`."""
        return replace(self, interval=None, absent_because=why)


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of `n` values: mean, sample standard deviation, and interval of the mean; the last two None for n = 1.

    `bounded` counts the values that are only lower bounds. If there are any, the mean is only a lower bound, too, and
    `sd` and `interval` are None."""

    n: int
    mean: float
    sd: float | None
    interval: Interval | None
    bounded: int = 0


@cache
def t_quantile(confidence: float, df: float) -> float:
    """Return the two-sided critical value of Student's t: 2.776 for 0.95 and 4 degrees of freedom.

    `scipy.special` is imported here rather than `scipy.stats`, which takes several times as long."""
    from scipy.special import stdtrit

    return float(stdtrit(df, (1 + confidence) / 2))


def posterior_median(draws: Floats, alpha: float) -> Estimate | None:
    """Return the median of draws from a posterior, with the central interval of 1 - `alpha`; None if any is NaN."""
    import numpy

    if numpy.isnan(draws).any():
        return None
    low, middle, high = map(float, numpy.quantile(draws, (alpha / 2, 0.5, 1 - alpha / 2)))
    return Estimate(middle, Interval(low, high, 1 - alpha), len(draws))


def satterthwaite(parts: Sequence[float], df: Sequence[float]) -> float:
    """Return the degrees of freedom of a sum of independent variances `parts`, with degrees of freedom `df`.

    If all parts are zero, return the sum of `df`. Source: Satterthwaite, Biometrics Bulletin 2 (1946) 110."""
    if not any(parts):
        return float(sum(df))
    whole = sum(parts)
    # Square fractions instead of the parts, since squares of variances below 1e-154 would underflow.
    return 1 / sum((part / whole) ** 2 / part_df for part, part_df in zip(parts, df, strict=True))


def unit_of(*samples: Sequence[float]) -> float:
    """Return a power of two near the largest absolute value; 1 if all values are 0 or there are none.

    Values divided by this unit can be squared without overflow or underflow, and lose no digits."""
    largest = max((abs(value) for sample in samples for value in sample), default=0.0)
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest else 1.0


def sample_mean(values: Sequence[float]) -> float:
    """Return the mean, summed exactly, so that the mean of equal values is exactly their value.

    NaN for infinities of both signs, which a broken tool may report. Raises: ValueError without values."""
    if not values:
        raise ValueError("there are no values, so no mean")
    if math.inf in values and -math.inf in values:
        return math.nan
    return min(max(math.fsum(values) / len(values), min(values)), max(values))


def sample_covariance(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the sample covariance, with n - 1 as the divisor; for the same sequence twice, the sample variance.

    Values are centred first, so that large means cost no digits. Raises: ValueError for n < 2 or unequal lengths."""
    if len(first) < 2:
        raise ValueError("a covariance needs two values or more")
    mean_1 = sample_mean(first)
    if first is second:
        return math.fsum([(a - mean_1) * (a - mean_1) for a in first]) / (len(first) - 1)
    mean_2 = sample_mean(second)
    return math.fsum([(a - mean_1) * (b - mean_2) for a, b in zip(first, second, strict=True)]) / (len(first) - 1)


def describe(values: Sequence[float], confidence: float, step: float = 0.0, *, non_negative: bool = False) -> Summary:
    """Return n, mean, standard deviation and interval of `values`, whose resolution is `step` (0: exact).

    The interval is widened on both sides by the distance that rounding may have moved the mean. If values are
    `non_negative` by nature, it does not extend below zero.

    Raises: ValueError when there are no values."""
    n, mean = len(values), sample_mean(values)
    if n < 2:
        return Summary(n, mean, None, None)
    unit = unit_of(values)
    scaled = [value / unit for value in values]
    variance = sample_covariance(scaled, scaled)
    sd = unit * math.sqrt(variance)
    half = t_quantile(confidence, n - 1) * unit * math.sqrt(variance / n) + rounding_of_mean(sd, step, n, confidence)
    interval = Interval.around(mean, half, confidence)
    return Summary(n, mean, sd, interval.above_zero() if non_negative else interval)


def describe_bounded(
    values: Sequence[float],
    bounded: Sequence[bool],
    confidence: float,
    step: float = 0.0,
    *,
    widths: Sequence[float] = (),
    non_negative: bool = False,
) -> Summary:
    """Describe the values; if any is `bounded`, the mean is a lower bound without a standard deviation or an interval.

    Without bounded values, the result is as from `describe`. With `widths`, the true value i lies between values[i] and
    values[i] + widths[i] (interval censoring): the interval then covers both the interval of the lower ends and the
    interval of the upper ends. Raises: ValueError without values, or if the sequences differ in length."""
    n_bounded = sum(is_bound for _, is_bound in zip(values, bounded, strict=True))
    if widths and len(widths) != len(values):
        raise ValueError(f"{len(widths)} widths of {len(values)} values")
    summary = describe(values, confidence, step, non_negative=non_negative)
    lower = summary.interval
    if n_bounded:
        return replace(summary, sd=None, interval=None, bounded=n_bounded)
    if lower is None or not any(widths):
        return summary
    upper_ends = [value + width for value, width in zip(values, widths, strict=True)]
    upper = describe(upper_ends, confidence, step, non_negative=non_negative).interval
    assert upper is not None, "two values or more have an interval"
    return replace(summary, interval=Interval(min(lower.low, upper.low), max(lower.high, upper.high), confidence))


def ratio_of_bounded(ratio: Estimate, *, of: bool, to: bool) -> Estimate:
    """Return a ratio of means as a bound if its numerator (`of`) or its denominator (`to`) is only a lower bound.

    Both means are above zero. A bound has no interval. If both means are bounds, the ratio has no value."""
    if of and to:
        return replace(ratio, value=None, interval=None, absent_because=Note(BOTH_ARE_BOUNDS))
    if ratio.value is None or not (of or to):
        return ratio
    bound: Bound = "≥" if of else "≤"
    return replace(ratio, interval=None, bound=bound, absent_because=Note(RATIO_IS_BOUND))
