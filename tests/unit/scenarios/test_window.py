"""The measured window: what it reads, in which order, what it notes, and that no scenario measures without one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import registry, scenarios
from lastro.anomalies.base import Dose
from lastro.host.cgroups import Usage
from lastro.host.moments import FileReadings, OwnCpu
from lastro.results.samples import Outcome
from lastro.results.topology import TOPOLOGY
from lastro.scenarios.shared.disturbance import Disturbance
from lastro.scenarios.shared.window import MeasuredWindow
from lastro.validity import ClockSample

SCENARIOS = Path(scenarios.__file__).parent
WINDOW = SCENARIOS / "shared" / "window.py"
READINGS = {"HostMeter", "UsageMeter", "clock", "reading", "dose_since", "host_reasons", "drift_reasons", "judge_dose"}
ELSEWHERE = {  # deliberately
    "shared/host_limits.py": {"clock", "drift_reasons"},  # of hosts, over the whole trial
    "shared/clock_policy.py": {"drift_reasons"},  # drops what a workload timed by a wrong clock
    "routing/ospf_capture.py": {"clock"},  # of the host, to place packets in time
    "routing/network.py": {"clock", "drift_reasons"},  # of routers, outside of the exchanges that they disturb
}
LIMITS = {"max_steal_percent": 5.0, "max_foreign_cpus": 0.3}


def called(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    yield name


def test_only_the_window_reads_meters_clocks_and_doses() -> None:
    for file in SCENARIOS.rglob("*.py"):
        if file != WINDOW:
            assert set(called(file)) & READINGS <= ELSEWHERE.get(str(file.relative_to(SCENARIOS)), set()), file


@pytest.mark.parametrize("name", sorted(registry.names("scenario") - {"synthetic", "exposure"}))
def test_every_scenario_measures_in_a_window_and_judges_it(name: str) -> None:
    """Exposure alone measures nothing over time. Application measures as compute, and chain and load share a base."""
    package = SCENARIOS / {"application": "compute"}.get(name, name)
    names = {each for file in package.rglob("*.py") for each in called(file)}
    assert names & {"MeasuredWindow", "window"} and names & {"judge", "record_workload"}


class Seen:
    """A testbed with everything that a window may read; `order` has what was read."""

    guest_controller = None

    def __init__(self) -> None:
        self.order: list[str] = []
        self.now_s = 0.0
        self.host = self
        self.name = "here"
        self.cgroups = SimpleNamespace(usage=lambda group: Usage())

    def seen(self, what: str, found: Any = None) -> Any:
        self.order.append(what)
        self.now_s += 1.0
        return found

    def glance(self, paths: Any) -> FileReadings:
        return self.seen("host", FileReadings(self.now_s, {"/proc/stat": "cpu  0 0 0 0 0 0 0 0\n"}, OwnCpu()))

    def instance(self, role: str, *, guest: bool = False) -> Any:
        def clock() -> ClockSample | None:
            return self.seen("clock", ClockSample(self.now_s, self.now_s, self.now_s, 0.0) if guest else None)

        usage = lambda: self.seen("usage", Usage(cpu_s=self.now_s))  # noqa: E731
        return SimpleNamespace(clock=clock, usage=usage, spec=SimpleNamespace(role=role, resources=None), testbed=self)

    def disturbance(self, instance: Any, missed: str) -> Any:
        dose = Dose(1.0, 0.5, 0, 0, alive=True)
        neighbour = SimpleNamespace(
            instance=instance, demand=None, require_alive=lambda: self.seen("alive"),
            reading=lambda: self.seen("dose"), dose_since=lambda before: self.seen("dose", dose),
        )  # fmt: skip
        return Disturbance(neighbour, SimpleNamespace(unmet=lambda *of: missed))  # type: ignore[arg-type]


@pytest.mark.parametrize("missed", ["", "too little"])
def test_a_window_reads_from_the_outside_inwards_and_notes_all_of_it(missed: str) -> None:
    bed = Seen()
    everyone = {role: bed.instance(role, guest=role == "sink") for role in ("function", "sink", "neighbour")}
    counters = iter(({"packets": 1}, {"packets": 5}))
    links: Any = SimpleNamespace(name="bridge", counters=lambda testbed: bed.seen("links", next(counters)))
    window = MeasuredWindow(
        bed, everyone, {**LIMITS, "max_drift_percent": 0.1}, ("/daemon",), links=links,  # type: ignore[arg-type]
        disturbance=bed.disturbance(everyone["neighbour"], missed),
    )  # fmt: skip
    with window:
        bed.seen("work")
    inwards = ["dose", *["clock"] * 3, "links", *["usage"] * 3, "host"]
    assert bed.order == ["alive", *inwards, "work", "host", *["usage"] * 3, *["clock"] * 3, "links", "dose"]
    outcome = Outcome(notes={TOPOLOGY: {"nodes": [{"role": role} for role in everyone], "witnesses": ()}})
    window.judge(outcome)
    assert outcome.invalid_because == ([f"the anomaly missed its dose: {missed}"] if missed else [])
    assert outcome.notes.keys() == {TOPOLOGY, "host", "clocks", "links", "doses"}
    assert outcome.notes["clocks"].keys() == {"sink"}  # type: ignore[attr-defined]
    witnesses = outcome.notes[TOPOLOGY]["witnesses"]  # type: ignore[index]
    assert {each["name"] for each in witnesses} == {"clocks", "bridge", "usage", "host", "dose"}


def test_what_a_scenario_does_not_have_is_not_read() -> None:
    bed = Seen()
    with MeasuredWindow(bed, {"client": bed.instance("client", guest=True)}, LIMITS):  # type: ignore[arg-type]
        bed.seen("work")
    assert bed.order == ["usage", "host", "work", "host", "usage"], "no setting for the drift of a clock"
