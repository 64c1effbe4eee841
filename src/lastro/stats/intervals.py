"""Mean, standard deviation and Student's interval of the values of one metric, one value per trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from lastro.stats.notes import UNBOUNDED, UNBOUNDED_BY_BASELINE, ZERO_BASELINE, ZERO_DENOMINATOR, Note
from lastro.stats.pairing import Pairing
from lastro.stats.resolution import rounding_of_mean

# How a value bounds the truth: the truth is at least it, or at most; empty: the value is exact.
Bound = Literal["", "≥", "≤"]


def alpha_of(confidence: float) -> float:
    """Return the level of significance that belongs to a confidence: exactly 0.05 for 0.95."""
    return round(1 - confidence, 12)


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval, in the unit of its estimate; `confidence` is between 0 and 1."""

    low: float
    high: float
    confidence: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def has_middle(self, value: float) -> bool:
        """Return whether the value is in the middle, so that the interval can be written as value ± half width."""
        return abs(self.high - value - (value - self.low)) <= 1e-9 * max(self.half_width, abs(value))

    def above_zero(self) -> Interval:
        """Return the part from zero up: the interval of a quantity that cannot be negative. It holds as often."""
        return replace(self, low=max(0.0, self.low), high=max(0.0, self.high))

    def mapped(self, function: Callable[[float], float]) -> Interval:
        """Return the interval of a monotonic function of the quantity."""
        low, high = sorted((function(self.low), function(self.high)))
        return Interval(low, high, self.confidence)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its interval: of a mean, of a weighted sum of means, of a ratio of two, or of a new value.

    `n` counts blocks when `paired`, else values. `absent_because` explains what is None. With a `bound`, the truth is
    known only to be at least, or at most, the value (`stats.censored`). `p` is that of the null hypothesis that the
    value (for a ratio: its numerator, or what exceeds 1) is zero, with `df` degrees of freedom. For a ratio to a
    baseline, `sides` counts the values of both."""

    value: float | None
    interval: Interval | None
    n: int
    absent_because: Note | None = None
    bound: Bound = ""
    p: float | None = None
    df: float | None = None
    pairing: Pairing = "unpaired"
    sides: tuple[int, int] = (0, 0)

    @property
    def unbounded(self) -> bool:
        """True if a ratio has no interval, or no value, because what it is divided by may be zero."""
        why = self.absent_because
        return why is not None and why.message in (ZERO_DENOMINATOR, UNBOUNDED, ZERO_BASELINE, UNBOUNDED_BY_BASELINE)

    @property
    def differs(self) -> bool:
        """True if the interval of a ratio excludes 1, that is, no difference."""
        return self.interval is not None and not self.interval.holds(1.0)

    def above_zero(self) -> Estimate:
        """Return the estimate of a quantity that cannot be negative: its interval ends at zero."""
        return self if self.interval is None else replace(self, interval=self.interval.above_zero())

    def mapped(self, function: Callable[[float], float]) -> Estimate:
        """Return the estimate of a monotonic function of the quantity."""
        value = None if self.value is None else function(self.value)
        return replace(self, value=value, interval=self.interval and self.interval.mapped(function))

    def without(self, why: Note) -> Estimate:
        """Return the value alone, and why it has no interval."""
        return replace(self, interval=None, absent_because=why)


@dataclass(frozen=True, slots=True)
class Summary:
    """`n` values: their mean, sample standard deviation (None for n = 1) and interval of the mean (None for n = 1).

    `bounded` of them are only lower bounds: if any, so is the mean, without deviation and interval
    (`stats.censored`)."""

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


def satterthwaite(parts: Sequence[float], df: Sequence[float]) -> float:
    """Return the degrees of freedom of a sum of independent variances, parts[i] with df[i] degrees of freedom.

    When every part is zero, they are those of the pooled variance. Source: Satterthwaite, Biometrics Bulletin 2 (1946)
    110."""
    if not any(parts):
        return float(sum(df))
    whole = sum(parts)
    # Squares of fractions, not of the parts, which would underflow for variances under 1e-154.
    return 1 / sum((part / whole) ** 2 / own for part, own in zip(parts, df, strict=True))


def unit_of(*samples: Sequence[float]) -> float:
    """Return a power of two near the largest value, 1 for zeros: divided by it, values keep all digits when squared."""
    largest = max((abs(value) for sample in samples for value in sample), default=0.0)
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest else 1.0


def sample_mean(values: Sequence[float]) -> float:
    """Return the mean, summed exactly; for equal values it is that value, so that they have no spread.

    Infinities of both signs, which a broken tool may report, have no mean: it is not a number. Raises: ValueError when
    there are no values."""
    if not values:
        raise ValueError("there are no values, so no mean")
    if math.inf in values and -math.inf in values:
        return math.nan
    return min(max(math.fsum(values) / len(values), min(values)), max(values))


def sample_covariance(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the sum of the products of deviations over n - 1; values are centred so that large means cost no digits.

    With the same sequence twice it is the sample variance. Raises: ValueError for n < 2 or unequal lengths."""
    if len(first) < 2:
        raise ValueError("a covariance needs two values or more")
    mean_1 = sample_mean(first)
    if first is second:
        return math.fsum([(a - mean_1) * (a - mean_1) for a in first]) / (len(first) - 1)
    mean_2 = sample_mean(second)
    return math.fsum([(a - mean_1) * (b - mean_2) for a, b in zip(first, second, strict=True)]) / (len(first) - 1)


def describe(values: Sequence[float], confidence: float, step: float = 0.0, *, non_negative: bool = False) -> Summary:
    """Return n, mean, standard deviation and interval of `values`, which a tool reads in steps of `step` (0: exact).

    The interval is wider by what rounding may hide. If values are `non_negative` by nature, it ends at zero.

    Raises: ValueError when there are no values."""
    n, mean = len(values), sample_mean(values)
    if n < 2:
        return Summary(n, mean, None, None)
    unit = unit_of(values)
    scaled = [value / unit for value in values]
    variance = sample_covariance(scaled, scaled)
    sd = unit * math.sqrt(variance)
    half = t_quantile(confidence, n - 1) * unit * math.sqrt(variance / n) + rounding_of_mean(sd, step, n, confidence)
    interval = Interval(mean - half, mean + half, confidence)
    return Summary(n, mean, sd, interval.above_zero() if non_negative else interval)
