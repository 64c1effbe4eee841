"""A metric as a function of a number: every trial, and the least-squares line with its band.

A throughput also gets the Universal Scalability Law. Nothing is drawn beyond the levels measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lastro.analysis.campaign import MetricView
from lastro.analysis.model import CountScaling, MetricAnalysis
from lastro.analysis.scaling import Scaling
from lastro.figures.scale import Ends, reach
from lastro.figures.style import (
    GRID,
    PALETTE,
    axis_title,
    fit,
    headed,
    legend,
    metric_title,
    new_figure,
    numbers_in,
    points,
    side_title,
    titled,
)
from lastro.figures.text import wrapped
from lastro.stats.scaling import fit_line, mean_band
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_IN = 1.6
_STEPS = 60
MOST_PANELS = 12


def draw_scaling(view: MetricView, scaling: Scaling, analysis: MetricAnalysis, say: Language) -> Figure | None:
    """Draw a panel for each combination of the other factors; None where the metric has no values to draw."""
    panels = _panels(view, scaling)
    if not panels:
        return None
    shown = dict(list(panels.items())[:MOST_PANELS])
    figure = new_figure()
    stacked = figure.subplots(len(shown), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    confidence = view.confidence
    bands: list[Ends] = []
    for axes, (levels, found) in zip(stacked, shown.items(), strict=True):
        x, y = [at for at, _ in found], [value for _, value in found]
        points(axes, x, y, PALETTE[0], 2.6, alpha=0.6, zorder=3)
        bands += _line(axes, x, y, confidence, say)
        if law := _law(analysis, scaling, levels):
            bands += _curve(axes, law, confidence, say)
        named = [f"{name} = {level}" for name, level in zip(scaling.others, levels, strict=True)]
        titled(axes, " · ".join((*named, say("n = {n}", n=say.integer(len(found))))))
        axes.grid(color=GRID, linewidth=0.6)
        axes.tick_params(axis="y", length=0)
        numbers_in(axes, say, x=True, y=True)
    ends = reach(analysis.metric, [value for found in shown.values() for _, value in found], bands)
    stacked[0].set_ylim(ends.low, ends.high)
    stacked[-1].set_xlabel(wrapped(scaling.factor, 40))
    side_title(figure, axis_title(analysis.metric), _PANEL_IN * len(shown))
    lines = {str(line.get_label()): line for axes in stacked for line in axes.lines}
    legend(figure, [line for label, line in lines.items() if not label.startswith("_")])
    percent = say.number(f"{100 * confidence:g}") + " %"
    how = say("every trial, the line through them and the {confidence} band of its mean", confidence=percent)
    some = say("{n} of {all} combinations", n=len(shown), all=len(panels)) if len(shown) < len(panels) else ""
    headed(figure, metric_title(analysis.metric, say), how, some, *ends.words(analysis.metric.name, say))
    return fit(figure, list(stacked), _PANEL_IN * len(shown))


def _panels(view: MetricView, scaling: Scaling) -> dict[tuple[str, ...], list[tuple[float, float]]]:
    """Return {levels of the other factors: (number, value) of every trial}, for those in which the number varied."""
    found = {
        levels: [(float(row.treatment.levels[scaling.factor]), p.value) for row in own for p in view.of(row).points]
        for levels, own in view.report.by_levels(scaling.others).items()
    }
    return {levels: pairs for levels, pairs in found.items() if len({x for x, _ in pairs}) > 1}


def _line(axes: Axes, x: Sequence[float], y: Sequence[float], confidence: float, say: Language) -> list[Ends]:
    """Draw the line and the band of its mean; return the ends of the band."""
    line = fit_line(x, y, confidence)
    if line is None or line.n < 3:
        return []
    at = _steps(min(x), max(x))
    axes.plot(at, [line.intercept + line.slope * each for each in at], color="black", linewidth=1.3, label=say("line"))
    band = mean_band(line, x, y, at, confidence)
    low, high = zip(*band, strict=True)
    axes.fill_between(at, low, high, color="black", alpha=0.15, linewidth=0)
    return band


def _law(analysis: MetricAnalysis, scaling: Scaling, levels: Sequence[str]) -> CountScaling | None:
    own: Mapping[str, str] = dict(zip(scaling.others, levels, strict=True))
    for law in analysis.scaling:
        if law.factor == scaling.factor and all(own.get(name) == level for name, level in law.levels.items()):
            return law
    return None


def _curve(axes: Axes, law: CountScaling, confidence: float, say: Language) -> list[Ends]:
    """Draw the law between the levels measured, its peak and its band; return the ends of the band."""
    counts = [x for x, _ in law.points]
    at = _steps(min(counts), max(counts))
    fitted = [law.fit.throughput(each) for each in at]
    axes.plot(at, fitted, color=PALETTE[1], linewidth=1.5, linestyle=(0, (5, 1.5)), label=say("scalability law"))
    found = [law.fit.interval(each, confidence) for each in at]
    bands = [band for band in found if band is not None]
    ends = [(band.low, band.high) for band in bands] if len(bands) == len(at) else []
    if ends:
        low, high = zip(*ends, strict=True)
        axes.fill_between(at, low, high, color=PALETTE[1], alpha=0.18, linewidth=0)
    if (peak := law.fit.peak) is not None:
        axes.plot([peak.n], [peak.throughput], marker="v", ms=6, color=PALETTE[1], mec="white", mew=0.6, zorder=5)
    return ends or list(zip(fitted, fitted, strict=True))


def _steps(low: float, high: float) -> list[float]:
    return [low + (high - low) * at / _STEPS for at in range(_STEPS + 1)]
