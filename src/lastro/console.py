"""The rich console on which Lastro prints, and tables laid out in lines of text.

Its output has no control characters except those of rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lastro.plain import without_controls

_AS_WIDE_AS_NEEDED = 100_000  # cells


class PlainConsole(Console):
    """A console on which text cannot control the terminal; rich's own colours and cursor movements pass."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            clean = segment.control or segment.text.isprintable() or segment.text == "\n"
            yield segment if clean else Segment(without_controls(segment.text), segment.style)


def grid(rows: Sequence[Sequence[Text | str]], right: Iterable[int] = (), widths: Sequence[int] = ()) -> list[Text]:
    """Lay out rows in columns two cells apart, and return the lines; a cell may have several.

    `right` are the positions of right-aligned columns; `widths` are in cells, by default those of the widest cells."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for at, _ in enumerate(rows[0]):
        width = widths[at] if widths else None
        table.add_column(width=width, no_wrap=True, justify="right" if at in right else "left")
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    lines = PlainConsole(width=_AS_WIDE_AS_NEEDED).render_lines(table, pad=False)
    found = [Text.assemble(*((part.text, part.style or "") for part in line)) for line in lines]
    for line in found:
        line.rstrip()
    return found
