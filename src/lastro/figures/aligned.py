"""Series with a value for each second, aligned at a mark of each trial: a panel for each treatment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lastro.analysis.campaign import CampaignResults
from lastro.figures.panels import MOST_PANELS, not_all, panels_of, treatment_label
from lastro.figures.style import (
    GRID,
    SMALL_PT,
    colour_of,
    fit,
    headed,
    legend,
    new_figure,
    numbers_in,
)
from lastro.results.additions import AlignedSeries
from lastro.results.samples import Series
from lastro.stats.intervals import sample_mean
from lastro.words.language import Language

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lastro.results.rows import Attempt

_PANEL_IN = 0.9

Counts = dict[str, list[tuple[float, ...]]]  # line -> for each trial, a value for each second


def draw_aligned(aligned: AlignedSeries, report: CampaignResults, say: Language) -> Figure | None:
    """Draw means over the valid trials, and the band from the smallest to the largest; None without such a mark."""
    attempts = attempts_of(report, aligned)
    rows = [row for row in report.rows if attempts.get(row.treatment.index)]
    counts = [(row, counts_of(report, attempts[row.treatment.index], aligned)) for row in rows[:MOST_PANELS]]
    panels = [(row, found) for row, found in counts if found]
    if not panels:
        return None
    figure = new_figure()
    grid = panels_of(figure, len(panels))
    for at, (axes, (row, found)) in enumerate(zip(grid.axes, panels, strict=True)):
        _panel(axes, found, aligned, say, named=at == 0)
        if aligned.back:
            _mark_events(axes, attempts[row.treatment.index], aligned)
        n = len(next(iter(found.values())))
        grid.label(at, treatment_label(report, row, n, grid.room, say))
        numbers_in(axes, say, x=True, y=True)
    figure.supylabel(say(aligned.quantity), fontsize=SMALL_PT)
    named, _ = grid.axes[0].get_legend_handles_labels()
    legend(figure, named, say(aligned.axis), most=3)
    headed(figure, say(aligned.title), say(aligned.how), say(aligned.events), not_all(len(rows), say))
    return fit(figure, grid.stacked, _PANEL_IN * grid.deep)


def attempts_of(report: CampaignResults, aligned: AlignedSeries) -> dict[int, list[Attempt]]:
    """Return, by treatment, the valid attempts that noted the first mark."""
    found: dict[int, list[Attempt]] = {}
    for attempt in report.attempts:
        if attempt.valid and aligned.begin in attempt.noted.marks_s:
            found.setdefault(attempt.treatment, []).append(attempt)
    return found


def counts_of(report: CampaignResults, attempts: Sequence[Attempt], aligned: AlignedSeries) -> Counts:
    """Return the series of all trials, cut to the shortest, so that each mean is over all trials."""
    stored = report.later_series([(attempt.trial, attempt.attempt) for attempt in attempts])
    found: Counts = {line: [] for line in aligned.lines}
    for attempt, series in zip(attempts, stored, strict=True):
        at_s, end_s = attempt.noted.marks_s[aligned.begin], attempt.noted.marks_s.get(aligned.end)
        first = int(at_s) - aligned.before_s
        for line, seconds in _by_line(series, aligned).items():
            shown = seconds[max(0, first) : None if end_s is None else int(end_s) + 1]
            found[line].append((0.0,) * max(0, -first) + shown)
    shortest = min((len(seconds) for trials in found.values() for seconds in trials), default=0)
    return {line: [seconds[:shortest] for seconds in trials] for line, trials in found.items()} if shortest else {}


def _by_line(series: Sequence[Series], aligned: AlignedSeries) -> dict[str, tuple[float, ...]]:
    """Return the sum of each line's series in each second; empty if the trial lacks a line."""
    stored = {each.name: each.values for each in series if each.values}
    found: dict[str, tuple[float, ...]] = {}
    for line, names in aligned.lines.items():
        if own := [stored[name] for name in names if name in stored]:
            found[line] = tuple(map(sum, zip(*own, strict=False)))
    return found if len(found) == len(aligned.lines) else {}


def _panel(axes: Axes, counts: Counts, aligned: AlignedSeries, say: Language, *, named: bool) -> None:
    for number, (line, trials) in enumerate(counts.items()):
        seconds = list(zip(*trials, strict=True))
        at = [second - aligned.before_s for second in range(len(seconds))]
        means = [sample_mean(second) for second in seconds]
        axes.plot(at, means, color=colour_of(number), linewidth=1.0, label=say(line) if named else None)
        least, most = [min(second) for second in seconds], [max(second) for second in seconds]
        axes.fill_between(at, least, most, color=colour_of(number), alpha=0.2, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.grid(color=GRID, linewidth=0.6)


def _mark_events(axes: Axes, attempts: Sequence[Attempt], aligned: AlignedSeries) -> None:
    """Mark the first mark, and the mean of the later one, which differs between trials."""
    marks_s = [attempt.noted.marks_s for attempt in attempts]
    gone = [each[aligned.back] - each[aligned.begin] for each in marks_s if aligned.back in each]
    axes.axvline(0, color="black", linewidth=0.8)
    if gone:
        axes.axvline(sample_mean(gone), color="black", linewidth=0.8, linestyle=(0, (3, 2)))
