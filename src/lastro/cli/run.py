"""Results, transcripts and provenance go to DIR, which defaults to campaigns/NAME-DATE-TIME. Each finished trial is
safe at once: after Ctrl-C, a crash or kill -9, `lastro resume DIR` goes on with the same schedule."""

from __future__ import annotations

import argparse
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from lastro import registry
from lastro.campaign.runner import configuration
from lastro.cli._campaign import run_here
from lastro.cli._common import require_root
from lastro.cli._host import scenario_on_host
from lastro.cli._study import load_study, study_arguments
from lastro.errors import InputError
from lastro.results.database import DB_NAME
from lastro.results.store import Store
from lastro.scenarios.base import Scenario
from lastro.study import design
from lastro.study.model import Study


def configure(parser: argparse.ArgumentParser) -> None:
    study_arguments(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="the campaign's directory; must not hold one")
    parser.add_argument("--wait", action="store_true", help="wait for another campaign on this host to end")
    parser.add_argument("--no-report", action="store_true", help="do not write the HTML report at the end")


def run(args: argparse.Namespace) -> int:
    study = load_study(args)
    if registry.get("scenario", study.scenario).needs_root:
        require_root("run")
    directory = args.output or Path("campaigns") / f"{study.name}-{datetime.now():%Y%m%d-%H%M%S}"
    check_place(directory)
    with (
        scenario_on_host(study, f"campaign {directory.resolve()}", wait=args.wait) as scenario,
        Store.create(directory, study, *schedule(study), provenance(study, scenario)) as store,
    ):
        run_here(store, scenario, "started")
    return conclude(directory, report=not args.no_report)


def check_place(directory: Path) -> None:
    """Before the host is taken: can a campaign be there?"""
    try:
        holds_one = (directory / DB_NAME).exists()
        nearest = next(place for place in (directory, *directory.absolute().parents) if place.exists())
    except OSError as error:
        raise InputError(f"{directory} cannot be used: {error.strerror}", "choose another -o DIR") from error
    if holds_one:
        raise InputError(
            f"{directory} already holds a campaign",
            f"continue it with `lastro resume {directory}`, or choose another -o DIR",
        )
    if not nearest.is_dir():
        raise InputError(f"{nearest} is not a directory, and a campaign needs one", "choose another -o DIR")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"{nearest} cannot be written to", "choose another -o DIR")


def schedule(study: Study) -> tuple[list[design.Treatment], Any]:
    treatments = design.treatments(study)
    return treatments, design.trials(study, len(treatments))


def provenance(study: Study, scenario: Scenario) -> dict[str, Any]:
    """The host as it is when the campaign starts, and the tools inside the image."""
    from lastro.host import facts
    from lastro.host.local import LocalHost

    if not scenario.needs_root:
        return facts.collect(LocalHost())
    configs = [configuration(study, treatment) for treatment in design.treatments(study)]
    with scenario.testbed.host.recorded():
        return {**facts.collect(scenario.testbed.host), **identity(scenario), **scenario.facts(configs)}


def identity(scenario: Scenario) -> dict[str, Any]:
    """What must be the same for trials to be comparable: the part of the provenance that is found at once."""
    from lastro.host import facts
    from lastro.host.local import LocalHost

    found = facts.machine(LocalHost())
    if scenario.needs_root:
        found["root_filesystem"] = {"sha256": scenario.testbed.image.digest}
    return found


def conclude(directory: Path, *, report: bool) -> int:
    """Print the results, and write the report."""
    from lastro.cli import report as report_command
    from lastro.cli import results

    parser = argparse.ArgumentParser()
    results.configure(parser)
    results.run(parser.parse_args([str(directory)]))
    if report:
        parser = argparse.ArgumentParser()
        report_command.configure(parser)
        report_command.run(parser.parse_args([str(directory)]))
    return 0
