"""As root, every level is tried for real, so the plan shows what this host cannot run and why. Without root, the plan
assumes that everything can run. For a suite (a folder of study files, or a paper with several studies), it shows a
line for each study, and the total."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from lastro import registry
from lastro.campaign.duration import Forecast, configuration, forecast
from lastro.cli._study import load_study, load_testbed, study_arguments, suite_of
from lastro.errors import HostBusy
from lastro.platforms.base import AVAILABLE, Availability
from lastro.scenarios.base import Scenario
from lastro.scenarios.shared.bases import OnPlatforms
from lastro.scenarios.shared.pools import Missing
from lastro.study import design
from lastro.study.model import Study
from lastro.units import human_duration


def configure(parser: argparse.ArgumentParser) -> None:
    study_arguments(parser)
    parser.add_argument("--no-probe", action="store_true", help="do not probe what this host can run")
    parser.add_argument("--schedule", action="store_true", help="list every trial in running order")
    parser.add_argument("--wait", action="store_true", help="wait for a campaign on this host to end before probing")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


@dataclass(frozen=True, slots=True)
class Plan:
    """A study as it would run here: the availability of each treatment, and how long those that can run may take."""

    study: Study
    treatments: list[design.Treatment]
    found: list[Availability]
    probed: bool
    forecast: Forecast
    busy: str = ""  # why it was not probed: another Lastro holds the host

    @property
    def trials(self) -> int:
        return len(self.treatments) * self.study.design.replicates

    @property
    def runnable(self) -> int:
        """The number of treatments that can run here."""
        return sum(map(bool, self.found))


def run(args: argparse.Namespace) -> int:
    if (given := suite_of(args)) is not None:
        from lastro.cli import _suite_plan

        return _suite_plan.run(args, given)
    plan = plan_of(load_study(args), args)
    if args.json:
        print(json.dumps(document(plan, args.schedule), indent=2))
    else:
        print("\n".join([*_lines(plan), *(["", *schedule_lines(plan)] if args.schedule else [])]))
    return 0


def plan_of(study: Study, args: argparse.Namespace, missing: dict[str, Missing] | None = None) -> Plan:
    """Return the plan of a study. `missing`: platforms that this command found missing so far; this plan adds its own.

    Raises: HostError when this host cannot even be probed, as without its root filesystem; TrialError when it is lost
    while it is probed."""
    scenario: type[Scenario] = registry.get("scenario", study.scenario)
    treatments = design.treatments(study)
    probed = not args.no_probe and (os.geteuid() == 0 or not scenario.needs_root)
    sought = {} if missing is None else missing
    found, probing_s, busy = [AVAILABLE] * len(treatments), None, ""
    try:
        if probed:
            found, probing_s = _probe(study, treatments, args, sought)
    except HostBusy as error:
        probed, busy = False, error.message
    runnable = [t for t, availability in zip(treatments, found, strict=True) if availability]
    return Plan(study, treatments, found, probed, forecast(study, scenario, runnable, probing_s=probing_s), busy)


def _probe(
    study: Study, treatments: list[design.Treatment], args: argparse.Namespace, missing: dict[str, Missing]
) -> tuple[list[Availability], float]:
    """Return the availability of each treatment, and the seconds that a campaign needs to find it again.

    That excludes what was built now, and includes what was known already: a campaign has the former, but not the
    latter."""
    from lastro.cli._host import scenario_on_host

    file = load_testbed(args.testbed)
    with scenario_on_host(study, f"plan of {study.name}", wait=args.wait, file=file) as scenario:
        pool = scenario.pool if isinstance(scenario, OnPlatforms) else None
        if pool:
            pool.missing = missing
        began_s = time.monotonic()
        found = [scenario.availability(configuration(study, treatment)) for treatment in treatments]
        took_s = time.monotonic() - began_s
        return found, took_s + (pool.spared_s - scenario.testbed.session.built_s if pool else 0.0)


def reasons(plan: Plan) -> dict[tuple[str, str | None], int]:
    """Return {(reason, remedy): number of treatments that cannot run because of it}."""
    return Counter((str(found.reason), found.remedy) for found in plan.found if not found)


def expected_text(plan: Plan) -> str:
    """Return the expected duration, such as '12 min'; a range where the study stops sequentially."""
    blocks, most, total_s = plan.study.design.replicates, plan.study.design.most_blocks, plan.forecast.total_s
    more_s = plan.forecast.trials_s * (most / blocks - 1)
    return human_duration(total_s) + (f" to {human_duration(total_s + more_s)}" if most > blocks else "")


def not_probed(busy: str = "") -> str:
    if busy:
        return f"availability was not probed: {busy}; use --wait to probe once it is free"
    how = "without --no-probe" if os.geteuid() == 0 else "as root"
    return f"availability was not probed: run {how} to see what this host cannot do"


def _lines(plan: Plan) -> list[str]:
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
        lines += ["", not_probed(plan.busy)]
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
    return [*lines, "", f"expected    {expected_text(plan)}"]


def schedule_lines(plan: Plan) -> list[str]:
    trials = design.trials(plan.study, len(plan.treatments))
    return [f"{trial.number:>6}  block {trial.block:<4} {plan.treatments[trial.treatment].label}" for trial in trials]


def document(plan: Plan, schedule: bool) -> dict[str, Any]:
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
