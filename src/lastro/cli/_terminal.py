"""Print blocks, documents and small tables as wide as the terminal, and write documents and figures to files."""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.document import Document
from lastro.plain import json_text, unfiltered, without_controls
from lastro.words.language import Language, language

if TYPE_CHECKING:
    from lastro.figures import Picture

_LEAST_WIDTH = 60


def terminal_width() -> int:
    return max(_LEAST_WIDTH, shutil.get_terminal_size((100, 24)).columns)


def print_blocks(document: Document, say: Language, *, everything: bool = False) -> None:
    """Print a document, as wide as the terminal; with `everything`, folded sections are printed, too.

    Lastro writes the text itself, since rich ends the program with exit code 1 when the reader of a pipe has ended."""
    from lastro.console import PlainConsole
    from lastro.render.terminal import styled_lines

    text, width = io.StringIO(), terminal_width()
    console = PlainConsole(
        file=text, force_terminal=sys.stdout.isatty(), highlight=False, markup=False, emoji=False, width=width
    )
    for line in styled_lines(document, width, say, everything=everything):
        console.print(line, no_wrap=True, crop=False, overflow="ignore")
    unfiltered(sys.stdout).write(text.getvalue())


def print_answer(
    args: argparse.Namespace,
    document: Callable[[], object],
    blocks: Callable[[Language], Document],
    *,
    everything: bool = False,
) -> None:
    """Print the answer of a command: `document()` as JSON if `args.json`, else `blocks(language)` as text.

    The language is `args.lang`; with `everything`, folded sections are printed, too."""
    if args.json:
        print(json_text(document()))
    else:
        say = language(args.lang)
        print_blocks(blocks(say), say, everything=everything)


def rendered(
    form: str, document: Document, say: Language, source: str = "", whole: str = "", *, everything: bool = False
) -> str:
    """Return a document as "text", "md", "latex" or "html".

    `source` names the file or the campaign behind an HTML page. With `whole`, a command that shows the whole document,
    Markdown is shortened to fit into a comment on a pull request. With `everything`, Markdown is never shortened, and
    text has the content of folds."""
    if form == "html":
        from lastro.render.html import html

        return html(document, say, source)
    if form == "latex":
        from lastro.render.latex import latex

        return latex(document, say)
    if form == "text":
        from lastro.render.terminal import terminal_lines

        return "\n".join(terminal_lines(document, terminal_width(), say, everything=everything)) + "\n"
    if everything or not whole:
        from lastro.render.markdown import markdown

        return markdown(document, say)
    from lastro.render.fitting import markdown_within

    return markdown_within(document, say, whole)


def print_document(text: str) -> None:
    """Print a text: unchanged if standard output is a file or a pipe, without control characters if a terminal."""
    (sys.stdout if sys.stdout.isatty() else unfiltered(sys.stdout)).write(text)


def write_output(output: str, text: str, base: Path | None = None, figures: Mapping[str, Path] | None = None) -> None:
    """Write a document without control characters to the file `output`, and print its path and those of its figures.

    For "-", print only the document. Below `base`, the directory of a campaign, no symbolic link is followed."""
    from lastro.results.files import write_atomically

    if output == "-":
        print_document(without_controls(text))
        return
    write_atomically(Path(output), without_controls(text), base=base)
    print(output)
    for file in (figures or {}).values():
        print(*(file.with_suffix(suffix) for suffix in (".svg", ".png", ".pdf")), sep="\n")


def write_figures(pictures: Iterable[Picture], folder: Path, base: Path | None = None) -> dict[str, Path]:
    """Write every figure as SVG, PNG and PDF; return {title: SVG file}. Below `base`, no symbolic link is followed."""
    from lastro.results.files import write_atomically

    files = {}
    for picture in pictures:
        file = folder / f"{picture.name}.svg"
        write_atomically(file, picture.svg(), base=base)
        write_atomically(file.with_suffix(".png"), picture.png(), base=base)
        write_atomically(file.with_suffix(".pdf"), picture.pdf(), base=base)
        files[picture.title] = file
    return files


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: the first and last columns are left-aligned, the columns between right-aligned."""
    from lastro.console import grid

    return [line.plain for line in grid(rows, right=range(1, len(rows[0]) - 1))]
