"""One document with the answer, figures, tables, what is missing and why, provenance and how to repeat it. The HTML
page needs no network and no script, so it can be mailed or archived as it is.

  lastro report DIR                     writes DIR/report.html
  lastro report DIR -o page.html        elsewhere; "-": standard output
  lastro report DIR --lang pt-BR        in Brazilian Portuguese
  lastro report DIR --format md         Markdown, for a pull request: DIR/report.md
  lastro report DIR --format latex      booktabs tables, for a paper: DIR/report.tex
  lastro report DIR --figures           also every figure as SVG, PNG and PDF, in DIR/figures

Needs no root. An unfinished campaign gives a report of what there is."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.cli._common import campaign_argument, open_campaign
from lastro.report.language import LANGUAGES, Language, language

if TYPE_CHECKING:
    from lastro.report.content import Content
    from lastro.report.model import Report
    from lastro.results.read import CampaignData

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
        "--all-metrics", action="store_true", help="all that was measured, not the study's metrics only"
    )


def run(args: argparse.Namespace) -> int:
    from lastro.report.model import build_report
    from lastro.results.export import write_atomically
    from lastro.results.read import load_campaign

    with open_campaign(args.dir) as store:
        data = load_campaign(store)
    report = build_report(data, all_metrics=args.all_metrics)
    content = _content(args.dir, data, report, language(args.lang))
    output = args.output or str(args.dir / f"report.{SUFFIXES[args.format]}")
    folder = Path.cwd() if output == "-" else Path(output).parent
    figures = _write_figures(content, args.dir / "figures") if args.figures else {}
    text = _render(content, args.format, {title: os.path.relpath(file, folder) for title, file in figures.items()})
    if output == "-":
        sys.stdout.write(text)
        return 0
    write_atomically(Path(output), text)
    print(output)
    for file in figures.values():
        print(*(file.with_suffix(suffix) for suffix in (".svg", ".png", ".pdf")), sep="\n")
    return 0


def _content(directory: Path, data: CampaignData, report: Report, say: Language) -> Content:
    """The report with its analysis, and the claims that the campaign has or its paper made."""
    from lastro import papers
    from lastro.report.analysis import analyse
    from lastro.report.content import Content

    analysis = analyse(report)
    own = directory / "claims.toml"
    file = own if own.is_file() else papers.claims(data.study.name)
    if file is None:
        return Content(report, analysis, say)
    from lastro.report.claims import judge
    from lastro.report.claims_text import explanation, source_text, tally_text
    from lastro.report.model import build_report
    from lastro.study.load_claims import load_claims

    claims = load_claims(file, data.study)
    judgements = judge(claims, build_report(data, all_metrics=True), say)
    tally = ": ".join(part for part in (source_text(claims.source), tally_text(judgements, say)) if part)
    return Content(report, analysis, say, judgements, tally, explanation(report, say))


def _render(content: Content, kind: str, links: dict[str, str]) -> str:
    """The document as text; only what this kind needs is imported."""
    if kind == "md":
        from lastro.report.markdown import render_markdown

        return render_markdown(content, links)
    if kind == "latex":
        from lastro.report.latex import render_latex

        return render_latex(content)
    from lastro.report.html import render_html

    return render_html(content)


def _write_figures(content: Content, folder: Path) -> dict[str, Path]:
    """Every figure in three formats, and {what it shows: its SVG file}."""
    from lastro.report.figures import pictures
    from lastro.results.export import write_atomically

    written = {}
    for picture in pictures(content.report, content.analysis, content.say, content.judgements):
        file = folder / f"{picture.name}.svg"
        write_atomically(file, picture.svg())
        write_atomically(file.with_suffix(".png"), picture.png())
        write_atomically(file.with_suffix(".pdf"), picture.pdf())
        written[picture.title] = file
    return written
