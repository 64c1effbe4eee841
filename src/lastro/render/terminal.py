"""A document as lines for a terminal of a given width. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rich.text import Text

from lastro import document as doc
from lastro.console import grid
from lastro.plain import plain
from lastro.render.terminal_grid import STYLES, grid_lines
from lastro.words.language import Language

_HANGING = "    "  # before what continues a text of a list, or a row
_CELL = 32  # characters of a line in a cell with a long text


def terminal_lines(document: doc.Document, width: int, say: Language, *, everything: bool = False) -> list[str]:
    """Return the document as lines of plain text, at most `width` cells wide.

    Blocks are separated by a blank line, except after the title. With `everything`, the content of folds is shown,
    too."""
    return [line.plain for line in styled_lines(document, width, say, everything=everything)]


def styled_lines(document: doc.Document, width: int, say: Language, *, everything: bool = False) -> list[Text]:
    """Return the same lines as `terminal_lines`, but with their styles."""
    lines: list[Text] = []
    separated = True
    for block in document:
        if block and (block_lines := list(_block(block, width, say, everything))):
            lines += block_lines if separated else [Text(), *block_lines]
            separated = isinstance(block, doc.Title)
    return lines


def _block(block: doc.Block, width: int, say: Language, everything: bool) -> Iterator[Text]:
    """Yield the lines of one block; of a fold only its summary, unless `everything` is true."""
    match block:
        case doc.Title(text, answer, lead):
            for sentence in answer:
                yield from _wrapped(sentence, width)
            yield from [Text()] * bool(answer)
            yield from _wrapped(text, width, style="bold")
            yield from _wrapped(lead, width)
        case doc.Heading(text):
            yield from _wrapped(text, width, style="bold")
        case doc.Paragraph(content, dim):
            yield from _wrapped(content, width, style="dim" if dim else "")
        case doc.Items(texts, numbered, title, tag):
            yield from _wrapped(title, width)
            for at, text in enumerate(texts, 1):
                style = "bold yellow" if tag else ""
                yield from _wrapped(f"{at}. {text}" if numbered else text, width, _HANGING, style)
        case doc.CommandLine(label, text):
            yield Text(plain(f"{label}: {text}"))
        case doc.Code(text):
            yield from (Text(plain(line)) for line in text.splitlines())
        case doc.Facts(title=title):
            yield from _block(doc.Items(block.leaves(), title=title), width, say, everything)
        case doc.Figures():
            yield from styled_lines(block.as_text(), width, say, everything=everything)
        case doc.Table(dense=True) if block:
            yield from _block(_as_grid(block), width, say, everything)
        case doc.Table():
            yield from _table(block, width)
        case doc.Grid(title=title, note=note, legend=legend):
            yield from _wrapped(title, width, style="bold")
            yield from grid_lines(block, width)
            yield from [Text()] if note else []
            below = (doc.plain_text(text, signs=True) for text in (note, *legend))
            yield from (line for text in below for line in _wrapped(text, width, _HANGING))
        case doc.Notes(title, notes):
            yield from _wrapped(title, width)
            for at, (_, (first, *rest)) in enumerate(notes):
                yield from [Text()] if at else []
                yield from _wrapped(first, width, _HANGING)
                for line in rest:
                    yield from (Text("  ") + part for part in _wrapped(line, width - 2, "  "))
        case doc.Fold(summary, blocks):
            text = doc.plain_text(summary)
            yield from _wrapped(text if everything else say("{what}; --all shows them", what=text), width)
            yield from styled_lines(blocks, width, say, everything=True) if everything else ()


def _table(table: doc.Table, width: int) -> Iterator[Text]:
    """Yield a table below its title and note; if it is wider than `width`, its rows become sentences."""
    if not table:
        return
    yield from _wrapped(" — ".join(filter(None, (table.title, table.note))), width, _HANGING)
    rows = [tuple(map(plain, row)) for row in table.rows]
    head, *body = grid([table.columns, *rows], right=table.right)
    if (needed := max(line.cell_len for line in (head, *body))) <= width:
        yield from (head, Text("─" * needed), *body)
        return
    names = max(1, min(table.right, default=1))  # what is left of numbers names the row
    for row in rows:
        named = [(column, text) for column, text in zip(table.columns[names:], row[names:], strict=True) if text]
        naming = [*row[:names], *(text for column, text in named if not column)]
        yield from _wrapped("  ".join(filter(None, naming)), width, _HANGING)
        values = [f"{column} {text}" for column, text in named if column]
        for line in values if len(table.long) > 1 else ["; ".join(values)]:
            yield from (Text(_HANGING) + part for part in _wrapped(line, width - len(_HANGING), _HANGING))


def _as_grid(table: doc.Table) -> doc.Grid:
    """Return a table as a grid, which is spread over several tables if it is wide; long texts are broken into lines."""

    def cell(texts: list[str], at: int) -> doc.GridCell:
        return doc.GridCell(tuple((doc.Span(text),) for text in texts), head=at <= first, right=at in table.right)

    first = min(table.right, default=0)  # the column behind those that name the rows, which is repeated with them
    rows = (
        doc.GridRow(tuple(cell(textwrap.wrap(text, _CELL, subsequent_indent="  "), at) for at, text in enumerate(row)))
        for row in table.rows
    )
    head = tuple(cell([name], at) for at, name in enumerate(table.columns))
    return doc.Grid(head, tuple(rows), (), title=table.title, legend=(table.note,))


def _wrapped(text: doc.Text, width: int, hanging: str = "", style: str = "") -> Iterator[Text]:
    """Yield the lines of a text with the styles of its spans; each line after the first begins with `hanging`."""
    whole, end = doc.plain_text(text), 0
    for at, line in enumerate(textwrap.wrap(whole, width, subsequent_indent=hanging)):
        shown, indent = Text(plain(line), style), len(hanging) if at else 0
        # textwrap does not say where its lines begin: each is searched from the end of the one before. `start` is the
        # place in the text of the first character that is printed, which for an indent lies before the line.
        start = max(end, whole.find(line[indent:], end)) - indent
        end = start + len(line)
        span_end = 0
        for span in () if isinstance(text, str) else text:
            span_start, span_end = span_end, span_end + len(span.text)
            shown.stylize(STYLES.get(span.kind, ""), max(0, span_start - start), max(0, span_end - start))
        yield shown
