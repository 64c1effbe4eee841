"""Begin or resume a campaign, and run its remaining trials."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lastro.app.campaign_dirs import open_campaign
from lastro.app.hosts import require_runnable, scenario_on_host
from lastro.app.messages import say
from lastro.app.provenance import comparable_facts, differences, part_properties, provenance
from lastro.app.rights import require_root
from lastro.app.studies import load_testbed, testbed_of
from lastro.campaign import runner
from lastro.campaign.progress import Place, PlainProgress, ProgressBar, SuitePosition
from lastro.campaign.runner import utc_now
from lastro.campaign.sequential import is_finished
from lastro.errors import GuestLost, InputError, LastroError
from lastro.host import facts
from lastro.host.ledger import Ledger
from lastro.results.database import holds_campaign
from lastro.results.samples import MAX_ATTEMPTS
from lastro.results.segments import change_texts
from lastro.results.store import Store
from lastro.scenarios.base import scenario_of
from lastro.study import design
from lastro.study.model import Study

if TYPE_CHECKING:
    from lastro.host.fleet_file import FleetFile
    from lastro.host.testbed_file import TestbedFile


@dataclass(frozen=True, slots=True)
class ResumeOptions:
    """The options of `lastro resume`. With `invalid`, trials that were given up as invalid are repeated.

    With `properties`, the properties of parts are found before each campaign of a suite that has not begun."""

    wait: bool = False
    changed_host: bool = False
    invalid: bool = False
    testbed: Path | None = None
    fleet: Path | None = None
    properties: bool = False


def begin(
    directory: Path,
    study: Study,
    *,
    wait: bool,
    place: Place = SuitePosition,
    file: TestbedFile | None = None,
    fleet: FleetFile | None = None,
    marks: Mapping[str, str] = {},
    properties: bool = False,
) -> None:
    """Create a campaign of a study in `directory`, and run it to its end.

    It runs on `fleet`, on the testbed of `file`, or else on this machine. `marks` are added to its provenance. With
    `properties`, the properties of the study's parts are added, too, if the scenario starts instances. A guest that is
    lost during the campaign is replaced, as in `resume`."""
    if fleet is not None:
        if study.require or study.wish:
            hint = "leave out [require] and [wish]"
            raise InputError("on a fleet, no properties are found, and this study requires some", hint)
        from lastro.app import fleets

        with fleets.hold_fleet(study, f"campaign {directory.resolve()}", fleet, wait=wait) as held:
            held.wait_for_first(fleets.say_for)
            chapters = {**fleets.provenance(fleet), **marks}
            with Store.create(directory, study, *schedule(study), chapters, fleet=True) as store, _running_alone(store):
                _run_trials(store, partial(held.run, store, scenario_of(study)), "started", place)
        return
    try:
        with scenario_on_host(study, f"campaign {directory.resolve()}", wait=wait, file=file) as scenario:
            chapters = {**provenance(study, scenario, file), **marks}
            if (properties or study.require or study.wish) and scenario.needs_root:
                chapters["properties"] = part_properties(study, scenario.testbed)
            with Store.create(directory, study, *schedule(study), chapters) as store, _running_alone(store):
                _run_trials(store, partial(runner.run, store, scenario), "started", place)
    except GuestLost as lost:
        if not holds_campaign(directory):
            raise
        _announce_next_guest(lost)
        resume(directory, ResumeOptions(wait=True), place)


def resume(directory: Path, how: ResumeOptions, place: Place = SuitePosition) -> bool:
    """Run the remaining trials of a campaign, and retry unavailable trials; return whether anything changed.

    Raises: GuestLost when several guests in a row were lost without a valid trial."""
    with open_campaign(directory, readonly=False) as store:
        if scenario_of(store.study).needs_root:
            require_root("resume")
        require_runnable(store)
        before, n_attempts = store.counts(), len(store.durations())
        if not is_finished(store) or before["unavailable"] or (how.invalid and before["invalid"]):
            _resume_in_guests(store, how, place)
        elif scenario_of(store.study).needs_root:  # the process may have been killed after it saved its last trial
            with closing(Ledger()) as ledger:
                ledger.clean()
        return store.counts() != before or len(store.durations()) != n_attempts


def _resume_in_guests(store: Store, how: ResumeOptions, place: Place) -> None:
    """Run the remaining trials; when a guest is lost, boot another one and continue.

    Raises: GuestLost after MAX_ATTEMPTS guests in a row were lost without a valid trial. A trial whose treatment ends
    every guest has been given up by then."""
    valid, n_fruitless = store.counts()["valid"], 0
    while True:
        try:
            _resume_on_testbed(store, how, place)
            return
        except GuestLost as lost:
            before, valid = valid, store.counts()["valid"]
            n_fruitless = 0 if valid > before else n_fruitless + 1
            if n_fruitless == MAX_ATTEMPTS:
                raise
            _announce_next_guest(lost)
        how = replace(how, invalid=False, wait=True)  # the host is ours: wait if a command takes it meanwhile


def _announce_next_guest(lost: GuestLost) -> None:
    say(f"{lost.message}; finished trials are safe, and the campaign continues in another guest")


def _resume_on_testbed(store: Store, how: ResumeOptions, place: Place) -> None:
    """Run the remaining trials on the testbed or fleet in `how`, by default that with which the campaign began."""
    if store.is_fleet:
        _resume_on_fleet(store, how, place)
        return
    if how.fleet:
        raise InputError(f"{store.directory} was not started with a fleet", "continue it without --fleet")
    study, file = store.study, load_testbed(how.testbed) or testbed_of(store)
    purpose = f"campaign {store.directory.resolve()}"
    with scenario_on_host(study, purpose, wait=how.wait, file=file) as scenario, _running_alone(store, how):
        _check_changes(store, provenance(study, scenario, file), how)
        _reopen_invalid(store, how)
        _run_trials(store, partial(runner.run, store, scenario), "resumed", place)


def _check_changes(store: Store, now: Mapping[str, Any], how: ResumeOptions) -> None:
    """Begin a new segment if facts of the provenance that must stay equal have changed since the last segment.

    `now` is the present provenance. Raises: InputError for such a change, unless `how.changed_host` accepts it."""
    before = comparable_facts(store.provenance.chapters)
    for segment in store.segments():
        before |= {name: now_value for name, (_, now_value) in segment.changes.items()}
    if changes := differences(before, comparable_facts(now)):
        if not how.changed_host:
            raise InputError(
                f"{store.directory} was measured under different conditions: {'; '.join(change_texts(changes))}",
                "undo the change, run the study again, or continue with --accept-change: later trials are then not"
                " paired with earlier ones",
            )
        store.begin_segment(utc_now(), changes)


def _resume_on_fleet(store: Store, how: ResumeOptions, place: Place) -> None:
    from lastro.app import fleets

    if how.testbed:
        raise InputError(f"{store.directory} was started with a fleet", "continue it with --fleet, not --testbed")
    study, purpose = store.study, f"campaign {store.directory.resolve()}"
    file = fleets.fleet_of(store, how.fleet)
    with (
        fleets.hold_fleet(study, purpose, file, wait=how.wait, changed_host=how.changed_host, again=True) as fleet,
        _running_alone(store, how),
    ):
        fleet.wait_for_first(fleets.say_for)
        _reopen_invalid(store, how)
        _run_trials(store, partial(fleet.run, store, scenario_of(study)), "resumed", place)


@contextmanager
def _running_alone(store: Store, how: ResumeOptions | None = None) -> Iterator[None]:
    """Ensure that only this process runs the campaign, inside the block.

    The lock of this machine cannot ensure this if the testbeds are workers of a Dask scheduler. Raises, before anything
    is written: HostBusy when another process runs the campaign."""
    store.take(utc_now(), ended_elsewhere=how is not None and how.changed_host)
    try:
        yield
    finally:
        with suppress(LastroError):
            store.let_go()


def _reopen_invalid(store: Store, how: ResumeOptions) -> None:
    if how.invalid and (reopened := store.reopen_invalid()):
        store.log(utc_now(), "reopened", f"{reopened} invalid trials are tried again")


def schedule(study: Study) -> tuple[list[design.Treatment], Iterator[design.Trial]]:
    """Return the treatments of a study, and its trials in running order."""
    treatments = design.treatments(study)
    return treatments, design.trials(study, len(treatments))


def _run_trials(store: Store, run: Callable[[PlainProgress], None], event: str, place: Place) -> None:
    """Call `run` with a display of progress; log the `event` with which the campaign begins, and how it ends.

    `place` returns the campaign's position in a suite."""
    study = store.study
    counts = store.counts()
    total = sum(counts.values())
    headline = tuple((metric.name, metric.unit) for metric in study.metrics)
    if scenario_of(study).needs_root:
        _warn_of_low_priority()
    display = ProgressBar if sys.stderr.isatty() else PlainProgress
    observer = display(total, counts["valid"] + counts["invalid"], headline, place)
    store.log(utc_now(), event, f"{counts['pending'] + counts['running']} trials to run")
    try:
        with observer:
            run(observer)
    except KeyboardInterrupt as interrupt:
        _log_stop(store, "interrupted", type(interrupt).__name__)
        interrupt.args = (f"{_progress_text(store)}; continue with `lastro resume {store.directory}`",)
        raise
    except LastroError as error:
        _log_stop(store, "stopped", error.message)
        raise
    store.log(utc_now(), "finished", _progress_text(store))


@cache
def _warn_of_low_priority() -> None:
    """Say it if Lastro itself has a low priority, once for all campaigns of this process."""
    if why := facts.low_priority():
        say(
            f"Lastro itself has a low priority ({why}): what keeps the CPUs busy delays its commands, and trials may be"
            " invalid or take long; run it without nice, and `echo 0 >/proc/self/autogroup` resets that of a session"
        )


def _log_stop(store: Store, event: str, text: str) -> None:
    """Log why the campaign stopped, with the trials that were running marked as not run.

    It is not an error if this fails: if the database has failed, the caller already reports that."""
    with suppress(LastroError):
        store.withdraw_running()
        store.log(utc_now(), event, text)


def _progress_text(store: Store) -> str:
    counts = store.counts()
    return f"{counts['valid']} valid, {counts['invalid']} invalid, {counts['pending'] + counts['running']} to go"
