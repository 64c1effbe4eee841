"""Markdown that fits into a comment on GitHub, which takes 64 KiB: texts are cut, and what is left out is counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lastro.document import Document, Fold, Table
from lastro.render.markdown import FOLD_ABOVE, escape, fold, joined, prose, table_lines
from lastro.report.language import Language

LIMIT = 60_000  # bytes of a document
_TEXT = 1_500  # bytes of one text, such as a sentence or the output of a tool
_LIST = 6_000  # bytes of one list
_WORDS = 500  # bytes around a table: blank lines, the words of a fold, how many rows are left
_LEAST = 2 * _WORDS + 2 * _TEXT  # bytes in which a table fits with its title and note


def markdown_within(document: Document, say: Language, whole: str) -> str:
    """Return the document in at most `LIMIT` bytes; only the command `whole` shows what is left out, folds first."""
    blocks = list(document)
    parts = [
        "" if isinstance(block, Table | Fold) else prose(block, cut, lambda items: fitting(items, say, "- "))
        for block in blocks
    ]
    room, left = LIMIT - size(joined(parts)), 0
    tables = ((at, block) for at, block in enumerate(blocks) if isinstance(block, Table | Fold))
    for at, block in sorted(tables, key=lambda each: isinstance(each[1], Fold)):
        if room < _LEAST:
            left += 1
            continue
        parts[at] = "\n\n".join(table_within(block, room, say, whole))
        room -= size(parts[at]) + 2
    more = f"{escape(say('and {n} more tables', n=say.integer(left)))}: `{whole}`" if left else ""
    return joined([*parts, more])


def size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def fitting(parts: Sequence[str], say: Language, mark: str = "") -> Iterator[str]:
    """Yield the parts that fit into a list, and how many do not; `mark` precedes this number."""
    kept = fit(parts, _LIST)
    yield from parts[:kept]
    if kept < len(parts):
        yield mark + escape(say("and {n} more", n=say.integer(len(parts) - kept)))


def cut(text: str) -> str:
    """Return a text escaped, and cut where it is too long."""
    shown = escape(text)
    while size(shown) > _TEXT:
        text = text[: len(text) * _TEXT // size(shown) - 1]
        shown = escape(text) + "…"
    return shown


def table_within(block: Table | Fold, room: int, say: Language, whole: str) -> Iterator[str]:
    """Yield a table with as many rows as fit into `room` bytes, and how many rows only the command `whole` shows.

    A long table is folded."""
    summary, table = (block.summary, block.table) if isinstance(block, Fold) else ("", block)
    title, note = f"**{cut(table.title)}**" if table.title else "", cut(table.note)
    head, rule, *rows = table_lines(table)
    kept = fit(rows, room - size(title + note + summary + head + rule + whole) - _WORDS)
    body = "\n".join((head, rule, *rows[:kept]))
    if not summary and kept > FOLD_ABOVE:
        summary = say("Show all {n}", n=say.integer(kept))
        if kept < len(rows):
            summary = say("Show {n} of {all}", n=say.integer(kept), all=say.integer(len(rows)))
    yield from filter(None, (title, note, (fold(summary, body) if summary else body) if kept else ""))
    if left := len(rows) - kept:
        yield f"{escape(say('and {n} more rows', n=say.integer(left)))}: `{whole}`"


def fit(parts: Sequence[str], room: int) -> int:
    """Return how many of the first parts fit into `room` bytes, each with a line break."""
    for kept, part in enumerate(parts):
        room -= size(part) + 1
        if room < 0:
            return kept
    return len(parts)
