"""What a trial of a network reads, and what it leaves out: whose CPU time, which packets, which moments, which file."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.errors import ConnectionLost, PlatformError
from lastro.functions.ospf import NeighbourChange
from lastro.host.cgroups import Usage
from lastro.host.moments import FileReadings, OwnCpu
from lastro.meters.host import HostMeter
from lastro.platforms._docker_instances import DockerInstance, KataInstance, RunscInstance
from lastro.platforms.base import Instance
from lastro.platforms.gvisor import GvisorInstance
from lastro.platforms.hypervisor import HypervisorInstance
from lastro.platforms.oci import OciInstance
from lastro.results.samples import GIVEN_BACK, Outcome
from lastro.results.trial_notes import remarks_of
from lastro.scenarios.routing import RoutingScenario, host_timeline, phase_recorder
from lastro.scenarios.routing.convergence import LifecycleRun
from lastro.scenarios.routing.host_timeline import HostReading, HostTimeline, Observers, _sample
from lastro.scenarios.routing.network import RouterNetwork
from lastro.scenarios.routing.phase_recorder import PhaseRecorder, fallen_s
from lastro.validity import ClockReading, ClockSample


def test_observers_are_no_part_of_any_phase_and_commands_of_the_boot_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(phase_recorder, "used_memory_bytes", lambda host: 0)
    moments = count()
    idle = lambda paths: FileReadings(next(moments), {"/proc/stat": "cpu  0 0 0 0 0 0 0 0\n"}, OwnCpu())  # noqa: E731
    testbed: Any = SimpleNamespace(host=SimpleNamespace(name="here", glance=idle), guest_controller=None)
    limits = {"max_steal_percent": 5.0, "max_foreign_cpus": 0.3}
    outcome = Outcome()
    # When, how many seconds the host was busy, the memory, how many seconds of these commands were.
    taken = iter((HostReading(at_s, busy_s, 3 << 20, commands_s) for at_s, busy_s, commands_s in (
        (0.0, 10.0, 1.0), (6.0, 12.1, 2.0), (10.0, 20.0, 7.0), (14.0, 22.0, 7.4),
    )))  # fmt: skip
    timeline = HostTimeline(lambda: next(taken), cpus=2)
    work = PhaseRecorder(testbed, limits, outcome, (), timeline)
    work.record_boot(1.0, 5.0, 0.1)
    with work.phase("recovery"):
        pass
    assert outcome.measurements == {
        "cpu_boot": pytest.approx(25), "cpu_recovery": pytest.approx(20),
        "memory_boot": 3.0, "memory_booted": 3.0, "memory_recovery": 3.0,
    }  # fmt: skip


def test_routers_that_the_hosts_proc_does_not_show_are_read_beside_it() -> None:
    """As those of Xen: the domain of the host sees neither their CPU time nor their memory."""
    used = iter((Usage(), Usage(cpu_s=6.0, memory_bytes=256 << 20)))
    platform: Any = SimpleNamespace(hidden_usage=lambda testbed: next(used), host_cpus=lambda testbed: 4)
    files = {
        "/proc/stat": "cpu  70 0 0 200 40 0 0 60 0 0\ncpu0 70 0 0 200 40 0 0 60 0 0\nintr 1\n",
        "/proc/meminfo": "MemTotal: 100 kB\nMemAvailable: 40 kB\n",
        "/watch": "1.5", "/proc/7/smaps_rollup": "Rss: 90 kB\nPss: 30 kB\n",
    }  # fmt: skip
    cgroups = SimpleNamespace(cpu_file=lambda group: f"/{group}", parse_cpu_s=float)
    host = SimpleNamespace(
        glance=lambda paths: FileReadings(4.0, {path: files[path] for path in paths}, OwnCpu(0, 0.5, 0, 2))
    )
    testbed: Any = SimpleNamespace(host=host, cgroups=cgroups)
    seen = Observers(testbed, "watch", platform, [7])
    before, after = _sample(seen), _sample(seen)
    assert (before.at_s, before.busy_s, before.commands_s) == (4.0, 1.0 - 1.5 - 0.5, 2)
    assert before.taken_bytes == 30 << 10, "without what the observer takes"
    assert after.busy_s - before.busy_s == pytest.approx(6.0)
    assert after.taken_bytes - before.taken_bytes == 256 << 20
    assert seen.cpus() == 4


@pytest.mark.processes
def test_a_time_series_of_a_host_that_is_lost_ends_with_that_error(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([HostReading(1.0, 0.0, 0.0)])

    def sample(observers: Any) -> HostReading:
        for reading in readings:
            return reading
        raise ConnectionLost("dut", "gone")

    monkeypatch.setattr(host_timeline, "_sample", sample)
    monkeypatch.setattr(host_timeline, "_EVERY_S", 0.01)
    observers: Any = SimpleNamespace(cpus=lambda: 2)
    with pytest.raises(ConnectionLost, match="gone"), host_timeline.recorded_timeline(observers) as timeline:
        time.sleep(0.2)
        assert timeline.taken_bytes(1.0, 1.0) == ()


def test_a_meter_of_a_remote_host_leaves_out_the_shells_and_servers_of_the_connection() -> None:
    """By the host's own clock: 4 s, in which the CPUs had 3 s in user mode, of which 1 s was theirs."""
    glances = iter([
        FileReadings(5000.0, {"/proc/stat": "cpu  100 0 0 900 0 0 0 0\n"}, OwnCpu(1.0, 1.5)),
        FileReadings(5004.0, {"/proc/stat": "cpu  400 0 0 1400 0 0 0 0\n"}, OwnCpu(2.0, 3.0)),
    ])  # fmt: skip
    testbed: Any = SimpleNamespace(guest_controller=None, host=SimpleNamespace(glance=lambda paths: next(glances)))
    meter = HostMeter(testbed, {})
    meter.start()
    meter.stop()
    assert (meter.elapsed_s, meter.own_cpu_s) == (4.0, 1.5)
    assert meter.foreign_cpus(instances_user_s=0.5) == pytest.approx((3.0 - 1.0 - 0.5) / 4)


def test_memory_grows_from_phase_to_phase_and_the_boot_is_over_once_the_cpu_stays_down() -> None:
    outcome = Outcome()
    taken = {"booted": 180.0, "regular": 226.0, "failure": 268.0, "recovery": 226.0}
    outcome.measurements |= {f"memory_{phase}": mib for phase, mib in taken.items()} | {"cpu_regular": 1.0}
    outcome.measurements["memory_boot"] = 90.0  # a mean over the rise from nothing, and no state of a network
    work: Any = object.__new__(PhaseRecorder)
    work.outcome = outcome
    busy = (100.0, 90.0, 2.0, 60.0, 4.0, 1.0, 8.0, 1.0, 1.0, 1.0)
    work.timeline = SimpleNamespace(cpu_percent=lambda from_s, until_s: busy)
    work.record_growth(0.0, 10.0)
    found = {name: outcome.measurements[name] for name in ("memory_growth", "memory_growth_failure", "memory_spread")}
    assert found == {
        "memory_growth": pytest.approx(25.56, abs=0.01),
        "memory_growth_failure": pytest.approx(18.58, abs=0.01),
        "memory_spread": pytest.approx(48.89, abs=0.01),
    }
    assert outcome.measurements["cpu_fallen"] == 4.0, "a second of 2 % before one of 60 % is not the end"
    assert fallen_s((100.0,) * 9, 6.0) is None


def test_memory_once_all_is_quiet_is_compared_with_that_of_regular_operation() -> None:
    """The last `quiet_s` alone: what the exchange after the links' return took is over by then."""
    work: Any = object.__new__(PhaseRecorder)
    work.outcome, work.config, work._empty_bytes = Outcome({"memory_regular": 200.0}), {"quiet_s": 8.0}, 50 << 20
    asked = []
    work.timeline = SimpleNamespace(mean_taken_bytes=lambda *period: asked.append(period) or (256 << 20))
    work.record_quiet(100.0)
    assert asked == [(92.0, 100.0)]
    assert work.outcome.measurements["memory_growth_after"] == pytest.approx(3.0)


def test_a_growth_that_other_programs_hid_is_dropped_with_the_reason() -> None:
    """On a busy host, a small network may seem to take a negative amount of memory."""
    work: Any = object.__new__(PhaseRecorder)
    work.outcome, work.config, work._empty_bytes = Outcome(), {"quiet_s": 8.0}, 256 << 20
    work.outcome.measurements |= {"memory_booted": 4.0, "memory_regular": 5.0, "memory_failure": -1.0}
    work.timeline = SimpleNamespace(mean_taken_bytes=lambda *period: 253 << 20)
    work.record_growth(0.0, 10.0)
    work.record_quiet(100.0)
    remarks = list(remarks_of(work.outcome.notes))
    assert [(each.kind, each.metrics) for each in remarks] == [
        (GIVEN_BACK, ("memory_growth_failure", "memory_failure")),
        (GIVEN_BACK, ("memory_spread",)),
        (GIVEN_BACK, ("memory_growth_after",)),
    ]
    assert remarks[0].text == (
        "the network took 5.0 MiB in regular operation, and -1.0 MiB in the failure: other programs gave memory back"
    )
    assert work.outcome.measurements["memory_growth"] == pytest.approx(25.0)


def test_what_other_programs_took_meanwhile_is_left_when_the_network_is_gone() -> None:
    work: Any = object.__new__(PhaseRecorder)
    work.outcome, work._empty_bytes = Outcome({"memory_regular": 200.0}), 50 << 20
    taken = {(7.0, 7.0): 30 << 20}
    work.timeline = SimpleNamespace(
        take=lambda: HostReading(7.0, 0.0, 0.0), mean_taken_bytes=lambda *period: taken[period]
    )
    work.record_drift()
    assert work.outcome.measurements["memory_drift"] == -20.0, "or gave back"


@pytest.mark.parametrize("starts_on_links", [False, True])
def test_instances_that_start_on_their_links_tell_of_neither_when_it_was_done(starts_on_links: bool) -> None:
    outcome = Outcome()
    work: Any = SimpleNamespace(
        outcome=outcome, record=outcome.measurements.__setitem__, record_boot=lambda *times: None
    )
    network: Any = SimpleNamespace(
        watch_cpu_s=0.0,
        marks={"begin": 1.0, "created": 1.5, "linked": 9.0, "booted": 10.0},
        instances=[SimpleNamespace(starts_on_links=starts_on_links)] * 2,
    )
    LifecycleRun(network, work)._record_boot()
    apart = {"created": 0.5, "links_made": 7500.0}
    assert outcome.measurements == {"boot": 9.0, **({} if starts_on_links else apart)}
    assert set(outcome.notes) == (set(apart) if starts_on_links else set())


def test_what_has_a_kernel_of_its_own_starts_on_its_links() -> None:
    kinds: list[type[Instance]] = [
        DockerInstance,
        GvisorInstance,
        HypervisorInstance,
        KataInstance,
        OciInstance,
        RunscInstance,
    ]
    assert [kind for kind in kinds if kind.starts_on_links] == [kind for kind in kinds if not kind.shares_kernel]


@pytest.mark.parametrize("failure", ["silent", "carrier", "none"])
def test_a_tree_has_no_link_to_spare_and_nothing_boots_to_find_that_out(failure: str) -> None:
    def probe(*parts: str) -> Any:
        raise AssertionError("that takes a start")

    scenario: Any = object.__new__(RoutingScenario)
    scenario._testbed = SimpleNamespace(host=SimpleNamespace(remote=False))
    scenario._probes = SimpleNamespace(platform=probe, attachment=probe)
    parts = {"platform": "runc", "attachment": "veth-bridge", "implementation": "frr"}
    timing = {"timers": "standard", "hello_s": 1, "quiet_s": 8.0, "failure": failure}
    if failure == "none":
        with pytest.raises(AssertionError, match="that takes a start"):
            scenario.availability({**parts, **timing, "topology": "1x3"})
        return
    found = scenario.availability({**parts, **timing, "topology": "1x3"})
    assert not found and "is a tree" in str(found.reason) and found.remedy == 'set failure = "none"'


def test_what_routers_log_by_the_hosts_wall_clock_goes_by_the_reading_that_is_nearest() -> None:
    """Over ten minutes the clock is brought back to the world's time by three tenths of a second."""
    network: Any = object.__new__(RouterNetwork)
    network.host_clocks, network.clocks = [ClockReading(100.0, 5000.0), ClockReading(700.0, 5600.3)], [[None], [None]]
    network.router = SimpleNamespace(
        log="x",
        changes=lambda log: [NeighbourChange(at_s, "eth0", "0.0.0.2", "Full") for at_s in (4999.0, 5001.0, 5599.3)],
    )
    network.testbed, network.instances = None, [SimpleNamespace(run=lambda *a, **k: SimpleNamespace(text=""))]
    assert [each.at_s for _, each in network.changes()] == pytest.approx([99.0, 101.0, 699.0])


def test_the_hosts_clock_is_read_beside_those_of_the_routers() -> None:
    network: Any = object.__new__(RouterNetwork)
    network.host_clocks, network.clocks = [], []
    network.testbed = SimpleNamespace(host=SimpleNamespace(clock=lambda: ClockSample(1.0, 2.0, 3.0, 0.0)))
    network.instances = [SimpleNamespace(clock=lambda: None)]
    for _ in range(2):
        network.read_clocks()
    assert network.host_clocks == [ClockReading(2.0, 3.0)] * 2 and len(network.clocks) == 2


def test_a_topology_file_that_was_changed_ends_a_trial_before_it_boots(tmp_path: Path) -> None:
    file, scenario = tmp_path / "ring.txt", object.__new__(RoutingScenario)
    file.write_text("a b\nb c\nc a\n")
    level = str(file)
    config = {"topology": level, "implementation": "frr", "platform": "native", "attachment": "ovs", "hello_s": 1}
    ((key, question),) = RoutingScenario.calibrations(config).items()
    assert RoutingScenario.duration_s(question) == 0
    known = {key: scenario.calibration_value(key, scenario.run(question, {}))}
    scenario._testbed = None
    scenario.pool = SimpleNamespace(get=_starts)  # type: ignore[assignment]
    with pytest.raises(LookupError, match="native starts"):
        scenario.run(config, known)
    file.write_text("a b\nb c\nc a\na d\n")
    with pytest.raises(
        PlatformError, match=r"ring\.txt' has changed since the campaign's first trial with it"
    ) as caught:
        scenario.run(config, known)
    assert caught.value.hint == "restore its text, or start another campaign"
    assert RoutingScenario.calibrations({**config, "topology": "3x3"}) == {}


def _starts(level: str) -> Any:
    raise LookupError(f"{level} starts")
