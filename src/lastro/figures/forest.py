"""The forest plot: the ratio on each host, their mean over hosts, and where the ratio on a new host will be."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lastro.analysis.pooled import PooledEffect, PooledStudy
from lastro.figures import FigurePlan
from lastro.figures.effects import COLOURS, ratio_axis
from lastro.figures.rows import FigureRow, fit_rows, set_rows
from lastro.figures.scale import interval_bar
from lastro.figures.style import FAINT, GREY, file_stem, headed, metric_title, new_figure
from lastro.words.campaign import titled
from lastro.words.language import Language
from lastro.words.numbers import VERDICT_MARKS, contrast_ratio, no_exponent, ratio_range
from lastro.words.pool import place, ratio_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lastro.stats.intervals import Interval

_WIDEST = 100.0  # the axis reaches at most from a hundredth to a hundredfold
_DIAMOND_IN = 0.07  # half of its height
_BAND_IN = 0.12


def plans(found: PooledStudy, say: Language) -> Iterator[FigurePlan]:
    """Yield a forest plot for each metric and factor, some without data; titles say if guests measured."""
    measured = place(found, say)
    for at, metric in enumerate(found.metrics):
        for factor, effects in itertools.groupby(found.of(metric), key=lambda effect: effect.factor):
            title = say("Effects of {factor} on {metric}, host by host", factor=factor, metric=metric.name)
            draw = partial(draw_forest, found, list(effects), say)
            name = file_stem("forest", metric.name, factor)
            yield FigurePlan("forest", at, name, titled(title, measured), draw, factor)


def draw_forest(found: PooledStudy, effects: Sequence[PooledEffect], say: Language) -> Figure | None:
    """Draw effects of one factor on one metric below each other; None if no host has a ratio."""
    if not any(one.effect for effect in effects for one in effect.hosts):
        return None
    first = effects[0]
    figure = new_figure()
    axes = figure.subplots()
    low, high = _reach(effects)
    ratio_axis(axes, low, high, say)
    entries = [entry for effect in effects for entry in _entries(found, effect, say)]
    rows = set_rows(axes, entries)
    places = iter(rows.places)
    for effect in effects:
        next(places)  # the heading
        _draw(axes, effect, places)
    axes.axvline(1, color="black", linewidth=0.9)
    axes.set_xlabel(say("ratio to the reference level"))
    percent = say.number(f"{100 * found.confidence:g}") + " %"
    how = [say("dot: one host, with its {confidence} interval", confidence=percent)]
    if any(effect.pooled for effect in effects):
        how.append(say("diamond: mean over hosts, as wide as its interval; grey bar: the ratio on a new host"))
    arrows = any(end < low or end > high for ends in _intervals(effects) for end in (ends.low, ends.high))
    how += [say("arrow: the interval extends beyond the axis")] if arrows else []
    headed(figure, f"{first.factor}: {metric_title(first.metric, say)}", *how)
    fit_rows(figure, [(axes, rows)])
    return figure


def _entries(found: PooledStudy, effect: PooledEffect, say: Language) -> Iterator[FigureRow]:
    title = say("{level}, against {reference}", level=effect.level, reference=effect.reference)
    yield FigureRow(title, heading=True)
    for one in effect.hosts:
        yield FigureRow(found.hosts[one.host].name, no_exponent(ratio_on(one, say)))
    if effect.mean is not None and effect.prediction is not None:
        mark = VERDICT_MARKS[effect.verdict]
        yield FigureRow(say("mean over hosts"), f"{mark} {no_exponent(contrast_ratio(effect.mean, say))}".strip())
        yield FigureRow(say("new host"), no_exponent(ratio_range(effect.prediction, say)))


def _draw(axes: Axes, effect: PooledEffect, places: Iterator[float]) -> None:
    for one, y in zip(effect.hosts, places, strict=False):
        if one.ratio is not None and one.interval is not None:
            interval_bar(axes, (one.interval.low, one.interval.high), y, GREY, width_pt=1.3)
            _if_inside(axes, one.ratio, y)
    if effect.mean is not None and effect.mean.interval is not None and effect.prediction is not None:
        ends, y, colour = effect.mean.interval, next(places), COLOURS.get(effect.verdict, "black")
        corners = [ends.low, effect.mean.value or 1.0, ends.high, effect.mean.value or 1.0]
        low, high = axes.get_xlim()
        inside = [min(max(corner, low), high) for corner in corners]
        axes.fill(inside, [y, y - _DIAMOND_IN, y, y + _DIAMOND_IN], color=colour, linewidth=0.8, zorder=4)
        y, band = next(places), effect.prediction
        left, right = max(band.low, low), min(band.high, high)
        axes.barh(y, right - left, left=left, height=_BAND_IN, color=FAINT, linewidth=0, zorder=2)
        if (left, right) != (band.low, band.high):  # for its arrow heads
            interval_bar(axes, (band.low, band.high), y, FAINT)


def _if_inside(axes: Axes, ratio: float, y: float) -> None:
    low, high = axes.get_xlim()
    if low <= ratio <= high:
        axes.plot([ratio], [y], marker="o", ms=4.5, color=GREY, mec="white", mew=0.6, zorder=4)


def _intervals(effects: Sequence[PooledEffect]) -> Iterator[Interval]:
    for effect in effects:
        yield from (one.interval for one in effect.hosts if one.interval is not None)
        if effect.prediction is not None:
            yield effect.prediction


def _reach(effects: Sequence[PooledEffect]) -> tuple[float, float]:
    """Return the ends of an axis with room for every ratio, and for each interval up to three times their range."""
    ratios = [1.0, 1.02, 1 / 1.02, *(one.ratio for effect in effects for one in effect.hosts if one.ratio is not None)]
    ends = [end for own in _intervals(effects) for end in (own.low, own.high)]
    spare = (max(ratios) / min(ratios)) ** 3
    low = max(min([*ratios, *ends]), min(ratios) / spare, 1 / _WIDEST)
    high = min(max([*ratios, *ends]), max(ratios) * spare, _WIDEST)
    room = (high / low) ** 0.06
    return low / room, high * room
