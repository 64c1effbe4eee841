"""A metric against a number that the study varies, as papers draw it: time against digits, bandwidth against threads.

Every trial is a point, each mean has its interval, and lines differ by colour, marker and stroke."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lastro.analysis.campaign import MetricView, Row
from lastro.analysis.curves import MOST_PANELS, Curve, CurveLine, Panel
from lastro.analysis.remarks import in_order
from lastro.figures.matplotlib_types import Figure
from lastro.figures.scale import axis_ends_of
from lastro.figures.style import GREY, MARKERS, PALETTE, STROKES, axis_title, metric_title
from lastro.figures.text import safe
from lastro.figures.xy import Look, Plot, PlotAxis, PlotLine, PlotPanel, Whiskers, dot_look, draw_plot
from lastro.stats.intervals import Summary
from lastro.words.language import Language
from lastro.words.numbers import percent
from lastro.words.numeric import level_text, why_missing
from lastro.words.remarks import short, signs

_PANEL_IN = {1: 2.2, 2: 1.8}  # 1.6 for more panels
_DECADE = 10.0
_SHIFT = 0.013  # by which lines are shifted against each other, as a fraction of the axis
_COLOURS = tuple(colour for colour in PALETTE if colour != "#000000")


def draw_curve(view: MetricView, curve: Curve, say: Language) -> Figure | None:
    """Draw a metric against the numbers of a curve; None unless some line has values at two numbers or more."""
    if not curve.measures(view):
        return None
    panels = [panel for panel in curve.panels if _summaries([panel], view)]
    shown = panels[:MOST_PANELS]
    usual_n = Counter(summary.n for summary in _summaries(panels, view)).most_common(1)[0][0]
    # Panels share a scale if their largest means are within a decade of each other.
    tops = [max(abs(summary.mean) for summary in _summaries([panel], view)) for panel in shown]
    share_a_scale = max(tops) <= _DECADE * min(tops)
    rows_by_panel = [_rows(shown if share_a_scale else [panel]) for panel in shown]
    ends = [axis_ends_of(view.metric, map(view.of, rows)) for rows in rows_by_panel]
    alike, looks = ends.count(ends[0]) == len(ends), _looks(curve, shown)
    x, title = _axis(curve, say), axis_title(view.metric)
    drawn_panels = [
        PlotPanel(
            list(_items(panel, view, curve, x, looks, aside=not end.log)),
            [" · ".join(f"{name} = {level}" for name, level in zip(curve.others, panel.levels, strict=True))],
            y=None if alike else PlotAxis.of(end),
        )
        for panel, end in zip(shown, ends, strict=True)
    ]
    confidence = percent(view.confidence, say)
    how = [say("mean with its {confidence} interval and every trial", confidence=confidence)]
    how += [say("lines drawn slightly apart")] if len(looks) > 1 and not all(end.log for end in ends) else []
    arrows = dict.fromkeys(word for end in ends for word in end.words(view.metric.name, say))
    plot = Plot(
        drawn_panels, metric_title(view.metric, say),
        [
            "; ".join(how),
            say("n = {n} unless noted", n=say.integer(usual_n)),
            say("{n} of {all} combinations", n=MOST_PANELS, all=len(panels)) if len(panels) > MOST_PANELS else "",
            *arrows,
        ],
        x, PlotAxis.of(ends[0], title) if alike else PlotAxis(title), _PANEL_IN.get(len(shown), 1.6),
        legend=list(_legend(curve, shown, view, looks, usual_n, say)), legend_title=safe(curve.lines), labelled=True,
    )  # fmt: skip
    return draw_plot(plot, say)


def _rows(panels: Sequence[Panel], name: str | None = None) -> list[Row]:
    """Return the treatments of panels: of all lines, or only of the lines with this `name`."""
    lines = (line for panel in panels for line in panel.lines if name in (None, line.name))
    return [row for line in lines for row in line.rows if row is not None]


def _summaries(panels: Sequence[Panel], view: MetricView, name: str | None = None) -> list[Summary]:
    return [summary for row in _rows(panels, name) if (summary := view.of(row).summary)]


def _looks(curve: Curve, panels: Sequence[Panel]) -> dict[str, Look]:
    """Return {name of a line: its look}, except for lines without a treatment that can run here.

    The baseline is thick and black. After seven other lines, colours repeat with other markers."""
    looks: dict[str, Look] = {}
    for name in curve.line_names:
        lines = [line for panel in panels for line in panel.lines if line.name == name]
        if any(line.is_baseline for line in lines):
            looks[name] = {"color": "black", "marker": MARKERS[0], "linestyle": "-", "linewidth": 2.1}
        elif any(line.runs_here for line in lines):
            number = sum(look["color"] != "black" for look in looks.values())
            looks[name] = {
                "color": _COLOURS[number % len(_COLOURS)],
                "marker": MARKERS[1 + (number + number // len(_COLOURS)) % (len(MARKERS) - 1)],
                "linestyle": STROKES[(number + 1) % len(STROKES)],
                "linewidth": 1.3,
            }
    return looks


def _axis(curve: Curve, say: Language) -> PlotAxis:
    """Return the axis of the numeric factor; logarithmic if all numbers are positive and span more than a decade."""
    low, high = min(curve.numbers), max(curve.numbers)
    ticks = [(number, level_text(label, say)) for number, label in zip(curve.numbers, curve.labels, strict=True)]
    log = low > 0 and high / low > _DECADE
    room = 0.07 * (math.log10(high / low) if log else (high - low) or 1.0)
    ends = (low / 10**room, high * 10**room) if log else (low - room, high + room)
    return PlotAxis(curve.factor, *ends, log=log, ticks=ticks)


def _items(
    panel: Panel, view: MetricView, curve: Curve, x: PlotAxis, looks: Mapping[str, Look], *, aside: bool
) -> Iterator[PlotLine | Whiskers]:
    """Yield the lines, trials and intervals of a panel.

    `aside` moves lines slightly sideways, so that they do not overlap. This would mislead if lines are steep."""
    places = [math.log10(number) if x.log else number for number in curve.numbers]
    length = (places[-1] - places[0]) or 1.0
    least = min((b - a for a, b in itertools.pairwise(places)), default=1.0) / length
    step = min(_SHIFT, 0.4 * least / max(1, len(looks))) * length if aside else 0.0
    lines = {line.name: line for line in panel.lines}
    for at, (name, look) in enumerate(looks.items()):
        if name in lines:
            moved = [place + (at - (len(looks) - 1) / 2) * step for place in places]
            yield from _line(lines[name], view, [10**place if x.log else place for place in moved], look)


def _line(line: CurveLine, view: MetricView, x: Sequence[float], look: Look) -> Iterator[PlotLine | Whiskers]:
    """Yield the items of one line: the stroke through its means, every trial, the intervals, and the means.

    The stroke has a gap where nothing was measured. Means with marks are hollow."""
    cells = [None if row is None else view.of(row) for row in line.rows]
    means = [cell.summary.mean if cell and cell.summary else math.nan for cell in cells]
    yield PlotLine(x, means, {**look, "marker": "", "zorder": 3})
    measured = [(place, cell, cell.summary) for place, cell in zip(x, cells, strict=True) if cell and cell.summary]
    points = [(place, point.value) for place, cell, _ in measured for point in cell.points]
    yield PlotLine(*_coordinates(points), dot_look(look["color"], 2.6, 0.35, zorder=2.5))
    intervals = [(place, summary.interval) for place, _, summary in measured]
    bars = {place: (interval.low, interval.high) for place, interval in intervals if interval is not None}
    yield Whiskers(bars, look["color"])
    for marked, face, edge, edge_pt in ((False, look["color"], "white", 0.4), (True, "white", look["color"], 1.1)):
        centres = [(place, summary.mean) for place, cell, summary in measured if bool(cell.marks) is marked]
        if centres:
            marker_look = {"marker": look["marker"], "ms": 5.4, "linestyle": "none", "zorder": 4}
            yield PlotLine(*_coordinates(centres), {**marker_look, "color": face, "mec": edge, "mew": edge_pt})


def _coordinates(points: Sequence[tuple[float, float]]) -> tuple[Sequence[float], Sequence[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _missing(curve: Curve, panels: Sequence[Panel], view: MetricView, say: Language) -> Iterator[str]:
    """Yield a legend text for each gap in a line: '✕ lxd: unavailable', '✕ docker at 4,000 (cache = on): invalid'."""
    for name in curve.line_names:
        panels_by_gap: dict[tuple[str, tuple[int, ...]], list[Panel]] = {}  # (reason, indices of the numbers) -> panels
        for panel in panels:
            for line in panel.lines:
                reasons = [why_missing(row, view, say) for row in line.rows] if line.name == name else []
                for why in dict.fromkeys(filter(None, reasons)):
                    numbers = tuple(at for at, text in enumerate(reasons) if text == why)
                    panels_by_gap.setdefault((why, numbers), []).append(panel)
        for (why, numbers), gap_panels in panels_by_gap.items():
            place = name or curve.factor
            if len(numbers) < len(curve.labels):
                levels = ", ".join(level_text(curve.labels[at], say) for at in numbers)
                place = say("{line} at {levels}", line=place, levels=levels)
            if len(gap_panels) < len(panels):
                place += f" ({'; '.join(' · '.join(panel.levels) for panel in gap_panels)})"
            yield f"✕ {place}: {why}"


def _legend(
    curve: Curve, panels: Sequence[Panel], view: MetricView, looks: Mapping[str, Look], usual_n: int, say: Language
) -> Iterator[tuple[str, Look]]:
    """Yield (text, look) of each entry of the legend: the lines, the meaning of marks, and what is missing.

    The text of a line states its n if it differs from `usual_n`. An entry with an empty look is only text."""
    for name, look in looks.items():
        if not (summaries := _summaries(panels, view, name)):
            continue
        label = safe(name or say("the only treatment"), 44)
        if any(line.is_baseline for panel in panels for line in panel.lines if line.name == name):
            label = f"{label} ({say('baseline')})"
        label += signs(mark for row in _rows(panels, name) for mark in view.of(row).marks)
        low, high = min(s.n for s in summaries), max(s.n for s in summaries)
        if (low, high) != (usual_n, usual_n):
            label += f", n = {say.integer(low)}" + (f"–{say.integer(high)}" if high > low else "")
        yield safe(label, 90), look
    marks = [(mark.kind, view.of(row).summary) for row in _rows(panels) for mark in view.of(row).marks]
    hollow = {kind for kind, summary in marks if summary}
    for kind in in_order(kind for kind, _ in marks):
        words = short(kind, say)
        if kind in hollow:
            circle = {"linestyle": "none", "marker": "o", "color": GREY, "mfc": "white", "mec": GREY}
            yield safe(say("hollow: {mark}", mark=words), 130), circle
        else:
            yield safe(words, 130), {}
    for text in _missing(curve, panels, view, say):
        yield safe(text, 130), {}
