"""A figure of one series against another, such as the loss of each probe against its load; a panel per treatment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lastro.analysis.campaign import CampaignResults, MetricView, Row
from lastro.figures.matplotlib_types import Figure
from lastro.figures.panels import MOST_PANELS, panel_limit_note, treatment_title
from lastro.figures.style import DASHED, colour_of
from lastro.figures.xy import ACROSS, Look, PanelRule, Plot, PlotAxis, PlotLine, PlotPanel, dot_look, draw_plot
from lastro.results.additions import PairedSeries
from lastro.results.rows import Attempt
from lastro.results.samples import Series
from lastro.words.language import Language

_LINEAR_PERCENT = 0.01  # below it, the scale is linear, so that it has a 0
_TICKS = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)


class _Point(NamedTuple):
    """A point of the figure; `reached` is false if `x` is less than the requested value."""

    x: float
    y: float
    reached: bool


def draw_paired(paired: PairedSeries, report: CampaignResults, say: Language) -> Figure | None:
    """Draw all points of the valid trials, a panel for each treatment; None if there are no points."""
    attempts = report.valid_attempts()
    rows = [(row, _pairs(report, attempts.get(row.treatment.index, []), paired)) for row in report.rows]
    measured = [(row, pairs) for row, pairs in rows if pairs]
    if not measured:
        return None
    views = [view for view in report.views if view.metric.name in paired.found]
    panels = [
        PlotPanel(list(_items(row, pairs, paired, views, say)), treatment_title(report, row, row.n_valid, say))
        for row, pairs in measured[:MOST_PANELS]
    ]
    y = PlotAxis(
        say(paired.y_axis), -_LINEAR_PERCENT / 2, 130, linear_below=_LINEAR_PERCENT,
        ticks=[(tick, say.number(f"{tick:g}")) for tick in _TICKS],
    )  # fmt: skip
    how = [say(paired.how), panel_limit_note(len(measured), say)]
    return draw_plot(Plot(panels, say(paired.title), how, PlotAxis(say(paired.x_axis), log=True), y, 1.1, ACROSS), say)


def _pairs(report: CampaignResults, attempts: Sequence[Attempt], paired: PairedSeries) -> list[_Point]:
    """Return the points of all attempts, with x in the unit of the axis.

    Points whose x is not positive are left out, and so are attempts that lack one of the two series."""
    pairs: list[_Point] = []
    for series in report.later_series([(attempt.trial, attempt.attempt) for attempt in attempts]):
        by_name: dict[str, Series] = {recorded.name: recorded for recorded in series}
        if paired.x in by_name and paired.y in by_name:
            x, y = by_name[paired.x].values, by_name[paired.y].values
            reached = by_name[paired.reached].values if paired.reached in by_name else (1.0,) * len(x)
            pairs += [
                _Point(x_value / paired.per_unit, y_value, bool(was_reached))
                for x_value, y_value, was_reached in zip(x, y, reached, strict=False)
                if x_value > 0
            ]
    return pairs


def _items(
    row: Row, pairs: Sequence[_Point], paired: PairedSeries, views: Sequence[MetricView], say: Language
) -> Iterator[PlotLine | PanelRule]:
    """Yield the points of a treatment, a rule at each goal, and the mean of each of `views` with its interval."""
    hollow = {"mew": 0.6, "mfc": "none"}
    for reached, name, more in ((True, say("one probe"), {}), (False, say(paired.missed), hollow)):
        if shown := [pair for pair in pairs if pair.reached == reached]:
            look = dot_look(colour_of(0), 2.6, 0.55, zorder=3) | more | ({} if reached else {"gid": None})
            yield PlotLine([pair.x for pair in shown], [pair.y for pair in shown], look, name)
    goals = ", ".join(say.number(f"{goal:g}") + " %" for goal in paired.goals)
    for goal in paired.goals:
        yield PanelRule("y", goal, DASHED, say("goal: {goals}", goals=goals))
    for at, view in enumerate(views, 1):
        cell, name, colour = view.of(row), view.metric.name, colour_of(at)
        if (summary := cell.summary) is None:
            continue
        if summary.interval is not None:
            low, high = (max(end, 0.0) / paired.per_unit for end in (summary.interval.low, summary.interval.high))
            yield PanelRule("x", (low, high), {"color": colour, "alpha": 0.18, "linewidth": 0, "zorder": 1})
        exact: Look = {"color": colour, "linewidth": 1.1, "zorder": 2}
        if cell.bounded:
            bound = say("{metric}: mean, only a lower bound", metric=name)
            yield PanelRule("x", summary.mean / paired.per_unit, {**exact, "linestyle": ":"}, bound)
        else:
            yield PanelRule(
                "x", summary.mean / paired.per_unit, exact, say("{metric}: mean and its interval", metric=name)
            )
