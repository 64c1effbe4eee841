"""Series with a value for each second, aligned at a mark of each trial: a panel for each treatment."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.analysis.campaign import CampaignResults
from lastro.figures.matplotlib_types import Figure
from lastro.figures.panels import MOST_PANELS, not_all, treatment_title
from lastro.figures.style import colour_of
from lastro.figures.xy import ACROSS, Look, PanelRule, Plot, PlotAxis, PlotLine, PlotPanel, drawn
from lastro.grouping import by_key
from lastro.results.additions import AlignedSeries
from lastro.results.rows import Attempt
from lastro.results.samples import Series
from lastro.stats.intervals import sample_mean
from lastro.words.language import Language

Counts = dict[str, list[tuple[float, ...]]]  # line -> for each trial, a value for each second


def draw_aligned(aligned: AlignedSeries, report: CampaignResults, say: Language) -> Figure | None:
    """Draw means over the valid trials, and the band from the smallest to the largest; None without such a mark."""
    attempts = attempts_of(report, aligned)
    rows = [row for row in report.rows if attempts.get(row.treatment.index)]
    panels = []
    for row in rows[:MOST_PANELS]:
        own = attempts[row.treatment.index]
        if counts := counts_of(report, own, aligned):
            items: list[PlotLine | PanelRule] = [
                mean_line(trials, {"color": colour_of(at), "linewidth": 1.0}, say(line), -aligned.before_s)
                for at, (line, trials) in enumerate(counts.items())
            ]
            items += _events(own, aligned) if aligned.back else []
            panels.append(PlotPanel(items, treatment_title(report, row, len(next(iter(counts.values()))), say)))
    if not panels:
        return None
    how = [say(aligned.how), say(aligned.events), not_all(len(rows), say)]
    x, y = PlotAxis(say(aligned.axis)), PlotAxis(say(aligned.quantity), low=0)
    return drawn(Plot(panels, say(aligned.title), how, x, y, 0.9, ACROSS), say)


def mean_line(trials: Sequence[tuple[float, ...]], look: Look, name: str, begin_s: int = 0) -> PlotLine:
    """Return the mean of trials in each second, with the band from the smallest to the largest."""
    seconds = list(zip(*trials, strict=True))
    band = [(min(second), max(second)) for second in seconds]
    at = range(begin_s, begin_s + len(seconds))
    return PlotLine(at, [sample_mean(second) for second in seconds], look, name, band)


def attempts_of(report: CampaignResults, aligned: AlignedSeries) -> dict[int, list[Attempt]]:
    """Return, by treatment, the valid attempts that noted the first mark."""
    valid = (attempt for attempt in report.attempts if attempt.valid and aligned.begin in attempt.noted.marks_s)
    return by_key((attempt.treatment, attempt) for attempt in valid)


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


def _events(attempts: Sequence[Attempt], aligned: AlignedSeries) -> list[PanelRule]:
    """Return the first mark, and the mean of the later one, which differs between trials."""
    marks_s = [attempt.noted.marks_s for attempt in attempts]
    gone = [each[aligned.back] - each[aligned.begin] for each in marks_s if aligned.back in each]
    look: Look = {"color": "black", "linewidth": 0.8}
    later = [PanelRule("x", sample_mean(gone), {**look, "linestyle": (0, (3, 2))})] if gone else []
    return [PanelRule("x", 0, look), *later]
