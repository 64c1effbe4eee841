"""A scenario without a host: plain settings as factors, values from a hash, faults on demand.

It is a part like any other, found through LASTRO_PARTS=tests/parts, so that the whole campaign machinery can be tested
through the real command line, without root and in milliseconds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

from lastro import validity
from lastro.errors import ConnectionLost, HostError, InstrumentError
from lastro.host.base import Transcript
from lastro.host.local import LocalHost
from lastro.platforms.base import AVAILABLE, Availability
from lastro.results.samples import Metric, Outcome, Series
from lastro.scenarios.base import Config, Scenario
from lastro.study.model import Setting

FAULTS = (
    "none", "invalid-once", "always-invalid", "trial-error", "unavailable", "slow", "defect", "nonsense", "clock-jump",
    "leftover", "unreachable", "invalid-thrice",
)  # fmt: skip
IMPLEMENTATIONS = {"none": 0, "slow": -40, "near": 1, "fine": 30, "fast": 150}
CALIBRATIONS = ("none", "good", "bad", "late", "optional")
_PLAIN = ("implementation", "none")
SLOW_S = 0.5

LEVEL = Setting("level", "a", "moves the mean", choices=("a", "b", "c"))
STEP = Setting("step", 0, "moves the mean a little", 0, 1000)
IMPLEMENTATION = Setting(
    "implementation", "none", "moves the mean, and is a user's choice", choices=tuple(IMPLEMENTATIONS)
)
FAULT = Setting("fault", "none", "what goes wrong", choices=FAULTS)
CALIBRATION = Setting("calibration", "none", "a run that every trial needs first", choices=CALIBRATIONS)
COMMANDS = Setting("commands", 0, "commands that each trial runs", 0, 100)
TRIAL_S = Setting("trial_s", 0.0, "length of a trial", 0, 60)
SAMPLES = Setting("samples", 10, "length of the series that each trial yields", 0, 10_000_000)


class SyntheticScenario(Scenario):
    name = "synthetic"
    summary = "for tests: values from a hash, faults on demand"
    needs_root = False
    settings = (LEVEL, STEP, IMPLEMENTATION, FAULT, CALIBRATION, COMMANDS, TRIAL_S, SAMPLES)
    metrics = (
        Metric("speed", "Mbit/s", "higher", "how fast"),
        Metric("delay", "ms", "lower", "how late"),
    )

    def __init__(self, testbed: Any) -> None:
        super().__init__(testbed)
        self._runs: Counter[str] = Counter()
        self._leftover = False

    @classmethod
    def duration_s(cls, config: Config) -> float:
        return TRIAL_S.of(config) + (SLOW_S if FAULT.of(config) == "slow" else 0.001)

    def availability(self, config: Config) -> Availability:
        if FAULT.of(config) == "unavailable":
            return Availability("this fault cannot be had here", "choose another fault")
        if FAULT.of(config) == "unreachable":
            raise ConnectionLost("far-dut", "no route to host")
        return AVAILABLE

    @classmethod
    def calibrations(cls, config: Config) -> dict[str, Config]:
        if CALIBRATION.of(config) == "none":
            return {}
        faults = {"good": "none", "bad": "always-invalid", "late": "invalid-thrice", "optional": "always-invalid"}
        fault, name = faults[CALIBRATION.of(config)], "mark" if CALIBRATION.of(config) == "optional" else "ceiling"
        return {f"{name}/{LEVEL.of(config)}": {**config, "fault": fault, "calibration": "none"}}

    @classmethod
    def can_do_without(cls, key: str) -> bool:
        return key.startswith("mark/")

    def calibration_value(self, key: str, outcome: Outcome) -> Any:
        return outcome.measurements["speed"]

    @contextmanager
    def attempt(self) -> Iterator[Transcript]:
        with super().attempt() as transcript:
            yield transcript
        if self._leftover:
            raise HostError("mount /x cannot be removed: it is busy", "see what holds it, then `lastro resume`")

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        identity = str(sorted((name, value) for name, value in config.items() if (name, value) != _PLAIN))
        self._runs[identity] += 1
        clock = validity.ClockReading.now()
        time.sleep(self.duration_s(config) - 0.001 if FAULT.of(config) != "slow" else SLOW_S)
        for _ in range(COMMANDS.of(config)):
            LocalHost().run(["true"])
        outcome = _values(config, Random(f"{identity}{self._runs[identity]}"))
        outcome.notes["calibrations"] = dict(calibrations)
        self._leftover |= FAULT.of(config) == "leftover" and self._runs[identity] == 2
        outcome.invalidate(self._fault(FAULT.of(config), self._runs[identity]))
        after = validity.ClockReading.now()
        if FAULT.of(config) == "clock-jump" and self._runs[identity] == 1:
            after = validity.ClockReading(after.monotonic_s, after.realtime_s + 3600)
        outcome.invalidate(validity.clock_reasons(clock, after))
        return outcome

    def _fault(self, fault: str, run: int) -> list[str]:
        if fault == "trial-error":
            raise InstrumentError("the instrument printed 'gibberish'")
        if fault == "defect":
            raise ZeroDivisionError("a defect on purpose")
        if run <= {"always-invalid": run, "invalid-once": 1, "invalid-thrice": 3}.get(fault, 0):
            return [f"the host was disturbed (run {run})"]
        return []


def _values(config: Config, random: Random) -> Outcome:
    if FAULT.of(config) == "nonsense":
        return Outcome({"speed": float("nan"), "delay": float("inf")}, [Series("speed", "Mbit/s", (float("nan"),))])
    mean = {"a": 100.0, "b": 200.0, "c": 300.0}[LEVEL.of(config)] + STEP.of(config)
    mean += IMPLEMENTATIONS[IMPLEMENTATION.of(config)]
    samples = tuple(random.gauss(mean, 5) for _ in range(SAMPLES.of(config)))
    outcome = Outcome({"speed": random.gauss(mean, 5), "delay": 1000 / random.gauss(mean, 5)})
    outcome.series.append(Series("speed", "Mbit/s", samples))
    return outcome
