"""A grid as lines for a terminal of a given width, none of which needs to wrap.

Until all lines fit, the leading columns become headings above their rows, and columns of values are spread over several
tables. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from lastro.console import grid
from lastro.document import Grid, GridCell, GridRow
from lastro.plain import plain

_MANY = 40  # rows: with more, all but two of the columns that name rows are always headings
_GAP = 2  # cells between columns
STYLES = {
    "strong": "bold", "dim": "dim", "warning": "yellow", "baseline": "bold blue", "better": "green", "worse": "red",
    "higher": "cyan", "lower": "cyan", "same": "dim",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Column:
    """A column as wide as its widest line; `cells` has one text for each row, which may have several lines."""

    heading: Text
    cells: tuple[Text, ...]
    right: bool

    @property
    def width(self) -> int:
        return max(cell_len(line) for text in (self.heading, *self.cells) for line in text.plain.split("\n"))


def grid_lines(block: Grid, width: int) -> Iterator[Text]:
    """Yield the lines of one table or of several, each of which repeats the columns that name the rows."""
    cells = list(zip(*map(_texts, block.rows), strict=True)) or [()] * len(block.head)
    columns = [
        _Column(_text(head, ("bold", "dim")), texts, head.right) for head, texts in zip(block.head, cells, strict=True)
    ]
    named = [column for head, column in zip(block.head, columns, strict=True) if head.head]
    names, counts = [column for column in named if not column.right], [column for column in named if column.right]
    hoisted, tables = _layout(
        names, counts, [column for column in columns if column not in named], width, len(block.rows)
    )
    for number, table in enumerate(tables):
        yield from [Text()] if number else []
        yield from _table(names[:hoisted], table)


def _texts(row: GridRow) -> list[Text]:
    """Return the text of each column of a row; a cell over several columns has its text in the first of them."""
    return [
        text
        for cell in row.cells
        for text in (_text(cell, ("dim",) if cell.absent else ("",)), *[Text()] * (cell.columns - 1))
    ]


def _text(cell: GridCell, styles: Sequence[str]) -> Text:
    """Return the text of a cell. Each line has the style of the same index; the last style is for all further lines."""
    return Text("\n").join(
        Text.assemble(
            *((plain(span.sign or span.text), STYLES.get(span.kind, "")) for span in line),
            style=styles[min(at, len(styles) - 1)],
        )
        for at, line in enumerate(cell.lines)
    )


def _layout(
    names: Sequence[_Column], counts: Sequence[_Column], others: Sequence[_Column], width: int, rows: int
) -> tuple[int, list[list[_Column]]]:
    """Return how many leading columns of `names` become headings, and the columns of each table.

    `names` and `counts` are columns that each table repeats; `others` are spread over the tables. `rows` is the number
    of rows."""
    least = max(0, len(names) - 2) if rows > _MANY else 0
    hoisted = least
    while hoisted < len(names) - 1 and _total([*names[hoisted:], *counts, *others]) > width:
        hoisted += 1
    room = width - _total([*names[hoisted:], *counts])
    if _total(others) > room:  # headings alone do not suffice: use only those needed to fit one column
        widest = max((column.width for column in others), default=0)
        fitting = (n for n in range(least, len(names) + 1) if _total([*names[n:], *counts]) + widest + _GAP <= width)
        hoisted = next(fitting, hoisted)
        room = width - _total([*names[hoisted:], *counts])
    return hoisted, [[*names[hoisted:], *counts, *dealt] for dealt in _spread(others, room)]


def _total(columns: Sequence[_Column]) -> int:
    return sum(column.width + _GAP for column in columns)


def _spread(columns: Sequence[_Column], room: int) -> list[list[_Column]]:
    """Spread the columns, in their order, evenly over the smallest number of tables that fit."""
    tables: list[list[_Column]] = [[]]
    for column in columns:
        if tables[-1] and _total([*tables[-1], column]) > room:
            tables.append([])
        tables[-1].append(column)
    share = -(-len(columns) // len(tables)) or 1
    even = [list(columns[at : at + share]) for at in range(0, len(columns), share)]
    return even if even and all(_total(table) <= room for table in even) else tables


def _table(hoisted: Sequence[_Column], columns: Sequence[_Column]) -> Iterator[Text]:
    """Yield the head and the rows of a table; the `hoisted` columns become headings above their rows."""
    widths = [column.width for column in columns]
    right = [at for at, column in enumerate(columns) if column.right]
    yield from grid([[column.heading for column in columns]], right, widths)
    yield Text("─" * (_total(columns) - _GAP), style="dim")

    def heading(at: int) -> str:
        return " · ".join(column.cells[at].plain for column in hoisted)

    for text, group in itertools.groupby(range(len(columns[0].cells)), key=heading):
        yield from [Text(text, style="bold")] if text else []
        yield from grid([[column.cells[at] for column in columns] for at in group], right, widths)
