"""Rows of dots with intervals, each with a name and its numbers as text.

The text is next to the axis if there is room, and above the row on a narrow figure. A row is as high as its text, so
that labels do not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lastro.figures.style import GRID, SMALL_PT, fit, is_narrow, width_of
from lastro.figures.text import CHAR_EM, chars, em, lines_of, safe, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME_PT = 8.0
_LINE_IN = 1.22 * _NAME_PT / 72
_MARK_IN = 0.17  # for the dot, under the text of a narrow figure
_GAP_IN = 0.08
_NAMES_IN, _WORDS_IN = 1.3, 1.75  # room at the left and at the right of a wide axis
BOX: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A row: its name, and its numbers as text, line by line; or a heading over the rows below it."""

    name: str
    words: str = ""
    heading: bool = False


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The position of each entry's dot, in inches from the top; `height_in` is that of all rows."""

    places: tuple[float, ...]
    height_in: float


def set_rows(axes: Axes, entries: Sequence[FigureRow]) -> RowLayout:
    """Write the text of every entry; the caller draws the dots at the places."""
    narrow, y, places = is_narrow(axes.figure), _GAP_IN / 2, []
    ticks = []
    for entry in entries:
        above, beside, name = _texts(entry, narrow, width_of(axes.figure))
        top = y + _LINE_IN * lines_of(above) if above else y
        if above:
            _above(axes, above, y, bold=entry.heading)
        text_in = _LINE_IN * max(lines_of(name), lines_of(beside))
        own_in = 0.0 if entry.heading else _MARK_IN if narrow else max(0.2, text_in)
        places.append(top + own_in / 2)
        if not (narrow or entry.heading):
            ticks.append((places[-1], name))
            place: Any = ("axes fraction", "data")
            axes.annotate(
                beside, (1.03, places[-1]), xycoords=place, va="center", fontsize=SMALL_PT, linespacing=1.15,
                annotation_clip=False,
            )  # fmt: skip
        y = top + own_in + _GAP_IN
    axes.set_yticks([at for at, _ in ticks], [name for _, name in ticks])
    axes.set_ylim(y, 0)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    return RowLayout(tuple(places), y)


def fit_rows(figure: Any, stacked: Sequence[tuple[Axes, RowLayout]]) -> None:
    """Make the figure as tall as its rows, one group of them below the other."""
    heights_in = [rows.height_in for _, rows in stacked]
    stacked[0][0].get_gridspec().set_height_ratios(heights_in)  # type: ignore[union-attr]
    fit(figure, [axes for axes, _ in stacked], sum(heights_in))


def _texts(entry: FigureRow, narrow: bool, width_in: float) -> tuple[str, str, str]:
    """Return (text above the row, right of the axis, left of the axis)."""
    if entry.heading:
        room_in = width_in - (0.3 if narrow else _NAMES_IN + 0.3)
        return wrapped(entry.name, chars(room_in, _NAME_PT), 120, bold=True), "", ""
    if not narrow:
        lines = [wrapped(line, chars(_WORDS_IN, SMALL_PT), 120) for line in entry.words.split("\n")]
        return "", "\n".join(lines), wrapped(entry.name, chars(_NAMES_IN, _NAME_PT))
    return _packed([safe(entry.name, 60), *entry.words.split("\n")], chars(width_in - 0.3, SMALL_PT)), "", ""


def _packed(parts: Sequence[str], room: float) -> str:
    """Return the parts on as few lines as possible; a part stays whole where it fits."""
    lines: list[str] = []
    for part in parts:
        if lines and em(f"{lines[-1]} · {part}") <= room * CHAR_EM:
            lines[-1] += f" · {part}"
        else:
            lines += wrapped(part, room, 160).split("\n")
    return "\n".join(lines)


def _above(axes: Axes, text: str, y: float, *, bold: bool) -> None:
    """Write text over the whole axis; grid and reference line end there."""
    place: Any = ("axes fraction", "data")
    size_pt = _NAME_PT if bold else SMALL_PT
    axes.annotate(
        text, (0, y), xycoords=place, va="top", fontsize=size_pt, fontweight="bold" if bold else "normal",
        linespacing=1.15, bbox=BOX, zorder=2.5, annotation_clip=False,
    )  # fmt: skip
