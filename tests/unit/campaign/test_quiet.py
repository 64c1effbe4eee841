"""Waiting for a quiet host, with a host and a clock that follow a script."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.campaign.quiet import QuietHosts, QuietWait
from lastro.host import activity
from lastro.host.base import Completed, Transcript
from lastro.host.local import LocalHost

pytestmark = pytest.mark.processes

TICKS = os.sysconf("SC_CLK_TCK")
LIMITS = {"max_steal_percent": 5.0, "max_foreign_cpus": 0.3, "max_wait_s": 120.0}
COMPILER, DAEMON = 4711, 4712

Load = Callable[[float], float]  # CPUs at a time


def nothing(at_s: float) -> float:
    return 0.0


def between(start_s: float, end_s: float, cpus: float) -> Load:
    return lambda at_s: cpus if start_s <= at_s < end_s else 0.0


class Script:
    """A host with two CPUs whose load is given; time passes only in `sleep`."""

    remote = False
    name = "edge"

    def __init__(self, *, foreign: Load = nothing, own: Load = nothing, steal: Load = nothing, io: Load = nothing):
        self._loads = {"foreign": foreign, "own": own, "steal": steal, "io": io}
        self.now_s, self.used = 0.0, dict.fromkeys(self._loads, 0.0)
        self.host, self.told = self, list[tuple[tuple[str, ...], float]]()

    def sleep(self, seconds: float) -> None:
        for _ in range(round(seconds * 100)):
            for name, load in self._loads.items():
                self.used[name] += 0.01 * load(self.now_s)
            self.now_s += 0.01

    def recorded(self) -> Any:
        return LocalHost("script").recorded(Transcript())

    def run(self, argv: list[str], check: bool = True) -> Completed:
        ticks = {name: round(seconds * TICKS) for name, seconds in self.used.items()}
        user = ticks["foreign"] + ticks["own"]
        idle = round(2 * self.now_s * TICKS) - user - ticks["steal"]
        lines = [
            f"/proc/stat:cpu  {user} 0 0 {idle} 0 0 0 {ticks['steal']} 0 0",
            f"/proc/pressure/io:some avg10=0.00 avg60=0.00 avg300=0.00 total={round(self.used['io'] * 1e6)}",
            _stat(COMPILER, "cc1 (x) y", ticks["foreign"]),
            _stat(DAEMON, "dockerd", ticks["own"]),
        ]
        return Completed(tuple(argv), 0, "\n".join(lines).encode(), b"", self.now_s, 0.0)

    def pids(self) -> set[int]:
        return {DAEMON}

    def tell(self, reasons: Any, left_s: float) -> None:
        self.told.append((tuple(reasons), left_s))


def _stat(pid: int, name: str, ticks: int) -> str:
    return f"/proc/{pid}/stat:{pid} ({name}) S 1 1 1 0 -1 4194560 0 0 0 0 {ticks} 7 0 0 20 0 1 0 100 0 0"


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Callable[..., QuietWait | None]:
    """Wait on a scripted host, and return what came of it."""
    quiets: dict[int, QuietHosts] = {}

    def wait(script: Script, failed_attempts: int = 0, **limits: Any) -> QuietWait | None:
        monkeypatch.setattr(activity, "time", SimpleNamespace(monotonic=lambda: script.now_s))
        session: Any = script
        made = QuietHosts([session], sleep=script.sleep, clock=lambda: script.now_s)
        return quiets.setdefault(id(script), made).wait(LIMITS | limits, failed_attempts, script.tell)

    return wait


def test_a_quiet_host_costs_a_glance(waiting: Callable[..., QuietWait | None]) -> None:
    script = Script(foreign=between(0, 99, 0.2))
    assert waiting(script) is None
    assert script.now_s == pytest.approx(0.25)
    assert script.told == []


def test_load_is_waited_for_and_whose_it_is_is_told(waiting: Callable[..., QuietWait | None]) -> None:
    script = Script(foreign=between(0, 60, 1.0))
    found = waiting(script)
    assert found is not None and not found.in_vain
    assert 62 <= found.waited_s <= 64, "two quiet seconds after it"
    reason = f"other processes used 1.00 CPUs (limit 0.3; cc1 (x) y, process {COMPILER}: 1.00 CPUs)"
    assert script.told[5][0] == (reason,)
    lefts = [left_s for _, left_s in script.told]
    assert lefts == sorted(lefts, reverse=True) and 119 < lefts[0] < 120
    assert found.text.startswith(f"waited {found.waited_s:.0f} s until the host was quiet: other processes used ")


def test_steal_and_a_busy_disk_are_waited_for_too(waiting: Callable[..., QuietWait | None]) -> None:
    found = waiting(Script(steal=between(0, 10, 0.5)))
    assert found is not None and "stolen by its hypervisor (limit 5 %)" in found.text
    found = waiting(Script(io=between(0, 10, 0.5)))
    assert found is not None and "processes waited for io 50 % of the time (limit 20 %)" in found.text


def test_daemons_of_platforms_are_no_foreign_load(waiting: Callable[..., QuietWait | None]) -> None:
    script = Script(own=between(0, 99, 1.0))
    assert waiting(script) is None
    assert script.told == []
    both = Script(own=between(0, 10, 0.5), foreign=between(0, 10, 0.5))
    found = waiting(both)
    assert found is not None and "other processes used 0.5" in both.told[0][0][0], "not 1.0"


def test_after_failed_attempts_the_host_must_be_quiet_for_longer(waiting: Callable[..., QuietWait | None]) -> None:
    script = Script()
    assert waiting(script, 1) is None
    assert script.now_s == pytest.approx(4, abs=0.3)
    assert waiting(script, 2) is None
    assert script.now_s == pytest.approx(4 + 8, abs=0.6)


def test_a_wait_in_vain_ends_at_the_limit_and_the_next_is_half_as_long(
    waiting: Callable[..., QuietWait | None],
) -> None:
    script = Script(foreign=between(0, 190, 2.0))
    waits = [waiting(script) for _ in range(3)]
    assert [found is not None and found.in_vain for found in waits] == [True, True, False]
    assert [found and round(found.waited_s) for found in waits] == [pytest.approx(s, abs=2) for s in (120, 60, 12)]
    assert "waited 12" in str(waits[0] and waits[0].text) and "; the host was still busy: " in str(
        waits[0] and waits[0].text
    )
    script._loads["foreign"] = between(0, 999, 2.0)
    again = waiting(script)
    assert again is not None and again.waited_s == pytest.approx(120, abs=2), "it was quiet meanwhile"


@pytest.mark.parametrize("limits", [{"max_wait_s": 0.0}])
def test_who_does_not_want_to_wait_is_not_made_to(
    limits: dict[str, float], waiting: Callable[..., QuietWait | None]
) -> None:
    script = Script(foreign=between(0, 99, 2.0))
    assert waiting(script, **limits) is None
    assert script.now_s == 0


def test_without_a_host_or_without_limits_nothing_is_judged() -> None:
    script: Any = Script(foreign=between(0, 99, 2.0))
    assert QuietHosts([], sleep=script.sleep).wait(LIMITS, 0, script.tell) is None
    assert QuietHosts([script], sleep=script.sleep).wait({"max_wait_s": 9.0}, 0, script.tell) is None
    assert script.now_s == 0


def test_a_real_look_sees_this_process_at_work() -> None:
    host = LocalHost("test")
    before = activity.read_activity(host)
    end_s = time.process_time() + 0.5
    while time.process_time() < end_s:
        sum(range(10_000))  # user time: to read the clock of a process is the kernel's work
    now = activity.read_activity(host)
    others = now.processes.keys() - {os.getpid()}
    found = now.busiest(before, others)
    assert found is not None and found[0].pid == os.getpid() and 0.05 < found[1] <= 1.3
    assert now.busiest(before, {*others, os.getpid()}) is None
    assert now.totals.since(before.totals).user_s >= 0.1
    assert before.totals.cpu_s.keys() == {"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"}


def test_a_host_that_others_keep_busy_for_ever_is_no_error(waiting: Callable[..., QuietWait | None]) -> None:
    script = Script(foreign=between(0, 1e9, 2.0))
    for _ in range(20):
        found = waiting(script, max_wait_s=10.0)
        assert found is not None and found.in_vain
    assert waiting(Script(), 9, max_wait_s=10.0) is None, "six more attempts ask for no longer quiet than there is time"


def test_a_server_of_pages_is_the_apparatus_as_long_as_it_uses_little() -> None:
    def reading(at_s: float, *used_s: float) -> activity.ActivityReading:
        names = ("lastro-serve", "lastro-serve", "make")
        processes = {pid: activity.ActiveProcess(pid, names[pid], used) for pid, used in enumerate(used_s)}
        return activity.ActivityReading(at_s, activity.HostTotals({}, {}), processes)

    before, now = reading(0.0, 1.0, 1.0, 1.0), reading(10.0, 1.1, 1.5, 1.1)
    assert now.servers(before) == {0}, "neither a busy one nor another program"
    assert now.servers(reading(0.0)) == set(), "one that has just been started is busy with that"
