"""Answers which candidate (platform, link, isolation) keeps the service levels at the least cost, and how sure that is.

  lastro decide DIR --sla "throughput >= 2 Gbit/s" --sla "latency_p99 < 1 ms" --cost chain_cpus
  lastro decide DIR --under anomaly=memory       under this neighbour; without it, under every one that was measured
  lastro decide DIR --require own-kernel --prices cpu_hour=0.04,gib_hour=0.005
  lastro decide SUITE --weights cpu=2,disk=0     the best over the studies of a suite, and what its source recommends
  lastro decide DIR --wish "packages <= 2"       of those of like cost, the one with more wishes
  lastro decide DIR                              by the tables [sla], [cost], [require] and [wish] of the study
  lastro decide DIR --format html -o choice.html a page with the cost of each candidate against its service; md: for a
                                                 comment on a pull request, with --all all of it; latex: for a paper

All service levels must hold, in every condition. The cost is a metric, or a sum such as '0.04*chain_cpus +
0.001*latency_p99', or what the used CPUs and memory cost by the hour. Candidates without a required property are left
out; `lastro run --properties` finds the properties. With --require 95%, the exit code is 4 if no candidate holds the
levels, and 8 if that is undecided.
Needs valid trials of two blocks or more, and no root."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from lastro import papers
from lastro.app.campaign_dirs import open_campaign, refuse_suite
from lastro.campaign import suite as suites
from lastro.cli._common import campaign_argument, language_argument, levels_named, share
from lastro.cli._terminal import print_blocks, put, rendered
from lastro.document import Document, Figure
from lastro.errors import InputError, did_you_mean
from lastro.plain import json_text
from lastro.shapes import MOST_MEASURED
from lastro.words.language import Language, language

if TYPE_CHECKING:
    from lastro.analysis.decision import SlaDecision

_NONE_HOLDS, _UNDECIDED = 4, 8  # exit codes
_NUMBER = re.compile(r"\d+(\.\d*)?([eE][-+]?\d+)?", re.ASCII)


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    parser.add_argument(
        "--sla", metavar="LEVEL", action="append", default=[], dest="service_levels",
        help="a level that must hold, such as 'latency_p99 < 1 ms'; repeatable (default: the table [sla] of the study)",
    )  # fmt: skip
    parser.add_argument(
        "--cost", metavar="SUM", help="a metric, or a weighted sum of metrics (default: the table [cost] of the study)"
    )
    parser.add_argument(
        "--weights", metavar="STUDY=WEIGHT,...",
        help="of a suite: how much each study counts, such as cpu=2,disk=0 (default: 1 each)",
    )  # fmt: skip
    parser.add_argument(
        "--under", metavar="FACTOR=LEVEL,...", action="append", default=[],
        help="only these conditions, such as anomaly=memory; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--prices", metavar="RESOURCE=PRICE,...",
        help="what a CPU and a GiB of memory cost by the hour: cpu_hour=0.04,gib_hour=0.005; added to --cost",
    )  # fmt: skip
    parser.add_argument(
        "--require", metavar="WHAT", action="append", default=[],
        help="a property that a candidate must have, such as own-kernel, 'no daemon' or 'interfaces >= 8'; or a "
        "confidence, such as 95%%: fail unless a candidate holds the levels so surely; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--wish", metavar="WHAT", action="append", default=[],
        help="a property that decides between candidates whose cost cannot be told apart; repeatable",
    )  # fmt: skip
    language_argument(parser)
    parser.add_argument("--all", action="store_true", help="print what is folded, too; Markdown of any length")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--format", choices=("text", "md", "latex", "html"), default="text",
        help="md: Markdown; latex: booktabs tables; html: a page with a figure (default: text)",
    )  # fmt: skip
    form.add_argument("--json", action="store_true", help="print it as JSON")
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="-", help='the file to write; default: "-", standard output'
    )


def run(args: argparse.Namespace) -> int:
    from lastro.analysis.build import build_report
    from lastro.analysis.decision import SlaQuestion, decide
    from lastro.builders.data.decision import document
    from lastro.builders.decision import decision_blocks
    from lastro.results.read import load_campaign

    shares = [text for text in args.require if text.strip()[:1].isdigit()]
    if len(shares) > 1:
        raise InputError(f"--require has several confidences: {', '.join(shares)}", "give one")
    required = share(shares[0], "--require", above_zero=True) if shares else None
    properties = [text for text in args.require if text not in shares]
    if suites.is_suite(args.dir):
        return _run_suite(args, required)
    if args.weights is not None:
        raise InputError("--weights is for the studies of a suite", f"{args.dir} is a single campaign")
    with open_campaign(args.dir) as store:
        report = build_report(load_campaign(store))
    priced = [sum_ for sum_ in (args.cost, _prices(args.prices)) if sum_ is not None]
    question = SlaQuestion.asked(
        report,
        args.service_levels,
        " + ".join(priced) if priced else None,
        properties,
        args.wish,
        levels_named(args.under, "--under"),
        required,
    )
    decision = decide(report, question)
    say = language(args.lang)
    figures = _figures(decision, say) if args.format == "html" else ()
    recommended = papers.recommended_by(report.study.name)
    _put(args, partial(document, decision), decision_blocks(decision, say, recommended, figures))
    if required is None:
        return 0
    return {"recommended": 0, "none": _NONE_HOLDS, "undecided": _UNDECIDED}[decision.choice.outcome]


def _run_suite(args: argparse.Namespace, required: float | None) -> int:
    from lastro.analysis.build import build_report
    from lastro.analysis.suite_decision import CONFIDENCE, decide_suite
    from lastro.builders.data.decision import suite_document
    from lastro.builders.suite_decision import suite_decision_blocks
    from lastro.results.read import load_campaign

    only = [option for option in ("cost", "prices", "under", "wish") if getattr(args, option) not in (None, [])]
    if only or len(args.require) > (required is not None):
        refuse_suite(args.dir, f"--{only[0] if only else 'require'}")
    suite, reports = suites.read(args.dir), {}
    for member in suite.studies:
        if suites.begun(args.dir, member):
            with open_campaign(args.dir / member.name) as store:
                reports[member.name] = build_report(load_campaign(store))
    decision = decide_suite(reports, args.service_levels, _weights(args.weights), required or CONFIDENCE)
    say = language(args.lang)
    blocks = suite_decision_blocks(suite.label, decision, papers.recommended(suite.source), say)
    _put(args, partial(suite_document, decision), blocks)
    if required is None:
        return 0
    if (outcome := decision.levels_outcome) is not None:
        return {"kept": 0, "none": _NONE_HOLDS, "undecided": _UNDECIDED}[outcome]
    return 0 if decision.leader is not None and decision.best[decision.leader] >= required else _UNDECIDED


def _figures(decision: SlaDecision, say: Language) -> tuple[Figure, ...]:
    from lastro.builders.page_figures import drawn
    from lastro.figures import decision_plan

    return drawn([decision_plan(lambda: decision, say)]).of("decision")


def _put(args: argparse.Namespace, document: Callable[[], object], blocks: Document) -> None:
    """Print or write the decision in the form that the arguments choose; `document` returns it for JSON."""
    say = language(args.lang)
    if args.json:
        put(args.output, f"{json_text(document())}\n")
    elif args.format == "text" and args.output == "-":
        print_blocks(blocks, say, everything=args.all)
    else:
        whole = "lastro decide --format md --all"
        put(args.output, rendered(args.format, blocks, say, str(args.dir), whole, everything=args.all))


def _weights(text: str | None) -> dict[str, float]:
    """Parse 'cpu=2,disk=0' as {study: weight}. Raises: InputError for another form, or a study with two weights."""
    weights = {}
    for pair in () if text is None else text.split(","):
        name, sign, weight = (part.strip() for part in pair.partition("="))
        if not (name and sign and _NUMBER.fullmatch(weight)) or float(weight) > MOST_MEASURED:
            hint = "write it as in --weights cpu=2,disk=0; others count as 1"
            raise InputError(f"--weights: '{pair.strip()}' is not STUDY=WEIGHT", hint)
        if name in weights:
            raise InputError(f"--weights: {name} has two weights", "give one")
        weights[name] = float(weight)
    return weights


def _prices(text: str | None) -> str | None:
    """Convert prices to a cost: 'cpu_hour=0.04,gib_hour=0.005' becomes '0.04*cpu_hour + 0.005*gib_hour'."""
    from lastro.study.service_level import RESOURCES

    if text is None:
        return None
    terms: dict[str, str] = {}
    for pair in text.split(","):
        name, sign, price = (part.strip() for part in pair.partition("="))
        if name not in RESOURCES:
            raise InputError(
                f"--prices: '{pair.strip()}' is not the price of a resource", did_you_mean(name, RESOURCES)
            )
        if not (sign and _NUMBER.fullmatch(price)) or name in terms:
            hint = "write each once, as in --prices cpu_hour=0.04,gib_hour=0.005"
            raise InputError(f"--prices: '{pair.strip()}' is not the one price of {name}", hint)
        terms[name] = f"{price}*{name}"
    return " + ".join(terms.values())
