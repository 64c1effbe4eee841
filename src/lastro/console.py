"""The rich console on which Lastro prints, and tables laid out in lines of text.

Its output has no control characters except those of rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from lastro.plain import without_controls


class PlainConsole(Console):
    """A console that removes control characters from text; rich's own colours and cursor movements are kept."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            clean = segment.control or segment.text.isprintable() or segment.text == "\n"
            yield segment if clean else Segment(without_controls(segment.text), segment.style)


def grid(rows: Sequence[Sequence[Text | str]], right: Iterable[int] = (), widths: Sequence[int] = ()) -> list[Text]:
    """Lay out rows in columns two characters apart, and return the lines; a table cell may have several lines.

    `right` has the indices of right-aligned columns. `widths` has the width of each column in characters; by default,
    a column is as wide as its widest cell."""
    cells = [[_lines(cell) for cell in row] for row in rows]
    widths = widths or [max(line.cell_len for lines in column for line in lines) for column in zip(*cells, strict=True)]
    laid_out, aligned = [], set(right)
    for row in cells:
        for number in range(max(map(len, row), default=0)):
            line = Text()
            for column, (lines, width) in enumerate(zip(row, widths, strict=True)):
                cell_line = lines[number] if number < len(lines) else Text()
                blank = " " * (width - cell_line.cell_len)
                line.append(blank if column in aligned else "").append_text(cell_line).append(
                    "" if column in aligned else blank
                )
                line.append("  ")
            line.rstrip()
            laid_out.append(line)
    return laid_out


def _lines(cell: Text | str) -> list[Text]:
    text = Text(without_controls(cell)) if isinstance(cell, str) else cell
    return list(text.split("\n", allow_blank=True))
