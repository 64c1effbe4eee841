"""The life of a network until it forwards: when each phase ended, on one axis, a row for each treatment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lastro.report.figures.style import (
    GRID,
    SMALL_PT,
    colour_of,
    headed,
    marker_of,
    new_figure,
    numbers_in,
    wrapped,
)
from lastro.report.language import Language
from lastro.report.model import Report, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Metrics that begin at the same moment, in the order in which they usually end.
MOMENTS = (
    "created", "first_ospf_packet", "boot", "initial_adjacency", "initial_last_update", "initial_routes",
    "initial_forwarding",
)  # fmt: skip
_ROW_IN = 0.3


def draw_phases(report: Report, say: Language) -> Figure | None:
    """Means with their intervals; None for a study without two such moments, or without a valid trial."""
    columns = {metric.name: at for at, metric in enumerate(report.metrics) if metric.name in MOMENTS}
    rows = [row for row in report.rows if any(row.cells[at].summary for at in columns.values())]
    if len(columns) < 2 or not rows:
        return None
    figure = new_figure(_ROW_IN * len(rows) + 1.7)
    axes = figure.subplots()
    for number, name in enumerate(each for each in MOMENTS if each in columns):
        for y, row in enumerate(rows):
            _mark(axes, y, row, columns[name], number, name if y == 0 else "")
    varying = [factor.name for factor in report.varying] or [factor.name for factor in report.study.factors]
    labels = [" · ".join(str(row.treatment.levels[name]) for name in varying) for row in rows]
    axes.set_yticks(range(len(rows)), [wrapped(label, 24) for label in labels])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.tick_params(axis="y", length=0, labelsize=SMALL_PT)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_xlabel(say("seconds since the first start"))
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=SMALL_PT)
    numbers_in(axes, say)
    n_most = max(row.n_valid for row in rows)
    how = say("mean of the valid trials with its interval, n = {n} at most", n=say.integer(n_most))
    headed(figure, say("From the first start to the first forwarded packet"), how)
    return figure


def _mark(axes: Axes, y: int, row: Row, column: int, number: int, label: str) -> None:
    summary = row.cells[column].summary
    if summary is None:
        if label:  # its place in the legend, for the rows below
            axes.plot([], [], linestyle="none", marker=marker_of(number), color=colour_of(number), label=label)
        return
    if summary.interval is not None:
        axes.plot([summary.interval.low, summary.interval.high], [y, y], color=colour_of(number), linewidth=1.2)
    axes.plot(
        [summary.mean], [y], linestyle="none", marker=marker_of(number), ms=4.5, color=colour_of(number), mec="white",
        mew=0.5, label=label or None, zorder=3,
    )  # fmt: skip
