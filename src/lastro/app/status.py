"""The status of a campaign or a suite, as JSON-serializable data."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lastro.app.campaign_dirs import open_campaign
from lastro.app.studies import load_member
from lastro.campaign import suite as suites
from lastro.campaign.duration import emulated_guests, eta_estimator, forecast, missing, treatments_without
from lastro.campaign.sequential import is_finished
from lastro.campaign.suite import Suite, SuiteStudy
from lastro.errors import LastroError
from lastro.results.store import Store
from lastro.scenarios.base import Scenario, installed_scenario, scenario_of
from lastro.study import design

if TYPE_CHECKING:
    from lastro.results.read import CampaignData
    from lastro.results.rows import Runner

STATES = ("valid", "invalid", "unavailable", "running", "pending")
_SUITE_FORMAT = "lastro-suite-status/1"
_LATEST_TRIALS, _LATEST_METRICS, _LATEST_INVALID = 4, 3, 5


def facts_of(directory: Path) -> dict[str, Any]:
    """Return the status of the campaign or the suite in a directory."""
    return status_of_suite(directory, suites.read(directory)) if suites.is_suite(directory) else status_of(directory)


def status_of(directory: Path) -> dict[str, Any]:
    """Return the status of a campaign, as `lastro status --json` prints it.

    Its `guest` has the same form as in `lastro results --json`; it is None for a real host. Its `live` is None once the
    campaign has ended."""
    from lastro.analysis.build import progress_of
    from lastro.analysis.campaign import MeasuredIn
    from lastro.results.read import load_campaign

    with open_campaign(directory) as store:
        data = load_campaign(store)
        finished = is_finished(store)
        kind = installed_scenario(data.study)
        runner = store.runner()
        testbeds = _testbeds(store)
        pace = eta_estimator(store, kind)
    study = data.study
    progress = progress_of(data)
    guest = MeasuredIn.of_data(data.provenance, data.members)
    at_work = len(testbeds)
    if runner:  # only the testbeds whose last event says that they are ready or back
        texts = (text.partition(" ") for _, event, text in data.events if event == "testbed")
        last_words = {name: words for name, _, words in texts}
        at_work = sum(last_words.get(row["name"], "").startswith(("is ready", "is back")) for row in testbeds)
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
        "remaining_s": pace.remaining_s / max(1, at_work) if pace.is_known else None,
        **({"testbeds": testbeds} if testbeds else {}),
        "last_event": dict(zip(("at_utc", "kind", "text"), data.events[-1], strict=True)) if data.events else None,
        "live": None if finished else _live(data, None if testbeds else kind, runner),
        "next": _next_command(directory, finished=finished, running=runner is not None),
    }


def _next_command(directory: Path, *, finished: bool, running: bool) -> str:
    command = "status" if running else "resume"
    return f"lastro {'report' if finished else command} {shlex.quote(str(directory))}"


def _live(data: CampaignData, kind: type[Scenario] | None, runner: Runner | None) -> dict[str, Any]:
    """Return the running trials of an unfinished campaign, its latest values, and its latest invalid attempts.

    Its `probing` is true while a process runs the campaign and has not begun a trial. Its `look` is the text of the
    latest interim decision of sequential stopping, or None."""
    labels = {row.treatment.index: row.treatment.label for row in data.treatments}
    running = [trial for trial in data.trials if trial.state == "running" and runner]
    since_utc = runner.since_utc if runner else ""
    looks = [text for _, event, text in data.events if event == "look"]
    invalid = [attempt for attempt in data.attempts if not attempt.valid]
    return {
        "probing": bool(runner) and not running and all(attempt.started_utc < since_utc for attempt in data.attempts),
        "trials": [
            {"trial": trial.number, "block": trial.block, "attempt": trial.attempts + 1}
            | {"treatment": labels[trial.treatment], "calibrating": _missing_calibration(data, kind, trial.treatment)}
            for trial in running
        ],
        "latest": list(_latest(data, labels)),
        "invalid": [
            {"trial": attempt.trial, "attempt": attempt.attempt}
            | {"treatment": labels[attempt.treatment], "reasons": list(attempt.reasons)}
            for attempt in reversed(invalid[-_LATEST_INVALID:])
        ],
        "look": looks[-1] if looks else None,
    }


def _missing_calibration(data: CampaignData, kind: type[Scenario] | None, treatment: int) -> str | None:
    """Return the key of the first calibration that a treatment requires and the campaign lacks; None if none."""
    if kind is None:
        return None
    try:
        wanted = kind.calibrations(data.study.config(data.treatments[treatment].treatment.levels))
        return next((key for key in wanted if key not in data.calibrations and not kind.can_do_without(key)), None)
    except (KeyError, ValueError, TypeError, LastroError):  # another version's study
        return None


def _latest(data: CampaignData, labels: Mapping[int, str]) -> Iterator[dict[str, Any]]:
    """Yield the values of the latest valid trials, newest first.

    Each has a summary of the earlier values of its treatment (`earlier`), or None if there are none."""
    valid = [attempt for attempt in data.attempts if attempt.valid]
    for at, attempt in reversed(list(enumerate(valid))[-_LATEST_TRIALS:]):
        before = [other.measurements for other in valid[:at] if other.treatment == attempt.treatment]
        for metric in data.study.metrics[:_LATEST_METRICS]:
            if (value := attempt.measurements.get(metric.name)) is None:
                continue
            earlier = [values[metric.name] for values in before if values.get(metric.name) is not None]
            summary = None
            if earlier:
                summary = {"n": len(earlier), "mean": fmean(earlier), "min": min(earlier), "max": max(earlier)}
            of_trial = {"trial": attempt.trial, "treatment": labels[attempt.treatment]}
            yield of_trial | {"metric": metric.name, "unit": metric.unit, "value": value, "earlier": summary}


def _testbeds(store: Store) -> list[dict[str, Any]]:
    """Return the testbeds of a fleet with their blocks, valid trials and current block; empty without a fleet."""
    of_block = {place.block: place.testbed for place in store.places()}
    left = {trial.block for trial in store.trials() if trial.state in ("pending", "running")}
    valid = Counter(of_block[attempt.block] for attempt in store.attempts() if attempt.valid and of_block)
    rows = store.testbeds()
    blocks = {row.name: [block for block, testbed in of_block.items() if testbed == row.name] for row in rows}
    return [
        {
            "name": row.name,
            "blocks": len(blocks[row.name]),
            "valid_trials": valid[row.name],
            "block": next((block for block in blocks[row.name] if block in left), None),
        }
        for row in rows
    ]


def status_of_suite(directory: Path, suite: Suite) -> dict[str, Any]:
    """Return the status of a suite, as `lastro status --json` prints it: the total, and each study."""
    missing_parts, emulated = set[str](), 0
    for member in suite.studies:
        if suites.has_campaign(directory, member):
            with Store.open(directory / member.name, readonly=True) as store:
                missing_parts |= missing(store)
                emulated = max(emulated, emulated_guests(store))
    members = [_study_status(directory, suite, member, missing_parts, emulated) for member in suite.studies]
    finished = all(member["finished"] for member in members)
    running = any(member.get("running") for member in members)
    remaining_s = [member["remaining_s"] for member in members]
    return {
        "format": _SUITE_FORMAT,
        "suite": suite.name,
        "title": suite.title,
        "profile": suite.profile,
        "counts": {state: sum(member["counts"][state] for member in members) for state in STATES},
        "trials": sum(member["trials"] for member in members),
        "finished": finished,
        "remaining_s": None if None in remaining_s else sum(remaining_s),
        "next": _next_command(directory, finished=finished, running=running),
        "studies": members,
    }


def _study_status(
    directory: Path, suite: Suite, member: SuiteStudy, missing_parts: set[str], emulated: int
) -> dict[str, Any]:
    """Return the status of a study of a suite: the status of its campaign or, before it begins, a forecast.

    In the forecast, all trials are pending. The remaining time leaves out treatments that require one of
    `missing_parts`, which other studies of the suite found missing. `emulated` is the number of emulated guests in
    which other studies ran."""
    head = {
        "suite_study": member.name,
        "begun": suites.has_campaign(directory, member),
        "stopped": member.stopped,
        "remedy": member.remedy,
        "midway": member.stopped is not None and suites.can_run(directory, member),
    }
    if head["begun"]:
        return {**head, **status_of(directory / member.name)}
    study = load_member(suites.study_file(directory, member), suite.selection)
    trials = len(design.treatments(study)) * study.design.replicates
    kind, rows = scenario_of(study), treatments_without(study, missing_parts)
    return {
        **head,
        "study": study.name,
        "title": study.title,
        "counts": {state: trials if state == "pending" else 0 for state in STATES},
        "trials": trials,
        "finished": False,
        "remaining_s": forecast(study, kind, rows, emulated=emulated).total_s,
    }
