"""As root, every level is tried for real, so the plan shows what this host cannot run and why. Without root, the plan
assumes that everything can run. For a suite (a folder of study files, or a paper with several studies), it shows a
line for each study, and the total."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lastro.app import plans
from lastro.app.plans import NoPlan, Planned, Probing, StudyPlan, reasons
from lastro.app.studies import GivenSuite, load_study, suite_of
from lastro.cli._common import study_arguments
from lastro.cli._terminal import table
from lastro.study import design
from lastro.units import human_duration

_SUITE_FORMAT = "lastro-suite-plan/1"
_HEADS = ("study", "treatments", "blocks", "trials", "unavailable", "expected")


def configure(parser: argparse.ArgumentParser) -> None:
    study_arguments(parser)
    parser.add_argument("--no-probe", action="store_true", help="do not probe what this host can run")
    parser.add_argument("--schedule", action="store_true", help="list every trial in running order")
    parser.add_argument("--wait", action="store_true", help="wait for a campaign on this host to end before probing")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> int:
    probing = Probing(not args.no_probe, args.wait, args.testbed)
    if (given := suite_of(args.study, args.profile)) is not None:
        return _run_suite(args, given, probing)
    plan = plans.plan_of(load_study(args.study, args.profile), probing)
    if args.json:
        print(json.dumps(_document(plan, args.schedule), indent=2))
    else:
        print("\n".join([*_lines(plan), *(["", *_schedule_lines(plan)] if args.schedule else [])]))
    return 0


def _run_suite(args: argparse.Namespace, given: GivenSuite, probing: Probing) -> int:
    planned = plans.plans_of(given, probing)
    if args.json:
        print(json.dumps(_suite_document(given, planned, args.schedule), indent=2))
    else:
        print("\n".join(_suite_lines(given, planned)))
        for name, plan in planned if args.schedule else ():
            if isinstance(plan, StudyPlan):
                print("\n".join(["", name, *_schedule_lines(plan)]))
    return next((error.exit_code for _, error in planned if isinstance(error, NoPlan)), 0)


# Of one study


def _expected(plan: StudyPlan) -> str:
    """Return the expected duration, such as '12 min'; a range where the study stops sequentially."""
    blocks, most, total_s = plan.study.design.replicates, plan.study.design.most_blocks, plan.forecast.total_s
    more_s = plan.forecast.trials_s * (most / blocks - 1)
    return human_duration(total_s) + (f" to {human_duration(total_s + more_s)}" if most > blocks else "")


def _not_probed(busy: str = "") -> str:
    if busy:
        return f"availability was not probed: {busy}; use --wait to probe once it is free"
    how = "without --no-probe" if os.geteuid() == 0 else "as root"
    return f"availability was not probed: run {how} to see what this host cannot do"


def _lines(plan: StudyPlan) -> list[str]:
    study, treatments, runnable = plan.study, plan.treatments, plan.runnable
    replicates, most = study.design.replicates, study.design.most_blocks
    lines = [f"{study.name}: {study.title}" if study.title else study.name]
    lines += [f"scenario {study.scenario}" + (f", profile {study.profile}" if study.profile else ""), ""]
    lines += [f"  {factor.name:<15} {', '.join(map(str, factor.levels))}" for factor in study.factors]
    lines += ["", f"treatments  {len(treatments)}", f"blocks      {replicates} (randomised, seed {study.design.seed})"]
    lines += [f"trials      {plan.trials}"]
    if study.design.sequential:
        precision = f"±{100 * study.design.precision:g} %"
        lines += [f"sequential  blocks are added until every ratio is known to {precision}, {most} blocks at most"]
    if not plan.probed:
        lines += ["", _not_probed(plan.busy)]
    elif runnable < len(treatments):
        lines += [
            f"runnable    {runnable * replicates} trials of {runnable} treatments on this host",
            "",
            "unavailable here:",
        ]
        for (reason, remedy), count in reasons(plan).items():
            lines.append(f"  {count} treatments: {reason}")
            lines += [f"    remedy: {remedy}"] if remedy else []
    else:
        lines += ["all of them can run on this host"]
    return [*lines, "", f"expected    {_expected(plan)}"]


def _schedule_lines(plan: StudyPlan) -> list[str]:
    trials = design.trials(plan.study, len(plan.treatments))
    return [f"{trial.number:>6}  block {trial.block:<4} {plan.treatments[trial.treatment].label}" for trial in trials]


def _document(plan: StudyPlan, schedule: bool) -> dict[str, Any]:
    """Return the plan of one study as JSON-able data."""
    study, treatments = plan.study, plan.treatments
    found: dict[str, Any] = {
        "study": study.name,
        "profile": study.profile,
        "scenario": study.scenario,
        "replicates": study.design.replicates,
        "stopping": study.design.stopping,
        "most_replicates": study.design.most_blocks,
        "seed": study.design.seed,
        "trials": plan.trials,
        "probed": plan.probed,
        "expected_s": round(plan.forecast.total_s, 1),
        "expected": {name: round(seconds, 1) for name, seconds in asdict(plan.forecast).items()},
        "treatments": [
            {"id": t.id, "levels": dict(t.levels), "unavailable": availability.reason, "remedy": availability.remedy}
            for t, availability in zip(treatments, plan.found, strict=True)
        ],
    }
    if schedule:
        trials = design.trials(study, len(treatments))
        found["schedule"] = [
            {"trial": t.number, "block": t.block, "treatment": treatments[t.treatment].id} for t in trials
        ]
    return found


# Of a suite


def _total_s(planned: Sequence[Planned]) -> float:
    return sum(plan.forecast.total_s for _, plan in planned if isinstance(plan, StudyPlan))


def _suite_lines(given: GivenSuite, planned: Sequence[Planned]) -> list[str]:
    profile = f", profile {given.studies[0].profile}" if given.studies[0].profile else ""
    rows = [_HEADS, *(_row(name, plan) for name, plan in planned)]
    plans = [(name, plan) for name, plan in planned if isinstance(plan, StudyPlan)]
    rows.append(_sum(plans))
    title = given.folder.title or given.folder.name
    found = [title, f"suite of {len(planned)} studies{profile}", "", *table(rows)]
    return [*found, *_reasons(planned), *_hints(plans)]


def _row(name: str, plan: StudyPlan | NoPlan) -> tuple[str, ...]:
    if isinstance(plan, NoPlan):
        return (name, "", "", "", "all", "")
    numbers = (len(plan.treatments), plan.study.design.replicates, plan.trials)
    return (name, *map(str, numbers), _unavailable([(name, plan)]), _expected(plan))


def _sum(plans: Sequence[tuple[str, StudyPlan]]) -> tuple[str, ...]:
    if not plans:
        return ("all", "", "", "", "all", "")
    treatments, trials = sum(len(plan.treatments) for _, plan in plans), sum(plan.trials for _, plan in plans)
    return ("all", str(treatments), "", str(trials), _unavailable(plans), human_duration(_total_s(plans)))


def _unavailable(plans: Sequence[tuple[str, StudyPlan]]) -> str:
    """Return the number of trials that this host cannot run; '?' where that was not probed."""
    if not all(plan.probed for _, plan in plans):
        return "?"
    return str(sum((len(plan.treatments) - plan.runnable) * plan.study.design.replicates for _, plan in plans))


def _reasons(planned: Sequence[Planned]) -> list[str]:
    """Return lines with each reason once, and the studies that it affects."""
    where: dict[tuple[str, str | None], list[str]] = {}
    for name, plan in planned:
        if isinstance(plan, NoPlan):
            where.setdefault((plan.message, plan.hint), []).append(f"{name} (all)")
            continue
        for why, count in reasons(plan).items():
            where.setdefault(why, []).append(f"{name} ({count} of {len(plan.treatments)} treatments)")
    lines = ["", "unavailable here:"] if where else []
    for (reason, remedy), names in where.items():
        lines += [f"  {', '.join(names)}: {reason}", *([f"    remedy: {remedy}"] if remedy else [])]
    return lines


def _hints(plans: Sequence[tuple[str, StudyPlan]]) -> list[str]:
    unprobed = [plan.busy for _, plan in plans if not plan.probed]
    return ["", _not_probed(unprobed[0])] if unprobed else []


def _suite_document(given: GivenSuite, planned: Sequence[Planned], schedule: bool) -> dict[str, Any]:
    return {
        "format": _SUITE_FORMAT,
        "suite": given.folder.name,
        "title": given.folder.title,
        "source": given.source,
        "profile": given.studies[0].profile,
        "trials": sum(p.trials for _, p in planned if isinstance(p, StudyPlan)),
        "expected_s": round(_total_s(planned), 1),
        "fronts": [{"front": name, **_document_of(plan, schedule)} for name, plan in planned],
    }


def _document_of(plan: StudyPlan | NoPlan, schedule: bool) -> dict[str, Any]:
    if isinstance(plan, NoPlan):
        return {"unavailable": plan.message, "remedy": plan.hint}
    return {"unavailable": None, "remedy": None, **_document(plan, schedule)}
