"""Answers which candidate (platform, link, isolation) keeps the service levels at the least cost, and how sure that is.

  lastro decide DIR --sla "throughput >= 2 Gbit/s" --sla "latency_p99 < 1 ms" --cost chain_cpus
  lastro decide DIR --under anomaly=memory       under this neighbour; without it, under every one that was measured
  lastro decide DIR --at anomaly.dose=50%        at this value of a factor of numbers, which must have been measured
  lastro decide DIR --require own-kernel --prices cpu_hour=0.04,gib_hour=0.005
  lastro decide DIR1 DIR2 DIR3                   one study, run on several days: what these differ in counts, too
  lastro decide SUITE --weights cpu=2,disk=0     the best over the studies of a suite, and what its source recommends
  lastro decide EDGE LOAD --sla "pdr >= 100 kpps"     the same over campaigns of different studies
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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from lastro import papers
from lastro.app.campaign_dirs import refuse_suite
from lastro.app.contents import load_all, load_data
from lastro.campaign import suite as suites
from lastro.cli._common import campaigns_argument, language_argument, levels_named, output_argument, share
from lastro.cli._terminal import print_blocks, rendered, write_output
from lastro.document import Document, Figure
from lastro.errors import InputError, did_you_mean
from lastro.grouping import by_key
from lastro.plain import json_text
from lastro.shapes import MOST_MEASURED
from lastro.study.levels import is_quantity
from lastro.words.language import language

if TYPE_CHECKING:
    from lastro.results.read import CampaignData
    from lastro.study.model import Study

_NONE_HOLDS, _UNDECIDED = 4, 8  # exit codes
_NUMBER = re.compile(r"\d+(\.\d*)?([eE][-+]?\d+)?", re.ASCII)


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    campaigns_argument(parser)
    add(
        "--sla", metavar="LEVEL", action="append", default=[], dest="service_levels",
        help="a level that must hold, such as 'latency_p99 < 1 ms'; repeatable (default: the table [sla] of the study)",
    )  # fmt: skip
    add("--cost", metavar="SUM", help="a metric, or a weighted sum of metrics (default: the table [cost] of the study)")
    add(
        "--weights", metavar="STUDY=WEIGHT,...",
        help="of several studies: how much each counts, such as cpu=2,disk=0 (default: 1 each)",
    )  # fmt: skip
    add(
        "--under", metavar="FACTOR=LEVEL,...", action="append", default=[],
        help="only these conditions, such as anomaly=memory; repeatable",
    )  # fmt: skip
    add(
        "--at", metavar="FACTOR=VALUE,...", action="append", default=[],
        help="only these measured values of a factor of numbers, such as udp_rate=200M; repeatable",
    )  # fmt: skip
    add(
        "--prices", metavar="RESOURCE=PRICE,...",
        help="what a CPU and a GiB of memory cost by the hour: cpu_hour=0.04,gib_hour=0.005; added to --cost",
    )  # fmt: skip
    add(
        "--require", metavar="WHAT", action="append", default=[],
        help="a property that a candidate must have, such as own-kernel, 'no daemon' or 'interfaces >= 8'; or a "
        "confidence, such as 95%%: fail unless a candidate holds the levels so surely; repeatable",
    )  # fmt: skip
    add(
        "--wish", metavar="WHAT", action="append", default=[],
        help="a property that decides between candidates whose cost cannot be told apart; repeatable",
    )  # fmt: skip
    language_argument(parser)
    add("--all", action="store_true", help="print what is folded, too; Markdown of any length")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--format", choices=("text", "md", "latex", "html"), default="text",
        help="md: Markdown; latex: booktabs tables; html: a page with a figure (default: text)",
    )  # fmt: skip
    form.add_argument("--json", action="store_true", help="print it as JSON")
    output_argument(parser)


def run(args: argparse.Namespace) -> int:
    from lastro.analysis.build import build_report
    from lastro.analysis.decision import SlaQuestion, decide
    from lastro.builders.data.decision import document
    from lastro.builders.decision import decision_blocks

    confidences = [text for text in args.require if text.strip()[:1].isdigit()]
    if len(confidences) > 1:
        raise InputError(f"--require has several confidences: {', '.join(confidences)}", "give one")
    required = share(confidences[0], "--require", above_zero=True) if confidences else None
    properties = [text for text in args.require if text not in confidences]
    data = _campaigns(args.dirs)
    if len(data) > 1 or suites.is_suite(args.dirs[0]):
        return _run_studies(args, data, required)
    if args.weights is not None:
        only = ", ".join(map(str, args.dirs))
        raise InputError("--weights is for campaigns of several studies, such as a suite", f"{only}: one study")
    (report,) = (build_report(campaign) for campaign in data.values())
    priced = [sum_ for sum_ in (args.cost, _prices(args.prices)) if sum_ is not None]
    cost, conditions = " + ".join(priced) if priced else None, _conditions(args, report.study)
    levels = args.service_levels
    decision = decide(report, SlaQuestion.asked(report, levels, cost, properties, args.wish, conditions, required))
    say = language(args.lang)
    figures: tuple[Figure, ...] = ()
    if args.format == "html":
        from lastro.builders.page_figures import draw_figures
        from lastro.figures import decision_plan

        figures = draw_figures([decision_plan(lambda: decision, say)]).of("decision")
    recommended = papers.recommended_by(report.study.name)
    _write_decision(args, partial(document, decision), decision_blocks(decision, say, recommended, figures))
    if required is None:
        return 0
    return {"recommended": 0, "none": _NONE_HOLDS, "undecided": _UNDECIDED}[decision.choice.outcome]


def _campaigns(directories: Sequence[Path]) -> dict[str, CampaignData]:
    """Return {name of a study: its campaigns, put together}, for the studies of a suite or of the given campaigns.

    Raises: InputError if a directory holds no campaign, for a copy or a suite among several directories, and if
    campaigns of studies with one name are not campaigns of one study."""
    from lastro.results.merge import merge_campaigns

    first, *others = directories
    if not others and suites.is_suite(first):
        begun = [member.name for member in suites.read(first).studies if suites.has_campaign(first, member)]
        return {name: load_data(first / name) for name in begun}
    campaigns = load_all(directories)
    for campaign, other in combinations(campaigns, 2):
        is_copy = bool(campaign.attempts) and campaign.attempts == other.attempts
        if is_copy and campaign.directory != other.directory:
            raise InputError(f"{other.directory} is a copy of {campaign.directory}", "give campaigns of different days")
    by_study = by_key((campaign.study.name, campaign) for campaign in campaigns)
    return {name: merge_campaigns(campaigns) for name, campaigns in by_study.items()}


def _run_studies(args: argparse.Namespace, data: Mapping[str, CampaignData], required: float | None) -> int:
    from lastro.analysis.build import build_report
    from lastro.analysis.suite_decision import CONFIDENCE, decide_suite
    from lastro.builders.data.decision import suite_document
    from lastro.builders.suite_decision import suite_decision_blocks

    suite = suites.read(args.dirs[0]) if suites.is_suite(args.dirs[0]) else None
    only = [option for option in ("cost", "prices", "under", "at", "wish") if getattr(args, option) not in (None, [])]
    if only or len(args.require) > (required is not None):
        option = f"--{only[0] if only else 'require'}"
        if suite is not None:
            refuse_suite(args.dirs[0], option)
        message = f"{option} takes campaigns of one study, and these are of {', '.join(data)}"
        raise InputError(message, "name one of them")
    reports = {name: build_report(campaign) for name, campaign in data.items()}
    decision = decide_suite(reports, args.service_levels, _weights(args.weights), required or CONFIDENCE)
    say = language(args.lang)
    recommended = papers.recommended(suite.source) if suite else None
    blocks = suite_decision_blocks(suite.label if suite else ", ".join(data), decision, recommended, say)
    _write_decision(args, partial(suite_document, decision), blocks)
    if required is None:
        return 0
    if (outcome := decision.levels_outcome) is not None:
        return {"kept": 0, "none": _NONE_HOLDS, "undecided": _UNDECIDED}[outcome]
    return 0 if decision.leader is not None and decision.best[decision.leader] >= required else _UNDECIDED


def _conditions(args: argparse.Namespace, study: Study) -> dict[str, list[str]]:
    """Return the conditions of --under and --at as {factor: levels}.

    Raises: InputError for another form, for a factor in both, and for --at with a factor whose levels are names."""
    under, at = (levels_named(getattr(args, option), f"--{option}") for option in ("under", "at"))
    if both := next((name for name in at if name in under), None):
        raise InputError(f"--under and --at both have levels of {both}", "name them in one of the two")
    for factor in study.factors:
        if factor.name in at and not all(is_quantity(factor.name, str(level)) for level in factor.levels):
            hint = f"write it as in --under {factor.name}={factor.levels[0]}"
            raise InputError(f"--at: the levels of {factor.name} are not numbers", hint)
    return under | at


def _write_decision(args: argparse.Namespace, document: Callable[[], object], blocks: Document) -> None:
    """Print or write the decision in the form that the arguments choose; `document` returns it for JSON."""
    say = language(args.lang)
    if args.json:
        write_output(args.output, f"{json_text(document())}\n")
    elif args.format == "text" and args.output == "-":
        print_blocks(blocks, say, everything=args.all)
    else:
        source, whole = ", ".join(map(str, args.dirs)), "lastro decide --format md --all"
        write_output(args.output, rendered(args.format, blocks, say, source, whole, everything=args.all))


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
            message = f"--prices: '{pair.strip()}' is not the price of a resource"
            raise InputError(message, did_you_mean(name, RESOURCES))
        if not (sign and _NUMBER.fullmatch(price)) or name in terms:
            hint = "write each once, as in --prices cpu_hour=0.04,gib_hour=0.005"
            raise InputError(f"--prices: '{pair.strip()}' is not the one price of {name}", hint)
        terms[name] = f"{price}*{name}"
    return " + ".join(terms.values())
