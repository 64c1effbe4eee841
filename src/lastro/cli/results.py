"""The table: mean ± half the width of its interval over the valid trials, and the ratio to the baseline.
Unavailable and invalid levels stay in it, with their reasons below. With service levels, the treatments of candidates
that hold them come first, the cheapest at the top; without, the order is that of the study.

  lastro results DIR                        the table
  lastro results DIR --where platform=docker,lxc --sort throughput --top 5     the best five of these
  lastro results DIR --stats                also effects, interactions, explained variation, corrected p-values
  lastro results DIR --json                 the same as one JSON document, with every valid value
  lastro results DIR --where platform=docker --csv docker.csv       the trials of these treatments alone
  lastro results DIR --csv all.csv          every attempt and metric, one value per row, for R or pandas ("-": stdout)
  lastro results DIR --csv all.csv --separator ';' --decimal , --bom     for a spreadsheet with a decimal comma
  lastro results DIR --parquet all.parquet  the same rows as Parquet

Parquet is for questions over several campaigns, in SQL by DuckDB, which `pip install "lastro[parquet]"` adds:
  duckdb.sql("SELECT platform, avg(value) FROM 'c*.parquet' WHERE valid AND metric = 'throughput' GROUP BY platform")

Needs no root, and works while the campaign runs. For a suite, it prints one table after the other; JSON has all studies
in `studies`; CSV and Parquet have a column `suite_study` with the name of the study. Several campaigns of one study,
such as those of levels that require different kernels, are put together: lastro results DIR DIR ..."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.app.contents import load_data, load_together, published_of, suite_section
from lastro.campaign import suite as suites
from lastro.cli._common import campaigns_argument, collector_paused, language_argument, levels_named, write_file
from lastro.cli._terminal import print_blocks, print_document
from lastro.document import Block
from lastro.errors import InputError
from lastro.plain import json_text
from lastro.words.language import Language, language

if TYPE_CHECKING:
    from lastro.analysis.campaign import CampaignResults
    from lastro.analysis.table_choice import TableChoice
    from lastro.results.export import CsvStyle
    from lastro.results.read import CampaignData

_SUITE_FORMAT = "lastro-suite-results/1"


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    campaigns_argument(parser)
    add(
        "--where", metavar="FACTOR=LEVEL,...", action="append", default=[],
        help="only treatments with these levels; repeatable",
    )  # fmt: skip
    add("--sort", metavar="METRIC", help="the best by this metric first; -METRIC: the worst")
    add("--top", metavar="N", type=int, help="no more than N treatments, the first of the table")
    add("--json", action="store_true", help="print one JSON document instead of the table")
    add("--csv", metavar="FILE", help="write every attempt and metric as CSV; - for standard output")
    add("--raw", action="store_true", help="with --csv: leave text as it is, even if a spreadsheet would execute it")
    add("--separator", metavar="CHAR", help="with --csv: what separates columns, such as ';' or tab (default: a comma)")
    add("--decimal", metavar="CHAR", help="with --csv: the decimal mark of numbers (default: a point)")
    add("--bom", action="store_true", help="with --csv: begin with a byte order mark, for Excel")
    add("--parquet", metavar="FILE", type=Path, help="write the same rows as Parquet (needs DuckDB)")
    add("--all-metrics", action="store_true", help="everything that was measured, not only the study's metrics")
    add(
        "--stats", action="store_true",
        help="with the table: every effect, and the statistics of each metric, with the analysis of variance",
    )  # fmt: skip
    language_argument(parser, "table")


def run(args: argparse.Namespace) -> None:
    if args.stats and (args.json or args.csv or args.parquet):
        raise InputError("--stats is for the table", "--json has the statistics of each metric in `analysis`")
    choice, (first, *others) = _choice(args), args.dirs
    with collector_paused():
        if not others and suites.is_suite(first):
            _run_suite(args, first, choice)
        else:
            _run(args, choice)


def _run(args: argparse.Namespace, choice: TableChoice | None) -> None:
    from lastro.analysis.build import build_report

    data = load_together(args.dirs)
    _export(args, _chosen_trials(args, data, choice))
    if not args.json and (args.csv or args.parquet):
        return
    report, say = build_report(data, all_metrics=args.all_metrics), language(args.lang)
    if args.json:
        from lastro.builders.data.results import document

        print(json_text(document(report, published_of(args.dirs[0], data), choice=choice)))
    else:
        print_blocks(table_blocks(report, say, choice, statistics=args.stats), say, everything=args.stats)


def _choice(args: argparse.Namespace) -> TableChoice | None:
    """Return which treatments are shown, and in which order; None without such options.

    Raises: InputError for --top 0."""
    from lastro.analysis.table_choice import TableChoice

    if not args.where and args.sort is None and args.top is None:
        return None
    if args.top is not None and args.top < 1:
        raise InputError(f"--top: {args.top} is not a number of treatments", "give 1 or more")
    metric = None if args.sort is None else args.sort.removeprefix("-")
    worst_first = metric != args.sort
    return TableChoice(levels_named(args.where, "--where"), metric, worst_first, args.top)


def _chosen_trials(args: argparse.Namespace, data: CampaignData, choice: TableChoice | None) -> CampaignData:
    """Return a campaign with only the trials of the chosen treatments, for export.

    They stay in the order of the plan or, with --sort, have the order of their treatments."""
    if choice is None or not (args.csv or args.parquet):
        return data
    from lastro.analysis.build import build_report
    from lastro.analysis.decision import decision_of, table_rows

    report = build_report(data, all_metrics=args.all_metrics)
    rows = table_rows(report, decision_of(report), choice)
    ranks = {row.treatment.index: rank for rank, row in enumerate(rows)}
    trials = [trial for trial in data.trials if trial.treatment in ranks]
    if choice.sort is not None:
        trials.sort(key=lambda trial: ranks[trial.treatment])
    return replace(data, trials=trials)


def _run_suite(args: argparse.Namespace, directory: Path, choice: TableChoice | None) -> None:
    from lastro.analysis.build import build_report
    from lastro.builders.data.results import document

    suite = suites.read(directory)
    begun = [member.name for member in suite.studies if suites.has_campaign(directory, member)]
    data = {name: load_data(directory / name) for name in begun}
    _export(args, {name: _chosen_trials(args, campaign_data, choice) for name, campaign_data in data.items()})
    reports = {name: build_report(campaign_data, all_metrics=args.all_metrics) for name, campaign_data in data.items()}
    if args.json:
        studies = [
            {"suite_study": name, **document(report, published_of(directory / name, data[name]), choice=choice)}
            for name, report in reports.items()
        ]
        missing = [
            {"suite_study": member.name, "reason": member.stopped, "remedy": member.remedy}
            for member in suite.studies
            if member.name not in data
        ]
        head = {"format": _SUITE_FORMAT, "directory": str(directory), "suite": suite.name, "title": suite.title}
        print(json_text({**head, "studies": studies, "not_begun": missing}))
    elif not (args.csv or args.parquet):
        from lastro.builders.suite import study_head

        say, blocks = language(args.lang), list[Block]()
        for member in suite.studies:
            section = suite_section(directory, member, None, "")
            report = reports.get(member.name)
            blocks += study_head(section, say, begun=report is not None)
            blocks += table_blocks(report, say, choice, statistics=args.stats) if report else ()
        print_blocks(blocks, say, everything=args.stats)


def _export(args: argparse.Namespace, data: CampaignData | Mapping[str, CampaignData]) -> None:
    """Write the CSV and Parquet files that the arguments request, from one campaign or from {study: campaign}."""
    from lastro.results.export import to_csv, to_parquet

    style = _style(args)
    if args.csv == "-":
        print_document(to_csv(data, raw=args.raw, style=style))
    elif args.csv:
        write_file(Path(args.csv), to_csv(data, raw=args.raw, style=style))
    if args.parquet:
        to_parquet(data, args.parquet)
        print(f"wrote {args.parquet}", file=sys.stderr)


def _style(args: argparse.Namespace) -> CsvStyle:
    """Return the style of the CSV. Raises: InputError if separator or decimal mark is invalid, or both are equal."""
    from lastro.results.export import CsvStyle

    if not args.csv and (args.separator or args.decimal or args.bom):
        raise InputError("--separator, --decimal and --bom are for CSV", "add --csv FILE")
    style = CsvStyle("\t" if args.separator == "tab" else args.separator or ",", args.decimal or ".", args.bom)
    for name, mark, others in (("--separator", style.separator, "\t"), ("--decimal", style.decimal, "")):
        if len(mark) != 1 or mark.isalnum() or mark in '"\r\n+-' or not (mark.isprintable() or mark in others):
            raise InputError(f"{name}: {mark!r} is not a usable mark", "give one character, such as ';' or ','")
    if style.separator == style.decimal:
        hint = "for a decimal comma, add --separator ';'"
        raise InputError(f"--separator and --decimal are both {style.decimal!r}", hint)
    return style


def table_blocks(
    report: CampaignResults, say: Language, choice: TableChoice | None = None, *, statistics: bool = False
) -> Iterator[Block]:
    """Return the document on a campaign for a terminal; with `statistics`, with the effects and all statistics.

    Without `statistics`, the campaign is not analysed, which would take seconds."""
    from lastro.analysis import analyse
    from lastro.builders.content import Content
    from lastro.builders.results import results_blocks

    content = Content(report, analyse(report) if statistics else None, say)
    return results_blocks(content, "terminal", choice=choice, everything=statistics)
