"""A line chart of the source over time, drawn with the series of this campaign."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lastro.analysis.as_published import MatchedLines
from lastro.analysis.campaign import CampaignResults
from lastro.figures.aligned_series import aligned_values, attempts_of, mean_line
from lastro.figures.matplotlib_types import Figure
from lastro.figures.style import colour_of
from lastro.figures.xy import ACROSS, Look, PanelRule, Plot, PlotAxis, PlotPanel, draw_plot
from lastro.results.additions import AlignedSeries
from lastro.study.model import Levels
from lastro.words.language import Language
from lastro.words.published import combination_text, title_of

Trials = list[list[tuple[float, ...]]]  # for each line, for each trial, a value for each second; empty if missing


def draw_lines(matched: MatchedLines, aligned: AlignedSeries, report: CampaignResults, say: Language) -> Figure | None:
    """Draw all panels of a published line chart; None if none of its lines was measured."""
    figure = matched.figure
    measured = [_trials(matched, panel, aligned, report) for panel in figure.panels]
    if not any(trials for lines in measured for trials in lines):
        return None
    names = [combination_text(side, say) for side in figure.lines]
    numbers = range(len(names))
    everywhere = [number for number in numbers if not any(lines[number] for lines in measured)]
    panels = []
    for panel, lines in zip(figure.panels, measured, strict=True):
        missing_names = [names[number] for number in numbers if not lines[number] and number not in everywhere]
        means = [
            mean_line(trials, {"color": colour_of(number), "linewidth": 1.0}, names[number])
            for number, trials in enumerate(lines)
            if trials
        ]
        n = say("n = {n}", n=say.integer(max(map(len, lines), default=0)))
        missing = [say("missing: {levels}", levels=", ".join(missing_names))] if missing_names else []
        panels.append(PlotPanel([*means, *_marks(matched, panel)], [combination_text(panel, say), *missing, n]))
    # The axis of time holds every line and every published time.
    ends = [len(trials[0]) for lines in measured for trials in lines if trials]
    times = [row.cells[0].value for table in figure.times for row in table.rows]
    end_s = 1.03 * max([*ends, *(at_s for at_s in times if at_s is not None)])
    legend: list[tuple[str, Look]] = [
        (f"{names[number]} ({say('missing')})", {"color": colour_of(number)}) for number in everywhere
    ]
    how = [
        say("mean of the valid trials; band: minimum and maximum"),
        say("dashed: published") if matched.marks else "",
        say("dotted: published") if figure.times else "",
        say("missing: {levels}", levels=", ".join(names[number] for number in everywhere)) if everywhere else "",
    ]
    x, y = PlotAxis(say(aligned.axis), 0, end_s), PlotAxis(say(aligned.quantity), low=0)
    return draw_plot(Plot(panels, title_of(figure.passage, say), how, x, y, 1.25, ACROSS, legend=legend), say)


def _trials(matched: MatchedLines, panel: Levels, aligned: AlignedSeries, report: CampaignResults) -> Trials:
    """Return, for each line of a panel, the series of its valid trials; an empty list if a line has none."""
    attempts, lines = attempts_of(report, aligned), []
    for side in matched.figure.lines:
        wanted = {**matched.figure.at, **panel, **side}
        line_attempts = [
            attempt
            for row in report.rows
            if all(row.treatment.levels.get(name) in levels for name, levels in wanted.items())
            for attempt in attempts.get(row.treatment.index, ())
        ]
        counts = aligned_values(report, line_attempts, aligned) if line_attempts else {}
        lines.append(list(counts.get(matched.figure.line, ())))
    return lines


def _marks(matched: MatchedLines, panel: Levels) -> Iterator[PanelRule]:
    """Yield rules in the colours of their lines: horizontal at published values, vertical at published times."""
    for mark in matched.marks:
        if _overlap(mark.levels, panel):
            number = _line_of(mark.levels, matched.figure.lines)
            look: Look = {"color": colour_of(number), "linewidth": 1.0, "linestyle": (4 * number, (4, 4))}
            yield PanelRule("y", mark.value, look)
    for table in matched.figure.times:
        for row in table.rows if _overlap(table.at, panel) else ():
            if (at_s := row.cells[0].value) is not None and _overlap(row.at, panel):
                colour = colour_of(_line_of(row.at, matched.figure.lines))
                yield PanelRule("x", at_s, {"color": colour, "linewidth": 1.0, "linestyle": (0, (1, 1.5))})


def _overlap(levels: Levels, panel: Levels) -> bool:
    """Return whether `levels` and `panel` have a common level of each factor that both name."""
    return all(set(panel[name]) & set(wanted) for name, wanted in levels.items() if name in panel)


def _line_of(levels: Mapping[str, object], sides: Sequence[Levels]) -> int:
    """Return the index of the first of `sides` whose levels are all in `levels`; 0 if there is none."""
    return next((at for at, side in enumerate(sides) if side.items() <= dict(levels).items()), 0)
