"""One document with the answer, figures, tables, what is missing and why, provenance and how to repeat it. The HTML
page needs no network and no script, so it can be mailed or archived as it is.

  lastro report DIR                     writes DIR/report.html
  lastro report DIR -o page.html        elsewhere; "-": standard output
  lastro report DIR --lang pt-BR        in Brazilian Portuguese
  lastro report DIR --format md         Markdown, for a comment on a pull request: DIR/report.md, below 60 KiB
  lastro report DIR --format md --full  all of it as Markdown
  lastro report DIR --format latex      booktabs tables, for a paper: DIR/report.tex
  lastro report DIR --figures           also every figure as SVG, PNG and PDF, in DIR/figures

Needs no root. The report of an unfinished campaign covers its trials so far. A suite gets a page on the whole,
with links to the page of each study in DIR/STUDY. Several campaigns of one study, such as those of levels that require
different kernels, get one report: lastro report DIR DIR ... -o page.html"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.app.campaign_dirs import refuse_suite
from lastro.app.contents import content_of, suite_section
from lastro.campaign import suite as suites
from lastro.cli._common import campaigns_argument, language_argument
from lastro.cli._terminal import rendered, write_figures, write_output
from lastro.errors import InputError
from lastro.words.language import language

if TYPE_CHECKING:
    from lastro.builders.content import Content

SUFFIXES = {"html": "html", "md": "md", "latex": "tex"}


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    campaigns_argument(parser)
    add("-o", "--output", metavar="FILE", help="where to write (default: DIR/report.html, .md or .tex)")
    add("--format", choices=SUFFIXES, default="html", help="the kind of document (default: html)")
    add("--full", action="store_true", help="with --format md: the whole report, not the short form for a comment")
    language_argument(parser, "report")
    add("--figures", action="store_true", help="also write every figure as SVG, PNG and PDF to DIR/figures")
    add("--all-metrics", action="store_true", help="everything that was measured, not only the study's metrics")


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The options of `lastro report`. `output` is a file, "-" for standard output, or None for the default file.

    `full` applies to Markdown: the whole report instead of its short form."""

    output: str | None = None
    format: str = "html"
    lang: str = "en"
    figures: bool = False
    all_metrics: bool = False
    full: bool = False


def run(args: argparse.Namespace) -> None:
    if args.full and args.format != "md":
        raise InputError(f"--full is for --format md: a report in {args.format} is always whole", "leave --full out")
    write(args.dirs, ReportOptions(args.output, args.format, args.lang, args.figures, args.all_metrics, args.full))


def write(directories: Sequence[Path], wanted: ReportOptions) -> None:
    """Write the documents of a campaign, a suite, or several campaigns of one study, and print their paths.

    Raises: InputError for several campaigns without an output, since they have no directory in common."""
    directory, *others = directories
    if not others and suites.is_suite(directory):
        _write_suite(directory, wanted)
        return
    if others and not wanted.output:
        raise InputError("the report of several campaigns has no directory of its own", "name the file with -o FILE")
    content = content_of(directories, language(wanted.lang), all_metrics=wanted.all_metrics)
    base = None if others else directory
    _write(base or Path(wanted.output or "").parent, wanted, content, base)


def _write_suite(directory: Path, wanted: ReportOptions) -> None:
    """Write the page of a suite, and the report of each study that has begun, to which the page links."""
    from lastro.builders.suite import suite_blocks
    from lastro.render.html import html

    if wanted.format != "html":
        refuse_suite(directory, f"--format {wanted.format}")
    suite, say = suites.read(directory), language(wanted.lang)
    output = wanted.output or str(directory / "report.html")
    folder = Path.cwd() if output == "-" else Path(output).parent
    sections = []
    for member in suite.studies:
        place, content = directory / member.name, None
        if suites.has_campaign(directory, member):
            content = content_of([place], say, all_metrics=wanted.all_metrics)
            _write(place, replace(wanted, output=None), content, base=directory)
        link = os.path.relpath(place / "report.html", folder)
        sections.append(suite_section(directory, member, content, link))
    blocks = suite_blocks(suite.label, suite.description, sections, say, suite.source)
    write_output(output, html(blocks, say, str(directory)), base=None)


def _write(directory: Path, wanted: ReportOptions, content: Content, base: Path | None) -> None:
    """Write the document of one campaign, and its figures if wanted, and print their paths.

    Below `base`, no symbolic link is followed."""
    from lastro.builders.page_figures import NO_FIGURES, draw_figures, link_figures, planned_figures
    from lastro.builders.results import results_blocks
    from lastro.figures import pictures

    output = wanted.output or str(directory / f"report.{SUFFIXES[wanted.format]}")
    folder = Path.cwd() if output == "-" else Path(output).parent
    figures = write_figures(pictures(planned_figures(content)), directory / "figures", base) if wanted.figures else {}
    links = {title: os.path.relpath(file, folder) for title, file in figures.items()}
    whole = "lastro report --format md --full" if wanted.format == "md" and not wanted.full else ""
    match wanted.format:
        case "html":
            blocks = results_blocks(content, "page", draw_figures(planned_figures(content)))
        case "latex":
            blocks = results_blocks(content, "paper", NO_FIGURES)
        case _:
            linked = link_figures(planned_figures(content), links)
            blocks = results_blocks(content, "short" if whole else "page", linked)
    text = rendered(wanted.format, blocks, content.say, content.report.directory, whole)
    write_output(output, text, base, figures)
