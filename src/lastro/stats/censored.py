"""Statistics of censored values: lower bounds, and intervals of the grid of a search.

A search that reached the end of its range without an answer gives a lower bound (right-censored). A search that found
an answer gives an interval of its grid, between whose ends the truth lies (interval-censored).

The mean of lower bounds is a lower bound of the mean, and has no interval: the values do not show how far above it the
truth lies. Source: Helsel, Statistics for Censored Environmental Data (2nd ed., 2012)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lastro.stats.intervals import Bound, Estimate, Interval, Summary, describe
from lastro.stats.notes import Note

RATIO_IS_BOUND = "one of the means is only a lower bound, so the ratio is also only a bound"
BOTH_ARE_BOUNDS = "both means are only lower bounds, so their ratio is not known"


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
    if widths and len(widths) != len(values):
        raise ValueError(f"{len(widths)} widths of {len(values)} values")
    n_bounded = sum(is_bound for _, is_bound in zip(values, bounded, strict=True))
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
