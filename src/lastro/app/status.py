"""The status of a campaign or a suite, as JSON-able data."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lastro import registry
from lastro.app.campaign_dirs import open_campaign
from lastro.app.studies import load_member
from lastro.campaign import suite as suites
from lastro.campaign.duration import emulated_guests, forecast, missing, missing_trials, pace_of, scenario_of
from lastro.campaign.growth import is_finished
from lastro.campaign.suite import Suite, SuiteStudy
from lastro.results.store import Store
from lastro.scenarios.base import Scenario
from lastro.study import design

STATES = ("valid", "invalid", "unavailable", "running", "pending")
_SUITE_FORMAT = "lastro-suite-status/1"


def status_of(directory: Path) -> dict[str, Any]:
    """Return the status of a campaign; `guest` is that of `lastro results --json`, null for a real host."""
    from lastro.analysis.build import progress_of
    from lastro.analysis.campaign import MeasuredIn
    from lastro.results.read import load_campaign

    with open_campaign(directory) as store:
        data = load_campaign(store)
        finished = is_finished(store)
        pace, runner, testbeds = pace_of(store, scenario_of(data.study)), store.runner(), _testbeds(store)
    study, progress, guest = data.study, progress_of(data), MeasuredIn.of_data(data.provenance, data.members)
    at_work = _at_work(data.events, testbeds) if runner else len(testbeds)
    command = "report" if finished else "status" if runner else "resume"
    return {
        "study": study.name,
        "title": study.title,
        "profile": study.profile,
        "guest": guest and guest.to_dict(),
        "stopping": study.design.stopping,
        "most_replicates": study.design.most_blocks,
        "dropped": [text for _, kind, text in data.events if kind == "dropped"],
        "counts": {state: progress.counts.get(state, 0) for state in STATES},
        "trials": progress.n_trials,
        "attempts": progress.n_attempts,
        "invalid_attempts": progress.n_invalid_attempts,
        "finished": finished,
        "running": asdict(runner) if runner else None,
        "remaining_s": pace.remaining_s / max(1, at_work) if pace.knows else None,
        **({"testbeds": testbeds} if testbeds else {}),
        "last_event": dict(zip(("at_utc", "kind", "text"), data.events[-1], strict=True)) if data.events else None,
        "next": f"lastro {command} {shlex.quote(str(directory))}",
    }


def _at_work(events: Iterable[tuple[str, str, str]], testbeds: Iterable[Mapping[str, Any]]) -> int:
    """Count the testbeds that are neither lost nor left out, by the last event of each."""
    said = (text.partition(" ") for _, kind, text in events if kind == "testbed")
    last = {name: words for name, _, words in said}
    return sum(last.get(row["name"], "").startswith(("is ready", "is back")) for row in testbeds)


def _testbeds(store: Store) -> list[dict[str, Any]]:
    """Return the testbeds of a fleet, with their blocks and valid trials, and the block that each works on."""
    of_block = {place.block: place.testbed for place in store.places()}
    left = {trial.block for trial in store.trials() if trial.state in ("pending", "running")}
    valid = Counter(of_block[attempt.block] for attempt in store.attempts() if attempt.valid and of_block)
    return [
        {
            "name": row.name,
            "blocks": sum(testbed == row.name for testbed in of_block.values()),
            "valid_trials": valid[row.name],
            "block": next(
                (block for block, testbed in of_block.items() if testbed == row.name and block in left), None
            ),
        }
        for row in store.testbeds()
    ]


def status_of_suite(directory: Path, suite: Suite) -> dict[str, Any]:
    """Return the status of a suite: of each study, and the total."""
    gone, emulated = set[str](), 0
    for member in suite.studies:
        if suites.begun(directory, member):
            with Store.open(directory / member.name, readonly=True) as store:
                gone |= missing(store)
                emulated = max(emulated, emulated_guests(store))
    members = [_study_status(directory, suite, member, gone, emulated) for member in suite.studies]
    finished = all(member["finished"] for member in members)
    command = "report" if finished else "status" if any(member.get("running") for member in members) else "resume"
    left = [member["remaining_s"] for member in members]
    return {
        "format": _SUITE_FORMAT,
        "suite": suite.name,
        "title": suite.title,
        "profile": suite.profile,
        "counts": {state: sum(member["counts"][state] for member in members) for state in STATES},
        "trials": sum(member["trials"] for member in members),
        "finished": finished,
        "remaining_s": None if None in left else sum(left),
        "next": f"lastro {command} {shlex.quote(str(directory))}",
        "studies": members,
    }


def _study_status(directory: Path, suite: Suite, member: SuiteStudy, gone: set[str], emulated: int) -> dict[str, Any]:
    """Return the status of a study: that of its campaign, or all trials pending before the campaign begins.

    The remaining time is then that of the plan, without what other studies found missing. `emulated` is the
    number of guests in software in which they ran."""
    head = {
        "suite_study": member.name,
        "begun": suites.begun(directory, member),
        "stopped": member.stopped,
        "remedy": member.remedy,
        "midway": member.stopped is not None and suites.can_run(directory, member),
    }
    if head["begun"]:
        return {**head, **status_of(directory / member.name)}
    study = load_member(suites.study_file(directory, member), suite.selection)
    trials = len(design.treatments(study)) * study.design.replicates
    kind, rows = registry.get(Scenario, study.scenario), missing_trials(study, gone)
    return {
        **head,
        "study": study.name,
        "title": study.title,
        "counts": {state: trials if state == "pending" else 0 for state in STATES},
        "trials": trials,
        "finished": False,
        "remaining_s": forecast(study, kind, rows, emulated=emulated).total_s,
    }
