"""Markdown that fits into a comment on GitHub, at most 64 KiB: long texts are cut, and omitted parts are counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lastro.document import Document, Fold, Table, plain_text
from lastro.render.markdown import FOLD_ABOVE, block_text, escape, fold, join_blocks, table_lines
from lastro.words.language import Language

LIMIT = 60_000  # bytes of a document
_TEXT = 1_500  # bytes of one text, such as a sentence or the output of a tool
_LIST = 6_000  # bytes of one list
_WORDS = 500  # bytes around a table: blank lines, the words of a fold, how many rows are left
_LEAST = 2 * _WORDS + 2 * _TEXT  # bytes in which a table fits with its title and note


def markdown_within(document: Document, say: Language, whole: str) -> str:
    """Return the document as Markdown of at most `LIMIT` bytes.

    Tables without a fold get room first, so tables in folds are the first to be shortened or left out. `whole` is the
    command that shows the omitted parts; the document names it."""
    blocks = list(document)
    tables: dict[int, tuple[Table, str]] = {}  # a table, or a fold with only a table: (table, summary of its fold)
    for at, block in enumerate(blocks):
        match block:
            case Table():
                tables[at] = block, ""
            case Fold(summary, (Table() as table,)):
                tables[at] = table, plain_text(summary)
    parts = [
        "" if at in tables else block_text(block, say, _cut, lambda items: _fitting(items, say))
        for at, block in enumerate(blocks)
    ]
    room, n_left = LIMIT - _size(join_blocks(parts)), 0
    for at, (table, words) in sorted(tables.items(), key=lambda item: bool(item[1][1])):
        if room < _LEAST:
            n_left += 1
            continue
        parts[at] = join_blocks(_table_within(table, room, say, whole, words))
        room -= _size(parts[at]) + 2
    more = f"{escape(say('and {n} more tables', n=say.integer(n_left)))}: `{whole}`" if n_left else ""
    return join_blocks([*parts, more]) + "\n"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _fitting(parts: Sequence[str], say: Language) -> Iterator[str]:
    n_fitting = _fit(parts, _LIST)
    yield from parts[:n_fitting]
    if n_fitting < len(parts):
        yield f"- {escape(say('and {n} more', n=say.integer(len(parts) - n_fitting)))}"


def _cut(text: str) -> str:
    """Return a text, escaped for Markdown, and cut with '…' after 1,500 bytes."""
    shown = escape(text)
    while _size(shown) > _TEXT:
        text = text[: len(text) * _TEXT // _size(shown) - 1]
        shown = escape(text) + "…"
    return shown


def _table_within(table: Table, room: int, say: Language, whole: str, summary: str) -> Iterator[str]:
    """Yield the title, the note, the rows that fit into `room` bytes, and how many more rows the command `whole` shows.

    The rows are folded if there is a `summary`, or if there are many."""
    title, note = f"**{_cut(table.title)}**" if table.title else "", _cut(table.note)
    head, rule, *rows = table_lines(table)
    n_rows = _fit(rows, room - _size(title + note + escape(summary) + head + rule + whole) - _WORDS)
    body = "\n".join((head, rule, *rows[:n_rows]))
    if not summary and n_rows > FOLD_ABOVE:
        summary = say("Show all {n}", n=say.integer(n_rows))
        if n_rows < len(rows):
            summary = say("Show {n} of {all}", n=say.integer(n_rows), all=say.integer(len(rows)))
    yield from filter(None, (title, note))
    if n_rows:
        yield fold(summary, body) if summary else body
    if left := len(rows) - n_rows:
        yield f"{escape(say('and {n} more rows', n=say.integer(left)))}: `{whole}`"


def _fit(parts: Sequence[str], room: int) -> int:
    """Return how many of the parts, counted from the first, fit into `room` bytes with a line break after each."""
    for n_parts, part in enumerate(parts):
        room -= _size(part) + 1
        if room < 0:
            return n_parts
    return len(parts)
