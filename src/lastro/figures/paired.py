"""One series against another, such as the loss of each probe against its load: a panel for each treatment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lastro.analysis.campaign import CampaignResults, MetricView, Row
from lastro.figures.panels import MOST_PANELS, not_all, panels_of, treatment_label
from lastro.figures.style import DASHED, GRID, SMALL_PT, colour_of, fit, headed, legend, new_figure, numbers_in
from lastro.results.additions import PairedSeries
from lastro.results.samples import Series
from lastro.stats.notes import N_
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lastro.results.rows import Attempt

_PANEL_IN = 1.1
_LINEAR_PERCENT = 0.01  # below it, the scale is linear, so that it has a 0
_MEAN: Literal["-"] = "-"
_AT_LEAST: Literal[":"] = ":"
_LINES: dict[Literal["-", ":"], str] = {
    _MEAN: N_("{metric}: mean and its interval"),
    _AT_LEAST: N_("{metric}: mean, only a lower bound"),
}
_TICKS = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)
_POINT: dict[str, Any] = {"linestyle": "none", "marker": "o", "color": colour_of(0)}
_LOOKS: dict[bool, dict[str, Any]] = {True: {**_POINT, "mew": 0}, False: {**_POINT, "mew": 0.6, "mfc": "none"}}


class _Pair(NamedTuple):
    """A point; `reached` is false if its x is less than what was asked for."""

    x: float
    y: float
    reached: bool


def draw_paired(paired: PairedSeries, report: CampaignResults, say: Language) -> Figure | None:
    """Draw all pairs of the valid trials whose x is positive; None if no trial has both series."""
    attempts = report.valid_attempts()
    rows = [(row, _pairs(report, attempts.get(row.treatment.index, []), paired)) for row in report.rows]
    measured = [(row, pairs) for row, pairs in rows if pairs]
    if not measured:
        return None
    shown = measured[:MOST_PANELS]
    views = [view for view in report.views if view.metric.name in paired.found]
    figure = new_figure()
    grid = panels_of(figure, len(shown))
    for at, (axes, (row, pairs)) in enumerate(zip(grid.axes, shown, strict=True)):
        _panel(axes, row, pairs, paired, views)
        grid.label(at, treatment_label(report, row, row.n_valid, grid.room, say))
        _scale(axes, say)
    figure.supylabel(say(paired.y_axis), fontsize=SMALL_PT)
    missed = any(not pair.reached for _, pairs in shown for pair in pairs)
    handles = _handles(paired, views, [row for row, _ in shown], missed, say)
    legend(figure, handles, say(paired.x_axis), most=3)
    headed(figure, say(paired.title), say(paired.how), not_all(len(measured), say))
    return fit(figure, grid.stacked, _PANEL_IN * grid.deep)


def _pairs(report: CampaignResults, attempts: Sequence[Attempt], paired: PairedSeries) -> list[_Pair]:
    pairs: list[_Pair] = []
    for series in report.later_series([(attempt.trial, attempt.attempt) for attempt in attempts]):
        found: dict[str, Series] = {each.name: each for each in series}
        if paired.x in found and paired.y in found:
            x, y = found[paired.x].values, found[paired.y].values
            reached = found[paired.reached].values if paired.reached in found else (1.0,) * len(x)
            pairs += [
                _Pair(one_x / paired.per_unit, one_y, bool(one_reached))
                for one_x, one_y, one_reached in zip(x, y, reached, strict=False)
                if one_x > 0
            ]
    return pairs


def _panel(axes: Axes, row: Row, pairs: Sequence[_Pair], paired: PairedSeries, views: Sequence[MetricView]) -> None:
    for reached, look in _LOOKS.items():
        shown = [pair for pair in pairs if pair.reached == reached]
        axes.plot([pair.x for pair in shown], [pair.y for pair in shown], ms=2.6, alpha=0.55, zorder=3, **look)
    for goal in paired.goals:
        axes.axhline(goal, **DASHED)
    for at, view in enumerate(views):
        cell = view.of(row)
        if (summary := cell.summary) is None:
            continue
        colour = colour_of(at + 1)
        if summary.interval is not None:
            low, high = (max(end, 0.0) / paired.per_unit for end in (summary.interval.low, summary.interval.high))
            axes.axvspan(low, high, color=colour, alpha=0.18, linewidth=0, zorder=1)
        line = _AT_LEAST if cell.bounded else _MEAN
        axes.axvline(summary.mean / paired.per_unit, color=colour, linewidth=1.1, linestyle=line, zorder=2)


def _scale(axes: Axes, say: Language) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_yscale("symlog", linthresh=_LINEAR_PERCENT, linscale=0.8)
    axes.set_ylim(-_LINEAR_PERCENT / 2, 130)
    axes.yaxis.set_major_locator(FixedLocator(_TICKS))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: say.number(f"{value:g}")))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xscale("log")
    axes.grid(color=GRID, linewidth=0.6)
    numbers_in(axes, say)


def _handles(
    paired: PairedSeries, views: Sequence[MetricView], rows: Sequence[Row], missed: bool, say: Language
) -> list[object]:
    from matplotlib.lines import Line2D

    found: list[object] = [Line2D([], [], ms=3.5, label=say("one probe"), **_LOOKS[True])]
    if missed:
        found.append(Line2D([], [], ms=3.5, label=say(paired.missed), **_LOOKS[False]))
    goals = ", ".join(say.number(f"{goal:g}") + " %" for goal in paired.goals)
    if goals:
        found.append(Line2D([], [], label=say("goal: {goals}", goals=goals), **DASHED))
    for at, view in enumerate(views):
        found += [
            Line2D([], [], color=colour_of(at + 1), linewidth=1.1, linestyle=line, label=say(text, metric=name))
            for name, cells in [(view.metric.name, [view.of(row) for row in rows])]
            for line, text in _LINES.items()
            if any(cell.summary and bool(cell.bounded) is (line == _AT_LEAST) for cell in cells)
        ]
    return found
