"""A metric as a function of a number: every trial, and the least-squares line with its band.

A throughput also gets the Universal Scalability Law. Nothing is drawn beyond the levels measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lastro.analysis.campaign import MetricView
from lastro.analysis.model import CountScaling, MetricAnalysis
from lastro.analysis.scaling import Scaling
from lastro.figures.scale import reach
from lastro.figures.style import PALETTE, STROKES, axis_title, metric_title
from lastro.figures.xy import Plot, PlotAxis, PlotLine, PlotPanel, dots, drawn
from lastro.stats.scaling import fit_line, mean_band
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STEPS = 60
MOST_PANELS = 12


def draw_scaling(view: MetricView, scaling: Scaling, analysis: MetricAnalysis, say: Language) -> Figure | None:
    """Draw a panel for each combination of the other factors; None where the metric has no values to draw."""
    found = {
        levels: [(float(row.treatment.levels[scaling.factor]), p.value) for row in own for p in view.of(row).points]
        for levels, own in view.report.by_levels(scaling.others).items()
    }
    varied = {levels: pairs for levels, pairs in found.items() if len({x for x, _ in pairs}) > 1}
    if not varied:
        return None
    panels: list[PlotPanel] = []
    drawn_lines: list[PlotLine] = []
    for levels, pairs in list(varied.items())[:MOST_PANELS]:
        own = dict(zip(scaling.others, levels, strict=True))
        x, y = [at for at, _ in pairs], [value for _, value in pairs]
        items = [PlotLine(x, y, dots(PALETTE[0], 2.6, zorder=3)), *_line(x, y, view.confidence, say)]
        for law in analysis.scaling:
            if law.factor == scaling.factor and all(own.get(name) == level for name, level in law.levels.items()):
                items += _curve(law, view.confidence, say)
                break
        drawn_lines += items
        named = [f"{name} = {level}" for name, level in own.items()]
        panels.append(PlotPanel(items, [" · ".join((*named, say("n = {n}", n=say.integer(len(pairs)))))]))
    values = [value for pairs in list(varied.values())[:MOST_PANELS] for _, value in pairs]
    ends = reach(
        analysis.metric, values, [end for item in drawn_lines for end in item.band or [(y, y) for y in item.y]]
    )
    percent = say.number(f"{100 * view.confidence:g}") + " %"
    how = say("every trial, the line through them and the {confidence} band of its mean", confidence=percent)
    some = say("{n} of {all} combinations", n=len(panels), all=len(varied)) if len(panels) < len(varied) else ""
    plot = Plot(
        panels, metric_title(analysis.metric, say), [how, some, *ends.words(analysis.metric.name, say)],
        PlotAxis(scaling.factor), PlotAxis.of(ends, axis_title(analysis.metric)), 1.6,
    )  # fmt: skip
    return drawn(plot, say)


def _line(x: Sequence[float], y: Sequence[float], confidence: float, say: Language) -> Iterator[PlotLine]:
    """Yield the line with the band of its mean, if there are trials enough."""
    line = fit_line(x, y, confidence)
    if line is not None and line.n >= 3:
        at = _steps(min(x), max(x))
        fitted = [line.intercept + line.slope * each for each in at]
        look = {"color": "black", "linewidth": 1.3}
        yield PlotLine(at, fitted, look, say("line"), mean_band(line, x, y, at, confidence))


def _curve(law: CountScaling, confidence: float, say: Language) -> Iterator[PlotLine]:
    """Yield the law between the levels measured, with its band where it has one everywhere, and its peak."""
    counts = [x for x, _ in law.points]
    at = _steps(min(counts), max(counts))
    bands = [band for each in at if (band := law.fit.interval(each, confidence)) is not None]
    ends = [(band.low, band.high) for band in bands] if len(bands) == len(at) else []
    look = {"color": PALETTE[1], "linewidth": 1.5, "linestyle": STROKES[1]}
    yield PlotLine(at, [law.fit.throughput(each) for each in at], look, say("scalability law"), ends)
    if (peak := law.fit.peak) is not None:
        mark = {"marker": "v", "ms": 6, "color": PALETTE[1], "mec": "white", "mew": 0.6, "zorder": 5}
        yield PlotLine([peak.n], [peak.throughput], mark)


def _steps(low: float, high: float) -> list[float]:
    return [low + (high - low) * at / _STEPS for at in range(_STEPS + 1)]
