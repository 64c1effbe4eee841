"""Run a campaign: probe, then run one trial after the other; each is stored before the next begins."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from lastro.campaign.duration import EtaEstimator, configuration, pace_of
from lastro.campaign.quiet import Quiet
from lastro.errors import HostError, TrialError
from lastro.platforms.base import Availability
from lastro.results.columns import State
from lastro.results.rows import TrialRow
from lastro.results.samples import MAX_ATTEMPTS, Outcome
from lastro.results.store import Store
from lastro.scenarios.base import Config, Scenario
from lastro.study.design import Treatment


class Observer(Protocol):
    """A receiver of the progress of a campaign: a progress bar, plain lines, a test."""

    def probing(self, treatment: Treatment) -> None: ...
    def probed(self, runnable_trials: int) -> None: ...
    def extended(self, runnable_trials: int) -> None: ...
    def calibrating(self, key: str) -> None: ...
    def waiting(self, reasons: Sequence[str], left_s: float) -> None: ...
    def started(self, trial: TrialRow, treatment: Treatment, remaining_s: float) -> None: ...
    def finished(self, trial: TrialRow, outcome: Outcome, state: State, remaining_s: float) -> None: ...


def run(store: Store, scenario: Scenario, observer: Observer) -> None:
    """Run what remains of a campaign. If it ends early, finished trials are safe and the rest can be resumed.

    Raises: HostError when no treatment can run here; StoreError when a result cannot be written."""
    campaign = _Campaign(store, scenario, observer)
    campaign.probe()
    while True:
        while (trial := store.next_trial()) is not None:
            campaign.run_trial(trial)
        if not campaign.goes_on():
            return


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class _Campaign:
    def __init__(self, store: Store, scenario: Scenario, observer: Observer) -> None:
        self.store, self.scenario, self.observer = store, scenario, observer
        self.study = store.study
        rows = store.treatments()
        self.treatments = [row.treatment for row in rows]
        self._was_unavailable = {row.treatment.index for row in rows if row.unavailable}
        self.calibrations: dict[str, Any] = store.calibrations()
        self._not_found: dict[str, str] = {}  # calibrations that failed when they were last needed, and why
        self._quiet = Quiet(scenario.sessions)
        self.pace = EtaEstimator({}, {})  # until the probes have shown what can run

    def probe(self) -> None:
        """Find out what this host can run. Treatments that it cannot run stay in the plan, with the reason."""
        found: dict[int, Availability] = {}
        for treatment in self.treatments:
            self.observer.probing(treatment)
            found[treatment.index] = self.scenario.availability_at(configuration(self.study, treatment))
        for index, availability in found.items():
            if not availability:
                self.store.mark_unavailable(index, str(availability.reason), availability.remedy)
            elif index in self._was_unavailable:
                self.store.mark_available(index)
        counts = self.store.counts()
        self.pace = pace_of(self.store, type(self.scenario))
        self.observer.probed(sum(counts.values()) - counts["unavailable"])
        if not any(found.values()):
            reasons = "; ".join(sorted({str(availability.reason) for availability in found.values()}))
            raise HostError(f"no treatment of this study can run here: {reasons}", "`lastro doctor` shows what can")

    def run_trial(self, trial: TrialRow) -> None:
        """Run one attempt at one trial, from the journal entry to the transaction that stores it."""
        treatment = self.treatments[trial.treatment]
        config = configuration(self.study, treatment)
        self.store.begin(trial.number)
        problem = self._calibrate(config, trial.attempts)
        if not problem:
            self._wait(config, trial.attempts)
        self.observer.started(trial, treatment, self.pace.remaining_s)
        started_utc, started_s = utc_now(), time.monotonic()
        if problem:
            outcome, records = Outcome(invalid_because=[problem]), list[dict[str, Any]]()
        else:
            outcome, records = self._attempt(config)
        duration_s = time.monotonic() - started_s
        state = self.store.finish(
            trial.number, outcome, started_utc=started_utc, duration_s=duration_s, transcript=records
        )
        self.pace.note(trial.treatment, duration_s, final=state != "pending")
        self.observer.finished(trial, outcome, state, self.pace.remaining_s)

    def goes_on(self) -> bool:
        """Add a block if a sequential campaign needs one, and return whether it did. A fixed campaign never does."""
        if not self.study.design.sequential:
            return False
        from lastro.campaign.sequential import decision, reason

        found = decision(self.store)
        if found is None or found.stop:
            self.store.log(utc_now(), "sequential", "" if found is None else reason(found))
            return False
        self.store.add_block()
        counts = self.store.counts()
        self.pace = pace_of(self.store, type(self.scenario))
        self.observer.extended(sum(counts.values()) - counts["unavailable"])
        return True

    def _attempt(self, config: Config) -> tuple[Outcome, list[dict[str, Any]]]:
        scenario = self.scenario.at(config)
        with scenario.attempt() as transcript:
            outcome = _outcome(lambda: scenario.run(config, self._known(config)))
        outcome.notes["residuals"] = scenario.residuals(config)
        before = [{**record, "prepares": True} for record in scenario.preparation(config)]
        return outcome, before + transcript.records

    def _known(self, config: Config) -> dict[str, Any]:
        return {key: self.calibrations[key] for key in self.scenario.calibrations(config) if key in self.calibrations}

    def _wait(self, config: Config, failed_attempts: int) -> None:
        """Wait for quiet hosts, up to the limit. The attempt itself reports a host that is unreachable."""
        try:
            waited = self._quiet.wait(config, failed_attempts, self.observer.waiting)
        except (TrialError, HostError, OSError) as error:
            self.store.log(utc_now(), "not waited", str(error))
            return
        if waited:
            self.store.log(utc_now(), "waited", waited.text)

    def _calibrate(self, config: Config, failed_attempts: int) -> str | None:
        """Run the calibrations that the trial still lacks; return why one is impossible, or None."""
        for key, calibration_config in self.scenario.calibrations(config).items():
            if key not in self.calibrations and not (key in self._not_found and self.scenario.can_do_without(key)):
                self.observer.calibrating(key)
                self._find(key, calibration_config, failed_attempts)
            if key not in self.calibrations and not self.scenario.can_do_without(key):
                return f"no valid calibration run ({key}): {self._not_found[key]}"
        return None

    def _find(self, key: str, config: Config, failed_attempts: int) -> None:
        """Run a calibration, up to MAX_ATTEMPTS times when it is first needed.

        If it failed, it runs once more with each attempt at a trial that needs it: the cause of the failure, such as a
        busy host, may have ended."""
        outcome, scenario = Outcome(), self.scenario.at(config)
        for failed in range(1 if key in self._not_found else MAX_ATTEMPTS):
            self._wait(config, failed + failed_attempts)
            with scenario.attempt():
                outcome = _outcome(lambda: scenario.run(config, {}))
            if outcome.valid:
                self.calibrations[key] = scenario.calibration_value(key, outcome)
                self.store.save_calibration(key, self.calibrations[key])
                return
        self._not_found[key] = "; ".join(outcome.invalid_because)
        self.store.log(utc_now(), "not calibrated", f"{key}: {self._not_found[key]}")


def _outcome(run_trial: Callable[[], Outcome]) -> Outcome:
    """Run a trial and return its outcome: if a part fails, the trial is invalid, but the campaign goes on."""
    try:
        outcome = run_trial()
    except (TrialError, HostError, OSError) as error:
        reasons = [str(error)]
        if isinstance(error.__context__, TrialError) and error.__context__ is not error.__cause__:
            reasons.append(f"after: {error.__context__}")  # what went wrong first, when the clean-up failed too
        return Outcome(invalid_because=reasons)
    outcome.invalidate(_not_numbers(outcome))
    return outcome


def _not_numbers(outcome: Outcome) -> list[str]:
    """Report measurements that are not finite, which a broken tool may yield: one would make a mean meaningless."""
    return [f"{name} is {value}" for name, value in outcome.measurements.items() if not math.isfinite(value)]
