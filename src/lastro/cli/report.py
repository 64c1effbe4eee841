"""One document with the answer, figures, tables, what is missing and why, provenance and how to repeat it. The HTML
page needs no network and no script, so it can be mailed or archived as it is.

  lastro report DIR                     writes DIR/report.html
  lastro report DIR -o page.html        elsewhere; "-": standard output
  lastro report DIR --lang pt-BR        in Brazilian Portuguese
  lastro report DIR --format md         Markdown, for a pull request: DIR/report.md
  lastro report DIR --format latex      booktabs tables, for a paper: DIR/report.tex
  lastro report DIR --figures           also every figure as SVG, PNG and PDF, in DIR/figures

Needs no root. The report of an unfinished campaign covers its trials so far. For a suite: a page on the whole,
which links to the page of each study in DIR/FRONT."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.campaign.suite import is_suite
from lastro.cli._common import campaign_argument
from lastro.cli._terminal import print_document
from lastro.cli.claims import claims_of, judged
from lastro.cli.results import loaded
from lastro.plain import without_controls
from lastro.report.language import LANGUAGES, Language, language

if TYPE_CHECKING:
    from lastro.report.content import Content

SUFFIXES = {"html": "html", "md": "md", "latex": "tex"}


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write (default: DIR/report.html, .md or .tex)")
    parser.add_argument("--format", choices=SUFFIXES, default="html", help="the kind of document (default: html)")
    parser.add_argument("--lang", choices=LANGUAGES, default="en", help="the language of the report (default: en)")
    parser.add_argument(
        "--figures", action="store_true", help="also write every figure as SVG, PNG and PDF to DIR/figures"
    )
    parser.add_argument(
        "--all-metrics", action="store_true", help="everything that was measured, not only the study's metrics"
    )


def run(args: argparse.Namespace) -> int:
    if is_suite(args.dir):
        from lastro.cli._suite_views import report

        return report(args)
    write(args, args.dir, content_of(args.dir, language(args.lang), all_metrics=args.all_metrics), args.output)
    return 0


def write(args: argparse.Namespace, directory: Path, content: Content, output: str | None) -> None:
    """Write the document of one campaign, and its figures if they are wanted, and print their paths."""
    output = output or str(directory / f"report.{SUFFIXES[args.format]}")
    folder = Path.cwd() if output == "-" else Path(output).parent
    figures = _write_figures(content, directory / "figures", args.dir) if args.figures else {}
    text = _render(content, args.format, {title: os.path.relpath(file, folder) for title, file in figures.items()})
    put(output, text, base=args.dir)
    for file in figures.values() if output != "-" else ():
        print(*(file.with_suffix(suffix) for suffix in (".svg", ".png", ".pdf")), sep="\n")


def put(output: str, text: str, *, base: Path | None = None) -> None:
    """Write a document without control characters, and print its path; "-" is standard output.

    Below `base`, the directory of a campaign, no link is followed."""
    from lastro.results.files import write_atomically

    if output == "-":
        print_document(without_controls(text))
        return
    write_atomically(Path(output), without_controls(text), base=base)
    print(output)


def content_of(directory: Path, say: Language, *, all_metrics: bool) -> Content:
    """Return the report of a campaign with its analysis, and the claims: its own, or those of its paper."""
    from lastro.analysis import analyse
    from lastro.analysis.campaign import build_report
    from lastro.report.content import Content

    data = loaded(directory)
    report = build_report(data, all_metrics=all_metrics)
    analysis = analyse(report)
    file = claims_of(directory, data.study.name)
    if file is None:
        return Content(report, analysis, say)
    from lastro.report.claims_text import explanation, source_text, tally_text

    found = judged(data, file)
    tally = ": ".join(part for part in (source_text(found.claims.source), tally_text(found.judgements, say)) if part)
    return Content(report, analysis, say, found.judgements, tally, explanation(report, say))


def _render(content: Content, kind: str, links: dict[str, str]) -> str:
    """Return the document as text; only the modules for this kind are imported."""
    if kind == "md":
        from lastro.report.markdown import render_markdown

        return render_markdown(content, links)
    if kind == "latex":
        from lastro.report.latex import render_latex

        return render_latex(content)
    from lastro.report.html import render_html

    return render_html(content)


def _write_figures(content: Content, folder: Path, base: Path) -> dict[str, Path]:
    """Write every figure in three formats, and return {title: SVG file}. Below `base`, no link is followed."""
    from lastro.report.figures import pictures
    from lastro.results.files import write_atomically

    written = {}
    for picture in pictures(content.report, content.analysis, content.say, content.judgements):
        file = folder / f"{picture.name}.svg"
        write_atomically(file, picture.svg(), base=base)
        write_atomically(file.with_suffix(".png"), picture.png(), base=base)
        write_atomically(file.with_suffix(".pdf"), picture.pdf(), base=base)
        written[picture.title] = file
    return written
