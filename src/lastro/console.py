"""The rich console on which Lastro prints, and tables laid out in lines of text.

Its output has no control characters except those of rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from lastro.plain import without_controls


class PlainConsole(Console):
    """A console on which text cannot control the terminal; rich's own colours and cursor movements pass."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            clean = segment.control or segment.text.isprintable() or segment.text == "\n"
            yield segment if clean else Segment(without_controls(segment.text), segment.style)


def grid(rows: Sequence[Sequence[Text | str]], right: Iterable[int] = (), widths: Sequence[int] = ()) -> list[Text]:
    """Lay out rows in columns two cells apart, and return the lines; a cell may have several.

    `right` are the positions of right-aligned columns; `widths` are in cells, by default those of the widest cells."""
    cells = [[_lines(cell) for cell in row] for row in rows]
    widths = widths or [max(line.cell_len for lines in column for line in lines) for column in zip(*cells, strict=True)]
    found, aligned = [], set(right)
    for row in cells:
        for number in range(max(map(len, row), default=0)):
            line = Text()
            for at, (lines, width) in enumerate(zip(row, widths, strict=True)):
                own = lines[number] if number < len(lines) else Text()
                blank = " " * (width - own.cell_len)
                line.append(blank if at in aligned else "").append_text(own).append("" if at in aligned else blank)
                line.append("  ")
            line.rstrip()
            found.append(line)
    return found


def _lines(cell: Text | str) -> list[Text]:
    text = Text(without_controls(cell)) if isinstance(cell, str) else cell
    return list(text.split("\n", allow_blank=True))
