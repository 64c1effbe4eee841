"""A figure of series with one value per second, aligned at a mark that each trial recorded; a panel per treatment."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.analysis.campaign import CampaignResults
from lastro.figures.matplotlib_types import Figure
from lastro.figures.panels import MOST_PANELS, panel_limit_note, treatment_title
from lastro.figures.style import colour_of
from lastro.figures.xy import ACROSS, Look, PanelRule, Plot, PlotAxis, PlotLine, PlotPanel, draw_plot
from lastro.grouping import by_key
from lastro.results.additions import AlignedSeries
from lastro.results.rows import Attempt
from lastro.results.samples import Series
from lastro.stats.intervals import sample_mean
from lastro.words.language import Language

ValuesByLine = dict[str, list[tuple[float, ...]]]  # line -> for each trial, a value for each second


def draw_aligned(aligned: AlignedSeries, report: CampaignResults, say: Language) -> Figure | None:
    """Draw, for each treatment, the mean of its valid trials in each second, in a band from minimum to maximum.

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
            items += _events(row_attempts, aligned) if aligned.back else []
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

    The values begin `aligned.before_s` seconds before that mark, and end at the mark `aligned.end` if it was recorded.
    All are cut to the length of the shortest, so that each mean is over the same attempts. An attempt that lacks a line
    is left out. The result is empty if no values remain."""
    stored = report.later_series([(attempt.trial, attempt.attempt) for attempt in attempts])
    counts: ValuesByLine = {line: [] for line in aligned.lines}
    for attempt, series in zip(attempts, stored, strict=True):
        at_s, end_s = attempt.typed_notes.marks_s[aligned.begin], attempt.typed_notes.marks_s.get(aligned.end)
        first = int(at_s) - aligned.before_s
        for line, seconds in _by_line(series, aligned).items():
            shown = seconds[max(0, first) : None if end_s is None else int(end_s) + 1]
            counts[line].append((0.0,) * max(0, -first) + shown)
    shortest = min((len(seconds) for trials in counts.values() for seconds in trials), default=0)
    return {line: [seconds[:shortest] for seconds in trials] for line, trials in counts.items()} if shortest else {}


def _by_line(series: Sequence[Series], aligned: AlignedSeries) -> dict[str, tuple[float, ...]]:
    """Return {line: the sum of its series in each second}; empty if a line has none of its series in the trial."""
    stored = {recorded.name: recorded.values for recorded in series if recorded.values}
    sums: dict[str, tuple[float, ...]] = {}
    for line, names in aligned.lines.items():
        if values := [stored[name] for name in names if name in stored]:
            sums[line] = tuple(map(sum, zip(*values, strict=False)))
    return sums if len(sums) == len(aligned.lines) else {}


def _events(attempts: Sequence[Attempt], aligned: AlignedSeries) -> list[PanelRule]:
    """Return vertical rules at 0, the mark `aligned.begin`, and at the mean delay from it to the mark `aligned.back`.

    The second rule is left out if no attempt recorded `aligned.back`."""
    marks_s = [attempt.typed_notes.marks_s for attempt in attempts]
    delays_s = [marks[aligned.back] - marks[aligned.begin] for marks in marks_s if aligned.back in marks]
    look: Look = {"color": "black", "linewidth": 0.8}
    later = [PanelRule("x", sample_mean(delays_s), {**look, "linestyle": (0, (3, 2))})] if delays_s else []
    return [PanelRule("x", 0, look), *later]
