"""A fleet for tests: testbeds without hosts or processes, and a campaign of a toy scenario on them."""

from __future__ import annotations

import queue
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lastro.app.provenance import changed_facts
from lastro.campaign import fleet as fleets
from lastro.campaign.executor import Call, Executor
from lastro.campaign.fleet import Fleet
from lastro.campaign.testbed_worker import OpenedTestbed, WorkerFailure
from lastro.campaign.worker_pool import Answers
from lastro.errors import HostError, LastroError
from lastro.platforms.base import AVAILABLE, Availability
from lastro.results.samples import Metric, Outcome
from lastro.results.store import Store
from lastro.scenarios.base import Config, Scenario
from lastro.study import design
from lastro.study.model import Study

from .campaigns import make_study

SPEED = Metric("speed", "Mbit/s", "higher", "how fast")


class Toy(Scenario):
    """A scenario without a host. `gaps` are the levels that cannot run, `sick` those that are invalid."""

    name = "toy"
    summary = "for tests"
    needs_root = False
    metrics = (SPEED,)
    gaps: frozenset[str] = frozenset()
    sick: frozenset[str] = frozenset()

    @classmethod
    def duration_s(cls, config: Config) -> float:
        return 0.001

    @classmethod
    def calibrations(cls, config: Config) -> dict[str, Config]:
        return {"ceiling": {**config, "calibrates": True}} if "ceiling" in config else {}

    def calibration_value(self, key: str, outcome: Outcome) -> Any:
        return outcome.measurements["speed"]

    def availability(self, config: Config) -> Availability:
        return Availability("is not here", "install it") if config["level"] in self.gaps else AVAILABLE

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        reasons = ["sick"] if config["level"] in self.sick else []
        return Outcome({"speed": 100.0 + len(str(config["level"]))}, invalid_because=reasons)


class Silent:
    """An observer that keeps the lines on testbeds."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def said(self, testbed: str, line: str) -> None:
        self.lines.append(f"{testbed}: {line}")

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: None


@dataclass
class Pool:
    """Testbeds without processes. They answer in turns, and `fails` says what comes instead of the n-th answer."""

    beds: dict[str, Toy]
    fails: Callable[[str, int], Exception | None] = lambda testbed, n: None
    kernel: dict[str, str] = field(default_factory=dict)
    machines: dict[str, list[str]] = field(default_factory=dict)
    answers: Answers = field(default_factory=queue.SimpleQueue)
    asked: dict[str, list[Call]] = field(default_factory=lambda: defaultdict(list))
    n: Counter[str] = field(default_factory=Counter)
    open_now: set[str] = field(default_factory=set)
    silent: frozenset[str] = frozenset()  # they never open
    grows: bool = False

    def names(self) -> Sequence[str]:
        return list(self.beds)

    def open(self, testbed: str) -> None:
        assert testbed not in self.open_now
        host = {"hostname": testbed, "kernel": self.kernel.get(testbed, "6.1")}
        if testbed not in self.silent:
            self._answer(
                testbed, lambda: OpenedTestbed({"host": host, "machines": self.machines.get(testbed, [testbed])})
            )

    def ask(self, testbed: str, call: Call) -> None:
        assert testbed in self.open_now, "no call before it is open, and none after a failure"
        self.asked[testbed].append(call)
        self._answer(testbed, lambda: call.on(Executor(self.beds[testbed], Silent())))

    def _answer(self, testbed: str, answer: Callable[[], object]) -> None:
        self.n[testbed] += 1
        error = self.fails(testbed, self.n[testbed])
        (self.open_now.discard if error else self.open_now.add)(testbed)
        self.answers.put((testbed, WorkerFailure.of(error) if error else answer()))

    def release(self, testbed: str) -> None:
        self.open_now.discard(testbed)

    def close(self) -> None:
        pass


def beds(*names: str, **gaps: str) -> dict[str, Toy]:
    made = {name: Toy(None) for name in names}
    for name, level in gaps.items():
        made[name].gaps = frozenset({level})
    return made


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for what does not come."""
    monkeypatch.setattr(fleets, "_AGAIN_S", (0.0, 0.0))
    monkeypatch.setattr(fleets, "_TICK_S", 0.001)


def study_of(replicates: int = 6, levels: Iterable[str] = ("a", "b", "c"), **settings: Any) -> Study:
    return make_study(
        {"level": tuple(levels)}, replicates=replicates, metrics=(SPEED,), baseline={"level": "a"}, scenario="toy",
        settings=settings,
    )  # fmt: skip


@contextmanager
def campaign(place: Path, study: Study) -> Iterator[Store]:
    treatments = design.treatments(study)
    with Store.create(place, study, treatments, design.trials(study, len(treatments)), {}, fleet=True) as store:
        yield store


def run(store: Store, pool: Pool, **options: Any) -> Silent:
    observer, fleet = Silent(), Fleet(pool, changes=changed_facts, **options)
    fleet.wait_for_first(observer.said)
    fleet.run(store, Toy, observer)
    return observer


def on(store: Store) -> dict[int, set[str]]:
    """The testbeds of the valid attempts of each block."""
    found: dict[int, set[str]] = defaultdict(set)
    for attempt in store.attempts():
        if attempt.valid:
            found[attempt.block].add(attempt.testbed)
    return found


def lost(testbed: str, *at: int) -> Callable[[str, int], LastroError | None]:
    return lambda name, n: HostError("no route to host") if name == testbed and n in at else None


def stopped_after(store: Store, pool: Pool, answers: int) -> None:
    """Run a campaign, and kill it after so many answers of a testbed."""

    class Killed(Exception):
        pass

    def fails(testbed: str, n: int) -> LastroError | None:
        if n > answers:
            raise Killed
        return None

    pool.fails = fails
    with pytest.raises(Killed):
        run(store, pool)
