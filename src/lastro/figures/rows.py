"""A figure of rows as data, and the function that draws it: a row has a name, dots with intervals, and a text.

The text is next to the axis if there is room, and above the row on a narrow figure. A row is as high as its text, so
that labels do not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lastro.figures.matplotlib_types import Axes, Figure
from lastro.figures.scale import AxisEnds, Ends, interval_bars
from lastro.figures.style import (
    FAINT,
    GRID,
    PALETTE,
    SMALL_PT,
    add_heading,
    add_legend,
    fit_height,
    is_narrow,
    label_with_numbers,
    new_figure,
    width_of,
)
from lastro.figures.text import CHAR_EM, chars, lines_of, safe, width_em, wrapped
from lastro.figures.xy import Look, legend_entry
from lastro.words.language import Language

_NAME_PT, _AXIS_PT = 8.0, 8.5
_LINE_IN = 1.22 * _NAME_PT / 72
_MARK_IN = 0.17  # for the dot, under the text of a narrow figure
_GAP_IN = 0.08
_NAMES_IN, _WORDS_IN = 1.3, 1.75  # room at the left and at the right of a wide axis
_DIAMOND_IN = 0.07  # half of its height
# Behind a text above a row, it covers the grid and the reference line.
_BOX: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}


@dataclass(frozen=True, slots=True)
class RowDot:
    """A value as a dot, and its interval as a bar."""

    value: float | None
    ends: Ends | None = None  # of the interval
    colour: str = PALETTE[0]
    look: Look = field(default_factory=dict)  # matplotlib options that differ from those of a filled dot
    width_pt: float = 1.8
    diamond: bool = False  # a diamond as wide as the interval replaces dot and bar

    def draw(self, axes: Axes, y: float) -> None:
        low, high = axes.get_xlim()
        if self.diamond and self.ends is not None and self.value is not None:
            corners = [min(max(x, low), high) for x in (self.ends[0], self.value, self.ends[1], self.value)]
            axes.fill(corners, [y, y - _DIAMOND_IN, y, y + _DIAMOND_IN], color=self.colour, linewidth=0.8, zorder=4)
            return
        if self.ends is not None:
            interval_bars(axes, {y: self.ends}, self.colour, width_pt=self.width_pt)
        if self.value is not None and low <= self.value <= high:
            look: dict[str, Any] = {"marker": "o", "ms": 5, "mec": "white", "mew": 0.6, "zorder": 4} | dict(self.look)
            axes.plot([self.value], [y], **{"color": self.colour, "linestyle": "none"} | look)


@dataclass(frozen=True, slots=True)
class RowBand:
    """A grey range from `low` to `high` behind the dots of a row, cut at the ends of the axis."""

    low: float
    high: float
    height_in: float = 0.17
    alpha: float = 0.6

    def draw(self, axes: Axes, y: float) -> None:
        low, high = axes.get_xlim()
        left, right = max(self.low, low), min(self.high, high)
        axes.barh(y, right - left, left=left, height=self.height_in, color=FAINT, alpha=self.alpha, linewidth=0)


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A row: its `name`, its numbers as lines of text in `words`, and its dots and bands in `marks`.

    With `heading`, the name is a heading above the rows that follow."""

    name: str
    words: str = ""
    marks: Sequence[RowBand | RowDot] = ()
    heading: bool = False


@dataclass(frozen=True, slots=True)
class RowPanel:
    """Rows that share a horizontal axis with the title `text`.

    A vertical line marks the `reference`, if any. A logarithmic axis is labelled with ratios."""

    rows: Sequence[FigureRow]
    ends: AxisEnds
    text: str
    reference: float | None = None


def draw_rows(
    panels: Sequence[RowPanel], title: str, how: Sequence[str], say: Language, looks: Sequence[tuple[str, Look]] = ()
) -> Figure:
    """Draw panels below each other, as tall as their rows; `how` are lines below the title, `looks` legend entries."""
    from lastro.figures.ticks import ratio_axis

    figure = new_figure()
    stacked = list(figure.subplots(len(panels), 1, squeeze=False)[:, 0])
    heights_in = []
    for axes, panel in zip(stacked, panels, strict=True):
        axes.set_xlim(panel.ends.low, panel.ends.high)
        if panel.ends.log:
            ratio_axis(axes, panel.ends.low, panel.ends.high, say)
        else:
            label_with_numbers(axes, say)
        places, height_in = _set_texts(axes, panel.rows)
        heights_in.append(height_in)
        for y, row in zip(places, panel.rows, strict=True):
            for mark in row.marks:
                mark.draw(axes, y)
        if panel.reference is not None:
            axes.axvline(panel.reference, color="black", linewidth=0.9)
        axes.set_xlim(panel.ends.low, panel.ends.high)
        axes.set_xlabel(wrapped(panel.text, chars(width_of(figure) - 0.2, _AXIS_PT), 160), fontsize=_AXIS_PT)
    add_legend(figure, [legend_entry(name, look) for name, look in looks], most=3)
    add_heading(figure, title, *how)
    stacked[0].get_gridspec().set_height_ratios(heights_in)
    return fit_height(figure, stacked, sum(heights_in))


def _set_texts(axes: Axes, entries: Sequence[FigureRow]) -> tuple[list[float], float]:
    """Write the texts of all rows; return the vertical position of the dots in each row, and the height of the panel.

    Both are in inches from the top."""
    narrow, y, places = is_narrow(), _GAP_IN / 2, []
    ticks, place = [], ("axes fraction", "data")
    for entry in entries:
        above, beside, name = _texts(entry, narrow, width_of(axes.figure))
        top = y + _LINE_IN * lines_of(above) if above else y
        if above:
            size_pt, weight = (_NAME_PT, "bold") if entry.heading else (SMALL_PT, "normal")
            axes.annotate(
                above, (0, y), xycoords=place, va="top", fontsize=size_pt, fontweight=weight, linespacing=1.15,
                bbox=_BOX, zorder=2.5, annotation_clip=False,
            )  # fmt: skip
        text_in = _LINE_IN * max(lines_of(name), lines_of(beside))
        own_in = _MARK_IN if narrow else max(0.2, text_in)
        if entry.heading:
            own_in = 0.0
        places.append(top + own_in / 2)
        if not (narrow or entry.heading):
            ticks.append((places[-1], name))
            axes.annotate(
                beside, (1.03, places[-1]), xycoords=place, va="center", fontsize=SMALL_PT, linespacing=1.15,
                annotation_clip=False,
            )  # fmt: skip
        y = top + own_in + _GAP_IN
    axes.set_yticks([at for at, _ in ticks], [name for _, name in ticks])
    axes.set_ylim(y, 0)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    return places, y


def _texts(entry: FigureRow, narrow: bool, width_in: float) -> tuple[str, str, str]:
    """Return the text of a row in parts: above the row, right of the axis, left of the axis; unused parts are empty."""
    if entry.heading:
        room_in = width_in - (0.3 if narrow else _NAMES_IN + 0.3)
        return wrapped(entry.name, chars(room_in, _NAME_PT), 120, bold=True), "", ""
    if not narrow:
        lines = [wrapped(line, chars(_WORDS_IN, SMALL_PT), 120) for line in entry.words.split("\n")]
        return "", "\n".join(lines), wrapped(entry.name, chars(_NAMES_IN, _NAME_PT))
    return _packed([safe(entry.name, 60), *entry.words.split("\n")], chars(width_in - 0.3, SMALL_PT)), "", ""


def _packed(parts: Sequence[str], room: float) -> str:
    """Join the parts with ' · ' into as few lines as possible; only a part wider than `room` characters is broken."""
    lines: list[str] = []
    for part in parts:
        if lines and width_em(f"{lines[-1]} · {part}") <= room * CHAR_EM:
            lines[-1] += f" · {part}"
        else:
            lines += wrapped(part, room, 160).split("\n")
    return "\n".join(lines)
