"""As root, every level is probed by doing, so the plan says what this host cannot run and why. Without root the plan
is shown as if everything could run."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from lastro import registry
from lastro.campaign.runner import configuration, expected_duration_s
from lastro.cli._study import load_study, study_arguments
from lastro.platforms.base import AVAILABLE, Availability
from lastro.scenarios.base import Scenario
from lastro.study import design
from lastro.study.model import Study
from lastro.units import human_duration


def configure(parser: argparse.ArgumentParser) -> None:
    study_arguments(parser)
    parser.add_argument("--no-probe", action="store_true", help="do not probe what this host can run")
    parser.add_argument("--schedule", action="store_true", help="list every trial in running order")
    parser.add_argument("--wait", action="store_true", help="wait for a campaign on this host to end before probing")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> int:
    study = load_study(args)
    scenario: type[Scenario] = registry.get("scenario", study.scenario)
    treatments = design.treatments(study)
    probed = not args.no_probe and (os.geteuid() == 0 or not scenario.needs_root)
    found = _probe(study, treatments, wait=args.wait) if probed else [AVAILABLE] * len(treatments)
    runnable = [t for t, availability in zip(treatments, found, strict=True) if availability]
    duration_s = expected_duration_s(study, scenario, runnable)
    if args.json:
        print(json.dumps(_document(study, treatments, found, probed, duration_s, args.schedule), indent=2))
    else:
        print("\n".join(_lines(study, treatments, found, probed, duration_s)))
        if args.schedule:
            print("\n".join(_schedule_lines(study, treatments)))
    return 0


def _probe(study: Study, treatments: list[design.Treatment], *, wait: bool) -> list[Availability]:
    from lastro.cli._host import scenario_on_host

    with scenario_on_host(study, f"plan of {study.name}", wait=wait) as scenario:
        return [scenario.availability(configuration(study, treatment)) for treatment in treatments]


def _reasons(treatments: list[design.Treatment], found: list[Availability]) -> dict[tuple[str, str | None], int]:
    counted: dict[tuple[str, str | None], int] = {}
    for availability in found:
        if availability.reason is not None:
            key = (availability.reason, availability.remedy)
            counted[key] = counted.get(key, 0) + 1
    return counted


def _lines(
    study: Study, treatments: list[design.Treatment], found: list[Availability], probed: bool, duration_s: float
) -> list[str]:
    replicates, most = study.design.replicates, study.design.most_blocks
    runnable = sum(map(bool, found))
    lines = [f"{study.name}: {study.title}" if study.title else study.name]
    lines += [f"scenario {study.scenario}" + (f", profile {study.profile}" if study.profile else ""), ""]
    lines += [f"  {factor.name:<15} {', '.join(map(str, factor.levels))}" for factor in study.factors]
    lines += ["", f"treatments  {len(treatments)}", f"blocks      {replicates} (randomised, seed {study.design.seed})"]
    lines += [f"trials      {len(treatments) * replicates}"]
    if study.design.sequential:
        precision = f"±{100 * study.design.precision:g} %"
        lines += [f"sequential  blocks are added until every ratio is known to {precision}, {most} blocks at most"]
    if not probed:
        how = "" if os.geteuid() == 0 else "as root and "
        lines += ["", f"availability was not probed: run {how}without --no-probe to see what this host cannot do"]
    elif runnable < len(treatments):
        lines += [
            f"runnable    {runnable * replicates} trials of {runnable} treatments on this host",
            "",
            "unavailable here:",
        ]
        for (reason, remedy), count in _reasons(treatments, found).items():
            lines.append(f"  {count} treatments: {reason}")
            lines += [f"    remedy: {remedy}"] if remedy else []
    else:
        lines += ["all of them can run on this host"]
    longest = f" to {human_duration(duration_s * most / replicates)}" if most > replicates else ""
    return [*lines, "", f"expected    {human_duration(duration_s)}{longest}"]


def _schedule_lines(study: Study, treatments: list[design.Treatment]) -> list[str]:
    trials = design.trials(study, len(treatments))
    return ["", *(f"{trial.number:>6}  block {trial.block:<4} {treatments[trial.treatment].label}" for trial in trials)]


def _document(
    study: Study,
    treatments: list[design.Treatment],
    found: list[Availability],
    probed: bool,
    duration_s: float,
    schedule: bool,
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "study": study.name,
        "profile": study.profile,
        "scenario": study.scenario,
        "replicates": study.design.replicates,
        "stopping": study.design.stopping,
        "most_replicates": study.design.most_blocks,
        "seed": study.design.seed,
        "trials": len(treatments) * study.design.replicates,
        "probed": probed,
        "expected_s": round(duration_s, 1),
        "treatments": [
            {"id": t.id, "levels": dict(t.levels), "unavailable": availability.reason, "remedy": availability.remedy}
            for t, availability in zip(treatments, found, strict=True)
        ],
    }
    if schedule:
        trials = design.trials(study, len(treatments))
        document["schedule"] = [
            {"trial": t.number, "block": t.block, "treatment": treatments[t.treatment].id} for t in trials
        ]
    return document
