"""The charts of the source, drawn with the means and series of this campaign; the published values are marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import lastro.figures.xy as xy
from lastro.analysis.as_published import MatchedBars, MatchedLines, PublishedBar, PublishedPanel
from lastro.analysis.campaign import CampaignResults
from lastro.figures.matplotlib_types import Figure
from lastro.figures.scenario import aligned_values, attempts_of, mean_line
from lastro.figures.style import GREY, SMALL_PT, axis_title, colour_of, is_narrow, page_in
from lastro.figures.text import chars, width_em, wrapped
from lastro.results.additions import AlignedSeries
from lastro.study.model import Levels
from lastro.words.language import Language
from lastro.words.numbers import percent
from lastro.words.published import combination_text, marks_of, title_of

_AXIS_IN = 0.6  # at the left of a panel, for its numbers and its name
_GROUP = 0.8  # of the distance between two groups, for the bars of one
_MARK = {"marker": "D", "ms": 4.5, "color": "white", "mec": "black", "mew": 1.1, "zorder": 4, "linestyle": "none"}


def draw_bars(matched: MatchedBars, confidence: float, say: Language) -> Figure | None:
    """Draw a published bar chart with the means of this campaign; None if none of its bars was measured.

    Panels are next to each other if the longest word of the names fits below its group, otherwise below each other."""
    if not any(bar.here.mean is not None for panel in matched.panels for bar in panel.bars):
        return None
    n_panels, n_groups = len(matched.panels), len(matched.figure.groups)
    texts = [combination_text(group, say, short=True) for group in matched.figure.groups]
    longest_in = max(width_em(word) for text in texts for word in text.split()) * SMALL_PT / 72
    fits = longest_in < (page_in() / n_panels - _AXIS_IN) / n_groups
    across = n_panels if fits and not is_narrow() else 1
    room = chars((page_in() / across - _AXIS_IN) / n_groups, SMALL_PT) - 1.5
    names = " · ".join(dict.fromkeys(name for group in matched.figure.groups for name in group))
    ticks = [(float(at), wrapped(text, room)) for at, text in enumerate(texts)]
    x = xy.PlotAxis(names, -0.6, n_groups - 0.4, ticks=ticks, grid=False)
    panels = [_panel(panel, x, len(matched.figure.bars), say) for panel in matched.panels]
    level = percent(confidence, say)
    diamond = say("diamond: published") if any(map(marks_of, matched.panels)) else ""
    if any(mark.relative for panel in matched.panels for mark in marks_of(panel)):
        diamond = say("diamond: the published ratio or difference, applied to the mean that the source compares with")
    missing = any(bar.here.mean is None for panel in matched.panels for bar in panel.bars)
    how = [
        say("bar: mean of this campaign with its {confidence} interval", confidence=level),
        diamond,
        say("missing: not measured here, and the table has the reasons") if missing else "",
    ]  # fmt: skip
    shown = matched.figure.bars if any(matched.figure.bars) else ()
    legend = [(combination_text(side, say), _filled(number)) for number, side in enumerate(shown)]
    legend += [(say("published"), _MARK)] if any(map(marks_of, matched.panels)) else []
    title = title_of(matched.figure.passage, say)
    return xy.draw_plot(xy.Plot(panels, title, how, xy.PlotAxis(), xy.PlotAxis(), 1.8, across, across, legend), say)


def _panel(panel: PublishedPanel, x: xy.PlotAxis, n_bars: int, say: Language) -> xy.PlotPanel:
    tops = [end for bar in panel.bars for end in _ends(bar)]
    y = xy.PlotAxis(axis_title(panel.metric), min(0.0, *tops) * 1.08, (max(0.0, *tops) or 1.0) * 1.08)
    items: list[xy.Item] = [xy.PanelRule("y", 0, {"color": GREY, "linewidth": 0.8})]
    for bar in panel.bars:
        at, width = float(bar.group), _GROUP / n_bars
        if bar.bar is not None:
            at += (bar.bar - (n_bars - 1) / 2) * width
            mean = bar.here.mean
            if mean is None or mean.value is None:
                upright: xy.Look = {"rotation": 90, "ha": "center", "va": "bottom", "fontsize": SMALL_PT}
                items.append(xy.PlotNote(at, 0, f" {say('missing')}", upright, fraction=None))
            else:
                items.append(xy.PlotBar(at, (0.0, mean.value), width * 0.92, _filled(bar.bar)))
                interval = mean.interval
                items += [xy.Whiskers({at: (interval.low, interval.high)}, "black")] if interval else []
        if bar.mark is not None and bar.bar is None:
            line: xy.Look = {"color": GREY, "linewidth": 1.0, "zorder": 3.8}
            items.append(xy.PlotLine([at - _GROUP / 2, at + _GROUP / 2], [bar.mark.value] * 2, line))
        if bar.mark is not None:
            items.append(xy.PlotLine([at], [bar.mark.value], _MARK))
    return xy.PlotPanel(items, x=x, y=y)


def _filled(bar: int) -> xy.Look:
    return {"facecolor": colour_of(bar), "alpha": 0.75, "linewidth": 0}


def _ends(published: PublishedBar) -> Iterator[float]:
    """Yield the values that the axis must include: 0, the mean, the mark, and the upper end of the interval.

    That end counts only up to twice the mean."""
    mean = published.here.mean
    if mean is not None and mean.value is not None and published.bar is not None:
        yield mean.value
        if mean.interval is not None:
            yield min(mean.interval.high, 2 * abs(mean.value))
    if published.mark is not None:
        yield published.mark.value
    yield 0.0


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
        panels.append(xy.PlotPanel([*means, *_marks(matched, panel)], [combination_text(panel, say), *missing, n]))
    # The axis of time holds every line and every published time.
    ends = [len(trials[0]) for lines in measured for trials in lines if trials]
    times = [row.cells[0].value for table in figure.times for row in table.rows]
    end_s = 1.03 * max([*ends, *(at_s for at_s in times if at_s is not None)])
    legend: list[tuple[str, xy.Look]] = [
        (f"{names[number]} ({say('missing')})", {"color": colour_of(number)}) for number in everywhere
    ]
    how = [
        say("mean of the valid trials; band: minimum and maximum"),
        say("dashed: published") if matched.marks else "",
        say("dotted: published") if figure.times else "",
        say("missing: {levels}", levels=", ".join(names[number] for number in everywhere)) if everywhere else "",
    ]
    x, y = xy.PlotAxis(say(aligned.axis), 0, end_s), xy.PlotAxis(say(aligned.quantity), low=0)
    return xy.draw_plot(xy.Plot(panels, title_of(figure.passage, say), how, x, y, 1.25, xy.ACROSS, legend=legend), say)


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


def _marks(matched: MatchedLines, panel: Levels) -> Iterator[xy.PanelRule]:
    """Yield rules in the colours of their lines: horizontal at published values, vertical at published times."""
    for mark in matched.marks:
        if _overlap(mark.levels, panel):
            number = _line_of(mark.levels, matched.figure.lines)
            look: xy.Look = {"color": colour_of(number), "linewidth": 1.0, "linestyle": (4 * number, (4, 4))}
            yield xy.PanelRule("y", mark.value, look)
    for table in matched.figure.times:
        for row in table.rows if _overlap(table.at, panel) else ():
            if (at_s := row.cells[0].value) is not None and _overlap(row.at, panel):
                colour = colour_of(_line_of(row.at, matched.figure.lines))
                yield xy.PanelRule("x", at_s, {"color": colour, "linewidth": 1.0, "linestyle": (0, (1, 1.5))})


def _overlap(levels: Levels, panel: Levels) -> bool:
    """Return whether `levels` and `panel` have a common level of each factor that both name."""
    return all(set(panel[name]) & set(wanted) for name, wanted in levels.items() if name in panel)


def _line_of(levels: Mapping[str, object], sides: Sequence[Levels]) -> int:
    """Return the index of the first of `sides` whose levels are all in `levels`; 0 if there is none."""
    return next((at for at, side in enumerate(sides) if side.items() <= dict(levels).items()), 0)
