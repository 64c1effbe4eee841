"""The plan of a suite: a line for each study, what cannot run here and why, and the total duration."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from lastro.cli import plan as single
from lastro.cli._study import GivenSuite
from lastro.cli._suite_status import table
from lastro.cli.plan import Plan
from lastro.errors import HostError, TrialError
from lastro.scenarios.shared.pools import Missing
from lastro.units import human_duration

FORMAT = "lastro-suite-plan/1"
_HEADS = ("front", "treatments", "blocks", "trials", "unavailable", "expected")

NoPlan = HostError | TrialError
Planned = tuple[str, Plan | NoPlan]  # the study's name, and its plan or why there is none


def run(args: argparse.Namespace, given: GivenSuite) -> int:
    fronts = [(file.stem, study) for file, study in zip(given.folder.files, given.studies, strict=True)]
    planned: list[Planned] = []
    missing: dict[str, Missing] = {}
    for name, study in fronts:
        try:
            planned.append((name, single.plan_of(study, args, missing)))
        except (HostError, TrialError) as error:  # such as an image that cannot be built; the others have plans
            planned.append((name, error))
    if args.json:
        print(json.dumps(_document(given, planned, args.schedule), indent=2))
    else:
        print("\n".join(_lines(given, planned)))
        for name, plan in planned if args.schedule else ():
            if isinstance(plan, Plan):
                print("\n".join(["", name, *single.schedule_lines(plan)]))
    return next((error.exit_code for _, error in planned if isinstance(error, NoPlan)), 0)


def _total_s(planned: Sequence[Planned]) -> float:
    return sum(plan.forecast.total_s for _, plan in planned if isinstance(plan, Plan))


def _lines(given: GivenSuite, planned: Sequence[Planned]) -> list[str]:
    profile = f", profile {given.studies[0].profile}" if given.studies[0].profile else ""
    rows = [_HEADS, *(_row(name, plan) for name, plan in planned)]
    plans = [(name, plan) for name, plan in planned if isinstance(plan, Plan)]
    rows.append(_sum(plans))
    found = [f"{given.folder.title or given.folder.name}", f"suite of {len(planned)} fronts{profile}", "", *table(rows)]
    return [*found, *_reasons(planned), *_hints(plans)]


def _row(name: str, plan: Plan | NoPlan) -> tuple[str, ...]:
    if isinstance(plan, NoPlan):
        return (name, "", "", "", "all", "")
    numbers = (len(plan.treatments), plan.study.design.replicates, plan.trials)
    return (name, *map(str, numbers), _unavailable([(name, plan)]), single.expected_text(plan))


def _sum(plans: Sequence[tuple[str, Plan]]) -> tuple[str, ...]:
    if not plans:
        return ("all", "", "", "", "all", "")
    treatments, trials = sum(len(plan.treatments) for _, plan in plans), sum(plan.trials for _, plan in plans)
    return ("all", str(treatments), "", str(trials), _unavailable(plans), human_duration(_total_s(plans)))


def _unavailable(plans: Sequence[tuple[str, Plan]]) -> str:
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
        for why, count in single.reasons(plan).items():
            where.setdefault(why, []).append(f"{name} ({count} of {len(plan.treatments)} treatments)")
    lines = ["", "unavailable here:"] if where else []
    for (reason, remedy), fronts in where.items():
        lines += [f"  {', '.join(fronts)}: {reason}", *([f"    remedy: {remedy}"] if remedy else [])]
    return lines


def _hints(plans: Sequence[tuple[str, Plan]]) -> list[str]:
    unprobed = [plan.busy for _, plan in plans if not plan.probed]
    return ["", single.not_probed(unprobed[0])] if unprobed else []


def _document(given: GivenSuite, planned: Sequence[Planned], schedule: bool) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "suite": given.folder.name,
        "title": given.folder.title,
        "source": given.source,
        "profile": given.studies[0].profile,
        "trials": sum(p.trials for _, p in planned if isinstance(p, Plan)),
        "expected_s": round(_total_s(planned), 1),
        "fronts": [{"front": name, **_front(plan, schedule)} for name, plan in planned],
    }


def _front(plan: Plan | NoPlan, schedule: bool) -> dict[str, Any]:
    if isinstance(plan, NoPlan):
        return {"unavailable": plan.message, "remedy": plan.hint}
    return {"unavailable": None, "remedy": None, **single.document(plan, schedule)}
