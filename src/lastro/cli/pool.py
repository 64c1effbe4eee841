"""For hosts that differ: the ratio of each level of a factor to the reference level on each host, their mean over hosts
by random effects, the spread between hosts, and the interval in which a new host will be. Campaigns of one host count
as one; each testbed of a fleet counts as a host. Two hosts cannot show how much hosts differ: then the two are
compared, and nothing is averaged.

  lastro pool HOST1 HOST2 HOST3               the tables
  lastro pool HOST1 HOST2 HOST3 --all         also the ratios on each host
  lastro pool HOST1 HOST2 HOST3 --json        one JSON document
  lastro pool HOST1 HOST2 HOST3 --format html -o pool.html
                                              a page with forest plots
  lastro pool HOST1 HOST2 HOST3 --format md -o pool/pool.md --figures
                                              Markdown, below 60 KiB, for a comment on a pull request; with --all, all
                                              of it; and every forest plot as SVG, PNG and PDF in pool/figures

Claims are judged by the mean over hosts, and on each host alone: those of the first campaign's claims.toml, or else of
the paper that published the study. docs/explanation-pool.md explains the statistics. Needs no root."""

from __future__ import annotations

import argparse
from pathlib import Path

from lastro.app.contents import claims_of, hosts_of
from lastro.cli._common import campaigns_argument, language_argument, output_argument
from lastro.cli._terminal import rendered, write_figures, write_output
from lastro.errors import InputError
from lastro.plain import json_text
from lastro.words.language import language


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    campaigns_argument(parser)
    add("--metric", action="append", metavar="NAME", help="only this metric; repeatable")
    add(
        "--tau-squared", choices=("reml", "paule-mandel"), default="reml",
        help="how the variance between hosts is estimated: restricted maximum likelihood (reml), the default, or the"
        " method of Paule and Mandel",
    )  # fmt: skip
    add("--claims", metavar="FILE", type=Path, help="a claims file (default: DIR/claims.toml, or a paper's)")
    add("--all", action="store_true", help="also the ratios on each host; Markdown of any length")
    add("--format", choices=("text", "md", "html"), default="text", help="md: Markdown; html: a page with forest plots")
    output_argument(parser)
    add(
        "--figures", action="store_true",
        help="also write every forest plot as SVG, PNG and PDF to the folder figures beside FILE; requires -o",
    )  # fmt: skip
    language_argument(parser, "tables")
    add("--json", action="store_true", help="print one JSON document instead of the tables")


def run(args: argparse.Namespace) -> None:
    from lastro.analysis.claims.load import load_claims
    from lastro.analysis.pooled_study import pool_hosts
    from lastro.builders.data.pool import document
    from lastro.builders.page_figures import draw_figures, link_figures
    from lastro.builders.pool import pool_blocks
    from lastro.figures import pictures
    from lastro.figures.forest import forest_plans

    if args.figures and args.output == "-":
        raise InputError("--figures needs a file beside which the figures are written", "name it with -o FILE")
    hosts = hosts_of(args.dirs)
    study = hosts[0].report.study
    file = args.claims or claims_of(args.dirs[0], study.name)
    claims = load_claims(file, study) if file else None
    pooled = pool_hosts(hosts, args.tau_squared, args.metric or (), claims)
    say = language(args.lang)
    planned = list(forest_plans(pooled, say))
    figures = write_figures(pictures(planned), Path(args.output).parent / "figures") if args.figures else {}
    links = {title: f"figures/{svg.name}" for title, svg in figures.items()}
    if args.json:
        text = f"{json_text(document(pooled))}\n"
    else:
        names = ", ".join(name for host in pooled.hosts for name in host.campaigns)
        shown = draw_figures(planned) if args.format == "html" else link_figures(planned, links)
        blocks, whole = pool_blocks(pooled, say, shown), "lastro pool --format md --all"
        text = rendered(args.format, blocks, say, names, whole, everything=args.all)
    write_output(args.output, text, figures=figures)
