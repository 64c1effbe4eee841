"""The range of an axis of values, and the intervals that extend beyond it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lastro.analysis.campaign import Cell
from lastro.figures.matplotlib_types import Axes
from lastro.results.samples import Metric
from lastro.stats.intervals import Interval, Summary
from lastro.words.language import Language

Ends = tuple[float, float]

_DECADE = 10.0
_TIP: dict[str, Any] = {"linestyle": "none", "clip_on": False}


@dataclass(frozen=True, slots=True)
class AxisEnds:
    """The lower and the upper end of an axis; `log` if its scale is logarithmic.

    `cut` is true if an interval is cut at 0, because the metric cannot be negative. `beyond` is true if an interval
    extends beyond the axis for another reason."""

    low: float
    high: float
    log: bool = False
    cut: bool = False
    beyond: bool = False

    def words(self, name: str, say: Language) -> tuple[str, ...]:
        """Return notes for the reader: that intervals are cut at 0, and that arrow heads show where they go on.

        `name` is the name of the metric. Empty if all intervals fit."""
        cut = say("intervals are cut at 0, because {metric} cannot be negative", metric=name) if self.cut else ""
        beyond = say("arrow: the interval extends beyond the axis") if self.beyond else ""
        return tuple(filter(None, (cut, beyond)))


def axis_ends(
    metric: Metric, values: Sequence[float], intervals: Sequence[Ends], means: Sequence[float] = ()
) -> AxisEnds:
    """Return the ends of the axis of a metric, with room for every value and for a part of wide intervals.

    Intervals extend the axis at either end by at most half of the range of the values. The axis is logarithmic if all
    values are positive and the means span more than a decade. Otherwise it begins at zero if the smallest value is less
    than half of the largest. It does not go below zero if the metric is non-negative by its definition and no value
    contradicts that."""
    least, most = min(values), max(values)
    ends = [end for interval in intervals for end in interval]
    if least > 0 and means and max(means) > _DECADE * min(means):
        low, high = max(least / 1.5, min([least, *ends])) / 1.1, min(most * 1.5, max([most, *ends])) * 1.1
        return with_overflow(intervals, AxisEnds(low, high, log=True))
    room = 0.5 * (most - least) or abs(most) * 0.1 or 1.0
    low, high = max(least - room, min([least, *ends])), min(most + room, max([most, *ends]))
    low, high = low - 0.1 * room, high + 0.1 * room
    bounded = metric.non_negative and least >= 0
    if bounded and (low < 0 or any(end < 0 for end, _ in intervals)):
        low = 0.0
    if 0 <= least < most / 2:
        low = min(low, 0.0)
    return with_overflow(intervals, AxisEnds(low, high), bounded)


def ends_of(interval: Interval | None) -> Ends | None:
    """Return (low, high) of an interval; None without one."""
    return None if interval is None else (interval.low, interval.high)


def axis_ends_of(metric: Metric, cells: Iterable[Cell]) -> AxisEnds:
    """Return the ends of a metric's axis, with room for the values and means of its `cells`.

    The cells have at least one trial in all. A wide interval extends the axis only in part, as in `axis_ends`."""
    cells = list(cells)
    values = [point.value for cell in cells for point in cell.points]
    summaries = [cell.summary for cell in cells if cell.summary is not None]
    intervals = [ends for summary in summaries if (ends := ends_of(summary.interval))]
    return axis_ends(metric, values, intervals, [summary.mean for summary in summaries])


def from_zero(summaries: Iterable[Summary]) -> AxisEnds:
    """Return the ends of an axis from 0 to slightly above the largest mean or end of an interval."""
    summaries = list(summaries)
    intervals = [ends for summary in summaries if (ends := ends_of(summary.interval))]
    high = max([0.0, *(summary.mean for summary in summaries), *(end for _, end in intervals)])
    return with_overflow(intervals, AxisEnds(0.0, 1.05 * high or 1.0), bounded=True)


def with_overflow(intervals: Sequence[Ends], ends: AxisEnds, bounded: bool = False) -> AxisEnds:
    """Return `ends`, with `cut` and `beyond` set if some of these intervals do not fit.

    `bounded` is true if no value can be below 0."""
    cut = bounded and any(low < 0 for low, _ in intervals)
    beyond = any(high > ends.high or (low < ends.low and not (bounded and low < 0)) for low, high in intervals)
    return AxisEnds(ends.low, ends.high, ends.log, cut, beyond)


def interval_bars(
    axes: Axes, bars: Mapping[float, Ends], colour: str, *, along: Literal["x", "y"] = "x", width_pt: float = 1.8,
    caps: bool = False,
) -> None:  # fmt: skip
    """Draw the intervals `bars`, {position: ends}, with an arrow head where one extends beyond the axis.

    They are parallel to the axis `along`, whose range must be set before. With `caps`, an end within the axis has a
    cap."""
    limits: Ends = axes.get_xlim() if along == "x" else axes.get_ylim()
    inside = {at: [min(max(end, limits[0]), limits[1]) for end in ends] for at, ends in bars.items()}
    bar = {"color": colour, "linewidth": width_pt, "solid_capstyle": "butt", "zorder": 3.2}
    # One line with gaps: a line for each of thousands of bars would take minutes.
    gaps = [(value, at) for at, ends in inside.items() for value in (*ends, math.nan)]
    _plot(axes, gaps[:-1], along, **bar)
    tips = [
        (end, limit, at, side)
        for at in bars
        for side, (end, limit) in enumerate(zip(bars[at], inside[at], strict=True))
    ]
    for side, head in enumerate("<>" if along == "x" else "v^"):
        beyond = [(limit, at) for end, limit, at, tip_side in tips if end != limit and tip_side == side]
        _plot(axes, beyond, along, marker=head, ms=4.5, mew=0, **_TIP, color=colour, zorder=3.3)
    ended = [(limit, at) for end, limit, at, _ in tips if end == limit and caps]
    _plot(axes, ended, along, marker="_" if along == "y" else "|", ms=4.5, mew=1.0, **_TIP, color=colour, zorder=3.2)


def _plot(axes: Axes, points: Sequence[tuple[float, float]], along: str, **look: Any) -> None:
    if points:
        values, at = zip(*points, strict=True)
        axes.plot(*((values, at) if along == "x" else (at, values)), **look)
