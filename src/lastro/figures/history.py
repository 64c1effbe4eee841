"""A figure of a history: the means of campaigns in order, the levels between changes, and where each change may be."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise

from lastro.analysis.history import HistoryReport, HistorySeries
from lastro.figures import FigurePlan
from lastro.figures.matplotlib_types import Figure
from lastro.figures.scale import Ends, axis_ends
from lastro.figures.style import GREY, PALETTE
from lastro.figures.text import safe
from lastro.figures.xy import Item, PanelRule, Plot, PlotAxis, PlotLine, PlotPanel, Whiskers, draw_plot
from lastro.words.history import treatment_text
from lastro.words.language import Language
from lastro.words.numbers import metric_heading

_MOST_NAMES = 12  # of campaigns, below the axis
_TONES = {"worse": PALETTE[1], "better": PALETTE[2], "higher": GREY, "lower": GREY}


def history_plans(report: HistoryReport, say: Language) -> list[FigurePlan]:
    """Return the plan of a figure for each series of a history, in the order of `report.series`."""
    return [
        FigurePlan("history", None, f"history-{at}", _title(series, say), partial(_draw, series, say))
        for at, series in enumerate(report.series)
    ]


def _draw(series: HistorySeries, say: Language) -> Figure | None:
    bars: dict[float, Ends] = {}
    text, mean = series.metric.unit, say("mean of each campaign with its interval")
    if series.sentinel is not None:
        sentinel = " · ".join(series.sentinel.values())
        text = say("relative to {sentinel}", sentinel=sentinel)
        mean = say("mean of each campaign relative to that of {sentinel}", sentinel=sentinel)
    else:
        for at, summary in enumerate(series.summaries):
            if summary.low is not None and summary.high is not None:
                bars[float(at)] = (summary.low, summary.high)
    ends = axis_ends(series.metric, series.judged, list(bars.values()), series.judged)
    panels = [PlotPanel(_items(series, bars), y=PlotAxis.of(ends, text))]
    names = [point.name for point in series.points]
    step = -(-len(names) // _MOST_NAMES)
    ticks = [(float(at), safe(name, 12)) for at, name in enumerate(names) if at % step == 0]
    how = [mean, say("lines: levels between changes; bands: where a change may be")]
    how += ends.words(series.metric.name, say)
    x = PlotAxis(say("campaigns in the order of their measurement"), -0.6, len(names) - 0.4, ticks=ticks, grid=False)
    return draw_plot(Plot(panels, _title(series, say), how, x, PlotAxis(), 2.2), say)


def _title(series: HistorySeries, say: Language) -> str:
    return f"{metric_heading(series.metric)} · {treatment_text(series, say)}"


def _items(series: HistorySeries, bars: Mapping[float, Ends]) -> list[Item]:
    """Return the items of the panel: a band where each change may be, the levels between changes, and the means.

    `bars` are the intervals of the means, {position: ends}; none if the means are relative to a sentinel."""
    items: list[Item] = [
        PanelRule(
            "x", (change.point.first - 0.5, change.point.last - 0.5 + (change.point.first == change.point.last) * 0.06),
            {"color": _TONES.get(change.verdict, GREY), "alpha": 0.25, "linewidth": 0},
        )
        for change in series.changes
    ]  # fmt: skip
    edges = [0, *(change.point.at for change in series.changes), len(series.points)]
    for start, end in pairwise(edges):
        mean = sum(series.judged[start:end]) / (end - start)
        level = {"color": "black", "linewidth": 1.3, "marker": "", "zorder": 3}
        items.append(PlotLine([start - 0.4, end - 0.6], [mean, mean], level))
    places = list(range(len(series.points)))
    look = {"color": PALETTE[0], "linestyle": "none", "marker": "o", "ms": 4.5, "mec": "white", "mew": 0.5, "zorder": 4}
    items.append(PlotLine(places, series.judged, look))
    items.append(Whiskers(bars, PALETTE[0], width_pt=0.9))
    return items
