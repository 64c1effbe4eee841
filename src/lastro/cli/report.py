"""One document with the answer, figures, tables, what is missing and why, provenance and how to repeat it. The HTML
page needs no network and no script, so it can be mailed or archived as it is.

  lastro report DIR                     writes DIR/report.html
  lastro report DIR -o page.html        elsewhere; "-": standard output
  lastro report DIR --lang pt-BR        in Brazilian Portuguese
  lastro report DIR --format md         Markdown, for a pull request: DIR/report.md
  lastro report DIR --format latex      booktabs tables, for a paper: DIR/report.tex
  lastro report DIR --figures           also every figure as SVG and PNG, in DIR/figures

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
    from lastro.report.model import Report

SUFFIXES = {"html": "html", "md": "md", "latex": "tex"}


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write (default: DIR/report.html, .md or .tex)")
    parser.add_argument("--format", choices=SUFFIXES, default="html", help="the kind of document (default: html)")
    parser.add_argument("--lang", choices=LANGUAGES, default="en", help="the language of the report (default: en)")
    parser.add_argument("--figures", action="store_true", help="also write every figure as SVG and PNG to DIR/figures")
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
    output = args.output or str(args.dir / f"report.{SUFFIXES[args.format]}")
    folder = Path.cwd() if output == "-" else Path(output).parent
    figures = _write_figures(report, args.dir / "figures") if args.figures else {}
    links = {name: os.path.relpath(file, folder) for name, file in figures.items()}
    text = _render(report, args.format, language(args.lang), links)
    if output == "-":
        sys.stdout.write(text)
        return 0
    write_atomically(Path(output), text)
    print(output)
    for file in figures.values():
        print(file)
        print(file.with_suffix(".png"))
    return 0


def _render(report: Report, kind: str, say: Language, links: dict[str, str]) -> str:
    """The document as text; only what this kind needs is imported."""
    if kind == "md":
        from lastro.report.markdown import render_markdown

        return render_markdown(report, say, links)
    if kind == "latex":
        from lastro.report.latex import render_latex

        return render_latex(report, say)
    from lastro.report.html import render_html

    return render_html(report, say)


def _write_figures(report: Report, folder: Path) -> dict[str, Path]:
    """Every figure, and {what it shows: its SVG file}."""
    from lastro.report.figures import figure_name, metric_png, metric_svg
    from lastro.results.export import write_atomically

    written = {}
    for index, metric in enumerate(report.metrics):
        file = folder / f"{figure_name(metric)}.svg"
        write_atomically(file, metric_svg(report, index))
        write_atomically(file.with_suffix(".png"), metric_png(report, index))
        written[metric.name] = file
    return written
