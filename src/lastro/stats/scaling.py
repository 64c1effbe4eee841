"""The dependence of one quantity on another: the least-squares line, the interval of its slope, and its curvature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lastro.stats.intervals import Interval, sample_mean, t_quantile


@dataclass(frozen=True, slots=True)
class FittedLine:
    """y = intercept + slope x over `n` points. Intervals are None where no degrees of freedom are left (n = 2).

    `r2` is the fraction of y's variance that the line explains; None when y does not vary."""

    slope: float
    slope_interval: Interval | None
    intercept: float
    intercept_interval: Interval | None
    r2: float | None
    n: int

    @property
    def grows(self) -> bool:
        """True if the interval of the slope excludes zero, on either side."""
        return self.slope_interval is not None and not self.slope_interval.holds(0.0)


def fit_line(x: Sequence[float], y: Sequence[float], confidence: float) -> FittedLine | None:
    """Fit a line by ordinary least squares, with Student's intervals, n - 2 degrees of freedom; None unless x varies.

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
        return FittedLine(slope, None, intercept, None, r2, n)
    t, sd = t_quantile(confidence, n - 2), math.sqrt(residual / (n - 2))
    of_slope, of_intercept = t * sd / math.sqrt(xx), t * sd * math.sqrt(1 / n + mean_x**2 / xx)
    return FittedLine(
        slope,
        Interval(slope - of_slope, slope + of_slope, confidence),
        intercept,
        Interval(intercept - of_intercept, intercept + of_intercept, confidence),
        r2,
        n,
    )


_ROUNDING = 1e-9  # a bend that moves no value by more of the largest is an artefact of arithmetic


def fit_bend(x: Sequence[float], y: Sequence[float], confidence: float) -> Interval | None:
    """Return Student's interval of c in y = a + b x + c x^2, n - 3 degrees of freedom: do the points lie on a line?

    By the theorem of Frisch, Waugh and Lovell (1933, 1963), c is the slope of the residuals of y against the residuals
    of x^2, both from a line. None unless x has three values and there are four points.

    Raises: ValueError when the samples differ in length."""
    n = len(x)
    if n != len(y):
        raise ValueError(f"{n} values of x and {len(y)} of y")
    if n < 4 or len(set(x)) < 3:
        return None
    mean_x = sample_mean(x)
    centred = [a - mean_x for a in x]
    squares, left = _residuals(centred, [a * a for a in centred]), _residuals(centred, y)
    spread = math.fsum([a * a for a in squares])
    bend = math.fsum([a * b for a, b in zip(squares, left, strict=True)]) / spread
    residual = math.fsum([(b - bend * a) ** 2 for a, b in zip(squares, left, strict=True)])
    half = t_quantile(confidence, n - 3) * math.sqrt(residual / (n - 3) / spread)
    if abs(bend) * max(map(abs, squares)) <= _ROUNDING * max(map(abs, y)):
        bend = 0.0
    return Interval(bend - half, bend + half, confidence)


def _residuals(x: Sequence[float], y: Sequence[float]) -> list[float]:
    """Return the residuals of y from its least-squares line over a centred x."""
    mean_y = sample_mean(y)
    slope = math.fsum([a * (b - mean_y) for a, b in zip(x, y, strict=True)]) / math.fsum([a * a for a in x])
    return [b - mean_y - slope * a for a, b in zip(x, y, strict=True)]
