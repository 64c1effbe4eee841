"""One HTML page with figures, table, what is missing and why, provenance and how to repeat it. It needs no network and
no script, so it can be mailed or archived as it is.

  lastro report DIR              writes DIR/report.html
  lastro report DIR -o page.html
  lastro report DIR --lang pt-BR        in Brazilian Portuguese
  lastro report DIR --figures    also every figure as SVG and PNG, in DIR/figures

Needs no root. An unfinished campaign gives a report of what there is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.cli._common import campaign_argument, open_campaign
from lastro.report.language import LANGUAGES, language

if TYPE_CHECKING:
    from lastro.report.model import Report


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="where to write (default: DIR/report.html)")
    parser.add_argument("--lang", choices=LANGUAGES, default="en", help="the language of the report (default: en)")
    parser.add_argument("--figures", action="store_true", help="also write every figure as SVG and PNG to DIR/figures")
    parser.add_argument(
        "--all-metrics", action="store_true", help="all that was measured, not the study's metrics only"
    )


def run(args: argparse.Namespace) -> int:
    from lastro.report.html import render_html
    from lastro.report.model import build_report
    from lastro.results.export import write_atomically
    from lastro.results.read import load_campaign

    with open_campaign(args.dir) as store:
        data = load_campaign(store)
    report = build_report(data, all_metrics=args.all_metrics)
    page = args.output or args.dir / "report.html"
    write_atomically(page, render_html(report, language(args.lang)))
    print(page)
    if args.figures:
        _write_figures(report, args.dir / "figures")
    return 0


def _write_figures(report: Report, folder: Path) -> None:
    from lastro.report.figures import figure_name, metric_png, metric_svg
    from lastro.results.export import write_atomically

    for index, metric in enumerate(report.metrics):
        stem = folder / figure_name(metric)
        write_atomically(stem.with_name(f"{stem.name}.svg"), metric_svg(report, index))
        write_atomically(stem.with_name(f"{stem.name}.png"), metric_png(report, index))
        print(f"{stem}.svg")
        print(f"{stem}.png")
