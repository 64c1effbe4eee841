"""What the scenario of a study adds to its report, and its figures of series and of milestones.

A figure of series has a panel for each treatment. One kind shows values per second, aligned at a mark that each trial
recorded; the other shows one series against another, such as the loss of each probe against its load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lastro.analysis.campaign import CampaignResults, MetricView, Row
from lastro.analysis.growth import Growths, growths
from lastro.figures.matplotlib_types import Figure
from lastro.figures.rows import FigureRow, RowDot, RowPanel, draw_rows
from lastro.figures.scale import ends_of, from_zero
from lastro.figures.style import DASHED, colour_of, marker_of
from lastro.figures.xy import ACROSS, Look, PanelRule, Plot, PlotAxis, PlotLine, PlotPanel, dot_look, draw_plot
from lastro.grouping import by_key
from lastro.results.additions import AlignedSeries, Milestones, PairedSeries, ScenarioFigure
from lastro.results.rows import Attempt
from lastro.results.samples import Series
from lastro.stats.intervals import sample_mean
from lastro.stats.notes import N_
from lastro.words.language import Language

if TYPE_CHECKING:
    from lastro.scenarios.base import Scenario

MOST_PANELS = 36
_LINEAR_PERCENT = 0.01  # below it, the scale is linear, so that it has a 0
_TICKS = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)
_DOT: Look = {"ms": 4.5, "mec": "white", "mew": 0.5}

ValuesByLine = dict[str, list[tuple[float, ...]]]  # line -> for each trial, a value for each second


def draw_aligned(aligned: AlignedSeries, report: CampaignResults, say: Language) -> Figure | None:
    """Draw, for each treatment, the mean of its valid trials in each second, in a band from minimum to maximum.

    Vertical rules are at the mark `aligned.begin`, and at the mean delay from it to the mark `aligned.back`.
    None if no valid trial recorded the mark at which the series are aligned."""
    attempts = attempts_of(report, aligned)
    rows = [row for row in report.rows if attempts.get(row.treatment.index)]
    panels = []
    for row in rows[:MOST_PANELS]:
        row_attempts = attempts[row.treatment.index]
        if counts := aligned_values(report, row_attempts, aligned):
            items: list[PlotLine | PanelRule] = [
                mean_line(trials, {"color": colour_of(number), "linewidth": 1.0}, say(line), -aligned.before_s)
                for number, (line, trials) in enumerate(counts.items())
            ]
            if aligned.back:
                marks_s = [attempt.typed_notes.marks_s for attempt in row_attempts]
                delays_s = [marks[aligned.back] - marks[aligned.begin] for marks in marks_s if aligned.back in marks]
                rule: Look = {"color": "black", "linewidth": 0.8}
                items.append(PanelRule("x", 0, rule))
                later: Look = {**rule, "linestyle": (0, (3, 2))}
                items += [PanelRule("x", sample_mean(delays_s), later)] if delays_s else []
            panels.append(PlotPanel(items, treatment_title(report, row, len(next(iter(counts.values()))), say)))
    if not panels:
        return None
    how = [say(aligned.how), say(aligned.events), panel_limit_note(len(rows), say)]
    x, y = PlotAxis(say(aligned.axis)), PlotAxis(say(aligned.quantity), low=0)
    return draw_plot(Plot(panels, say(aligned.title), how, x, y, 0.9, ACROSS), say)


def mean_line(trials: Sequence[tuple[float, ...]], look: Look, name: str, begin_s: int = 0) -> PlotLine:
    """Return the line of the mean of `trials` in each second, in a band from the minimum to the maximum.

    Each trial has one value per second, and all have the same length. The first value is at `begin_s` on the axis."""
    seconds = list(zip(*trials, strict=True))
    band = [(min(second), max(second)) for second in seconds]
    at = range(begin_s, begin_s + len(seconds))
    return PlotLine(at, [sample_mean(second) for second in seconds], look, name, band)


def attempts_of(report: CampaignResults, aligned: AlignedSeries) -> dict[int, list[Attempt]]:
    """Return {index of a treatment: its valid attempts that recorded the mark `aligned.begin`}."""
    valid = (attempt for attempt in report.attempts if attempt.valid and aligned.begin in attempt.typed_notes.marks_s)
    return by_key((attempt.treatment, attempt) for attempt in valid)


def aligned_values(report: CampaignResults, attempts: Sequence[Attempt], aligned: AlignedSeries) -> ValuesByLine:
    """Return {line: its values in each attempt, one per second}, aligned at the mark `aligned.begin`.

    A value of a line is the sum of its series. The values begin `aligned.before_s` seconds before that mark, and end at
    the mark `aligned.end` if it was recorded. All are cut to the length of the shortest, so that each mean is over the
    same attempts. An attempt that lacks a line is left out. The result is empty if no values remain."""
    stored = report.later_series([(attempt.trial, attempt.attempt) for attempt in attempts])
    counts: ValuesByLine = {line: [] for line in aligned.lines}
    for attempt, series in zip(attempts, stored, strict=True):
        at_s, end_s = attempt.typed_notes.marks_s[aligned.begin], attempt.typed_notes.marks_s.get(aligned.end)
        first = int(at_s) - aligned.before_s
        recorded = {each.name: each.values for each in series if each.values}
        parts = {line: [recorded[name] for name in names if name in recorded] for line, names in aligned.lines.items()}
        if not all(parts.values()):
            continue
        for line, values in parts.items():
            seconds = tuple(map(sum, zip(*values, strict=False)))
            shown = seconds[max(0, first) : None if end_s is None else int(end_s) + 1]
            counts[line].append((0.0,) * max(0, -first) + shown)
    shortest = min((len(seconds) for trials in counts.values() for seconds in trials), default=0)
    return {line: [seconds[:shortest] for seconds in trials] for line, trials in counts.items()} if shortest else {}


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
    hollow = {"mew": 0.6, "mfc": "none", "gid": None}
    for reached, name, more in ((True, say("one probe"), {}), (False, say(paired.missed), hollow)):
        if shown := [pair for pair in pairs if pair.reached == reached]:
            look = dot_look(colour_of(0), 2.6, 0.55, zorder=3) | more
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
        text = N_("{metric}: mean, only a lower bound") if cell.bounded else N_("{metric}: mean and its interval")
        line = {"color": colour, "linewidth": 1.1, "zorder": 2} | ({"linestyle": ":"} if cell.bounded else {})
        yield PanelRule("x", summary.mean / paired.per_unit, line, say(text, metric=name))


def treatment_title(report: CampaignResults, row: Row, n: int, say: Language) -> list[str]:
    """Return the lines of the title of a panel: the levels that vary, if any, and 'n = 5'."""
    levels = [str(row.treatment.levels[factor.name]) for factor in report.varying]
    return [*([" · ".join(levels)] if levels else []), say("n = {n}", n=say.integer(n))]


def panel_limit_note(n: int, say: Language) -> str:
    """Return '36 of 40 treatments' if `n` treatments are too many for one figure; otherwise empty."""
    return say("{n} of {all} treatments", n=MOST_PANELS, all=n) if n > MOST_PANELS else ""


def draw_milestones(milestones: Milestones, report: CampaignResults, say: Language) -> Figure | None:
    """Draw the mean of each duration with its interval; None with fewer than two durations, or if none was measured."""
    by_name = {view.metric.name: view for view in report.views}
    views = [by_name[name] for name in milestones.metrics if name in by_name]
    measured = [row for row in report.rows if any(view.of(row).summary for view in views)]
    if len(views) < 2 or not measured:
        return None
    varying = [factor.name for factor in report.varying] or [factor.name for factor in report.study.factors]
    looks: list[Look] = [
        {"marker": marker_of(at), "color": colour_of(at), "linestyle": "none"} for at in range(len(views))
    ]
    rows = []
    for row in measured:
        dots = []
        for view, look in zip(views, looks, strict=True):
            if summary := view.of(row).summary:
                dots.append(RowDot(summary.mean, ends_of(summary.interval), look["color"], {**look, **_DOT}, 1.2))
        rows.append(FigureRow(" · ".join(str(row.treatment.levels[name]) for name in varying), marks=dots))
    ends = from_zero([summary for row in measured for view in views if (summary := view.of(row).summary)])
    n_most = say.integer(max(row.n_valid for row in measured))
    how = say("mean of the valid trials with its interval, n = {n} at most", n=n_most)
    legend = [(view.metric.name, look) for view, look in zip(views, looks, strict=True)]
    lines = [how, *ends.words(say("time"), say)]
    return draw_rows([RowPanel(rows, ends, say(milestones.axis))], say(milestones.title), lines, say, legend)


def figures_of(report: CampaignResults) -> tuple[ScenarioFigure, ...]:
    """Return the figures that the scenario declares for the study of a report; empty without any."""
    return _scenario(report).figures_for(report.study)


def growth_of(report: CampaignResults) -> Growths | None:
    """Return how metrics grow with the sizes of the scenario; None unless at least two sizes were measured."""
    sized = _scenario(report).sized
    return (growths(report, sized) or None) if sized else None


def _scenario(report: CampaignResults) -> type[Scenario]:
    from lastro.scenarios.base import Scenario, installed_scenario  # loads what every scenario imports

    return installed_scenario(report.study) or Scenario
