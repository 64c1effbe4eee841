"""Results, transcripts and provenance go to DIR, which defaults to campaigns/NAME-DATE-TIME. Each finished trial is
saved immediately: after Ctrl-C, a crash or kill -9, `lastro resume DIR` continues with the same schedule.

A folder of study files, or a paper with several studies, is a suite: its studies run one after the other, each as a
campaign of its own in DIR/FRONT. One that cannot run here, or cannot finish, does not stop the others; the exit code is
then 3."""

from __future__ import annotations

import argparse
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lastro import registry
from lastro.campaign import suite
from lastro.campaign.duration import configuration
from lastro.campaign.progress import Place, alone
from lastro.cli._campaign import run_here
from lastro.cli._common import MANY_INVALID_TRIALS, fail_invalid_argument, most_invalid, require_root
from lastro.cli._host import scenario_on_host
from lastro.cli._study import load_study, load_testbed, study_arguments, suite_of
from lastro.errors import InputError
from lastro.files import require_own_directory
from lastro.results.database import DB_NAME
from lastro.results.store import Store
from lastro.scenarios.base import Scenario
from lastro.study import design
from lastro.study.model import Study

if TYPE_CHECKING:
    from lastro.host.testbed_file import TestbedFile


def configure(parser: argparse.ArgumentParser) -> None:
    study_arguments(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="directory of the campaign; must not hold one already"
    )
    parser.add_argument("--wait", action="store_true", help="wait for another campaign on this host to end")
    parser.add_argument("--no-report", action="store_true", help="do not write the HTML report at the end")
    fail_invalid_argument(parser)


def run(args: argparse.Namespace) -> int:
    if (given := suite_of(args)) is not None:
        from lastro.cli import _suite_run

        return _suite_run.run(args, given)
    study, most = load_study(args), most_invalid(args)
    if registry.get("scenario", study.scenario).needs_root:
        require_root("run")
    directory = args.output or place_for(study.name)
    check_place(directory)
    begin(directory, study, wait=args.wait, file=load_testbed(args.testbed))
    return conclude(directory, report=not args.no_report, most_invalid=most)


def place_for(name: str) -> Path:
    return Path("campaigns") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"


def begin(directory: Path, study: Study, *, wait: bool, place: Place = alone, file: TestbedFile | None = None) -> None:
    """Run a new campaign of a study in `directory` to its end, on the testbed of a file or all on this machine."""
    with (
        scenario_on_host(study, f"campaign {directory.resolve()}", wait=wait, file=file) as scenario,
        Store.create(directory, study, *schedule(study), provenance(study, scenario, file)) as store,
    ):
        run_here(store, scenario, "started", place)


def check_place(directory: Path) -> None:
    """Check, before the host is taken, that a campaign can be created in a directory. Raises: InputError."""
    try:
        holds_one = "campaign" if (directory / DB_NAME).exists() else "suite" if suite.is_suite(directory) else ""
        nearest = next(place for place in (directory, *directory.absolute().parents) if place.exists())
    except OSError as error:
        raise InputError(f"{directory} cannot be used: {error.strerror}", "choose another -o DIR") from error
    if holds_one:
        raise InputError(
            f"{directory} already holds a {holds_one}",
            f"continue it with `lastro resume {directory}`, or choose another -o DIR",
        )
    around = directory.absolute().parent
    if suite.is_suite(around) and directory.absolute().name in (front.name for front in suite.read(around).fronts):
        raise InputError(
            f"{directory} is reserved for a front of the suite in {around}",
            f"`lastro resume {around}` runs it there; choose another -o DIR",
        )
    if not nearest.is_dir():
        raise InputError(f"{nearest} is not a directory, and a campaign needs one", "choose another -o DIR")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"{nearest} cannot be written to", "choose another -o DIR")
    require_own_directory(directory)


def schedule(study: Study) -> tuple[list[design.Treatment], Any]:
    treatments = design.treatments(study)
    return treatments, design.trials(study, len(treatments))


def provenance(study: Study, scenario: Scenario, file: TestbedFile | None = None) -> dict[str, Any]:
    """Return the DUT's host at the start of the campaign, the tools in the image, and where the other roles are."""
    from lastro.host import facts
    from lastro.host.local import LocalHost

    if not scenario.needs_root:
        return {**facts.collect(LocalHost()), "controller": facts.controller()}
    configs = [configuration(study, treatment) for treatment in design.treatments(study)]
    with scenario.testbed.attempt():
        found = {**facts.collect(scenario.testbed.host), **identity(scenario), **scenario.facts(configs)}
        return {**found, **_places(scenario, file), "controller": facts.controller()}


def _places(scenario: Scenario, file: TestbedFile | None) -> dict[str, Any]:
    """Return the chapter on the testbed: of a file, or of a scenario that has several roles on this machine."""
    from lastro.host import facts

    if file is None and len(scenario.roles) == 1:
        return {}
    chapter: dict[str, Any] = {"file": str(Path(file.file).absolute()), "roles": file.provenance()} if file else {}
    for role, bed in scenario.testbed.others.items():
        chapter["roles"][role] |= {"machine": facts.machine(bed.host)["host"]} if bed.host.far else {}
    shared = scenario.testbed.shared_cpus if len(scenario.roles) > 1 else []
    return {"testbed": {**chapter, "shared_cpus": shared}}


def identity(scenario: Scenario) -> dict[str, Any]:
    """Return what must be equal for trials to be comparable: the part of the provenance that is quick to collect."""
    from lastro.host import facts
    from lastro.host.local import LocalHost

    found = facts.machine(scenario.testbed.host if scenario.needs_root else LocalHost())
    if scenario.needs_root:
        image = scenario.testbed.image
        found["root_filesystem"] = {"sha256": image.digest}
        if image.snapshot:
            found["root_filesystem"]["debian_snapshot"] = image.snapshot
    return found


def conclude(directory: Path, *, report: bool, most_invalid: float | None = None) -> int:
    """Write the report, print the results, and return an exit code.

    `most_invalid` is the fraction of invalid trials above which the campaign fails."""
    from lastro.cli import results
    from lastro.report.opening import invalid_fraction

    if report:
        write_report(directory)
    fraction = invalid_fraction(results.shown(directory).progress.counts)
    return MANY_INVALID_TRIALS if most_invalid is not None and fraction > most_invalid else 0


def write_report(directory: Path) -> None:
    from lastro.cli import report as report_command

    parser = argparse.ArgumentParser()
    report_command.configure(parser)
    report_command.run(parser.parse_args([str(directory)]))
