"""The work of a campaign on a testbed: probes, calibrations, and attempts at trials. It uses no database.

A call is plain data, so it may come from another process (`campaign.testbed_worker`), and its answer may go there."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from lastro.campaign.outcomes import storable
from lastro.campaign.quiet import QuietHosts
from lastro.errors import HostError, TrialError
from lastro.platforms.base import Availability
from lastro.results.samples import Outcome
from lastro.scenarios.base import Config, Scenario

Event = tuple[str, str, str]  # UTC time, kind, text


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Watcher(Protocol):
    """A receiver of progress during a call."""

    def probing(self, treatment: int) -> None: ...
    def waiting(self, reasons: Sequence[str], left_s: float) -> None: ...
    def measuring(self) -> None: ...


@dataclass(frozen=True, slots=True)
class CalibrationResult:
    """The value of a calibration run, or the reason why it failed; `value` is None after a failure."""

    value: Any = None
    failed_because: str | None = None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """A finished attempt at a trial, with everything that is stored about it."""

    outcome: Outcome
    started_utc: str
    duration_s: float
    transcript: list[dict[str, Any]]
    events: tuple[Event, ...] = ()


@dataclass
class Executor:
    """Executes the calls of a campaign, one at a time, with the scenario that holds the testbed."""

    scenario: Scenario
    watcher: Watcher
    _events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._quiet = QuietHosts(self.scenario.sessions)

    def calibrate(self, key: str, config: Config, attempts: int, failed_attempts: int) -> CalibrationResult:
        """Run a calibration until it is valid, up to `attempts` times.

        `failed_attempts` is the number of failed attempts at the trial that needs this calibration: see
        `QuietHosts.wait`."""
        outcome, scenario = Outcome(), self.scenario.at(config)
        for failed in range(attempts):
            self._wait(config, failed + failed_attempts)
            with scenario.with_its_parts(), scenario.attempt():
                outcome = _outcome(scenario, config, {})
            if outcome.valid:
                try:
                    return CalibrationResult(scenario.calibration_value(key, outcome), None, self._drain_events())
                except TrialError as error:  # the run is valid, and does not have this result
                    return CalibrationResult(None, str(error), self._drain_events())
        return CalibrationResult(None, "; ".join(outcome.invalid_because), self._drain_events())

    def attempt(self, config: Config, calibrations: Mapping[str, Any], failed_attempts: int) -> AttemptResult:
        """Wait until the hosts are quiet, and run one attempt at a trial."""
        self._wait(config, failed_attempts)
        self.watcher.measuring()
        started_utc, started_s = utc_now(), time.monotonic()
        scenario = self.scenario.at(config)
        with scenario.with_its_parts():
            with scenario.attempt() as transcript:
                outcome = _outcome(scenario, config, calibrations)
            outcome.notes["residuals"] = scenario.residuals(config)
            preparation = [{**record, "prepares": True} for record in scenario.preparation(config)]
        took_s = time.monotonic() - started_s
        return AttemptResult(outcome, started_utc, took_s, preparation + transcript.records, self._drain_events())

    def _wait(self, config: Config, failed_attempts: int) -> None:
        """Wait until the hosts are quiet, up to the limit, and add an event if a wait was needed or failed.

        An unreachable host raises no error here; the attempt will report it."""
        try:
            waited = self._quiet.wait(config, failed_attempts, self.watcher.waiting)
        except (TrialError, HostError, OSError) as error:
            self._events.append((utc_now(), "not waited", str(error)))
            return
        if waited:
            self._events.append((utc_now(), "waited", waited.text))

    def _drain_events(self) -> tuple[Event, ...]:
        events, self._events = tuple(self._events), []
        return events


@dataclass(frozen=True, slots=True)
class ProbeCall:
    """A call for {index of a treatment: whether it can run on this testbed}; `configs` are {index: its settings}."""

    configs: Mapping[int, Config]

    def on(self, executor: Executor) -> dict[int, Availability]:
        availability = {}
        for treatment, config in self.configs.items():
            executor.watcher.probing(treatment)
            availability[treatment] = executor.scenario.availability_at(config)
        return availability


@dataclass(frozen=True, slots=True)
class ReachCall:
    """A call that runs a command that does nothing on each host, for True; TrialError if one does not answer."""

    def on(self, executor: Executor) -> bool:
        for scenario in executor.scenario.guests.values() or [executor.scenario]:
            for scenario_of_root in (scenario, *scenario.roots.values()):
                scenario_of_root.require_reachable()
        return True


@dataclass(frozen=True, slots=True)
class CalibrateCall:
    key: str
    config: Config
    attempts: int
    failed_attempts: int

    def on(self, executor: Executor) -> CalibrationResult:
        return executor.calibrate(self.key, self.config, self.attempts, self.failed_attempts)


@dataclass(frozen=True, slots=True)
class AttemptCall:
    config: Config
    calibrations: Mapping[str, Any]
    failed_attempts: int

    def on(self, executor: Executor) -> AttemptResult:
        return executor.attempt(self.config, self.calibrations, self.failed_attempts)


Call = ProbeCall | ReachCall | CalibrateCall | AttemptCall


def _outcome(scenario: Scenario, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
    """Run a trial and return its outcome; if a part fails, the outcome is invalid, and the campaign continues."""
    scenario.judge_apparatus(Outcome())  # discards windows of a probe
    try:
        outcome = scenario.run(config, calibrations)
    except (TrialError, HostError, OSError) as error:
        reasons = [str(error)]
        if isinstance(error.__context__, TrialError) and error.__context__ is not error.__cause__:
            reasons.append(f"after: {error.__context__}")  # the first error, if the clean-up failed, too
        return Outcome(invalid_because=reasons)
    outcome = storable(outcome)
    scenario.judge_apparatus(outcome)
    return outcome
