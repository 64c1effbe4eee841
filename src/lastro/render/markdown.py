"""A document as Markdown, for a wiki or a pull request.

All text is escaped, so that none of it becomes markup, a link or a mention."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable

from lastro import document as doc
from lastro.plain import plain
from lastro.words.language import Language

Keep = Callable[[list[str]], Iterable[str]]
FOLD_ABOVE = 25  # rows: a longer table is folded

_SPECIAL = str.maketrans(
    {char: f"\\{char}" for char in "\\`*_[]#!|~$"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;"}
)


def escape(text: str) -> str:
    """Escape any text for Markdown, on one line."""
    line = " ".join(plain(text).split())
    line = line.translate(_SPECIAL).replace("://", ":&#47;/").replace("www.", "www&#46;")
    line = re.sub(r"(?<=[^\W_])\\_(?=[^\W_])", "_", line)  # "_" within a word is not emphasis
    return re.sub(r"^(\d+)?([-+=.)])", r"\1\\\2", line)


def markdown(document: doc.Document, say: Language) -> str:
    """Return the whole document as Markdown."""
    return join_blocks(block_text(block, say) for block in document if block) + "\n"


def join_blocks(parts: Iterable[str]) -> str:
    """Join the parts that are not empty, with a blank line between them."""
    return "\n\n".join(filter(None, parts))


def block_text(block: doc.Block, say: Language, text: Callable[[str], str] = escape, keep: Keep = list) -> str:
    """Return one block as Markdown.

    `text` escapes a text, and may cut it. `keep` selects which items of a list are shown, and may add one that counts
    the others."""

    def inner(blocks: Iterable[doc.Block]) -> str:
        return join_blocks(block_text(element, say, text, keep) for element in blocks if element)

    match block:
        case doc.Title(title, answer, lead):
            return join_blocks(
                [f"# {text(title)}", *keep([f"**{text(sentence)}**" for sentence in answer]), text(lead)]
            )
        case doc.Heading(heading):
            return f"## {text(heading)}"
        case doc.Paragraph(paragraph):
            return text(doc.plain_text(paragraph))
        case doc.Items(texts, numbered, title):
            marks = (f"{at}. " if numbered else "- " for at in itertools.count(1))
            lines = keep([mark + text(element) for element, mark in zip(texts, marks, strict=False)])
            return join_blocks([f"**{text(title)}**" if title and texts else "", "\n".join(lines)])
        case doc.CommandLine(label, line):
            return f"{text(label)}:\n\n{code(line, 'sh')}"
        case doc.Code(lines):
            return code(lines)
        case doc.Facts(title=title):
            facts = doc.Items(block.leaves())
            summary = title or say("Show all {n}", n=say.integer(len(facts.texts)))
            return fold(summary, block_text(facts, say, text, keep))
        case doc.Figures(figures, beside):
            return join_blocks([*keep([_figure(figure, say) for figure in figures]), inner(beside)])
        case doc.Table():
            return table_text(block, say)
        case doc.Grid(tables=tables):
            return inner(tables)
        case doc.Notes():
            return inner([block.as_text()])
        case doc.Fold(summary, (doc.Table() as table,)):
            return table_text(table, say, doc.plain_text(summary))
        case doc.Fold(summary, blocks):
            return fold(doc.plain_text(summary), inner(blocks))


def _figure(figure: doc.Figure, say: Language) -> str:
    """Return a figure as a link to its file, if it has one, with its note, and the table of its numbers."""
    # Inside < >, line breaks and brackets would end the address.
    address = re.sub(r"[<>\\\x00-\x1f]", lambda match: f"%{ord(match[0]):02X}", figure.address)
    image = f"![{escape(figure.title)}](<{address}>)" if address else ""
    return join_blocks(
        (image, escape(figure.note) if image else "", table_text(figure.table, say) if figure.table else "")
    )


def code(text: str, language: str = "") -> str:
    """Return a code block whose fence is longer than any run of backticks inside it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def table_text(table: doc.Table, say: Language, summary: str = "") -> str:
    """Return a table below its title and note; its rows are folded if there is a `summary`, or more than 25 rows."""
    body = "\n".join(table_lines(table))
    if not summary and len(table.rows) > FOLD_ABOVE:
        summary = say("Show all {n}", n=say.integer(len(table.rows)))
    title = f"**{escape(table.title)}**" if table.title else ""
    return join_blocks((title, escape(table.note), fold(summary, body) if summary else body))


def table_lines(table: doc.Table) -> list[str]:
    """Return the lines of a Markdown table: the head, the rule below it, and one for each row."""
    rule = ["---:" if at in table.right else "---" for at in range(len(table.columns))]
    return [_row(map(escape, table.columns)), _row(rule), *(_row(map(escape, row)) for row in table.rows)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def fold(summary: str, body: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>\n\n{body}\n\n</details>" if body else ""
