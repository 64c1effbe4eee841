"""Runs the baseline against itself (an A/A campaign): its settings and metrics, two blocks for each block of the study,
consecutive blocks in pairs. The differences within these pairs are noise. They give each metric's noise floor: with the
study's number of blocks, on this host, a smaller difference is not distinguishable from none. They also show how often
an interval excludes "no difference" by chance.

  lastro noise-floor DIR           runs in DIR/noise-floor, and keeps the floors with the campaign, for its report
  lastro noise-floor study.toml    runs on its own, in campaigns/NAME-noise-floor-DATE-TIME
  lastro noise-floor DIR -o AA     if AA holds a finished A/A campaign, judges it and runs nothing

It runs on the testbed with which the campaign in DIR began, unless --testbed names another.

After an interruption, `lastro resume DIR/noise-floor` continues; then `lastro noise-floor DIR` keeps the floors.
Without --all, it runs only the baseline treatments that fit in an hour, and at least one. Needs root when the scenario
does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lastro import registry
from lastro.campaign.duration import forecast
from lastro.campaign.runner import utc_now
from lastro.cli._campaign import run_here
from lastro.cli._common import open_campaign, require_root
from lastro.cli._host import require_runnable, scenario_on_host
from lastro.cli._study import load_study, load_testbed, testbed_argument, testbed_of
from lastro.cli.resume import changes_between
from lastro.cli.run import check_place, provenance, schedule
from lastro.errors import InputError
from lastro.files import require_own_directory
from lastro.plain import json_text
from lastro.results.database import DB_NAME
from lastro.results.store import Store
from lastro.scenarios.base import Scenario
from lastro.study import design, twin
from lastro.study.model import PATIENCE, Level, Study
from lastro.units import human_duration

if TYPE_CHECKING:
    from lastro.analysis.noise_floor import NoiseFloors
    from lastro.host.testbed_file import TestbedFile

SHORT_S = 3600.0
MARK = "noise_floor_of"  # in the provenance of an A/A campaign: the study that it is for


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", metavar="DIR|STUDY", help="a campaign's directory, or a study file, or paper:NAME")
    parser.add_argument("--profile", metavar="P", help="profile of a study file: quick, standard or paper")
    testbed_argument(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="AA", help="directory of the A/A campaign, new or finished"
    )
    parser.add_argument("--all", action="store_true", help="run every baseline treatment, however long it takes")
    parser.add_argument("--wait", action="store_true", help="wait for another campaign on this host to end")
    parser.add_argument("--changed-host", action="store_true", help="keep the floors even if the host or image differs")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> int:
    judged = _judged(args)
    study = _study_of(judged) if judged else load_study(args)
    directory = _place(args, judged, study)
    if judged:
        require_own_directory(judged)  # before anything runs: the floors are kept there
    file = load_testbed(args.testbed)  # an invalid one is reported, even if nothing is left to run
    if not (directory / DB_NAME).exists():
        _run(args, judged, study, directory, file or _testbed_of(judged))
    floors = _judge(directory, study)
    if judged:
        _keep_with(judged, directory, floors, changed_host=args.changed_host)
    _print(args, floors, directory, judged)
    return 0


def _judged(args: argparse.Namespace) -> Path | None:
    """Return the directory of the campaign to judge; None for a study file."""
    directory = Path(args.study)
    if not directory.is_dir():
        return None
    if args.profile:
        raise InputError("--profile is for study files", "a campaign has its profile already")
    return directory


def _testbed_of(judged: Path | None) -> TestbedFile | None:
    """Return the testbed file with which the campaign began: a floor holds only where it was measured."""
    if judged is None:
        return None
    with open_campaign(judged) as store:
        return testbed_of(store)


def _study_of(directory: Path) -> Study:
    with open_campaign(directory) as store:
        if MARK in store.provenance:
            raise InputError(f"{directory} is an A/A campaign itself", "give the campaign or study that it is for")
        return store.study


def _place(args: argparse.Namespace, judged: Path | None, study: Study) -> Path:
    if args.output:
        return Path(args.output)
    if judged:
        return judged / "noise-floor"
    return Path("campaigns") / f"{study.name}-noise-floor-{datetime.now():%Y%m%d-%H%M%S}"


# The A/A campaign


def _run(
    args: argparse.Namespace, judged: Path | None, study: Study, directory: Path, file: TestbedFile | None
) -> None:
    scenario_class: type[Scenario] = registry.get("scenario", study.scenario)
    if scenario_class.needs_root:
        require_root("noise-floor")
    if judged:
        with open_campaign(judged) as store:
            require_runnable(store)
    check_place(directory)
    aa, told = _bounded(twin.baseline_twin(study), scenario_class, everything=args.all)
    print(f"{told}; in {directory}", file=sys.stderr, flush=True)
    with (
        scenario_on_host(study, f"campaign {directory.resolve()}", wait=args.wait, file=file) as scenario,
        Store.create(directory, aa, *schedule(aa), {**provenance(aa, scenario, file), MARK: study.name}) as store,
    ):
        run_here(store, scenario, "started")


def _bounded(aa: Study, scenario: type[Scenario], *, everything: bool) -> tuple[Study, str]:
    """Return the A/A study, shortened unless `everything`, and a description of what is about to run."""
    found = design.treatments(aa)
    fitting = len(found)
    while not everything and fitting > 1 and forecast(aa, scenario, found[:fitting]).total_s > SHORT_S:
        fitting -= 1
    chosen = aa if fitting == len(found) else twin.first_treatments(aa, fitting)
    blocks = aa.design.replicates
    seconds = forecast(chosen, scenario, found[:fitting]).total_s
    words = f"A/A campaign: {fitting} of {len(found)} baseline treatments, {blocks} blocks, {fitting * blocks} trials"
    more = "" if fitting == len(found) else " (--all runs all of them)"
    return chosen, f"{words}, about {human_duration(seconds)}{more}"


# The judgement


def _judge(directory: Path, study: Study) -> NoiseFloors:
    """Return the floors of a finished A/A campaign, after storing them in its own database."""
    from lastro.analysis.campaign import build_report
    from lastro.analysis.noise_floor import noise_floors, to_dict
    from lastro.results.read import load_campaign

    with open_campaign(directory) as store:
        data = load_campaign(store)
    _check_twin(directory, data.study, study)
    report = build_report(data)
    if not report.progress.finished:
        raise InputError(
            f"the A/A campaign in {directory} is unfinished",
            f"continue with `lastro resume {directory}`, then repeat this command",
        )
    floors = noise_floors(report, study.design.replicates)
    _keep(directory, to_dict(floors, utc_now()))
    return floors


def _measuring(settings: Mapping[str, Level]) -> dict[str, Level]:
    """Return the settings without those that only limit waiting: campaigns of an earlier Lastro may lack them."""
    return {name: value for name, value in settings.items() if name not in PATIENCE}


def _check_twin(directory: Path, aa: Study, study: Study) -> None:
    """Raise InputError unless the campaign is an A/A campaign of this very study."""
    wanted = twin.baseline_twin(study)
    for what, one, other in (
        ("scenario", aa.scenario, wanted.scenario),
        ("factors", aa.factors, wanted.factors),
        ("settings", _measuring(aa.settings), _measuring(wanted.settings)),
        ("metrics", [metric.name for metric in aa.metrics], [metric.name for metric in wanted.metrics]),
    ):
        if one != other:
            raise InputError(
                f"the campaign in {directory} is not an A/A campaign of this study: it has different {what}",
                "name another directory with -o, or run without -o",
            )


def _keep(directory: Path, value: dict[str, Any]) -> None:
    with Store.open(directory) as store:
        store.save_noise_floor(value)


def _keep_with(judged: Path, directory: Path, floors: NoiseFloors, *, changed_host: bool) -> None:
    """Store the floors with the judged campaign, if its host is the one on which they were measured."""
    from lastro.analysis.noise_floor import to_dict

    facts = []
    for place in (judged, directory):
        with open_campaign(place) as store:
            facts.append(store.provenance)
    if (changes := [*changes_between(*facts), *_moved(*facts)]) and not changed_host:
        raise InputError(
            f"the A/A campaign in {directory} ran under different conditions than {judged}: {'; '.join(changes)}",
            "run it on the same host and image, or keep the floors anyway with --changed-host",
        )
    _keep(judged, {**to_dict(floors, utc_now()), "changed_host": changes})
    with Store.open(judged) as store:
        store.log(utc_now(), "noise floor", f"from {directory}")


def _moved(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the roles that moved to other hosts, CPUs or network cards, by the testbed in each provenance."""
    was, is_ = (facts.get("testbed", {}).get("roles", {}) for facts in (before, now))
    told = {role: [_place_of(roles.get(role, {})) for roles in (was, is_)] for role in {**was, **is_}}
    return [f"{role} was on {there}, is on {here}" for role, (there, here) in told.items() if there != here]


def _place_of(role: dict[str, Any]) -> str:
    """Return the place of a role, which is as in `TestbedFile.provenance`.

    For example 'root@192.0.2.2, CPUs 0-1, cards eth1, eth2', or 'this machine'."""
    cpus, cards = str(role.get("cpu_set", "all")), role.get("links", {})
    parts = [str(role.get("reached", "this machine"))]
    parts += [f"CPUs {cpus}"] if cpus != "all" else []
    parts += [f"cards {', '.join(map(str, cards.values()))}"] if cards else []
    return ", ".join(parts)


def _print(args: argparse.Namespace, floors: NoiseFloors, directory: Path, judged: Path | None) -> None:
    if args.json:
        from lastro.analysis.noise_floor import to_dict

        print(json_text(to_dict(floors, utc_now())))
        return
    from lastro.report.noise_floor_text import noise_floor_text

    print(noise_floor_text(floors))
    kept = f"kept with {judged}, for its report" if judged else f"kept in {directory}"
    print(f"\n{kept}")
