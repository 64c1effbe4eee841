"""A metric against a number that the study varies, as papers draw it: time against digits, bandwidth against threads.

Every trial is a point, each mean has its interval, and lines differ by colour, marker and stroke."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lastro.analysis.campaign import MetricView
from lastro.analysis.curves import MOST_PANELS, Curve, CurveLine, Panel
from lastro.analysis.remarks import Mark, in_order
from lastro.figures.scale import AxisEnds, interval_bar, reach
from lastro.figures.style import (
    GREY,
    GRID,
    MARKERS,
    PALETTE,
    axis_title,
    fit,
    headed,
    legend,
    metric_title,
    new_figure,
    numbers_in,
    points,
    side_title,
    titled,
    width_of,
)
from lastro.figures.text import em, safe, wrapped
from lastro.stats.intervals import Summary
from lastro.words.language import Language
from lastro.words.numeric import level_text, why_missing
from lastro.words.remarks import short, signs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_IN = {1: 2.2, 2: 1.8}  # 1.6 for more panels
_DECADE = 10.0
_ASIDE = 0.013  # how far apart lines are at a number, as a fraction of the axis
_TICK_IN = 7.5 / 72  # the size of a tick's label
_COLOURS = tuple(colour for colour in PALETTE if colour != "#000000")
_STROKES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))


@dataclass(frozen=True, slots=True)
class _Look:
    colour: str
    marker: str
    stroke: Any
    width_pt: float


@dataclass(frozen=True, slots=True)
class _Axis:
    """The places of the numbers on the axis, in its own measure: logarithms or the numbers themselves."""

    log: bool
    places: tuple[float, ...]

    def at(self, place: int, aside: float) -> float:
        """Return the place of a number for a line that is moved by a fraction of the axis."""
        moved = self.places[place] + aside * self.length
        return float(10**moved) if self.log else moved

    @property
    def length(self) -> float:
        return (max(self.places) - min(self.places)) or 1.0


def draw_curve(view: MetricView, curve: Curve, say: Language) -> Figure | None:
    """Draw a metric against the numbers of a curve; None if fewer than two have values."""
    if not curve.measures(view):
        return None
    panels = [panel for panel in curve.panels if _has_values(panel, view)]
    shown = panels[:MOST_PANELS]
    running = [name for name in curve.line_names if any(name == ln.name and ln.runs_here for ln in _lines(shown))]
    looks = _looks(running, {line.name for line in _lines(shown) if line.is_baseline})
    figure, alike = new_figure(), _alike(shown, view)
    stacked = figure.subplots(len(shown), 1, sharex=True, sharey=alike, squeeze=False)[:, 0]
    axis, metric = _axis_of(curve), view.metric
    arrows: dict[str, None] = {}
    for axes, panel in zip(stacked, shown, strict=True):
        ends = _value_axis(axes, shown if alike else [panel], view)
        arrows.update(dict.fromkeys(ends.words(metric.name, say)))
        _panel(axes, panel, view, axis, looks)
        if named := [f"{name} = {level}" for name, level in zip(curve.others, panel.levels, strict=True)]:
            titled(axes, " · ".join(named))
        numbers_in(axes, say, x=False, y=True)
    _number_axis(stacked[-1], curve, axis, say)
    panel_in = _PANEL_IN.get(len(shown), 1.6)
    side_title(figure, axis_title(metric), panel_in * len(shown))
    apart = len(looks) > 1 and any(axes.get_yscale() == "linear" for axes in stacked)
    headed(figure, metric_title(metric, say), *_how_to_read(panels, view, apart, say), *arrows)
    _legend(figure, curve, shown, view, looks, say)
    return fit(figure, list(stacked), panel_in * len(shown))


def _lines(panels: Sequence[Panel]) -> Iterator[CurveLine]:
    return (line for panel in panels for line in panel.lines)


def _summaries(line: CurveLine, view: MetricView) -> list[Summary | None]:
    return [None if row is None else view.of(row).summary for row in line.rows]


def _has_values(panel: Panel, view: MetricView) -> bool:
    return any(summary for line in panel.lines for summary in _summaries(line, view))


def _looks(names: Sequence[str], baselines: set[str]) -> dict[str, _Look]:
    """Return the styles of lines: the baseline thick and black; after seven others, colours repeat with new markers."""
    found, at = {}, 0
    for name in names:
        if name in baselines:
            found[name] = _Look("black", MARKERS[0], "-", 2.1)
            continue
        marker = MARKERS[1 + (at + at // len(_COLOURS)) % (len(MARKERS) - 1)]
        found[name] = _Look(_COLOURS[at % len(_COLOURS)], marker, _STROKES[(at + 1) % len(_STROKES)], 1.3)
        at += 1
    return found


def _how_to_read(panels: Sequence[Panel], view: MetricView, apart: bool, say: Language) -> Iterator[str]:
    confidence = say.number(f"{100 * view.confidence:g}") + " %"
    how = say("mean with its {confidence} interval and every trial", confidence=confidence)
    yield "; ".join((how, say("lines drawn slightly apart")) if apart else (how,))
    if usual := _usual_n(panels, view):
        yield say("n = {n} unless noted", n=say.integer(usual))
    if len(panels) > MOST_PANELS:
        yield say("{n} of {all} combinations", n=MOST_PANELS, all=len(panels))


def _usual_n(panels: Sequence[Panel], view: MetricView) -> int | None:
    found = Counter(summary.n for line in _lines(panels) for summary in _summaries(line, view) if summary)
    return found.most_common(1)[0][0] if found else None


# Axes


def _axis_of(curve: Curve) -> _Axis:
    """Return the axis: logarithmic if the numbers are above zero and span more than a decade."""
    low, high = min(curve.numbers), max(curve.numbers)
    log = low > 0 and high / low > _DECADE
    return _Axis(log, tuple(math.log10(number) if log else number for number in curve.numbers))


def _number_axis(axes: Axes, curve: Curve, axis: _Axis, say: Language) -> None:
    """Put a tick at every level, labelled as in the study; labels that would overlap go to a second line."""
    from matplotlib.ticker import NullFormatter, NullLocator

    texts = [level_text(level, say) for level in curve.labels]
    ends = [-math.inf, -math.inf]
    width_in = 0.8 * width_of(axes.figure)
    labels = []
    for text, place in zip(texts, axis.places, strict=True):
        at_in, half_in = (place - min(axis.places)) / axis.length * width_in, _TICK_IN * (em(text) + 1) / 2
        free = next((row for row, end in enumerate(ends) if at_in - half_in > end), None)
        labels.append("" if free is None else "\n" * free + text)
        if free is not None:
            ends[free] = at_in + half_in
    if axis.log:
        axes.set_xscale("log")
    axes.set_xticks([axis.at(place, 0) for place in range(len(labels))], labels)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    edge = [axis.at(0, -0.07), axis.at(len(labels) - 1, 0.07)]
    axes.set_xlim(edge[0], edge[1])
    axes.set_xlabel(wrapped(curve.factor, 40))


def _alike(panels: Sequence[Panel], view: MetricView) -> bool:
    """Return whether panels can share a scale: their largest means are within a decade of each other."""
    tops = [
        max(abs(summary.mean) for line in panel.lines for summary in _summaries(line, view) if summary)
        for panel in panels
    ]
    return max(tops) <= _DECADE * min(tops)


def _value_axis(axes: Axes, panels: Sequence[Panel], view: MetricView) -> AxisEnds:
    """Set the ends of the axis by every trial and interval of some panels."""
    found = [summary for line in _lines(panels) for summary in _summaries(line, view) if summary]
    rows = [row for line in _lines(panels) for row in line.rows if row]
    values = [point.value for row in rows for point in view.of(row).points]
    intervals = [(s.interval.low, s.interval.high) for s in found if s.interval]
    ends = reach(view.metric, values, intervals, [summary.mean for summary in found])
    axes.set_yscale("log" if ends.log else "linear")
    axes.set_ylim(ends.low, ends.high)
    return ends


# Drawing


def _panel(axes: Axes, panel: Panel, view: MetricView, axis: _Axis, looks: dict[str, _Look]) -> None:
    # On a logarithmic scale of values lines are steep, and a line moved aside would look lower.
    step = 0.0 if axes.get_yscale() == "log" else min(_ASIDE, 0.4 * _least_gap(axis) / max(1, len(looks)))
    for at, (name, look) in enumerate(looks.items()):
        aside = (at - (len(looks) - 1) / 2) * step
        for line in panel.lines:
            if line.name == name:
                _line(axes, line, view, axis, aside, look)
    axes.grid(color=GRID, linewidth=0.6)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelbottom=True)


def _least_gap(axis: _Axis) -> float:
    """Return the least distance between two neighbours, as a fraction of the axis."""
    gaps = [b - a for a, b in zip(axis.places, axis.places[1:], strict=False)]
    return min(gaps, default=1.0) / axis.length


def _line(axes: Axes, line: CurveLine, view: MetricView, axis: _Axis, aside: float, look: _Look) -> None:
    """Draw the means, joined where neighbours were measured; gaps stay gaps."""
    summaries = _summaries(line, view)
    x = [axis.at(place, aside) for place in range(len(summaries))]
    means = [math.nan if summary is None else summary.mean for summary in summaries]
    axes.plot(x, means, color=look.colour, linewidth=look.width_pt, linestyle=look.stroke, zorder=3)
    for place, (row, summary) in enumerate(zip(line.rows, summaries, strict=True)):
        if row is None or summary is None:
            continue
        cell = view.of(row)
        values = [point.value for point in cell.points]
        points(axes, [x[place]] * len(values), values, look.colour, 2.6, alpha=0.35, zorder=2.5)
        if summary.interval is not None:
            ends = (summary.interval.low, summary.interval.high)
            interval_bar(axes, ends, x[place], look.colour, along="y", width_pt=1.2, caps=True)
        face, edge = ("white", look.colour) if cell.marks else (look.colour, "white")
        axes.plot(
            [x[place]], [summary.mean], marker=look.marker, ms=5.4, color=face,
            mec=edge, mew=1.1 if cell.marks else 0.4, linestyle="none", zorder=4,
        )  # fmt: skip


def _missing(curve: Curve, panels: Sequence[Panel], view: MetricView, say: Language) -> Iterator[str]:
    """Yield '✕ lxd: unavailable', '✕ docker at 4,000 (cache = on): invalid', in the order of the lines."""
    for name in curve.line_names:
        found: dict[tuple[str, tuple[int, ...]], list[Panel]] = {}  # (reason, indices of the numbers) -> panels
        for panel in panels:
            for line in panel.lines:
                reasons = [why_missing(row, view, say) for row in line.rows] if line.name == name else []
                for why in dict.fromkeys(filter(None, reasons)):
                    lost = tuple(at for at, text in enumerate(reasons) if text == why)
                    found.setdefault((why, lost), []).append(panel)
        for (why, lost), where in found.items():
            place = name or curve.factor
            if len(lost) < len(curve.labels):
                levels = ", ".join(level_text(curve.labels[at], say) for at in lost)
                place = say("{line} at {levels}", line=place, levels=levels)
            if len(where) < len(panels):
                place += f" ({'; '.join(' · '.join(panel.levels) for panel in where)})"
            yield f"✕ {place}: {why}"


def _marks(
    panels: Sequence[Panel], view: MetricView, name: str | None = None, *, measured: bool = False
) -> Iterator[Mark]:
    """Return the marks on the metric: of all lines or those of one name, of all points or those with a value."""
    rows = (row for line in _lines(panels) if name in (None, line.name) for row in line.rows if row is not None)
    return (mark for cell in map(view.of, rows) if cell.summary or not measured for mark in cell.marks)


def _legend(
    figure: Figure, curve: Curve, panels: Sequence[Panel], view: MetricView, looks: dict[str, _Look], say: Language
) -> None:
    from matplotlib.lines import Line2D

    usual = _usual_n(panels, view)
    handles: list[Any] = []
    for name, look in looks.items():
        found = [s for line in _lines(panels) if line.name == name for s in _summaries(line, view) if s]
        if not found:
            continue
        label = safe(name or say("the only treatment"), 44)
        if any(line.is_baseline for line in _lines(panels) if line.name == name):
            label = f"{label} ({say('baseline')})"
        label += signs(_marks(panels, view, name))
        low, high = min(s.n for s in found), max(s.n for s in found)
        if (low, high) != (usual, usual):
            label += f", n = {say.integer(low)}" + (f"–{say.integer(high)}" if high > low else "")
        handles.append(
            Line2D([], [], color=look.colour, marker=look.marker, ms=5, linestyle=look.stroke, linewidth=look.width_pt,
                   label=safe(label, 90))
        )  # fmt: skip
    hollow = {mark.kind for mark in _marks(panels, view, measured=True)}
    for kind in in_order(mark.kind for mark in _marks(panels, view)):
        words, shape = (short(kind, say), "")
        if kind in hollow:
            words, shape = say("hollow: {mark}", mark=words), "o"
        label = safe(words, 130)
        handles.append(Line2D([], [], linestyle="none", marker=shape, mfc="white", mec=GREY, ms=5, label=label))
    handles += [Line2D([], [], linestyle="none", label=safe(text, 130)) for text in _missing(curve, panels, view, say)]
    legend(figure, handles, safe(curve.lines) if curve.lines else None)
