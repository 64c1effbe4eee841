"""A small model of documents: a builder yields blocks, and a renderer shows every kind of block.

It does not depend on campaigns. Text is stored unescaped: each renderer escapes what its format requires. A block
without content is false, and is not shown. Properties that only some formats can show, such as tooltips, are ignored by
all other renderers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text."""

    text: str
    # Style: strong, dim, code, mean, note or warning (short words in a box), or better, worse, higher, lower, same.
    kind: str = ""
    tip: str = ""  # its tooltip
    link: str = ""  # the address to which it leads
    # An interval to be drawn: its low end, its middle and its high end, each from -1 to 1.
    axis: tuple[float, float, float] | None = None
    sign: str = ""  # a terminal shows it in place of the text, since a terminal has no boxes


Text = str | tuple[Span, ...]


def plain_text(text: Text, *, signs: bool = False) -> str:
    """Return the text of all spans, without their styles, tips, links and axes; with `signs`, signs replace texts."""
    return text if isinstance(text, str) else "".join((signs and span.sign) or span.text for span in text)


@dataclass(frozen=True, slots=True)
class Title:
    """The title of a document, with the sentences that answer its question.

    `kicker` is a short line that says what kind of document it is. `lead` is a paragraph on its subject. `tiles` are
    key numbers as (number, label, kind), where the kind selects the colour."""

    text: str
    answer: tuple[str, ...] = ()
    lead: str = ""
    kicker: str = ""
    tiles: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a section; `anchor` is its address within the page.

    The table of contents lists it, under its `short` text, if it has an anchor and is `listed`."""

    text: str
    anchor: str = ""
    short: str = ""
    listed: bool = True


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; `dim` if it is secondary, and shown less prominently."""

    text: Text
    dim: bool = False

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclass(frozen=True, slots=True)
class Items:
    """A list of texts, below its title if it has one.

    It is `numbered` from 1 if other texts refer to its numbers. With a `tag`, such as "note", each text is shown as a
    warning."""

    texts: tuple[str, ...]
    numbered: bool = False
    title: str = ""
    tag: str = ""

    def __bool__(self) -> bool:
        return bool(self.texts)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line to copy, which is never wrapped; `label` says what it does. With a `tag`, it is a warning."""

    label: str
    text: str
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """The lines of a file or a script, shown unchanged."""

    text: str

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclass(frozen=True, slots=True)
class Facts:
    """Nested facts, below their title if they have one: mappings whose values are mappings, lists or plain values."""

    facts: Mapping[str, Any]
    title: str = ""

    def __bool__(self) -> bool:
        return bool(self.facts)

    def leaves(self) -> tuple[str, ...]:
        """Return each plain value or list as text after its path: 'host.cpu.model: AMD EPYC 7B13'."""
        return tuple(_leaves(self.facts, ()))


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, (*path, str(key)))
    elif path:
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        yield f"{'.'.join(path)}: {text}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text."""

    name: str  # identifies the table in files, such as LaTeX
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()  # indices of columns that are aligned to the right, such as numbers
    long: frozenset[int] = frozenset()  # indices of columns whose text may need several lines
    note: str = ""
    tags: tuple[str, ...] = ()  # a word for each row, which may be empty
    whole: bool = False  # if false, a long table is folded
    dense: bool = False  # many columns: a terminal spreads them over several tables
    stacked: bool = False  # on a page, a number stands above the brackets that follow it

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclass(frozen=True, slots=True)
class GridCell:
    """A cell that is `columns` columns wide; `lines` are its lines, each of several spans.

    `head`: it names its row or column. `right`: it is aligned to the right. `absent`: it says why there is no value."""

    lines: tuple[tuple[Span, ...], ...]
    columns: int = 1
    head: bool = False
    right: bool = False
    absent: bool = False


@dataclass(frozen=True, slots=True)
class GridRow:
    """A row of a grid. `kind` is "group" for a heading of the rows below it, "baseline" for a baseline, or empty."""

    cells: tuple[GridCell, ...]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with styled cells."""

    head: tuple[GridCell, ...]
    rows: tuple[GridRow, ...]
    tables: tuple[Table, ...]  # with the same content, for formats that cannot show the grid
    title: str = ""  # above the grid; `note` alike
    note: str = ""
    legend: tuple[Text, ...] = ()  # below the grid
    summary: str = ""  # if set, the grid is folded under this text

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclass(frozen=True, slots=True)
class Notes:
    """Notes of several lines each, below their title: (anchor or empty, lines).

    `table` has the same content for formats in which the notes would need too much room."""

    title: str
    notes: tuple[tuple[str, tuple[Text, ...]], ...]
    table: Table | None = None

    def __bool__(self) -> bool:
        return bool(self.notes)

    def as_text(self) -> Block:
        """Return the table of the notes or, without one, a list with one text for each note."""
        texts = tuple(". ".join(map(plain_text, lines)) for _, lines in self.notes)
        return self.table or Items(texts, title=self.title)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure drawn by Lastro: `svgs` has it for a wide and for a narrow page, or it is in a file at `address`.

    `table` has its numbers. A terminal and LaTeX show only the table."""

    title: str
    svgs: tuple[str, ...] = field(default=(), repr=False)
    address: str = ""
    note: str = ""
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures in a group, and blocks that are shown `beside` them where there is room."""

    figures: tuple[Figure, ...]
    beside: tuple[Block, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.figures) or any(self.beside)

    def as_text(self) -> tuple[Block, ...]:
        """Return what a format without figures shows: the tables of the figures, and the blocks `beside` them."""
        return (*(figure.table for figure in self.figures if figure.table), *self.beside)


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that are hidden until the reader opens them; until then, only the `summary` is shown."""

    summary: Text
    blocks: tuple[Block, ...]

    def __bool__(self) -> bool:
        return any(self.blocks)


Block = Title | Heading | Paragraph | Items | CommandLine | Code | Facts | Table | Grid | Notes | Figures | Fold
Document = Iterable[Block]


def section(title: str, *blocks: Block, anchor: str = "", short: str = "") -> Iterator[Block]:
    """Yield a heading with the blocks below it, without empty blocks; nothing if all blocks are empty."""
    if any(blocks):
        yield Heading(title, anchor, short)
        yield from filter(None, blocks)
