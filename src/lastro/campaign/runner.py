"""Run a campaign: probe, then run one trial after the other; each is stored before the next begins on its testbed.

The rules are in `TrialRunner`, for the trials of one testbed. Its generators yield calls of `campaign.executor` for the
testbed, and are sent the answers. So the same rules apply to a scenario in this process (`run`), and to the testbeds of
a fleet (`campaign.fleet`)."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from typing import Any, Protocol, TypeVar

from lastro.campaign import sequential
from lastro.campaign.duration import EtaEstimator, eta_estimator
from lastro.campaign.executor import (
    AttemptCall,
    AttemptResult,
    CalibrateCall,
    CalibrationResult,
    Call,
    Event,
    Executor,
    ProbeCall,
)
from lastro.campaign.executor import utc_now as utc_now
from lastro.errors import HostError
from lastro.platforms.base import Availability
from lastro.results.rows import State, TrialRow
from lastro.results.samples import MAX_ATTEMPTS, Outcome
from lastro.results.store import Store
from lastro.scenarios.base import Config, Scenario
from lastro.study.design import Treatment

T = TypeVar("T")
Steps = Generator[Call, Any, T]


class Observer(Protocol):
    """A receiver of the progress of a campaign: a progress bar, plain lines, a test.

    `at` is the name of the testbed in a fleet, else empty."""

    def probing(self, treatment: Treatment, at: str) -> None: ...
    def probed(self, runnable_trials: int) -> None: ...
    def extended(self, runnable_trials: int, why: str) -> None: ...
    def calibrating(self, key: str, at: str) -> None: ...
    def waiting(self, reasons: Sequence[str], left_s: float, at: str) -> None: ...
    def started(self, trial: TrialRow, treatment: Treatment, remaining_s: float, at: str) -> None: ...
    def finished(self, trial: TrialRow, outcome: Outcome, state: State, remaining_s: float, at: str) -> None: ...


def run(store: Store, scenario: Scenario, observer: Observer) -> None:
    """Run the remaining trials of a campaign. If this ends early, finished trials are stored, and it can be resumed.

    Raises: HostError when no treatment can run here; StoreError when a result cannot be written."""
    campaign = RunningCampaign(store, type(scenario), observer)
    runner = TrialRunner(campaign)
    executor = Executor(scenario, runner)
    campaign.probed(_execute(runner.probe(), executor))
    while True:
        while (trial := store.next_trial()) is not None:
            _execute(runner.run_trial(trial), executor)
        if not campaign.add_next_blocks():
            return


def _execute(steps: Steps[T], executor: Executor) -> T:
    """Run a runner's steps on this executor, one after the other; return the runner's result."""
    try:
        call = next(steps)
        while True:
            call = steps.send(call.on(executor))
    except StopIteration as end:
        result: T = end.value
        return result


class RunningCampaign:
    """The state of a campaign that its `TrialRunner`s share: its database, its time estimate and its observer.

    `kind` is the class of the scenario."""

    def __init__(self, store: Store, kind: type[Scenario], observer: Observer) -> None:
        self.store, self.kind, self.observer = store, kind, observer
        self.study = store.study
        rows = store.treatments()
        self.treatments = [row.treatment for row in rows]
        self._was_unavailable = {row.treatment.index for row in rows if row.unavailable}
        self.pace = EtaEstimator({}, {})  # until the probes have shown what can run
        self.runners = 1  # number of runners that work in parallel
        self._began_s = time.monotonic()
        self._passed_s = sum(took_s for _, took_s in store.durations()) / max(1, len(store.testbeds()))

    def probed(self, found: dict[int, Availability]) -> None:
        """Store whether each treatment is available; `found` are {index of a treatment: its availability}.

        Unavailable treatments stay in the plan, with the reason.

        Raises: HostError when no treatment is available."""
        for index, availability in found.items():
            if not availability:
                self.store.mark_unavailable(index, str(availability.reason), availability.remedy)
            elif index in self._was_unavailable:
                self.store.mark_available(index)
        self.observer.probed(self.runnable_trials())
        require_any(found)

    def runnable_trials(self) -> int:
        """Return the number of trials that can run or have run, and start a new estimate of the remaining time."""
        counts = self.store.counts()
        self.pace = eta_estimator(self.store, self.kind)
        return sum(counts.values()) - counts["unavailable"]

    @property
    def remaining_s(self) -> float:
        return self.pace.remaining_s / max(1, self.runners)

    def add_next_blocks(self) -> bool:
        """If the campaign must continue after all its trials have run, add a block for each runner; return whether."""
        if self.study.design.stopping == "fixed":
            return False
        if self.study.design.sequential:
            step = sequential.next_step(self.store)
        else:
            from lastro.campaign import deciding  # loads numpy

            decide = deciding.next_step if self.study.test is None else deciding.next_step_of_variants
            step = decide(self.store, utc_now(), self._passed_s + time.monotonic() - self._began_s)
        most = self.study.design.most_blocks - self.store.study.design.replicates
        with self.store.transaction():
            self.log([(utc_now(), kind, text) for kind, text in step.events])
            if step.look is not None:
                self.store.add_look(step.look)
            for _ in range(0 if step.stop else min(max(1, self.runners), max(1, most))):
                self.store.add_block(step.kept)
        if not step.stop:
            self.observer.extended(self.runnable_trials(), step.why)
        return not step.stop

    def log(self, events: Sequence[Event]) -> None:
        for event in events:
            self.store.log(*event)


def require_any(found: dict[int, Availability]) -> None:
    """Raise HostError unless a treatment is available."""
    if not any(found.values()):
        reasons = "; ".join(sorted({str(availability.reason) for availability in found.values()}))
        raise HostError(f"no treatment of this study can run here: {reasons}", "`lastro doctor` shows what can")


class TrialRunner:
    """Runs the trials of one testbed, one after the other; `testbed` is its name in a fleet, else empty.

    As the executor's watcher, it passes progress to the observer."""

    def __init__(self, campaign: RunningCampaign, testbed: str = "") -> None:
        self.campaign, self.observer, self.testbed = campaign, campaign.observer, testbed
        self.store, self.kind = campaign.store, campaign.kind
        self.calibrations: dict[str, Any] = self.store.calibrations(testbed)
        self._failures: dict[str, str] = {}  # by calibration: the reason why it failed when it was last needed
        self._trial: TrialRow | None = None

    def probe(self) -> Steps[dict[int, Availability]]:
        """Probe the testbed, and return the availability of each treatment by its index."""
        configs = {row.index: self.campaign.study.config(row.levels) for row in self.campaign.treatments}
        availability: dict[int, Availability] = yield ProbeCall(configs)
        return availability

    def run_trial(self, trial: TrialRow) -> Steps[None]:
        """Run one attempt at a trial: mark the trial as running, calibrate if needed, measure, and store the result."""
        self._trial = trial
        config = self.campaign.study.config(self.campaign.treatments[trial.treatment].levels)
        self.store.begin(trial.number)
        problem = yield from self._calibrate(config, trial.attempts)
        if problem:
            self.measuring()
            done = AttemptResult(Outcome(invalid_because=[problem]), utc_now(), 0.0, [])
        else:
            needed = [key for key in self.kind.calibrations(config) if key in self.calibrations]
            done = yield AttemptCall(config, {key: self.calibrations[key] for key in needed}, trial.attempts)
        self.campaign.log(done.events)
        state = self.store.finish(
            trial.number, done.outcome, started_utc=done.started_utc, duration_s=done.duration_s,
            transcript=done.transcript,
        )  # fmt: skip
        self.campaign.pace.note(trial.treatment, done.duration_s, final=state != "pending")
        self.observer.finished(trial, done.outcome, state, self.campaign.remaining_s, self.testbed)

    def _calibrate(self, config: Config, failed_attempts: int) -> Steps[str | None]:
        """Run the calibrations that a trial needs and that the testbed does not have yet, and store their values.

        Return why a required calibration failed; None if the trial can run."""
        for key, calibration_config in self.kind.calibrations(config).items():
            optional = self.kind.can_do_without(key)
            if key not in self.calibrations and not (key in self._failures and optional):
                self.observer.calibrating(key, self.testbed)
                # After a failure, it runs once with each attempt at a trial that needs it, since the cause, such as a
                # busy host, may have ended.
                attempts = 1 if key in self._failures else MAX_ATTEMPTS
                result: CalibrationResult = yield CalibrateCall(key, calibration_config, attempts, failed_attempts)
                self.campaign.log(result.events)
                if result.failed_because is None:
                    self.calibrations[key] = result.value
                    self.store.save_calibration(key, result.value, self.testbed)
                else:
                    self._failures[key] = result.failed_because
                    prefix = f"testbed {self.testbed}: " if self.testbed else ""
                    self.store.log(utc_now(), "not calibrated", f"{prefix}{key}: {result.failed_because}")
            if key not in self.calibrations and not optional:
                return f"no valid calibration run ({key}): {self._failures[key]}"
        return None

    # Reports of the executor

    def probing(self, treatment: int) -> None:
        self.observer.probing(self.campaign.treatments[treatment], self.testbed)

    def waiting(self, reasons: Sequence[str], left_s: float) -> None:
        self.observer.waiting(reasons, left_s, self.testbed)

    def measuring(self) -> None:
        if (trial := self._trial) is not None:
            treatment, left_s = self.campaign.treatments[trial.treatment], self.campaign.remaining_s
            self.observer.started(trial, treatment, left_s, self.testbed)
