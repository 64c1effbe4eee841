"""Workloads in real instances: equal resources, two clocks, and an end with a reason whatever a tool does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from lastro import registry
from lastro.host.cgroups import Resources
from lastro.instruments.base import WORK_DIR, run_timed
from lastro.instruments.gzip import Gzip
from lastro.platforms.base import Instance, InstanceSpec, Platform
from lastro.results.samples import TOO_SHORT, Outcome
from lastro.scenarios.compute import ComputeScenario
from lastro.scenarios.shared.pools import PlatformPool
from lastro.scenarios.shared.resources import check_resources
from lastro.scenarios.shared.window import MeasuredWindow
from lastro.testbed import Testbed
from lastro.validity import apparatus_reasons

from ..support.products import one_of
from ..support.scenarios import attempted, configured, image_needs

pytestmark = pytest.mark.root
__all__ = ["image_needs"]  # what `testbed` builds

# Short versions of every workload that this host can run.
BRIEF: dict[str, dict[str, Any]] = {
    "sysbench-cpu": {"primes": 1000, "time_s": 1},
    "sysbench-memory": {"block": "1M", "total": "256M"},
    "stream": {"array": "4M", "repeats": 3},
    "pi": {"digits": 100_000},
    "john": {"time_s": 1},
    "mbw": {"array": 8, "runs": 3},
    "gzip": {"size": "5M"},
}
PLATFORMS = ("native", "runc", "docker", "qemu-tcg")
# What `make test` runs on each; all of them run on runc in their contract, and one more on a guest, below.
SHOWN = {"native": "stream", "runc": "gzip", "docker": "mbw"}


@pytest.fixture(scope="module")
def scenario(testbed: Testbed) -> Iterator[ComputeScenario]:
    with closing(ComputeScenario(testbed)) as made:
        yield made


def config(platform: str, instrument: str, **more: Any) -> dict[str, Any]:
    brief = {f"instrument.{instrument}.{name}": value for name, value in BRIEF.get(instrument, {}).items()}
    parts = {"platform": platform, "isolation": "none", "instrument": instrument}
    return configured(ComputeScenario, **{"limit_s": 60.0, "memory": "512M", **brief, **parts, **more})


def run(scenario: ComputeScenario, wanted: dict[str, Any]) -> Outcome:
    return attempted(scenario, wanted)


@pytest.mark.parametrize(
    ("platform", "instrument"),
    [
        pytest.param(platform, name, marks=() if SHOWN.get(platform) == name else pytest.mark.slow)
        for platform, name in product(PLATFORMS, BRIEF)
    ],
)
def test_a_workload_runs(scenario: ComputeScenario, testbed: Testbed, platform: str, instrument: str) -> None:
    wanted = config(platform, instrument)
    if platform != "qemu-tcg" or instrument == "stream":  # once for a platform that takes seconds to start
        found = scenario.availability(wanted)
        assert found, found
    mark = testbed.session.mark()
    outcome = run(scenario, wanted)
    assert outcome.valid, outcome.invalid_because
    assert testbed.session.mark() == mark, "nothing is left but what the platform was prepared with"
    values = outcome.measurements
    kind = registry.get("instrument", instrument)
    assert "instance_memory" in values
    # CPUs are over the time of the work, where it was longer than a message to an instance with another clock.
    assert all((name in values) is ("time_host" in values) for name in ("instance_cpus", "host_cpus"))
    assert set(values) & {metric.name for metric in kind.metrics} or "dropped" in str(outcome.notes)
    assert ("time_host" in values) or "no time on the host's clock" in str(outcome.notes["remarks"])
    assert 0 < values.get("time_host", 1e-6) < outcome.notes["elapsed_s"] + 0.001
    assert ("guest_memory" in values) is (platform == "qemu-tcg")
    assert ("guest_cpus" in values) is (platform == "qemu-tcg" and "dropped" not in str(outcome.notes))
    if platform == "qemu-tcg":  # two accounts: the guest's own, and that of the process which is the machine
        assert 0 < values.get("guest_cpus", 1) < 2, "it takes the time in which its host kept it waiting for its own"
        assert values["guest_memory"] < values["instance_memory"], "a monitor has its guest's memory, and its own"
    assert outcome.notes["workload"]["instrument"] == instrument
    assert outcome.notes["storage"]["file system"]


def test_gzip_leaves_nothing_to_be_written_later_and_tells_of_the_cache(testbed: Testbed, pool: PlatformPool) -> None:
    limits = Resources(cpus=1, cpuset="0", memory_bytes=256 << 20)
    with pool.get("native").start(testbed, InstanceSpec("packed", "instance", resources=limits)) as instance:
        tool = Gzip(size="2M", synced="yes")
        tool.prepare(instance)
        (remark,) = [each for each in tool.run(instance, 60).remarks if each.kind != TOO_SHORT]  # of 2 MB
        assert "may hide the disk" in remark.text and "gzip_ratio" not in remark.metrics
        assert instance.run(["ls", WORK_DIR]).text == ""


def test_resources_are_equal_and_seen_from_inside(testbed: Testbed, pool: PlatformPool) -> None:
    limits = Resources(cpus=1, cpuset="0", memory_bytes=256 << 20)
    for name in PLATFORMS:
        with pool.get(name).start(testbed, InstanceSpec(f"equal-{name}", "instance", resources=limits)) as instance:
            reasons, seen = check_resources(testbed, instance)
            assert (reasons, seen["seen inside"]["cpus"]) == ([], 1), name
            outside = seen["seen outside"]
            assert outside["cpuset.cpus"] == "0" and outside["CPUs allowed"] == (["0"] if outside["threads"] else [])
            assert outside["threads"] > 0 or name == "native"
            if name == "qemu-tcg":  # the machine's whole size, and no more than its firmware's tables less
                assert 252 << 20 <= seen["seen inside"]["machine_bytes"] <= 256 << 20
            other = Resources(cpus=2, cpuset="1", memory_bytes=300 << 20)
            instance.spec = replace(instance.spec, resources=other)
            reasons, _ = check_resources(testbed, instance)
            # A machine has so many CPUs; an instance on the host's kernel counts those that it may run on.
            assert ("the instance sees 1 CPUs instead of 2" in reasons) is (name == "qemu-tcg")
            assert any("memory" in reason for reason in reasons), name
            assert "cpuset.cpus of the instance is 0 instead of 1" in reasons
            assert any("_quota" in reason or "cpu.max" in reason for reason in reasons), name
            assert ("a thread of the instance may run on CPUs 0 instead of 1" in reasons) is (outside["threads"] > 0)
            instance.spec = replace(instance.spec, resources=replace(limits, cpuset="0-1"))
            reasons, _ = check_resources(testbed, instance)
            assert ("the instance sees 1 CPUs instead of 2" in reasons) is (name != "qemu-tcg")


def test_the_time_of_a_command_has_no_part_of_exec(testbed: Testbed, pool: PlatformPool) -> None:
    """Exec by Docker's daemon takes longer than the first command, which has a time all the same."""
    with pool.get("docker").start(testbed, InstanceSpec("short", "instance")) as instance:
        execs_s = min(instance.run(["true"]).duration_s for _ in range(3))
        # Other work may delay one command, but not every time.
        short = [run_timed(instance, ["true"], 10) for _ in range(5)]
        assert not any(timed.too_short for timed in short)
        assert 0 < min(timed.host_s for timed in short if timed.host_s is not None) < execs_s / 2
        timed = min((run_timed(instance, ["sleep", "1"], 10) for _ in range(3)), key=lambda each: each.done.duration_s)
        assert timed.host_s is not None and 1.0 <= timed.host_s == timed.done.duration_s < 1.0 + execs_s


@pytest.mark.slow
def test_in_a_machine_only_what_is_shorter_than_a_message_has_no_time(testbed: Testbed, pool: PlatformPool) -> None:
    with pool.get("qemu-tcg").start(testbed, InstanceSpec("short", "instance")) as instance:
        timed = run_timed(instance, ["sleep", "1"], 60)
        assert 0 < timed.message_s < 1 and timed.host_s is not None
        assert abs(timed.host_s - 1.0) < 0.5, "by the host's clock"
        short = [run_timed(instance, ["true"], 60) for _ in range(3)]
        assert all(each.too_short for each in short if each.host_s is None or each.host_s < 5 * each.message_s)


def watched(testbed: Testbed, instance: Instance, platform: Platform) -> MeasuredWindow:
    defaults = configured(ComputeScenario)
    return MeasuredWindow(testbed, {"instance": instance}, defaults, platform.own_cgroups, workload="instance")


@pytest.mark.parametrize("platform", one_of(PLATFORMS, "runc"))
def test_meters_and_peak_are_of_the_workload_alone(testbed: Testbed, pool: PlatformPool, platform: str) -> None:
    """Neither what was done before it, nor after it, nor exec into the instance, is its own."""
    limits = Resources(cpus=1, cpuset="0", memory_bytes=512 << 20)
    with pool.get(platform).start(testbed, InstanceSpec("watched", "instance", resources=limits)) as instance:
        greed = 200_000_000 if instance.shares_kernel else 40_000_000  # software takes its time
        greedy = ["sh", "-c", f"head -c {greed} /dev/zero | tail -c {greed} > /dev/null"]
        watch = watched(testbed, instance, pool.get(platform))
        instance.run(greedy)
        timed = run_timed(instance, ["sleep", "1"], 10, watch=watch)
        instance.run(greedy)
        watch.require_used("sleep")
        used = watch.usage.used["instance"]
        assert timed.done.duration_s <= watch.host.elapsed_s < timed.done.duration_s + 0.5
        assert used.cpu_s < (0.1 if instance.shares_kernel else 0.5), "the greedy ones take more than that"
        if instance.shares_kernel:
            assert testbed.cgroups.version == 2 or watch.fresh_peak
            assert used.memory_peak_bytes < 100 << 20 or not watch.fresh_peak
            assert instance.usage().memory_peak_bytes > 150 << 20, "the greedy one had it"


def test_no_client_of_a_daemon_works_while_a_workload_is_watched(testbed: Testbed, pool: PlatformPool) -> None:
    """So that none of its CPU time can look like foreign load: what Docker's clients use is used before and after."""
    with pool.get("docker").start(testbed, InstanceSpec("entered", "instance")) as instance:
        watch = watched(testbed, instance, pool.get("docker"))
        testbed.apparatus.drain()
        run_timed(instance, ["sleep", "2"], 60, watch=watch)
        (window,) = testbed.apparatus.drain()
        assert window.cpu_s is not None and window.elapsed_s <= watch.host.elapsed_s
        assert window.cpu_s < 0.1 * window.elapsed_s, "its clients rest"
        assert apparatus_reasons([window]) == []


@pytest.mark.slow
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


def test_a_guest_whose_clock_runs_wrong_keeps_the_hosts_time_alone(
    scenario: ComputeScenario, slow_guests: None
) -> None:
    outcome = run(scenario, config("qemu-tcg", "sysbench-cpu"))
    assert outcome.valid, outcome.invalid_because
    assert "time_host" in outcome.measurements and "instance_cpus" in outcome.measurements
    assert not {"time_tool", "cpu_events", "guest_cpus"} & set(outcome.measurements)
    remarks = outcome.notes["remarks"]
    assert isinstance(remarks, list)
    (remark,) = [each for each in remarks if each["kind"] == "wrong clock"]
    assert "cpu_events" in remark["metrics"] and "-10.0" in remark["text"]


def test_versions_of_the_tools_are_told(testbed: Testbed) -> None:
    facts = ComputeScenario(testbed)
    try:
        found = facts.facts([config("native", name) for name in BRIEF])
    finally:
        facts.close()
    assert found["image_tools"]["sysbench-cpu"].startswith("sysbench 1.")
