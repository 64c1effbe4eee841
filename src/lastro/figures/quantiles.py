"""Quantiles of histograms, such as latencies: against the load, and each quantile on a scale of nines.

A quantile with fewer than ten events beyond it is not drawn, and neither is one that was lost, which has no value."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lastro.analysis.campaign import CampaignResults, Row
from lastro.analysis.histograms import PooledHistogram, pooled
from lastro.analysis.remarks import BY_SIZE_OF_POOLED, lost_by_its_size, marks_by_metric
from lastro.figures.panels import MOST_PANELS, not_all, panels_of, treatment_label
from lastro.figures.style import (
    GREY,
    GRID,
    PALETTE,
    SMALL_PT,
    colour_of,
    fit,
    headed,
    legend,
    marker_of,
    new_figure,
    numbers_in,
    side_title,
    titled,
)
from lastro.figures.text import safe
from lastro.results.additions import QuantileCurves, QuantilesByLoad
from lastro.stats.histograms import LEAST_BEYOND, Histogram, upper_ends
from lastro.stats.notes import N_
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lastro.results.rows import Attempt

_PANEL_IN = 1.15
_CURVE_IN = {1: 2.4, 2: 1.9}  # 1.5 for more panels
_MOST_CURVES = 12  # panels in one figure
_FIRST = "platform"  # the factor that provides the lines, where it varies
_SEEN = 0.01  # nines that a reader can distinguish: thousands of buckets would make a page of many megabytes
_NINES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
_STROKES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
_OWN: dict[str, Any] = {"color": GREY, "linestyle": (0, (2, 1.5)), "linewidth": 1.0}
_WITHOUT_LATE = N_(
    "all packets of n = {n} valid trials of each treatment together, without the trials in which the generator was late"
)
_NOT_DRAWN = N_("not drawn: percentiles with fewer than ten packets beyond them, or among lost packets")
_NOT_DRAWN_BY_LOAD = N_(
    "not drawn: percentiles with fewer than ten packets beyond them, among lost packets, or with too much of the "
    "generator’s own delay"
)

Found = Mapping[int, Mapping[str, PooledHistogram]]  # by treatment and name


def draw_quantiles_by_load(shown: QuantilesByLoad, report: CampaignResults, say: Language) -> Figure | None:
    """Draw a line for each quantile against the load; None if no treatment has a histogram and its load."""
    names = {name for point in shown.points for name in (point.histogram, point.own)}
    found, attempts = pooled(report, names), report.valid_attempts()
    lines = [
        (row, _by_load(shown, found.get(row.treatment.index, {}), attempts.get(row.treatment.index, [])))
        for row in report.rows
    ]
    measured = [(row, points) for row, points in lines if any(points.values())]
    if not measured:
        return None
    figure = new_figure()
    grid = panels_of(figure, min(MOST_PANELS, len(measured)))
    for at, (axes, (row, points)) in enumerate(zip(grid.axes, measured, strict=False)):
        for number, (label, _) in enumerate(shown.quantiles):
            x, y = zip(*points[label], strict=True) if points[label] else ((), ())
            look: dict[str, Any] = {"color": colour_of(number), "marker": marker_of(number)}
            axes.plot(x, y, ms=3.6, mec="white", mew=0.4, linewidth=1.2, label=None if at else say(label), **look)
        axes.set_yscale("log")
        axes.set_xlim(left=0)
        axes.grid(color=GRID, linewidth=0.6)
        grid.label(at, treatment_label(report, row, row.n_valid, grid.room, say))
        numbers_in(axes, say, x=True, y=True)
    figure.supylabel(say(shown.y_axis), fontsize=SMALL_PT)
    handles, _ = grid.axes[0].get_legend_handles_labels()
    legend(figure, handles, say(shown.x_axis), most=5)
    headed(figure, say(shown.title), say(shown.how), say(_NOT_DRAWN_BY_LOAD), not_all(len(measured), say))
    return fit(figure, grid.stacked, _PANEL_IN * grid.deep)


def _by_load(
    shown: QuantilesByLoad, found: Mapping[str, PooledHistogram], attempts: Sequence[Attempt]
) -> dict[str, list[tuple[float, float]]]:
    """Return {label of a quantile: (load, value) in the order of the loads}.

    The load is that of the trials whose histograms are drawn. A quantile that some trial dropped because of its size is
    left out, as in tables: the others are a selection. So is one of which too much may be the generator's."""
    points: dict[str, list[tuple[float, float]]] = {label: [] for label, _ in shown.quantiles}
    for point in shown.points:
        pool = found.get(point.histogram)
        if pool is None or (load := pool.mean(point.load)) is None:
            continue
        marks = marks_by_metric(attempts, point.metrics)
        for (label, q), metric in zip(shown.quantiles, point.metrics, strict=True):
            value = _drawable(pool.histogram, q)
            if value is None or lost_by_its_size(metric, attempts, marks.get(metric, ()), BY_SIZE_OF_POOLED):
                continue
            own = found.get(point.own)
            if own is not None and _own_at_most(own.histogram, q, shown.most_own * value):
                points[label].append((load / shown.load_per_unit, value / shown.per_unit))
    return {label: sorted(each) for label, each in points.items()}


def _own_at_most(own: Histogram, q: float, most: float) -> bool:
    value = _drawable(own, q)
    return value is not None and value <= most


def _drawable(histogram: Histogram, q: float) -> float | None:
    value = histogram.quantile(q) if histogram.is_estimable(q) else math.inf
    return None if math.isinf(value) else value


# Each quantile on a scale of nines


def draw_quantile_curves(shown: QuantileCurves, report: CampaignResults, say: Language) -> Figure | None:
    """Draw a line for each treatment, in panels if there are other factors; None without a histogram."""
    found = pooled(report, {shown.histogram, shown.own})
    panels = [panel for panel in _panels(report) if any(_line(found, row, shown.histogram) for row in panel[1])]
    if not panels:
        return None
    factor = _line_factor(report)
    looks = _looks(report, factor, found, shown)
    figure = new_figure()
    stacked = figure.subplots(min(len(panels), _MOST_CURVES), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, (title, rows) in zip(stacked, panels, strict=False):
        for row in rows:
            if (line := _line(found, row, shown.histogram)) is None:
                continue
            look = looks[_level(row, factor)]
            _curve(axes, line.histogram, shown.per_unit, look)
            if (own := _line(found, row, shown.own)) is not None:
                _curve(axes, own.histogram, shown.per_unit, {**_OWN, "color": look["color"]})
        if title:
            titled(axes, title)
    _scales(stacked, say)
    height_in = _CURVE_IN.get(len(stacked), 1.5) * len(stacked)
    side_title(figure, say(shown.y_axis), height_in)
    legend(figure, list(_handles(looks, found, shown, say)), safe(factor) if factor else None, most=3)
    some = say("{n} of {all} combinations", n=_MOST_CURVES, all=len(panels)) if len(panels) > _MOST_CURVES else ""
    trials = _trials(report, found, shown.histogram, say)
    headed(figure, say(shown.title, load=shown.load), say(shown.how), trials, say(_NOT_DRAWN), some)
    return fit(figure, list(stacked), height_in)


def _line(found: Found, row: Row, name: str) -> PooledHistogram | None:
    return found.get(row.treatment.index, {}).get(name)


def _line_factor(report: CampaignResults) -> str:
    """Return the factor whose levels are lines: the platform where it varies, or else the first that does."""
    varying = [factor.name for factor in report.varying]
    return _FIRST if _FIRST in varying else next(iter(varying), "")


def _level(row: Row, factor: str) -> str:
    return str(row.treatment.levels[factor]) if factor else ""


def _panels(report: CampaignResults) -> list[tuple[str, list[Row]]]:
    others = [factor.name for factor in report.varying if factor.name != _line_factor(report)]
    return [
        (" · ".join(f"{name} = {level}" for name, level in zip(others, levels, strict=True)), rows)
        for levels, rows in report.by_levels(others).items()
    ]


def _looks(report: CampaignResults, factor: str, found: Found, shown: QuantileCurves) -> dict[str, dict[str, Any]]:
    """Return the style of each level that has a line; after all colours, they repeat with another stroke."""
    levels = dict.fromkeys(_level(row, factor) for row in report.rows if _line(found, row, shown.histogram))
    return {
        level: {"color": colour_of(at), "linestyle": _STROKES[at // len(PALETTE) % len(_STROKES)], "linewidth": 1.4}
        for at, level in enumerate(levels)
    }


def _curve(axes: Axes, histogram: Histogram, per_unit: float, look: Mapping[str, Any]) -> None:
    """Draw the value of each quantile, up to the last one with ten events beyond it.

    If the rest was lost before that, the line ends with an arrow: the next quantiles have no value."""
    most = 1 - LEAST_BEYOND / histogram.n_in_all
    filled = np.flatnonzero(histogram.counts)
    if most <= 0 or not len(filled):
        return
    shares = np.cumsum(histogram.counts)[filled] / histogram.n_in_all
    last = int(np.searchsorted(shares, most)) + 1  # up to the bucket in which that quantile lies
    x, y = nines(np.minimum(shares[:last], most)), upper_ends(filled[:last]) / per_unit
    seen = [*np.flatnonzero(np.diff(np.floor(x / _SEEN))), len(x) - 1]  # the last bucket of each
    axes.step([0.0, *x[seen]], [y[0], *y[seen]], where="pre", **look)
    if last > len(filled):
        axes.plot([x[-1]], [y[-1]], marker="^", ms=5, mew=0, color=look["color"], zorder=4)


def nines(fractions: Any) -> Any:
    """Return the places of fractions on a scale of nines: 0.9 at 1, 0.99 at 2."""
    return -np.log10(1 - np.asarray(fractions))


def _scales(stacked: Collection[Axes], say: Language) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter

    lines = [line for axes in stacked for line in axes.get_lines()]
    most = max((float(np.max(line.get_xdata())) for line in lines), default=1.0)
    for axes in stacked:
        axes.set_yscale("log")
        axes.set_xlim(0, 1.03 * most)
        axes.grid(color=GRID, linewidth=0.6)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(FixedLocator([float(nines(q)) for q in _NINES if nines(q) <= 1.03 * most]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: say.number(f"{100 * (1 - 10**-at):.6g}") + " %"))
        numbers_in(axes, say, x=False, y=True)
    list(stacked)[-1].set_xlabel(say("fraction of all packets that took no longer"))


def _trials(report: CampaignResults, found: Found, name: str, say: Language) -> str:
    drawn = [(row, line) for row in report.rows if (line := _line(found, row, name)) is not None]
    counts = sorted({len(line.attempts) for _, line in drawn}) or [0]
    n = "–".join(map(say.integer, dict.fromkeys((counts[0], counts[-1]))))
    if all(len(line.attempts) == row.n_valid for row, line in drawn):
        return say("all packets of the valid trials together, n = {n} for each treatment", n=n)
    return say(_WITHOUT_LATE, n=n)


def _handles(
    looks: Mapping[str, Mapping[str, Any]], found: Found, shown: QuantileCurves, say: Language
) -> Iterator[Any]:
    from matplotlib.lines import Line2D

    for level, look in looks.items():
        yield Line2D([], [], label=safe(level or say("the only treatment"), 44), **look)
    if any(shown.own in named for named in found.values()):
        yield Line2D([], [], label=say("the generator alone, on its loopback"), **_OWN)
    if any(_ends_lost(named[shown.histogram].histogram) for named in found.values() if shown.histogram in named):
        yield Line2D([], [], linestyle="none", marker="^", ms=5, mew=0, color=GREY, label=say("no answer to the rest"))


def _ends_lost(histogram: Histogram) -> bool:
    return histogram.lost > LEAST_BEYOND
