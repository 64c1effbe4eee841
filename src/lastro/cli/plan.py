"""As root, every level is tried for real, so the plan shows what this host cannot run and why. Without root, the plan
assumes that everything can run. For a suite (a folder of study files, or a paper with several studies), it shows a
line for each study, and the total.

  lastro plan study.toml --gate 5% --from DIR    what `lastro compare --fail-over 5%` would find, with how many blocks
  lastro plan study.toml --gate --from DIR       the same by the margin of each metric in [margins], or 3 %

The noise for --gate comes from a campaign of the study, such as one with the profile quick, or from the A/A campaign
of `lastro noise-floor`. Five blocks or more are a good start."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lastro.app import plans
from lastro.app.contents import report_of
from lastro.app.plans import NoPlan, Planned, ProbeOptions, StudyPlan, reasons
from lastro.app.studies import GivenSuite, load_study, suite_of
from lastro.builders.data.encoder import pick
from lastro.campaign.duration import EMULATED_TRIAL_S
from lastro.cli._common import language_argument, selection, share, study_arguments, testbed_argument
from lastro.cli._terminal import print_blocks, table
from lastro.errors import InputError
from lastro.study import design
from lastro.study.fraction import Fraction
from lastro.study.margins import Margins
from lastro.units import human_duration
from lastro.words.fraction import fraction_text, relation_text
from lastro.words.language import ENGLISH, language
from lastro.words.numbers import percent

if TYPE_CHECKING:
    from lastro.analysis.gate_plan import GatePlan

_SUITE_FORMAT = "lastro-suite-plan/1"
_HEADS = ("study", "treatments", "blocks", "trials", "unavailable", "expected")


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    study_arguments(parser, testbed_argument)
    add("--no-probe", action="store_true", help="do not probe what this host can run")
    add("--schedule", action="store_true", help="list every trial in running order")
    add("--wait", action="store_true", help="wait for a campaign on this host to end before probing")
    add(
        "--gate", nargs="?", const="", metavar="MARGIN",
        help="also plan a gate that fails over this margin, such as 5%% or 0.05; without MARGIN: over that of each"
        " metric in the table [margins] of the study, or 3%%",
    )  # fmt: skip
    add("--from", dest="pilot", type=Path, metavar="DIR", help="campaign of this study whose noise --gate assumes")
    add("--metric", action="append", metavar="NAME", help="--gate judges only this metric; repeatable")
    language_argument(parser, "sentences of --gate")
    add("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> int:
    from lastro.analysis.gate_plan import gate_plan

    probing = ProbeOptions(not args.no_probe, args.wait, args.testbed)
    if args.gate is None and (args.pilot or args.metric):
        option = "--from" if args.pilot else "--metric"
        raise InputError(f"{option} is for --gate", "give a margin, such as --gate 5%")
    if args.gate is not None and not args.pilot:
        hint = f"`lastro run {args.study}` or `lastro noise-floor {args.study}` makes one"
        raise InputError("--gate needs the noise of this study: name a campaign of it with --from", hint)
    if (given := suite_of(args.study, selection(args))) is not None:
        if args.pilot:
            raise InputError(f"--gate is for one study, and {args.study} is a suite", "name one of its study files")
        planned = plans.plans_of(given, probing)
        if args.json:
            print(json.dumps(_suite_document(given, planned, args.schedule), indent=2))
        else:
            print("\n".join(_suite_lines(given, planned)))
            for name, study_plan in planned if args.schedule else ():
                if isinstance(study_plan, StudyPlan):
                    print("\n".join(["", name, *_schedule_lines(study_plan)]))
        return next((error.exit_code for _, error in planned if isinstance(error, NoPlan)), 0)
    study = load_study(args.study, selection(args))
    margins = Margins(share(args.gate, "--gate", above_zero=True)) if args.gate else Margins.of_studies(study)
    pilot = report_of(args.pilot, all_metrics=True) if args.pilot else None  # before anything is probed
    plan = plans.plan_of(study, probing)
    gate = None
    if pilot:
        metrics = args.metric or ()
        gate = gate_plan(study, plan.runnable, pilot, margins, lambda blocks: 2 * plan.total_s(blocks), metrics)
    if args.json:
        print(json.dumps(_document(plan, args.schedule, gate), indent=2))
    else:
        print("\n".join(_lines(plan)))
        if gate:
            from lastro.builders.gate_plan import gate_plan_blocks

            print()
            print_blocks(gate_plan_blocks(gate, language(args.lang)), language(args.lang))
        if args.schedule:
            print("\n".join(["", *_schedule_lines(plan)]))
    return 0


def _expected(plan: StudyPlan) -> str:
    """Return the expected duration, such as '12 min', or a range if the study may stop early (sequential stopping)."""
    blocks, most = plan.study.design.replicates, plan.study.design.most_blocks
    least_s, most_s = plan.total_s(blocks), plan.total_s(most)
    return human_duration(least_s) + (f" to {human_duration(most_s)}" if most > blocks else "")


def _emulation_note(plans: Sequence[StudyPlan]) -> list[str]:
    """Return a list of one line on how emulation affects the durations; empty if no study runs in an emulated guest."""
    how = f"{EMULATED_TRIAL_S:g} s longer than on a host, as trials of chains do"
    if any(plan.emulated for plan in plans):
        return [f"the guest is emulated: each trial is expected to last {how}"]
    if any(plan.emulated is None for plan in plans):
        return [f"if the guest is emulated, each trial lasts {how}"]
    return []


def _not_probed(busy: str) -> str:
    if busy:
        return f"availability was not probed: {busy}; use --wait to probe once it is free"
    how = "without --no-probe" if os.geteuid() == 0 else "as root"
    return f"availability was not probed: run {how} to see what this host cannot do"


def _lines(plan: StudyPlan) -> list[str]:
    """Return the plan of a study as lines: design, availability and expected duration."""
    study, treatments, runnable = plan.study, plan.treatments, len(plan.runnable)
    replicates, most = study.design.replicates, study.design.most_blocks
    lines = [f"{study.name}: {study.title}" if study.title else study.name]
    lines += [f"scenario {study.scenario}" + (f", profile {study.profile}" if study.profile else "")]
    lines += [f"changed by {shlex.join(study.changes)}", ""] if study.changes else [""]
    lines += [f"  {factor.name:<15} {', '.join(map(str, factor.levels))}" for factor in study.factors]
    base = ", ".join(f"{name} = {level}" for name, level in study.design.baseline.items())
    lines += ["", f"treatments  {len(treatments)}"] + ([f"baseline    {base}"] if base else [])
    lines += [f"blocks      {replicates} (randomised, seed {study.design.seed})", f"trials      {plan.trials}"]
    if study.design.most_blocks == 1:
        lines += [" " * 12 + "one block gives no interval and no verdict on a claim: use --replicates 2 or more"]
    if study.design.sequential:
        precision = f"±{percent(study.design.precision)}"
        lines += [f"sequential  blocks are added until every ratio is known to {precision}, {most} blocks at most"]
    if study.design.stopping == "decided":
        lines += [f"decision    blocks are added until the service levels are decided, {most} blocks at most"]
    if fraction := Fraction.of(study):
        lines += [f"fraction    {fraction_text(fraction, study.design.fraction, ENGLISH)}"]
        lines += [f"            {relation_text(fraction)}", "", "measured together:"]
        lines += [f"  {effect} with {aliases}" for effect, aliases in fraction.chains().items()]
    if not plan.probed:
        lines += ["", _not_probed(plan.busy)]
    elif runnable < len(treatments):
        lines += [f"runnable    {runnable * replicates} trials of {runnable} treatments on this host"]
        lines += ["", "unavailable here:"]
        for (reason, remedy), count in reasons(plan).items():
            lines.append(f"  {count} treatments: {reason}")
            lines += [f"    remedy: {remedy}"] if remedy else []
    else:
        lines += ["all of them can run on this host"]
    return [*lines, "", f"expected    {_expected(plan)}", *_emulation_note([plan])]


def _schedule_lines(plan: StudyPlan) -> list[str]:
    trials = design.trials(plan.study, len(plan.treatments))
    return [f"{trial.number:>6}  block {trial.block:<4} {plan.treatments[trial.treatment].label}" for trial in trials]


def _document(plan: StudyPlan, schedule: bool, gate: GatePlan | None = None) -> dict[str, Any]:
    study, treatments = plan.study, plan.treatments
    document: dict[str, Any] = {
        "study": study.name,
        **pick(study, "profile changes scenario"),
        **pick(study.design, "replicates stopping"),
        "most_replicates": study.design.most_blocks,
        "seed": study.design.seed,
        **pick(plan, "trials probed emulated"),
        "expected_s": round(plan.forecast.total_s, 1),
        "expected": {name: round(seconds, 1) for name, seconds in asdict(plan.forecast).items()},
        "treatments": [
            {"id": treatment.id, "levels": dict(treatment.levels)}
            | {"unavailable": availability.reason, "remedy": availability.remedy}
            for treatment, availability in zip(treatments, plan.availability, strict=True)
        ],
    }
    if fraction := Fraction.of(study):
        document["fraction"] = {"of": study.design.fraction, **fraction.document()}
    if gate:
        from lastro.builders.gate_plan import gate_plan_document

        document["gate"] = gate_plan_document(gate)
    if schedule:
        document["schedule"] = [
            {"trial": trial.number, "block": trial.block, "treatment": treatments[trial.treatment].id}
            for trial in design.trials(study, len(treatments))
        ]
    return document


def _total_s(planned: Sequence[Planned]) -> float:
    return sum(plan.forecast.total_s for _, plan in planned if isinstance(plan, StudyPlan))


def _suite_lines(given: GivenSuite, planned: Sequence[Planned]) -> list[str]:
    profile = f", profile {given.selection.profile}" if given.selection.profile else ""
    changes = f", changed by {shlex.join(given.selection.options)}" if given.selection.options else ""
    plans = [plan for _, plan in planned if isinstance(plan, StudyPlan)]
    rows: list[tuple[str, ...]] = [_HEADS]
    for name, plan in planned:
        if isinstance(plan, NoPlan):
            rows.append((name, "", "", "", "all", ""))
        else:
            numbers = (len(plan.treatments), plan.study.design.replicates, plan.trials)
            rows.append((name, *map(str, numbers), _unavailable([plan]), _expected(plan)))
    treatments, trials = sum(len(plan.treatments) for plan in plans), sum(plan.trials for plan in plans)
    total = (str(treatments), "", str(trials), _unavailable(plans), human_duration(_total_s(planned)))
    rows.append(("all", *total) if plans else ("all", "", "", "", "all", ""))
    title = given.folder.title or given.folder.name
    head = [title, f"suite of {len(planned)} studies{profile}{changes}", "", *table(rows)]
    unprobed = [plan.busy for plan in plans if not plan.probed]
    hints = ["", _not_probed(unprobed[0])] if unprobed else []
    return [*head, *_reasons(planned), *hints, *_emulation_note(plans)]


def _unavailable(plans: Sequence[StudyPlan]) -> str:
    """Return the number of trials that this host cannot run; '?' if a study was not probed."""
    if not all(plan.probed for plan in plans):
        return "?"
    return str(sum((len(plan.treatments) - len(plan.runnable)) * plan.study.design.replicates for plan in plans))


def _reasons(planned: Sequence[Planned]) -> list[str]:
    """Return lines that list each reason for unavailability once, with the studies that it affects."""
    studies_by_reason: dict[tuple[str, str | None], list[str]] = {}
    for name, plan in planned:
        if isinstance(plan, NoPlan):
            studies_by_reason.setdefault((plan.message, plan.hint), []).append(f"{name} (all)")
            continue
        for why, count in reasons(plan).items():
            studies_by_reason.setdefault(why, []).append(f"{name} ({count} of {len(plan.treatments)} treatments)")
    lines = ["", "unavailable here:"] if studies_by_reason else []
    for (reason, remedy), names in studies_by_reason.items():
        lines += [f"  {', '.join(names)}: {reason}", *([f"    remedy: {remedy}"] if remedy else [])]
    return lines


def _suite_document(given: GivenSuite, planned: Sequence[Planned], schedule: bool) -> dict[str, Any]:
    return {
        "format": _SUITE_FORMAT,
        "suite": given.folder.name,
        "title": given.folder.title,
        "source": given.source,
        "profile": given.selection.profile,
        "changes": list(given.selection.options),
        "trials": sum(plan.trials for _, plan in planned if isinstance(plan, StudyPlan)),
        "expected_s": round(_total_s(planned), 1),
        "studies": [
            {"suite_study": name, "unavailable": plan.message, "remedy": plan.hint}
            if isinstance(plan, NoPlan)
            else {"suite_study": name, "unavailable": None, "remedy": None, **_document(plan, schedule)}
            for name, plan in planned
        ],
    }
