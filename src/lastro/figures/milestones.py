"""Metrics that begin at the same moment, such as the ends of phases, on one axis: a row for each treatment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lastro.analysis.campaign import CampaignResults
from lastro.figures.scale import AxisEnds, interval_bar, over
from lastro.figures.style import (
    GRID,
    SMALL_PT,
    colour_of,
    fit,
    headed,
    is_narrow,
    legend,
    marker_of,
    new_figure,
    numbers_in,
)
from lastro.figures.text import lines_of, wrapped
from lastro.results.additions import Milestones
from lastro.stats.intervals import Summary
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_milestones(milestones: Milestones, report: CampaignResults, say: Language) -> Figure | None:
    """Draw means with their intervals; None for a study without two such times, or without a valid trial."""
    from matplotlib.lines import Line2D

    columns = {view.metric.name: view for view in report.views if view.metric.name in milestones.metrics}
    rows = [row for row in report.rows if any(view.of(row).summary for view in columns.values())]
    if len(columns) < 2 or not rows:
        return None
    figure = new_figure()
    axes = figure.subplots()
    varying = [factor.name for factor in report.varying] or [factor.name for factor in report.study.factors]
    names = [" · ".join(str(row.treatment.levels[name]) for name in varying) for row in rows]
    labels = [wrapped(name, 13 if is_narrow(figure) else 24) for name in names]
    row_in = max(0.26, 0.06 + 0.13 * max(map(lines_of, labels)))
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    ends = _reach([summary for row in rows for view in columns.values() if (summary := view.of(row).summary)])
    axes.set_xlim(ends.low, ends.high)
    handles = []
    for number, name in enumerate(each for each in milestones.metrics if each in columns):
        look: dict[str, Any] = {"marker": marker_of(number), "color": colour_of(number), "linestyle": "none"}
        handles.append(Line2D([], [], ms=4.5, label=name, **look))
        for y, row in enumerate(rows):
            _mark(axes, y, columns[name].of(row).summary, look)
    axes.tick_params(axis="y", length=0, labelsize=SMALL_PT)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_xlabel(say(milestones.axis))
    legend(figure, handles, most=3)
    numbers_in(axes, say)
    n_most = max(row.n_valid for row in rows)
    how = say("mean of the valid trials with its interval, n = {n} at most", n=say.integer(n_most))
    headed(figure, say(milestones.title), how, *ends.words(say("time"), say))
    return fit(figure, [axes], row_in * len(rows))


def _reach(found: Sequence[Summary]) -> AxisEnds:
    """Return an axis from 0 to beyond every interval."""
    intervals = [(each.interval.low, each.interval.high) for each in found if each.interval is not None]
    high = max([each.mean for each in found] + [end for _, end in intervals])
    return over(intervals, AxisEnds(0.0, 1.05 * high or 1.0), bounded=True)


def _mark(axes: Axes, y: int, summary: Summary | None, look: Mapping[str, Any]) -> None:
    if summary is None:
        return
    if summary.interval is not None:
        interval_bar(axes, (summary.interval.low, summary.interval.high), y, look["color"], width_pt=1.2)
    axes.plot([summary.mean], [y], ms=4.5, mec="white", mew=0.5, zorder=3.5, **look)
