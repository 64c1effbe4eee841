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
    """Return the document as Markdown, without cutting anything."""
    return joined(block_text(block, say) for block in document if block) + "\n"


def joined(parts: Iterable[str]) -> str:
    """Return the parts that have text, with a blank line between two of them."""
    return "\n\n".join(filter(None, parts))


def block_text(block: doc.Block, say: Language, text: Callable[[str], str] = escape, keep: Keep = list) -> str:
    """Return one block as Markdown; `text` escapes, and may cut, a text; `keep` chooses from the parts of a list."""

    def inner(blocks: Iterable[doc.Block]) -> str:
        return joined(block_text(element, say, text, keep) for element in blocks if element)

    match block:
        case doc.Title(title, answer, lead):
            return joined([f"# {text(title)}", *keep([f"**{text(sentence)}**" for sentence in answer]), text(lead)])
        case doc.Heading(heading):
            return f"## {text(heading)}"
        case doc.Paragraph(paragraph):
            return text(doc.plain_text(paragraph))
        case doc.Items(texts, numbered, title):
            marks = (f"{at}. " if numbered else "- " for at in itertools.count(1))
            lines = keep([mark + text(element) for element, mark in zip(texts, marks, strict=False)])
            return joined([f"**{text(title)}**" if title and texts else "", "\n".join(lines)])
        case doc.CommandLine(label, line):
            return f"{text(label)}:\n\n{code(line, 'sh')}"
        case doc.Code(lines):
            return code(lines)
        case doc.Facts(title=title):
            facts = doc.Items(block.leaves())
            summary = title or say("Show all {n}", n=say.integer(len(facts.texts)))
            return fold(summary, block_text(facts, say, text, keep))
        case doc.Figures(figures, beside):
            return joined([*keep([_figure(figure, say) for figure in figures]), inner(beside)])
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
    """Return a figure that is in a file, with its note, and the table with its numbers."""
    image = f"![{escape(figure.title)}](<{_address(figure.address)}>)" if figure.address else ""
    return joined((image, escape(figure.note) if image else "", table_text(figure.table, say) if figure.table else ""))


def code(text: str, language: str = "") -> str:
    """Return a code block whose fence is longer than any run of backticks inside it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def table_text(table: doc.Table, say: Language, summary: str = "") -> str:
    """Return a table with its title and note; with a `summary`, or if it is long, it is folded."""
    body = "\n".join(table_lines(table))
    if not summary and len(table.rows) > FOLD_ABOVE:
        summary = say("Show all {n}", n=say.integer(len(table.rows)))
    title = f"**{escape(table.title)}**" if table.title else ""
    return joined((title, escape(table.note), fold(summary, body) if summary else body))


def table_lines(table: doc.Table) -> list[str]:
    """Return the two lines of the heading, then one for each row."""
    rule = ["---:" if at in table.right else "---" for at in range(len(table.columns))]
    return [_row(map(escape, table.columns)), _row(rule), *(_row(map(escape, row)) for row in table.rows)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def fold(summary: str, body: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>\n\n{body}\n\n</details>" if body else ""


def _address(path: str) -> str:
    """Escape a relative address for use inside < >: line breaks and brackets would end it."""
    return re.sub(r"[<>\\\x00-\x1f]", lambda match: f"%{ord(match[0]):02X}", path)
