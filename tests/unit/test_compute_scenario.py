"""What the scenario compute decides without a host: resources, clocks, and what an instance says of itself."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.errors import InputError, Unavailable
from lastro.host.cgroups import Resources
from lastro.instruments.gzip import Gzip
from lastro.instruments.sysbench_cpu import SysbenchCpu
from lastro.isolation.cgroups import Cgroups
from lastro.results.samples import Outcome, Reading
from lastro.scenarios import _workload
from lastro.scenarios._workload import GuestAccount, judge_clock, resources
from lastro.scenarios.compute import ComputeScenario
from lastro.validity import ClockSample

DEFAULTS = {setting.name: setting.default for setting in ComputeScenario.settings}


@pytest.fixture(autouse=True)
def four_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which the second is not ours."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2, 3, 5})


def asked(**settings: Any) -> Resources:
    return resources({**DEFAULTS, **settings})


# Resources


def test_an_instance_is_pinned_to_the_first_cpus_that_are_ours() -> None:
    assert asked() == Resources(cpus=1, cpuset="0", memory_bytes=1 << 30)
    assert asked(cpus=3).cpuset == "0,2-3"
    assert asked(cpus=2, cpuset="none") == Resources(cpus=2, memory_bytes=1 << 30)
    assert asked(cpus=2, cpuset="5,3").cpuset == "3,5"


@pytest.mark.parametrize("cpuset", ["0-1", "2", "2,3,5", "7,8"])
def test_other_cpus_than_the_host_has_or_the_study_counts_are_unavailable(cpuset: str) -> None:
    with pytest.raises(Unavailable, match=r"is not 2 of the CPUs 0,2-3,5"):
        asked(cpus=2, cpuset=cpuset)
    with pytest.raises(Unavailable, match="has 4 CPUs, and the study asks for 5"):
        asked(cpus=5)


def test_memory_is_in_whole_mebibytes_as_machines_have_it() -> None:
    assert asked(memory="300.7M").memory_bytes == 300 << 20
    assert asked(memory="1K").memory_bytes == 1 << 20


def test_a_list_of_cpus_is_checked_before_anything_runs() -> None:
    _workload.check_cpuset("0-3,7")
    _workload.check_cpuset("auto")
    with pytest.raises(InputError, match="no list of CPUs"):
        _workload.check_cpuset("all")


def test_an_isolation_with_limits_of_its_own_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="sets limits"):
        _workload.without_limits([Cgroups()])


# Clocks

READING = Reading({"time_host": 2.0, "time_tool": 1.9, "cpu_events": 100.0})


def judged(guest_s: float, reading: Reading = READING, tool: Any = None) -> Outcome:
    """Of a workload during which the guest's clock went on by so much while the host's did by 2 s."""
    outcome = Outcome()
    before, after = ClockSample(0, 0, 0, 1e-5), ClockSample(2, guest_s, guest_s, 1e-5)
    judge_clock(tool or SysbenchCpu(), reading, before, after, 0.001, outcome)
    return outcome


def test_a_clock_that_runs_well_leaves_all_that_was_measured() -> None:
    outcome = judged(2.0001)
    assert outcome.measurements == READING.measurements
    assert outcome.valid and "not timed by a good clock" not in outcome.notes


@pytest.mark.parametrize("guest_s", [1.98, 2.02, 20.0, 0.0])
def test_a_clock_that_runs_wrong_takes_the_tools_times_away_and_not_the_trial(guest_s: float) -> None:
    outcome = judged(guest_s)
    assert outcome.valid
    assert outcome.measurements == {"time_host": 2.0}
    note: Any = outcome.notes["not timed by a good clock"]
    assert note["dropped"] == ["cpu_events", "time_tool"]


def test_what_the_host_timed_stays_whatever_the_guests_clock_did() -> None:
    reading = Reading({"time_host": 2.0, "gzip_rate": 10.0, "gzip_ratio": 3.0})
    assert judged(20.0, reading, Gzip()).measurements == reading.measurements


def test_on_a_good_clock_a_tool_cannot_have_worked_longer_than_it_lived() -> None:
    outcome = judged(2.0, Reading({"time_host": 2.0, "time_tool": 3.0}))
    assert "worked for 3.000 s, and lived for 2.000 s" in outcome.invalid_because[0]
    assert judged(20.0, Reading({"time_host": 2.0, "time_tool": 3.0})).valid, "the clock is known to be wrong"


def test_on_the_hosts_own_kernel_there_is_one_clock() -> None:
    outcome = Outcome()
    judge_clock(SysbenchCpu(), READING, None, None, 0.001, outcome)
    assert outcome.measurements == READING.measurements
    assert "clocks" not in outcome.notes


def test_a_workload_too_short_for_the_hosts_clock_is_told() -> None:
    outcome = judged(2.0, Reading({"cpu_events": 1.0}))
    assert outcome.valid and "not timed on the host's clock" in outcome.notes


# What a guest says of itself


def guest(text: str, *, shares_kernel: bool = False) -> Any:
    return SimpleNamespace(shares_kernel=shares_kernel, run=lambda argv: SimpleNamespace(text=text))


def test_a_guests_own_account() -> None:
    text = "cpu  100 20 30 4000 50 6 7 8 0 0\nMemTotal:  1000 kB\nMemAvailable:  400 kB\n"
    found = GuestAccount.of(guest(text))
    assert found == GuestAccount(busy_s=1.63, stolen_s=0.08, used_bytes=600 << 10)
    assert GuestAccount.of(guest("")) is None
    assert GuestAccount.of(guest("cpu a b\nMemTotal: x\nMemAvailable: y\n")) is None
    assert GuestAccount.of(guest("cpu 1 2 3 4 5 6 7 8\nMemTotal:\nMemAvailable:\n")) is None
    assert GuestAccount.of(guest(text, shares_kernel=True)) is None
    nothing = "cpu  0 0 0 0 0 0 0 0 0 0\nMemTotal:  1000 kB\nMemAvailable:  400 kB\n"
    assert GuestAccount.of(guest(nothing)) is None, "a kernel that does not count is not an idle one"
