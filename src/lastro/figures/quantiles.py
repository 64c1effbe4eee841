"""Figures of quantiles of histograms, such as of latencies: against the load, and on a scale of nines.

A quantile is not drawn if fewer than ten events are beyond it, or if it is among lost events, which have no value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lastro.analysis.campaign import CampaignResults, Row
from lastro.analysis.histograms import PooledHistogram, pooled_histograms
from lastro.analysis.remarks import BY_SIZE_OF_POOLED, marks_by_metric, values_lost_by_size
from lastro.figures.matplotlib_types import Figure
from lastro.figures.scenario import MOST_PANELS, panel_limit_note, treatment_title
from lastro.figures.style import GREY, PALETTE, STROKES, colour_of, marker_of
from lastro.figures.text import safe
from lastro.figures.xy import ACROSS, Look, Plot, PlotAxis, PlotLine, PlotPanel, draw_plot
from lastro.results.additions import QuantileCurves, QuantilesByLoad
from lastro.results.rows import Attempt
from lastro.stats.histograms import LEAST_BEYOND, Histogram, upper_ends
from lastro.stats.notes import N_
from lastro.words.language import Language
from lastro.words.numbers import percent

_CURVE_IN = {1: 2.4, 2: 1.9}  # 1.5 for more panels
_MOST_CURVES = 12  # panels in one figure
_FIRST = "platform"  # the factor that provides the lines, where it varies
_LEAST_VISIBLE = 0.01  # nines that a reader can distinguish: thousands of buckets would make a page of many megabytes
_NINES = (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
_OWN: Look = {"color": GREY, "linestyle": (0, (2, 1.5)), "linewidth": 1.0}
_JOINED: Look = {"ms": 3.6, "mec": "white", "mew": 0.4, "linewidth": 1.2}
_LOST: Look = {"linestyle": "none", "marker": "^", "ms": 5, "mew": 0, "zorder": 4}
_WITHOUT_LATE = N_(
    "all packets of n = {n} valid trials of each treatment together, without the trials in which the generator was late"
)
_NOT_DRAWN = N_("not drawn: percentiles with fewer than ten packets beyond them, or among lost packets")
_NOT_DRAWN_BY_LOAD = N_(
    "not drawn: percentiles with fewer than ten packets beyond them, among lost packets, or with too much of the "
    "generator’s own delay"
)

PooledByRow = Mapping[int, Mapping[str, PooledHistogram]]  # by treatment and name


def draw_quantiles_by_load(shown: QuantilesByLoad, report: CampaignResults, say: Language) -> Figure | None:
    """Draw each quantile as a line against the load, a panel per treatment; None if there is nothing to draw."""
    names = {name for point in shown.points for name in (point.histogram, point.own)}
    histograms, attempts = pooled_histograms(report, names), report.valid_attempts()
    lines = [
        (row, _by_load(shown, histograms.get(row.treatment.index, {}), attempts.get(row.treatment.index, [])))
        for row in report.rows
    ]
    measured = [(row, points) for row, points in lines if any(points.values())]
    if not measured:
        return None
    panels = []
    for row, points in measured[:MOST_PANELS]:
        items = []
        for number, (label, _) in enumerate(shown.quantiles):
            loads, values = [load for load, _ in points[label]], [value for _, value in points[label]]
            look = {"color": colour_of(number), "marker": marker_of(number), **_JOINED}
            items.append(PlotLine(loads, values, look, say(label)))
        panels.append(PlotPanel(items, treatment_title(report, row, row.n_valid, say)))
    how = [say(shown.how), say(_NOT_DRAWN_BY_LOAD), panel_limit_note(len(measured), say)]
    x, y = PlotAxis(say(shown.x_axis), low=0), PlotAxis(say(shown.y_axis), log=True)
    return draw_plot(Plot(panels, say(shown.title), how, x, y, 1.15, ACROSS), say)


def _by_load(
    shown: QuantilesByLoad, histograms: Mapping[str, PooledHistogram], attempts: Sequence[Attempt]
) -> dict[str, list[tuple[float, float]]]:
    """Return {label of a quantile: [(load, value)], sorted by load}, in the units of the axes.

    The load is the mean of the trials whose histograms are drawn. A quantile is left out, as in tables, if a trial
    dropped its value for being too large, because the remaining values are biased. It is also left out if the delay of
    the load generator itself is not known, or may be too large a part of the value."""
    points: dict[str, list[tuple[float, float]]] = {label: [] for label, _ in shown.quantiles}
    for point in shown.points:
        pool = histograms.get(point.histogram)
        if pool is None or (load := pool.mean(point.load)) is None:
            continue
        marks = marks_by_metric(attempts, point.metrics)
        for (label, q), metric in zip(shown.quantiles, point.metrics, strict=True):
            value = _drawable(pool.histogram, q)
            if value is None or values_lost_by_size(metric, attempts, marks.get(metric, ()), BY_SIZE_OF_POOLED):
                continue
            generator = histograms.get(point.own)
            generator_value = _drawable(generator.histogram, q) if generator is not None else None
            if generator_value is not None and generator_value <= shown.most_own * value:
                points[label].append((load / shown.load_per_unit, value / shown.per_unit))
    return {label: sorted(values) for label, values in points.items()}


def _drawable(histogram: Histogram, q: float) -> float | None:
    value = histogram.quantile(q) if histogram.is_estimable(q) else math.inf
    return None if math.isinf(value) else value


# Each quantile on a scale of nines


def draw_quantile_curves(shown: QuantileCurves, report: CampaignResults, say: Language) -> Figure | None:
    """Draw all quantiles of each treatment as a line; None if no treatment has the histogram.

    In a panel, each line is a level of the platform or, if the platform does not vary, of the first factor that does.
    There is a panel for each combination of levels of the other factors."""
    histograms = pooled_histograms(report, {shown.histogram, shown.own})
    drawable = [row for row in report.rows if shown.histogram in histograms.get(row.treatment.index, {})]
    if not drawable:
        return None
    varying = [factor.name for factor in report.varying]
    factor = _FIRST if _FIRST in varying else next(iter(varying), "")
    others = [name for name in varying if name != factor]
    levels = dict.fromkeys(_level(row, factor) for row in drawable)
    looks: dict[str, Look] = {
        level: {"color": colour_of(at), "linestyle": STROKES[at // len(PALETTE) % len(STROKES)], "linewidth": 1.4}
        for at, level in enumerate(levels)
    }
    panels = []
    for other_levels, rows in report.by_levels(others).items():
        if not any(row in drawable for row in rows):
            continue
        lines: list[PlotLine] = []
        for row in rows:
            named = histograms.get(row.treatment.index, {})
            if shown.histogram in named:
                look = looks[_level(row, factor)]
                lines += _curve(named[shown.histogram].histogram, shown.per_unit, look)
                if shown.own in named:  # the load generator on its own loopback
                    lines += _curve(named[shown.own].histogram, shown.per_unit, {**_OWN, "color": look["color"]})
        title = " · ".join(f"{name} = {level}" for name, level in zip(others, other_levels, strict=True))
        panels.append(PlotPanel(lines, [title]))
    shown_note = say("{n} of {all} combinations", n=_MOST_CURVES, all=len(panels)) if len(panels) > _MOST_CURVES else ""
    trials = [len(histograms[row.treatment.index][shown.histogram].attempts) for row in drawable]
    n = "–".join(map(say.integer, dict.fromkeys((min(trials), max(trials)))))
    combined = say(_WITHOUT_LATE, n=n)
    if trials == [row.n_valid for row in drawable]:
        combined = say("all packets of the valid trials together, n = {n} for each treatment", n=n)
    how = [say(shown.how), combined, say(_NOT_DRAWN), shown_note]
    ticks = [(float(nines(q)), percent(q, say)) for q in _NINES]
    plot = Plot(
        panels[:_MOST_CURVES], say(shown.title, load=shown.load), how,
        PlotAxis(say("fraction of all packets that took no longer"), low=0, ticks=ticks),
        PlotAxis(say(shown.y_axis), log=True), _CURVE_IN.get(len(panels), 1.5),
        legend=list(_legend(looks, histograms, shown, say)), legend_title=safe(factor),
    )  # fmt: skip
    return draw_plot(plot, say)


def _legend(
    looks: Mapping[str, Look], histograms: PooledByRow, shown: QuantileCurves, say: Language
) -> Iterator[tuple[str, Look]]:
    for level, look in looks.items():
        yield safe(level or say("the only treatment"), 44), look
    if any(shown.own in by_name for by_name in histograms.values()):
        yield say("the generator alone, on its loopback"), _OWN
    if any(
        by_name[shown.histogram].histogram.lost > LEAST_BEYOND
        for by_name in histograms.values()
        if shown.histogram in by_name
    ):
        yield say("no answer to the rest"), {**_LOST, "color": GREY}


def _level(row: Row, factor: str) -> str:
    return str(row.treatment.levels[factor]) if factor else ""


def _curve(histogram: Histogram, per_unit: float, look: Look) -> Iterator[PlotLine]:
    """Yield the line through the value of each quantile, up to the last one with ten events beyond it.

    Lost events have no value. If only they are beyond an earlier quantile, the line ends there, with an arrow."""
    last_quantile = 1 - LEAST_BEYOND / histogram.n_events
    filled = np.flatnonzero(histogram.counts)  # buckets with events
    if last_quantile <= 0 or not len(filled):
        return
    quantiles = np.cumsum(histogram.counts)[filled] / histogram.n_events
    last = int(np.searchsorted(quantiles, last_quantile)) + 1  # up to the bucket in which that quantile lies
    x, y = nines(np.minimum(quantiles[:last], last_quantile)), upper_ends(filled[:last]) / per_unit
    # Of buckets that a reader cannot distinguish, only the last one is a point of the line.
    visible = [*np.flatnonzero(np.diff(np.floor(x / _LEAST_VISIBLE))), len(x) - 1]
    yield PlotLine([0.0, *x[visible]], [y[0], *y[visible]], {**look, "drawstyle": "steps-pre"})
    if last > len(filled):
        yield PlotLine([x[-1]], [y[-1]], {**_LOST, "color": look["color"]})


def nines(fractions: Any) -> Any:
    """Return the positions of fractions on a scale of nines: 0 for 0, 1 for 0.9, 2 for 0.99."""
    return -np.log10(1 - np.asarray(fractions))
