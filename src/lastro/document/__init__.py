"""A small model of documents: a builder yields blocks, and a renderer shows every kind of them.

It knows no campaign. Its text is raw: each renderer escapes what its form requires. A block without text shows
nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Title:
    """The title of a document, with the sentences that answer its question."""

    text: str
    answer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclass(frozen=True, slots=True)
class Items:
    """A list of texts below its title, if any; `numbered` from 1 if others refer to them."""

    texts: tuple[str, ...]
    numbered: bool = False
    title: str = ""

    def __bool__(self) -> bool:
        return bool(self.texts)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line to copy, with a word on it: it is never wrapped."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Links to figures in files: (alternative text, address); a terminal does not show them."""

    links: tuple[tuple[str, str], ...]

    def __bool__(self) -> bool:
        return bool(self.links)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text; `name` is for references.

    `right` are the columns with numbers, aligned to the right; `long` are columns whose text may need several lines."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    long: frozenset[int] = frozenset()
    note: str = ""

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that a reader opens; before, only the `summary` is shown."""

    summary: str
    blocks: tuple[Block, ...]

    def __bool__(self) -> bool:
        return any(self.blocks)


Block = Title | Heading | Paragraph | Items | CommandLine | Figures | Table | Fold
Document = Iterable[Block]


def section(title: str, *blocks: Block) -> Iterator[Block]:
    """Yield a heading and the blocks below it; nothing if none of them shows anything."""
    if any(blocks):
        yield Heading(title)
        yield from filter(None, blocks)
