"""Treatments are matched by their levels. For each metric of a treatment, the table has the ratio B / A with its
interval, and the p-value of no difference, raw and with Holm's correction for all comparisons. Blocks of different
campaigns are not paired.

  lastro compare BEFORE AFTER                        the table, worst first
  lastro compare BEFORE AFTER --fail-over 5%         exit code 4 when something is worse by more than 5 %
  lastro compare BEFORE AFTER --fail-over            by the margin of each metric in the study's [margins], or 3 %
  lastro compare BEFORE AFTER --fail-over 5% --require shown
                                                     also exit code 8 unless it is shown that nothing is
  lastro compare BEFORE AFTER --fail-over 5% --junit gate.xml --metric throughput

The first line is the verdict. Rows without a significant difference are only counted; --all shows them.

Every recorded fact in which the hosts differ is listed. With --fail-changed-host, such a difference fails the gate
unless --may-differ allows it.

The gate: a treatment's metric has regressed when a one-sided test rejects "worse by 5 % or less" after Holm's
correction for everything that the gate judges. So when nothing is truly worse by more than the margin, the gate fails
at most once in twenty runs (1 - confidence), however many treatments and metrics there are. It accounts for the spread
between trials, but not for anything else that changes between two days: see docs/howto-gate-in-ci.md. The output says
how large a loss it could have seen; `lastro plan --gate` says it before any campaign.

Needs no root."""

from __future__ import annotations

import argparse
import os
from functools import partial
from pathlib import Path

from lastro.app.contents import report_of
from lastro.cli._common import junit_argument, language_argument, share, write_file
from lastro.cli._terminal import print_answer, rendered
from lastro.errors import InputError
from lastro.study.margins import Margins
from lastro.words.language import language

REGRESSION = 4
UNDECIDED = 8


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("a", type=Path, metavar="DIR_A", help="the reference campaign: before a change, or on the other host")
    add("b", type=Path, metavar="DIR_B", help="the campaign to judge: after a change, or on this host")
    add("--metric", action="append", metavar="NAME", help="only this metric; repeatable")
    add(
        "--fail-over", nargs="?", const="", metavar="MARGIN",
        help="exit with 4 when a metric is worse by more than MARGIN, such as 5%% or 0.05; without MARGIN: by more than"
        " its own in the table [margins] of the study, or 3%%",
    )  # fmt: skip
    add("--fail-lost", action="store_true", help="also exit with 4 when A measured something that B could not")
    add(
        "--fail-changed-host", action="store_true",
        help="also exit with 4 when a recorded fact of the hosts differs, such as the kernel, a setting or a program",
    )  # fmt: skip
    add(
        "--may-differ", action="append", metavar="FACT",
        help="a fact that --fail-changed-host allows to differ, such as tools.runc or 'network.*'; repeatable",
    )  # fmt: skip
    add(
        "--require", choices=("shown",),
        help="shown: exit with 8 unless every interval excludes a loss of more than MARGIN",
    )  # fmt: skip
    add("--confidence", type=float, metavar="C", help="confidence of intervals and gate (default: that of A's study)")
    junit_argument(parser)
    add(
        "--all", action="store_true", help="also show the rows without a significant difference; Markdown of any length"
    )
    add(
        "--format", choices=("text", "md", "github"), default="text",
        help="md: Markdown; github: annotations of GitHub Actions; default: text",
    )  # fmt: skip
    language_argument(parser, "table, and of Markdown")
    add("--json", action="store_true", help="print one JSON document instead of the table")


def _check_options(args: argparse.Namespace) -> None:
    """Raise InputError for options that cannot be combined, and for two directories that are the same."""
    if args.confidence is not None and not 0.5 <= args.confidence < 1:
        raise InputError(f"--confidence {args.confidence:g} is not at least 0.5 and below 1", "0.95 is usual")
    if args.require and args.fail_over is None:
        hint = "give it with --fail-over, such as 5%, or in [margins]"
        raise InputError(f"--require {args.require} needs a margin", hint)
    if args.may_differ and not args.fail_changed_host:
        raise InputError("--may-differ needs --fail-changed-host", "without it, every fact may differ")
    stats = []
    for directory in (args.a, args.b):
        try:
            stats.append(directory.stat())
        except FileNotFoundError:
            return  # opening the campaign, which comes next, reports what is missing
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"{directory} cannot be read: {words}", "give the directories of two campaigns") from error
    if os.path.samestat(*stats):
        raise InputError(f"{args.a} and {args.b} are the same campaign", "give two campaigns of one study")


def run(args: argparse.Namespace) -> int:
    from lastro.analysis.compare import compare
    from lastro.builders.compare import compare_blocks
    from lastro.builders.data.comparison import document, junit, workflow_commands

    _check_options(args)
    reports = [report_of(directory, all_metrics=bool(args.metric)) for directory in (args.a, args.b)]
    margins = None
    if args.fail_over is not None:
        studies = [report.study for report in reports]
        margins = Margins(share(args.fail_over, "--fail-over")) if args.fail_over else Margins.of_studies(*studies)
    comparison = compare(
        *reports,
        metrics=args.metric or (),
        margins=margins,
        confidence=args.confidence,
        fail_changed_host=args.fail_changed_host,
        may_differ=args.may_differ or (),
    )
    if args.junit:
        write_file(args.junit, junit(comparison, fail_lost=args.fail_lost))
    if args.json or args.format == "text":
        print_answer(args, partial(document, comparison), partial(compare_blocks, comparison), everything=args.all)
    elif args.format == "github":
        print("".join(f"{line}\n" for line in workflow_commands(comparison, fail_lost=args.fail_lost)), end="")
    else:
        say, whole = language(args.lang), "lastro compare --format md --all"
        print(rendered("md", compare_blocks(comparison, say), say, whole=whole, everything=args.all), end="")
    if margins is not None and not comparison.n_judged:
        raise InputError("the gate had nothing to judge", "`lastro compare` without --fail-over says why")
    if comparison.regressions or comparison.changed_host or (args.fail_lost and comparison.lost):
        return REGRESSION
    return UNDECIDED if args.require and comparison.outcome == "undecided" else 0
