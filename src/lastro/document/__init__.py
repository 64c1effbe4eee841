"""A small model of documents: a builder yields blocks, and a renderer shows every kind of block.

It knows no campaign. Its text is raw: each renderer escapes what its form requires. A block without text shows
nothing. What only some forms can show, such as tooltips or the number of a tile, is a property of a block; the others
leave it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text. `tip` explains it, and `link` is where it leads.

    `kind` says what it is: strong, dim, code, mean, note or warning (short words in a box), or better, worse, higher,
    lower, same. `axis` has the low end, the middle and the high end of an interval, each from -1 to 1, to be drawn."""

    text: str
    kind: str = ""
    tip: str = ""
    link: str = ""
    axis: tuple[float, float, float] | None = None


Text = str | tuple[Span, ...]


def plain_text(text: Text) -> str:
    """Return the text of all spans, without their styles, tips, links and axes."""
    return text if isinstance(text, str) else "".join(span.text for span in text)


@dataclass(frozen=True, slots=True)
class Title:
    """The title of a document, with the sentences that answer its question.

    `kicker` is the kind of the document; `lead` is a paragraph on what it is about; `tiles` are its key numbers:
    (number, words, what kind of number it is)."""

    text: str
    answer: tuple[str, ...] = ()
    lead: str = ""
    kicker: str = ""
    tiles: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a section. With an anchor, and if `listed`, it is in the table of contents as `short`."""

    text: str
    anchor: str = ""
    short: str = ""
    listed: bool = True


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; `dim` if it is secondary."""

    text: Text
    dim: bool = False

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclass(frozen=True, slots=True)
class Items:
    """A list of texts below its title, if any; `numbered` from 1 if other texts refer to its numbers.

    With a `tag`, such as "note", each is a warning."""

    texts: tuple[str, ...]
    numbered: bool = False
    title: str = ""
    tag: str = ""

    def __bool__(self) -> bool:
        return bool(self.texts)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line to copy, never wrapped, after a label that says what it does. With a `tag`, it is a warning."""

    label: str
    text: str
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """Lines of a file as they are."""

    text: str

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclass(frozen=True, slots=True)
class Facts:
    """Nested facts below their title, if any: mappings, lists and plain values."""

    facts: Mapping[str, Any]
    title: str = ""

    def __bool__(self) -> bool:
        return bool(self.facts)

    def leaves(self) -> tuple[str, ...]:
        """Return each plain value after its path: 'host.cpu.model: AMD EPYC 7B13'."""
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
    """A table of text; `name` is for references.

    `right` are the columns with numbers, aligned to the right; `long` are columns whose text may need several lines.
    `tags` has a word, which may be empty, for each row. A long table is folded, unless it is `whole`; `dense` marks a
    table with many columns."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    long: frozenset[int] = frozenset()
    note: str = ""
    tags: tuple[str, ...] = ()
    whole: bool = False
    dense: bool = False

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclass(frozen=True, slots=True)
class GridCell:
    """A cell of one or more lines of spans, which is `columns` columns wide.

    `head`: it names its row or column. `absent`: it says why there is no value."""

    lines: tuple[tuple[Span, ...], ...]
    columns: int = 1
    head: bool = False
    right: bool = False
    absent: bool = False


@dataclass(frozen=True, slots=True)
class GridRow:
    """A row of a grid. `kind` is "group" for the heading of the rows below it, or "baseline"."""

    cells: tuple[GridCell, ...]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with rich cells, for formats that have room for it; `tables` have its content for all other formats.

    `title` and `note` are above it, and `legend` is below it; it is folded under its `summary`, if any."""

    head: tuple[GridCell, ...]
    rows: tuple[GridRow, ...]
    tables: tuple[Table, ...]
    title: str = ""
    note: str = ""
    legend: tuple[Text, ...] = ()
    summary: str = ""

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclass(frozen=True, slots=True)
class Notes:
    """Notes of several lines below their title, each with its anchor, if any.

    `table` has the content of the notes for formats in which they need too much room."""

    title: str
    notes: tuple[tuple[str, tuple[Text, ...]], ...]
    table: Table | None = None

    def __bool__(self) -> bool:
        return bool(self.notes)

    def as_text(self) -> Block:
        """Return the table, or else a list with one text for each note."""
        texts = tuple(". ".join(map(plain_text, lines)) for _, lines in self.notes)
        return self.table or Items(texts, title=self.title)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure by Lastro: drawn as `svgs` (for a wide and for a narrow page), or in a file at `address`.

    `table` has its numbers. A terminal and LaTeX show only the table."""

    title: str
    svgs: tuple[str, ...] = field(default=(), repr=False)
    address: str = ""
    note: str = ""
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures beside each other, and blocks `beside` them where there is room."""

    figures: tuple[Figure, ...]
    beside: tuple[Block, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.figures) or any(self.beside)

    def as_text(self) -> tuple[Block, ...]:
        """Return the tables of the figures, and the blocks beside them."""
        return (*(figure.table for figure in self.figures if figure.table), *self.beside)


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that are hidden until the reader opens them; until then, only the `summary` is shown."""

    summary: Text
    blocks: tuple[Block, ...]

    def __bool__(self) -> bool:
        return any(self.blocks)


Block = (
    Title | Heading | Paragraph | Items | CommandLine | Code | Facts | Table | Grid | Notes | Figures | Fold
)  # fmt: skip
Document = Iterable[Block]


def section(title: str, *blocks: Block, anchor: str = "", short: str = "") -> Iterator[Block]:
    """Yield a heading and the blocks below it; nothing if none of them shows anything."""
    if any(blocks):
        yield Heading(title, anchor, short)
        yield from filter(None, blocks)
