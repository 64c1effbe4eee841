"""Workloads in real instances: equal resources, two clocks, and an end with a reason whatever a tool does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lastro import registry
from lastro.errors import CommandTimeout, InstrumentError
from lastro.host.base import Host
from lastro.host.cgroups import Resources
from lastro.image.rootfs import Needs
from lastro.instruments.base import WORK_DIR, run_timed
from lastro.platforms.base import InstanceSpec
from lastro.results.samples import Outcome
from lastro.scenarios import _workload
from lastro.scenarios.base import PlatformPool
from lastro.scenarios.compute import ComputeScenario
from lastro.testbed import Testbed
from lastro.validity import ClockSample

pytestmark = pytest.mark.root

# Short versions of every workload that this host can run.
BRIEF = {
    "sysbench-cpu": {"primes": 1000, "time_s": 1},
    "sysbench-memory": {"block": "1M", "total": "256M"},
    "stream": {"array": "4M", "repeats": 3},
    "pi": {"digits": 100_000},
    "john": {"time_s": 1},
    "mbw": {"array": 8, "runs": 3},
    "gzip": {"size": "5M"},
}
PLATFORMS = ("native", "runc", "docker", "qemu-tcg")


def image_needs(host: Host) -> Needs:
    return ComputeScenario.image_needs(host, [{"instrument": name} for name in BRIEF])


@pytest.fixture(scope="module")
def scenario(testbed: Testbed) -> Iterator[ComputeScenario]:
    made = ComputeScenario(testbed)
    yield made
    made.close()


def config(platform: str, instrument: str, **more: Any) -> dict[str, Any]:
    """Tolerant of colleagues on the same machine."""
    defaults = {setting.name: setting.default for setting in ComputeScenario.settings}
    tolerant = {"max_foreign_cpus": 4096.0, "max_steal_percent": 100.0, "limit_s": 60.0, "memory": "512M"}
    brief = {f"instrument.{instrument}.{name}": value for name, value in BRIEF.get(instrument, {}).items()}
    return {
        **defaults,
        **tolerant,
        **brief,
        "platform": platform,
        "isolation": "none",
        "instrument": instrument,
        **more,
    }


def run(scenario: ComputeScenario, wanted: dict[str, Any]) -> Outcome:
    with scenario.attempt():
        return scenario.run(wanted, {})


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("instrument", BRIEF)
def test_a_workload_runs(scenario: ComputeScenario, testbed: Testbed, platform: str, instrument: str) -> None:
    wanted = config(platform, instrument)
    if platform != "qemu-tcg" or instrument == "sysbench-cpu":  # once for a platform that takes seconds to start
        found = scenario.availability(wanted)
        assert found, found
    mark = testbed.session.mark()
    outcome = run(scenario, wanted)
    assert outcome.valid, outcome.invalid_because
    assert testbed.session.mark() == mark, "nothing is left but what the platform was prepared with"
    values = outcome.measurements
    kind = registry.get("instrument", instrument)
    assert {"instance_cpus", "instance_memory", "host_cpus"} <= set(values)
    assert set(values) & {metric.name for metric in kind.metrics} or "dropped" in str(outcome.notes)
    assert ("time_host" in values) or "not timed on the host's clock" in outcome.notes
    assert 0 < values.get("time_host", 1e-6) < outcome.notes["elapsed_s"] + 0.001
    assert ("guest_cpus" in values) is (platform == "qemu-tcg")
    assert outcome.notes["workload"]["instrument"] == instrument
    assert outcome.notes["storage"]["file system"]


def test_resources_are_equal_and_seen_from_inside(testbed: Testbed, pool: PlatformPool) -> None:
    limits = Resources(cpus=1, cpuset="0", memory_bytes=256 << 20)
    for name in PLATFORMS:
        with pool.get(name).start(testbed, InstanceSpec(f"equal-{name}", "instance", resources=limits)) as instance:
            reasons, seen = _workload.unequal(testbed, instance)
            assert (reasons, seen["cpus"]) == ([], 1), name
            other = Resources(cpus=2, cpuset="0-1", memory_bytes=1 << 30)
            instance.spec = replace(instance.spec, resources=other)
            reasons, _ = _workload.unequal(testbed, instance)
            assert "the instance sees 1 CPUs instead of 2" in reasons
            assert any("memory" in reason for reason in reasons), name


def test_what_is_shorter_than_entering_the_instance_is_not_timed_from_outside(
    testbed: Testbed, pool: PlatformPool
) -> None:
    with pool.get("docker").start(testbed, InstanceSpec("short", "instance")) as instance:
        assert run_timed(instance, ["true"], 10).host_s is None
        timed = run_timed(instance, ["sleep", "1"], 10)
        assert timed.host_s is not None
        assert 0.8 < timed.host_s <= timed.done.duration_s


def test_two_cpus_are_two_everywhere(scenario: ComputeScenario) -> None:
    wanted = config("qemu-tcg", "sysbench-cpu", cpus=2) | {"instrument.threads": 2}
    outcome = run(scenario, wanted)
    assert outcome.valid, outcome.invalid_because


def test_more_cpus_than_the_host_has_are_unavailable(scenario: ComputeScenario) -> None:
    found = scenario.availability(config("native", "sysbench-cpu", cpus=4096))
    assert not found and "this host has" in str(found.reason)


def test_isolation_holds_and_limits_are_the_scenarios_own(scenario: ComputeScenario) -> None:
    assert run(scenario, config("runc", "sysbench-cpu", isolation="seccomp")).valid
    found = scenario.availability(config("runc", "sysbench-cpu", isolation="cgroups"))
    assert "limits" in str(found.reason)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_tool_that_misbehaves_ends_with_a_reason_and_its_instance_is_gone(
    testbed: Testbed, pool: PlatformPool, platform: str
) -> None:
    limits = Resources(cpus=1, cpuset="0", memory_bytes=192 << 20)
    mark = testbed.session.mark()
    with pool.get(platform).start(testbed, InstanceSpec("endless", "instance", resources=limits)) as instance:
        if platform in ("native", "qemu-tcg"):  # where a small disk may be mounted from inside
            small = f"mount -t tmpfs -o size=1M tmpfs {WORK_DIR}; cat /dev/zero > {WORK_DIR}/file"
            with pytest.raises(InstrumentError, match="sh filled the instance's disk"):
                run_timed(instance, ["sh", "-c", small], 60)
        with pytest.raises(InstrumentError, match="tail was killed: the instance has 192 MiB of memory"):
            run_timed(instance, ["tail", "/dev/zero"], 60)
        with pytest.raises(CommandTimeout, match="did not end within 1 s"):
            run_timed(instance, ["sh", "-c", "while :; do :; done"], 1)
    assert testbed.session.mark() == mark


def test_a_guest_whose_clock_runs_wrong_keeps_the_hosts_time_alone(
    scenario: ComputeScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The readings are shifted, as if the guest had lost a tenth of its time."""
    from lastro.platforms._guest import GuestInstance

    real = GuestInstance.clock

    def slow(self: Any) -> ClockSample:
        found = real(self)
        return ClockSample(found.host_s, 0.9 * found.host_s, found.guest_real_s, found.uncertainty_s)

    monkeypatch.setattr(GuestInstance, "clock", slow)
    outcome = run(scenario, config("qemu-tcg", "sysbench-cpu"))
    assert outcome.valid, outcome.invalid_because
    assert "time_host" in outcome.measurements and "instance_cpus" in outcome.measurements
    assert not {"time_tool", "cpu_events"} & set(outcome.measurements)
    note = outcome.notes["not timed by a good clock"]
    assert isinstance(note, dict) and "cpu_events" in note["dropped"] and "-10.0" in note["because"][0]


def test_versions_of_the_tools_are_told(testbed: Testbed) -> None:
    facts = ComputeScenario(testbed)
    try:
        found = facts.facts([config("native", name) for name in BRIEF])
    finally:
        facts.close()
    assert found["image_tools"]["sysbench-cpu"].startswith("sysbench 1.")
