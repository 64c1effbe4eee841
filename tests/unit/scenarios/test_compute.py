"""What the scenario compute decides without a host: resources, clocks, and what an instance says of itself."""

from __future__ import annotations

import os
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro.errors import CommandTimeout, InputError, InstrumentError, Unavailable
from lastro.host.activity import HostTotals
from lastro.host.cgroups import Resources, Usage
from lastro.host.local import LocalHost
from lastro.instruments.gzip import Gzip
from lastro.instruments.pts import Pts
from lastro.instruments.sysbench_cpu import SysbenchCpu
from lastro.isolation.cgroups import CgroupLimits
from lastro.meters.host import HostMeter
from lastro.results.samples import Outcome, Reading, Remark
from lastro.scenarios import compute
from lastro.scenarios.compute import ComputeScenario, WorkloadProbes
from lastro.scenarios.shared.accounts import BY_HOST, METRICS, GuestCounters, with_usage_metrics
from lastro.scenarios.shared.clock_policy import judge_clock, note_unverified_clock
from lastro.scenarios.shared.resources import (
    _allowed,
    check_cpuset,
    expected_cpus,
    has_memory,
    require_no_limits,
    resources,
)
from lastro.scenarios.shared.window import MeasuredWindow
from lastro.testbed import Testbed
from lastro.validity import ClockDrift, ClockSample, drift

from ...support.recording import FakeInstance

DEFAULTS = {setting.name: setting.default for setting in ComputeScenario.settings}


@pytest.fixture(autouse=True)
def four_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which the second is not ours."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2, 3, 5})


def asked(role_cpus: str | None = None, **settings: Any) -> Resources:
    host: Any = SimpleNamespace(remote=False, name="local")
    nothing: Any = None
    testbed = Testbed(host, nothing, nothing, nothing, "dut", cpus=role_cpus)
    return resources({**DEFAULTS, **settings}, testbed)


# Resources


def test_an_instance_is_pinned_to_the_first_cpus_that_are_ours() -> None:
    assert asked() == Resources(cpus=1, cpuset="0", memory_bytes=1 << 30)
    assert asked(cpus=3).cpuset == "0,2-3"
    assert asked(cpus=2, cpuset="none") == Resources(cpus=2, memory_bytes=1 << 30)
    assert asked(cpus=2, cpuset="5,3").cpuset == "3,5"


def test_no_number_of_cpus_is_all_of_them() -> None:
    assert asked(cpus=0) == Resources(cpus=4, cpuset="0,2-3,5", memory_bytes=1 << 30)
    assert asked(cpus=0, cpuset="none") == Resources(cpus=4, memory_bytes=1 << 30)
    assert expected_cpus({**DEFAULTS, "cpus": 0}) == 4 and expected_cpus({**DEFAULTS, "cpus": 3}) == 3


def test_a_roles_own_cpus_are_all_that_its_instances_get() -> None:
    assert asked(role_cpus="1-3", cpus=2).cpuset == "2-3"
    assert asked(role_cpus="1-3", cpus=2, cpuset="none").cpuset == "1-3"
    with pytest.raises(Unavailable):
        asked(role_cpus="0-1", cpus=2)


@pytest.mark.parametrize("cpuset", ["0-1", "2", "2,3,5", "7,8"])
def test_other_cpus_than_the_host_has_or_the_study_counts_are_unavailable(cpuset: str) -> None:
    with pytest.raises(Unavailable, match=r"is not 2 of the CPUs 0,2-3,5"):
        asked(cpus=2, cpuset=cpuset)
    with pytest.raises(Unavailable, match="has 4 CPUs, but the study requires 5"):
        asked(cpus=5)


def test_memory_is_in_whole_mebibytes_as_machines_have_it() -> None:
    assert asked(memory="300.7M").memory_bytes == 300 << 20
    assert asked(memory="1K").memory_bytes == 1 << 20


def test_a_list_of_cpus_is_checked_before_anything_runs() -> None:
    check_cpuset("0-3,7")
    check_cpuset("auto")
    with pytest.raises(InputError, match="not a list of CPUs"):
        check_cpuset("all")


def test_an_isolation_with_limits_of_its_own_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="sets limits"):
        require_no_limits([CgroupLimits()])


# On a remote host


def test_threads_are_looked_at_where_they_run() -> None:
    """Remote processes have other numbers than ours: here there is at most somebody else's under the same."""
    view = _RemoteView({"/proc/1/task/1/status": "Name:\ta\nCpus_allowed_list:\t7\n", "/proc/1/task/9/status": ""})
    testbed: Any = SimpleNamespace(host=SimpleNamespace(view=view))
    assert _allowed(testbed, 1) == ["7"]
    assert _allowed(testbed, 2) == []


class _RemoteView:
    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def names(self, directory: str) -> list[str]:
        return [path.split("/")[4] for path in self.files if path.startswith(f"{directory}/")]

    def read(self, paths: list[str]) -> dict[str, str]:
        return {path: self.files[path] for path in paths}


@pytest.mark.parametrize("remote", [False, True])
def test_what_goes_into_the_image_is_required_of_the_host_that_makes_images(
    monkeypatch: pytest.MonkeyPatch, remote: bool
) -> None:
    asked_of: list[Any] = []

    def require(host: Any) -> None:
        asked_of.append(host)
        raise Unavailable("no compiler")

    tool, dut = SysbenchCpu(), cast(Any, SimpleNamespace(remote=remote))
    monkeypatch.setattr(tool, "require", require)
    probes = WorkloadProbes(cast(Any, SimpleNamespace(host=dut)))
    found = probes.availability("runc", tool, Resources(), lambda brief: pytest.fail("nothing starts without it"))
    assert found.reason == "no compiler"
    assert isinstance(asked_of[0], LocalHost) if remote else asked_of == [dut]


def test_a_probe_waits_as_long_as_the_workload_says_that_its_short_version_may_take() -> None:
    """A test of the Phoronix Test Suite has none: emulated, a whole run of it takes more than two minutes."""
    assert probe_limit_s(SysbenchCpu()) == 120
    assert probe_limit_s(Pts(runs=3)) == 3600


def probe_limit_s(tool: Any) -> float:
    limits: list[float] = []
    brief: Any = SimpleNamespace(
        prepared=lambda instance: nullcontext(), run=lambda instance, limit_s: limits.append(limit_s),
        probe_limit_s=tool.brief().probe_limit_s,
    )  # fmt: skip
    stand_in: Any = SimpleNamespace(require=lambda host: None, brief=lambda: brief)
    probes = WorkloadProbes(cast(Any, SimpleNamespace(host=SimpleNamespace(remote=False))))
    assert probes._probe(stand_in, lambda brief: nullcontext(cast(Any, None)))
    return limits[0]


# Clocks

READING = Reading({"time_host": 2.0, "time_tool": 1.9, "cpu_events": 100.0})


def judged(guest_s: float, reading: Reading = READING, tool: Any = None) -> Outcome:
    """Of a workload during which the guest's clock went on by so much while the host's did by 2 s."""
    outcome = Outcome()
    before, after = ClockSample(0, 0, 0, 1e-5), ClockSample(2, guest_s, guest_s, 1e-5)
    by_host = (tool or SysbenchCpu()).by_host_clock | BY_HOST
    judge_clock(reading, by_host, drift(before, after), 0.001, outcome)
    return outcome


def test_a_clock_that_runs_well_leaves_all_that_was_measured() -> None:
    outcome = judged(2.0001)
    assert outcome.measurements == READING.measurements
    assert outcome.valid and "remarks" not in outcome.notes


@pytest.mark.parametrize("guest_s", [1.98, 2.02, 20.0, 0.0])
def test_a_clock_that_runs_wrong_takes_the_tools_times_away_and_not_the_trial(guest_s: float) -> None:
    outcome = judged(guest_s)
    assert outcome.valid
    assert outcome.measurements == {"time_host": 2.0}
    (remark,) = cast(list[dict[str, Any]], outcome.notes["remarks"])
    assert (remark["kind"], remark["metrics"]) == ("wrong clock", ["cpu_events", "time_tool"])


def test_what_the_host_timed_stays_whatever_the_guests_clock_did() -> None:
    reading = Reading({"time_host": 2.0, "gzip_rate": 10.0, "gzip_ratio": 3.0})
    outcome = judged(20.0, reading, Gzip())
    assert outcome.measurements == reading.measurements
    assert "remarks" not in outcome.notes, "one without a metric would mark every number as dropped"
    assert outcome.notes["really"] == {"clock of the tool": "its own, which ran wrong: no metric depends on it"}


ACCOUNT = with_usage_metrics(
    Reading({"time_host": 2.0, "gzip_rate": 10.0}),
    Usage(cpu_s=3.0, memory_peak_bytes=64 << 20), 2.0,
    GuestCounters(1.0, 0.0, 0, 10.0), GuestCounters(2.0, 0.0, 32 << 20, 12.0),
)  # fmt: skip


def test_a_guest_counts_its_cpus_by_its_own_clock_and_its_memory_by_none() -> None:
    assert ACCOUNT.measurements == {
        "time_host": 2.0, "gzip_rate": 10.0,
        "instance_cpus": 1.5, "instance_memory": 64.0, "guest_cpus": 0.5, "guest_memory": 32.0,
    }  # fmt: skip
    assert judged(2.0, ACCOUNT, Gzip()).measurements == ACCOUNT.measurements
    wrong = judged(1.8, ACCOUNT, Gzip())
    assert set(ACCOUNT.measurements) - set(wrong.measurements) == {"guest_cpus"}
    assert [remark["metrics"] for remark in cast(list[dict[str, Any]], wrong.notes["remarks"])] == [["guest_cpus"]]
    assert BY_HOST | {"guest_cpus"} == {metric.name for metric in METRICS}


def measured(monkeypatch: pytest.MonkeyPatch, reading: Reading = READING, under: Any = (), **seen: Any) -> Outcome:
    """A trial whose workload yields this, on what lies `under` it; it is watched for 2.2 s, of which it takes 2 s."""
    host = HostMeter(cast(Any, None), {})
    host.elapsed_s = 2.2
    host.totals = HostTotals({"user": 2.0, "nice": 0.0, "system": 0.8, "idle": 1.6, "iowait": 0.0, "steal": 0.0}, {})
    host.own_user_s = host.own_cpu_s = host.daemons_user_s = 0.0
    tool, outcome = SysbenchCpu(), Outcome()
    nothing = cast(Any, SimpleNamespace(own_cgroups=(), shares_kernel=False, host=SimpleNamespace(name="here")))
    host.testbed = nothing
    window = MeasuredWindow(nothing, {"instance": nothing}, DEFAULTS, workload="instance")
    window.host, window.fresh_peak = host, True
    window.usage.before, window.usage.used = {"instance": Usage()}, {"instance": Usage(cpu_s=2.1, user_s=2.0)}
    window.guest, window.guest_after = GuestCounters(1.0, 0.0, 0, 10.0), GuestCounters(4.0, 0.0, 0, 14.0)
    vars(window).update(seen)
    monkeypatch.setattr(compute, "MeasuredWindow", lambda *around, workload: window)
    monkeypatch.setattr(tool, "run", lambda *how: reading)
    scenario = object.__new__(ComputeScenario)
    scenario._testbed = nothing
    scenario._measure(DEFAULTS, tool, nothing, {"instance": nothing}, dict(under), outcome)
    return outcome


def test_cpus_are_of_the_time_of_the_work_and_not_of_that_in_which_it_was_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Messages and readings of a guest are in the second one, and nothing else runs during them."""
    found = measured(monkeypatch).measurements
    assert found["time_host"] == 2.0
    assert found["instance_cpus"] == pytest.approx(2.1 / 2.0)
    assert found["host_cpus"] == pytest.approx(2.8 / 2.0)
    assert found["guest_cpus"] == pytest.approx(3.0 / 4.0), "a guest's is of its own time between its two readings"
    lost = measured(monkeypatch, Reading({"cpu_events": 1.0})).measurements
    assert not {"instance_cpus", "host_cpus"} & set(lost), "nobody knows the time that they would be of"


def test_a_disk_on_zfs_is_marked_by_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading({"time_host": 2.0, "rate": 1.0}, really={"page cache": "bypassed (O_DIRECT)"})
    outcome = measured(monkeypatch, reading, {"file system": "zfs"})
    remarks = cast(list[dict[str, Any]], outcome.notes["remarks"])
    assert {each["kind"]: each["metrics"] for each in remarks}["through a cache"] == ["time_host", "rate"]


@pytest.mark.parametrize("fresh", [True, False])
def test_a_trial_marks_what_is_not_of_the_workload_or_of_a_clock_that_is_right(
    monkeypatch: pytest.MonkeyPatch, fresh: bool
) -> None:
    """The peak of memory where the kernel keeps an older one, and what a slow guest counted by its clock."""
    outcome = measured(monkeypatch, drifts={"instance": ClockDrift(0.9, 0.0001)}, fresh_peak=fresh)
    by_host = {"time_host", "instance_cpus", "instance_memory", "guest_memory", "host_cpus", "host_steal"}
    assert set(outcome.measurements) == by_host
    marked = {each["kind"]: each["metrics"] for each in cast(list[dict[str, Any]], outcome.notes["remarks"])}
    assert marked.pop("wrong clock") == ["cpu_events", "guest_cpus", "time_tool"]
    assert marked == ({} if fresh else {"peak of a whole life": ["instance_memory"]})


def test_on_a_good_clock_a_tool_cannot_have_worked_longer_than_it_lived() -> None:
    outcome = judged(2.0, Reading({"time_host": 2.0, "time_tool": 3.0}))
    (reason,) = outcome.invalid_because
    assert "reports 3.000 s of work, but on the host's clock its process ran for only 2.000 s" in reason
    assert judged(20.0, Reading({"time_host": 2.0, "time_tool": 3.0})).valid, "the clock is known to be wrong"


def test_on_the_hosts_own_kernel_there_is_one_clock() -> None:
    outcome = Outcome()
    judge_clock(READING, SysbenchCpu.by_host_clock, None, 0.001, outcome)
    assert outcome.measurements == READING.measurements
    assert "clocks" not in outcome.notes


@pytest.mark.parametrize(
    ("drift", "shares_kernel", "words"),
    [
        (None, True, ""),
        (None, False, "cannot be compared"),
        (ClockDrift(1.0, 0.0005), False, ""),
        (ClockDrift(1.0, 0.02), False, "too coarsely: ± 2.000 % (limit 0.1 %)"),
        (
            ClockDrift(1.0015, 0.0009),
            False,
            "drifted by +0.150 % (± 0.090 %) relative to the host's, which may or may not be within",
        ),
        (
            ClockDrift(0.9985, 0.0009),
            False,
            "drifted by -0.150 % (± 0.090 %) relative to the host's, which may or may not be within",
        ),
        (ClockDrift(1.0005, 0.0004), False, ""),
    ],
)
def test_a_foreign_clock_that_nobody_can_vouch_for_is_told(drift: Any, shares_kernel: bool, words: str) -> None:
    outcome = Outcome({"time_host": 1.0, "cpu_events": 9.0})
    instance: Any = SimpleNamespace(shares_kernel=shares_kernel)
    note_unverified_clock(instance, {"time_host"}, drift, 0.001, outcome)
    remarks = cast(list[dict[str, Any]], outcome.notes.get("remarks", []))
    assert [remark["metrics"] for remark in remarks] == ([["cpu_events"]] if words else [])
    assert words in str(remarks)
    if shares_kernel:
        assert outcome.notes["really"] == {"clock of the tool": "the host's"}


@pytest.mark.parametrize(
    ("drift", "told"),
    [
        (ClockDrift(1.0005, 0.0004), "its own, within 0.1 % of the host's"),
        (ClockDrift(1.0015, 0.0009), "its own, not verified"),
        (ClockDrift(1.0015, 0.0004), "its own, which ran wrong: what it timed was dropped"),
    ],
)
def test_a_clock_is_within_the_limit_only_with_all_that_is_not_known_of_it(drift: ClockDrift, told: str) -> None:
    outcome, guest = Outcome(), cast(Any, SimpleNamespace(shares_kernel=False))
    judge_clock(READING, BY_HOST, drift, 0.001, outcome)
    note_unverified_clock(guest, BY_HOST, drift, 0.001, outcome)
    assert outcome.notes["really"] == {"clock of the tool": told}
    assert ("cpu_events" in outcome.measurements) is ("wrong" not in told)


def test_a_workload_too_short_for_the_hosts_clock_is_told() -> None:
    remark = Remark("too short to time", "no time on the host's clock", ("time_host",))
    outcome = judged(2.0, Reading({"cpu_events": 1.0}, remarks=(remark,)))
    assert outcome.valid
    remarks = cast(list[dict[str, Any]], outcome.notes["remarks"])
    named = [name for each in remarks for name in each["metrics"]]
    assert sorted(named) == ["host_cpus", "instance_cpus", "time_host"], "CPUs are over that time"


# What a guest says of itself


def test_two_readings_of_a_guest_are_seconds_between_them_and_memory_at_the_second() -> None:
    found = GuestCounters(12.0, 0.5, 7 << 20, 33.0).since(GuestCounters(10.5, 0.25, 9 << 20, 31.0))
    assert found == {"busy_s": 1.5, "stolen_s": 0.25, "elapsed_s": 2.0, "used_bytes": 7 << 20}


@pytest.mark.parametrize(
    ("usable_mib", "machine_mib", "enough"),
    [(200, 255.5, True), (200, 256, True), (200, 250, False), (200, 257, False),
     (160, 0, True), (150, 0, False), (257, 0, False)],
)  # fmt: skip
def test_a_machine_has_all_the_memory_that_it_was_given(usable_mib: int, machine_mib: float, enough: bool) -> None:
    """By what its firmware handed over, to 4 MiB; else by what its kernel has left."""
    assert has_memory(256 << 20, usable_mib << 20, int(machine_mib * 2**20)) is enough


def test_a_workload_that_ran_out_of_sight_is_no_measurement() -> None:
    watch = window({"instance": cast(Any, None)})
    with pytest.raises(InstrumentError, match="tool did not run under watch"):
        watch.require_used("tool")


def test_a_guest_counts_between_two_readings_of_its_clock() -> None:
    """Reading a clock many times is work, too: a guest of one CPU would have used more than it has."""
    order: list[str] = []

    def noted(what: str, found: Any = None) -> Any:
        order.append(what)
        return found

    text = "1.0 2.0\ncpu  1 2 3 4 5 6 7 8\nMemTotal:  9 kB\nMemAvailable:  4 kB\n"
    instance = guest(text, clock=lambda: noted("clock"), usage=lambda: noted("usage", Usage()))
    run = instance.run
    instance.run = lambda argv: noted("account", run(argv))
    watch = window({"instance": instance})
    with watch:
        order.append("work")
    assert order == ["clock", "account", "usage", "work", "usage", "account", "clock"]


def window(everyone: Any) -> MeasuredWindow:
    """A window of a workload, on a testbed whose cgroups have a peak of memory for each."""
    testbed: Any = SimpleNamespace(cgroups=SimpleNamespace(fresh_peak=lambda name: nullcontext(True)))
    made = MeasuredWindow(testbed, everyone, DEFAULTS, workload="instance")
    made.host = cast(Any, SimpleNamespace(start=lambda: None, stop=lambda: None))
    return made


def test_usage_is_counted_from_the_start_of_a_command_to_its_end() -> None:
    """Exec into the instance and the reading of the output use CPU time of the instance, before and after."""
    used = {"instance": 1.0, "server": 4.0}
    everyone: dict[str, Any] = {
        role: FakeInstance(usage=lambda role=role: Usage(cpu_s=used[role]), clock=lambda: None) for role in used
    }
    watch = window(everyone)
    used["instance"] += 0.5  # exec
    with watch:
        used["instance"], used["server"] = used["instance"] + 2.0, used["server"] + 1.0
    used["instance"] += 0.25  # the output comes out
    assert {role: each.cpu_s for role, each in watch.usage.used.items()} == {"instance": 2.0, "server": 1.0}
    watch.require_used("tool")
    assert watch.fresh_peak and watch.guest_after is None, "an instance on the host's kernel has no account of its own"


def test_a_watch_takes_no_second_reading_of_a_command_that_failed() -> None:
    """The instance may be gone: a new error would hide that of the command."""
    instance: Any = FakeInstance(usage=Usage, clock=lambda: None)
    watch = window({"instance": instance})
    with pytest.raises(CommandTimeout), watch:
        instance.usage = lambda: pytest.fail("it is gone")
        raise CommandTimeout(["work"], 1.0)
    assert watch.usage.used == {}


def guest(text: str, *, shares_kernel: bool = False, **more: Any) -> Any:
    run = lambda argv: SimpleNamespace(text=text)  # noqa: E731
    return SimpleNamespace(shares_kernel=shares_kernel, run=run, cgroup="/g", **more)


def test_a_guests_own_account() -> None:
    text = "61.25 118.00\ncpu  100 20 30 4000 50 6 7 8 0 0\nMemTotal:  1000 kB\nMemAvailable:  400 kB\n"
    found = GuestCounters.of(guest(text))
    assert found == GuestCounters(busy_s=1.63, stolen_s=0.08, used_bytes=600 << 10, up_s=61.25)
    assert GuestCounters.of(guest("")) is None
    assert GuestCounters.of(guest("1.0 2.0\ncpu a b\nMemTotal: x\nMemAvailable: y\n")) is None
    assert GuestCounters.of(guest("1.0 2.0\ncpu 1 2 3 4 5 6 7 8\nMemTotal:\nMemAvailable:\n")) is None
    assert GuestCounters.of(guest(text, shares_kernel=True)) is None
    nothing = "1.0 2.0\ncpu  0 0 0 0 0 0 0 0 0 0\nMemTotal:  1000 kB\nMemAvailable:  400 kB\n"
    assert GuestCounters.of(guest(nothing)) is None, "a kernel that does not count is not an idle one"
