"""How a quantity goes with another: the least-squares line, and how sure its slope is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lastro.stats.intervals import Interval, sample_mean, t_quantile


@dataclass(frozen=True, slots=True)
class Line:
    """y = intercept + slope x over `n` points. Intervals are None where the points leave no freedom (n = 2).

    `r2` is the share of y's variance that the line explains; None when y does not vary."""

    slope: float
    intercept: float
    slope_interval: Interval | None
    intercept_interval: Interval | None
    r2: float | None
    n: int

    @property
    def grows(self) -> bool:
        """Whether the interval of the slope excludes zero, on either side."""
        return self.slope_interval is not None and not self.slope_interval.holds(0.0)


def fit_line(x: Sequence[float], y: Sequence[float], confidence: float) -> Line | None:
    """Ordinary least squares with Student's intervals, n - 2 degrees of freedom; None unless x varies.

    Source: Jain, The Art of Computer Systems Performance Analysis (1991), sections 14.2 to 14.5.

    Raises: ValueError when the samples differ in length."""
    n = len(x)
    if n != len(y):
        raise ValueError(f"{n} values of x and {len(y)} of y")
    if n < 2 or min(x) == max(x):
        return None
    mean_x, mean_y = sample_mean(x), sample_mean(y)
    xx = math.fsum([(a - mean_x) ** 2 for a in x])
    yy = math.fsum([(b - mean_y) ** 2 for b in y])
    slope = math.fsum([(a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)]) / xx
    intercept = mean_y - slope * mean_x
    residual = math.fsum([(b - intercept - slope * a) ** 2 for a, b in zip(x, y, strict=True)])
    r2 = 1 - residual / yy if yy else None
    if n == 2:
        return Line(slope, intercept, None, None, r2, n)
    t, sd = t_quantile(confidence, n - 2), math.sqrt(residual / (n - 2))
    of_slope, of_intercept = t * sd / math.sqrt(xx), t * sd * math.sqrt(1 / n + mean_x**2 / xx)
    return Line(
        slope,
        intercept,
        Interval(slope - of_slope, slope + of_slope, confidence),
        Interval(intercept - of_intercept, intercept + of_intercept, confidence),
        r2,
        n,
    )
