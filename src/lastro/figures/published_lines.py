"""A figure of lines over time as a source has it: what it draws over each other, from the series of this campaign."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lastro.analysis.as_published import MatchedLines
from lastro.analysis.campaign import CampaignResults
from lastro.figures.aligned import attempts_of, counts_of
from lastro.figures.style import (
    GRID,
    SMALL_PT,
    colour_of,
    fit,
    headed,
    is_narrow,
    legend,
    new_figure,
    numbers_in,
    width_of,
)
from lastro.figures.text import chars, wrapped
from lastro.results.additions import AlignedSeries
from lastro.stats.intervals import sample_mean
from lastro.study.model import Levels
from lastro.words.language import Language
from lastro.words.published import side_text, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_IN = 1.25


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a panel: its number in the figure, and for each trial a value for each second; empty if missing."""

    number: int
    trials: tuple[tuple[float, ...], ...]


def draw_lines(found: MatchedLines, aligned: AlignedSeries, report: CampaignResults, say: Language) -> Figure | None:
    """Draw all panels; None where no line was measured."""
    figures = found.figure
    panels = [list(_lines(found, panel, aligned, report)) for panel in figures.panels]
    if not any(line.trials for lines in panels for line in lines):
        return None
    figure = new_figure()
    across = min(1 if is_narrow(figure) and len(panels) < 3 else 2 if len(panels) < 3 or is_narrow(figure) else 3,
                 len(panels))  # fmt: skip
    deep = math.ceil(len(panels) / across)
    grid = list(figure.subplots(deep, across, sharex=True, sharey=True, squeeze=False).flat)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    everywhere = {line.number for line in panels[0] if not line.trials}
    for lines in panels[1:]:
        everywhere &= {line.number for line in lines if not line.trials}
    room = chars(width_of(figure) / across - 0.35, SMALL_PT)
    for at, (axes, panel, lines) in enumerate(zip(grid, figures.panels, panels, strict=False)):
        gone = [line.number for line in lines if not line.trials and line.number not in everywhere]
        _panel(axes, lines)
        axes.set_xlim(0, _end_s(found, panels))
        _marks(axes, found, panel)
        n = say("n = {n}", n=say.integer(max((len(line.trials) for line in lines), default=0)))
        names = [wrapped(side_text(panel, say), room), *_missing(found, gone, say), n]
        axes.set_title("\n".join(names), loc="left", fontsize=SMALL_PT)
        axes.tick_params(labelsize=SMALL_PT, labelbottom=at + across >= len(panels))
        numbers_in(axes, say, x=True, y=True)
    figure.supylabel(say(aligned.quantity), fontsize=SMALL_PT)
    legend(figure, [*_handles(found, everywhere, say)], say(aligned.axis), most=3)
    headed(
        figure, title_of(figures.passage, say), say("mean of the valid trials; band: minimum and maximum"),
        say("dashed: published") if found.marks else "", say("dotted: published") if figures.times else "",
        *_missing(found, sorted(everywhere), say),
    )  # fmt: skip
    return fit(figure, grid[::across], _PANEL_IN * deep)


def _lines(found: MatchedLines, panel: Levels, aligned: AlignedSeries, report: CampaignResults) -> Iterator[_Line]:
    attempts = attempts_of(report, aligned)
    for number, side in enumerate(found.figure.lines):
        wanted = {**found.figure.at, **panel, **side}
        own = [
            attempt
            for row in report.rows
            if _within(row.treatment.levels, wanted)
            for attempt in attempts.get(row.treatment.index, ())
        ]
        counts = counts_of(report, own, aligned) if own else {}
        yield _Line(number, tuple(counts.get(found.figure.line, ())))


def _within(levels: object, wanted: Levels) -> bool:
    assert isinstance(levels, dict) or hasattr(levels, "get")
    return all(levels.get(name) in own for name, own in wanted.items())


def _compatible(levels: Levels, panel: Levels) -> bool:
    return all(set(panel[name]) & set(own) for name, own in levels.items() if name in panel)


def _panel(axes: Axes, lines: Sequence[_Line]) -> None:
    for line in lines:
        seconds = list(zip(*line.trials, strict=True))
        if not seconds:
            continue
        colour = colour_of(line.number)
        axes.plot(range(len(seconds)), [sample_mean(second) for second in seconds], color=colour, linewidth=1.0)
        least, most = [min(second) for second in seconds], [max(second) for second in seconds]
        axes.fill_between(range(len(seconds)), least, most, color=colour, alpha=0.13, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.grid(color=GRID, linewidth=0.6)


def _end_s(found: MatchedLines, panels: Sequence[Sequence[_Line]]) -> float:
    """Return the end of the axis of time, which holds every line and every published time."""
    ends = [len(trial) for lines in panels for line in lines for trial in line.trials[:1]]
    times = [row.cells[0].value for table in found.figure.times for row in table.rows]
    return 1.03 * max([*ends, *(at_s for at_s in times if at_s is not None)])


def _marks(axes: Axes, found: MatchedLines, panel: Levels) -> None:
    """Draw published levels across a panel, and published times upright, in the colours of their lines."""
    for mark in found.marks:
        if _compatible(mark.levels, panel):
            number = _line_of(mark.levels, found)
            axes.axhline(mark.value, color=colour_of(number), linewidth=1.0, linestyle=(4 * number, (4, 4)))
    for table in found.figure.times:
        if not _compatible(table.at, panel):
            continue
        for row in table.rows:
            if (at_s := row.cells[0].value) is not None and _compatible(row.at, panel):
                axes.axvline(at_s, color=colour_of(_line_of(row.at, found)), linewidth=1.0, linestyle=(0, (1, 1.5)))


def _line_of(levels: Levels, found: MatchedLines) -> int:
    """Return the number of the line whose levels these name; the first one where they name none."""
    sides = found.figure.lines
    return next((at for at, side in enumerate(sides) if side.items() <= dict(levels).items()), 0)


def _missing(found: MatchedLines, numbers: Sequence[int], say: Language) -> Iterator[str]:
    if numbers:
        names = ", ".join(side_text(found.figure.lines[number], say) for number in numbers)
        yield say("missing: {levels}", levels=names)


def _handles(found: MatchedLines, without: Iterable[int], say: Language) -> Iterator[object]:
    from matplotlib.lines import Line2D

    gone = set(without)
    for number, side in enumerate(found.figure.lines):
        name = side_text(side, say)
        label = f"{name} ({say('missing')})" if number in gone else name
        yield Line2D([], [], color=colour_of(number), linewidth=1.4, label=label)
