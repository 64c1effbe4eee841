"""What the apparatus does while an instrument measures: which threads count, what is too much, what a trial notes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro.campaign import executor
from lastro.errors import CommandFailed
from lastro.host.apparatus import Apparatus, ApparatusWitness
from lastro.host.base import Process
from lastro.host.files import LocalFiles
from lastro.host.local import LocalHost
from lastro.results.samples import Outcome
from lastro.scenarios.base import OnTestbed
from lastro.testbed import Testbed
from lastro.validity import Window, apparatus_reasons

from ...support.recording import recording_testbed

TOKEN = "0a1b2c"
OWN, ONE, LINK = f"/lastro/{TOKEN}", f"/lastro/{TOKEN}/one", f"/lastro/{TOKEN}/ovs-1"
DOCKERD, LXD = f"/lastro/{TOKEN}/docker-1", f"/lastro/{TOKEN}/lxd-1"
WAKE_UPS = 400
FEW = 100  # of Lastro itself, pytest and the kernel's view of both, in a window of a second or two
# It waits for a line, wakes up often, says so, and then stays: a thread that has ended is not counted.
BUSY = f"""$| = 1; print "up\\n"; <STDIN>;
for (1..{WAKE_UPS}) {{ select undef, undef, undef, 0.001 }} print "done\\n"; <STDIN>"""


@pytest.fixture
def testbed(tmp_path: Path) -> Testbed:
    return recording_testbed(LocalHost(TOKEN), tmp_path)


def witness(testbed: Testbed, daemon: str = "") -> ApparatusWitness:
    return ApparatusWitness(testbed.apparatus, testbed.session, testbed.cgroups, daemon)


@contextmanager
def busy(testbed: Testbed, cgroup: str | None = None, token: str = TOKEN) -> Iterator[Process]:
    """Start a process that can wake up often, in a cgroup of the testbed's own tree."""
    process = LocalHost(token).spawn(["perl", "-e", BUSY.replace("\n", " ")], fed=True)
    try:
        process.wait_line("up", 10)
        if cgroup is not None:
            place = Path(testbed.cgroups.directories(cgroup)[0])
            place.mkdir(parents=True, exist_ok=True)
            (place / "cgroup.procs").write_text(f"{pid_of(process)}\n")
        yield process
    finally:
        process.stop()


def pid_of(process: Process) -> int:
    return int(vars(process)["_process"].pid)


def wake(process: Process) -> None:
    """Let it wake up often, without a wake-up here for each."""
    process.send("go")
    process.wait_line("done", 60)


def window_of(testbed: Testbed, act: Callable[[], object], daemon: str = "") -> Window:
    testbed.apparatus.drain()
    with witness(testbed, daemon).watching():
        act()
    (window,) = testbed.apparatus.drain()
    return window


# Which threads count


@pytest.mark.processes
def test_a_quiet_window_has_few_wake_ups(testbed: Testbed) -> None:
    window = window_of(testbed, lambda: time.sleep(0.5))
    assert window.wake_ups is not None and window.cpu_s is not None
    assert window.elapsed_s >= 0.5 and 0 <= window.wake_ups < FEW
    assert apparatus_reasons([window]) == []


@pytest.mark.processes
def test_a_process_of_the_session_that_wakes_up_often_is_seen(testbed: Testbed) -> None:
    """By its mark, such as a client of a daemon; or by its cgroup, such as a daemon's own child."""
    for cgroup, token in ((None, TOKEN), (OWN, ""), (f"{OWN}/clients/deep", "")):
        with busy(testbed, cgroup, token) as process:
            window = window_of(testbed, lambda process=process: wake(process))
        assert window.wake_ups is not None and window.wake_ups >= WAKE_UPS, cgroup
        (reason,) = apparatus_reasons([window])
        assert f"woke up {window.wake_ups} times" in reason


@pytest.mark.processes
def test_a_thread_of_lastro_itself_is_seen(testbed: Testbed) -> None:
    go, woken, end = threading.Event(), threading.Event(), threading.Event()

    def often() -> None:
        go.wait(60)
        for _ in range(WAKE_UPS):
            time.sleep(0.001)
        woken.set()
        end.wait(60)

    thread = threading.Thread(target=often)
    thread.start()
    try:
        window = window_of(testbed, lambda: (go.set(), woken.wait(60)))
    finally:
        end.set()
        thread.join()
    assert window.wake_ups is not None and window.wake_ups >= WAKE_UPS
    assert apparatus_reasons([window])


@pytest.mark.processes
def test_output_that_is_streamed_wakes_lastro(testbed: Testbed) -> None:
    """Even if the instance that prints it does not count."""
    testbed.apparatus.instances.add(ONE)
    printing = BUSY.replace("0.001 }", '0.003; print "line\\n" }').replace("\n", " ")
    process = testbed.host.spawn(["perl", "-e", printing], fed=True)
    try:
        process.wait_line("up", 10)
        place = Path(testbed.cgroups.directories(ONE)[0])
        place.mkdir(parents=True)
        (place / "cgroup.procs").write_text(f"{pid_of(process)}\n")
        window = window_of(testbed, lambda: wake(process))
    finally:
        process.stop()
    assert apparatus_reasons([window])


@pytest.mark.processes
def test_cpu_time_of_the_apparatus_is_counted(testbed: Testbed) -> None:
    def work() -> None:
        ends_s = time.thread_time() + 0.2
        while time.thread_time() < ends_s:
            pass

    window = window_of(testbed, work)
    assert window.cpu_s is not None and 0.19 <= window.cpu_s < 2 * window.elapsed_s


@pytest.mark.processes
def test_a_process_of_somebody_else_is_not_the_apparatus(testbed: Testbed) -> None:
    """Host meters see what other programs use."""
    for token in ("", "ffffff"):
        with busy(testbed, "/user.slice", token) as process:
            window = window_of(testbed, lambda process=process: wake(process))
        assert window.wake_ups is not None and window.wake_ups < FEW


@pytest.mark.processes
@pytest.mark.parametrize("cgroup", [ONE, f"{ONE}/payload", LINK])
def test_instances_and_links_are_what_is_measured(testbed: Testbed, cgroup: str) -> None:
    """They have the session's mark, and are below its cgroup."""
    testbed.apparatus.instances.update((ONE, LINK))
    with busy(testbed, cgroup) as process:
        window = window_of(testbed, lambda: wake(process))
    assert window.wake_ups is not None and window.wake_ups < FEW


@pytest.mark.processes
@pytest.mark.parametrize(("daemon", "counts"), [(DOCKERD, True), (LXD, False), ("", False)])
def test_a_daemon_counts_for_its_own_instances_alone(testbed: Testbed, daemon: str, counts: bool) -> None:
    """Idle, it is the same for all other platforms of a study."""
    testbed.apparatus.daemons.update((DOCKERD, LXD))
    with busy(testbed, f"{DOCKERD}/containerd") as process:
        window = window_of(testbed, lambda: wake(process), daemon)
    assert window.wake_ups is not None and (window.wake_ups >= WAKE_UPS) is counts
    assert counts or window.wake_ups < FEW


@pytest.mark.processes
def test_a_daemon_that_is_told_of_kills_is_not_the_apparatus(testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker's wakes up for each process that exceeds its memory, without a word from Lastro."""
    testbed.apparatus.daemons.add(DOCKERD)
    kills = iter(range(0, 90, 10))
    monkeypatch.setattr(type(testbed.cgroups), "memory_kills", lambda *_: next(kills))
    with busy(testbed, f"{DOCKERD}/containerd") as process:
        window = window_of(testbed, lambda: wake(process), DOCKERD)
        assert witness(testbed, DOCKERD).wake_ups(lambda: wake(process), 0.01) < FEW
    assert window.wake_ups is not None and window.wake_ups < FEW and window.killed == 10


@pytest.mark.processes
def test_the_usual_wake_ups_are_those_of_one_act(testbed: Testbed) -> None:
    with busy(testbed) as process:
        assert witness(testbed).wake_ups(lambda: wake(process), 0.01) >= WAKE_UPS
        assert witness(testbed).wake_ups(lambda: None, 0.01) < FEW
    assert testbed.apparatus.windows == [], "that was no measurement"


# Windows


class Counting(LocalFiles):
    """Files of a host whose threads have these counts, one after the other."""

    def __init__(self, *counts: Mapping[int, tuple[int, int]]) -> None:
        self._counts = iter(counts)

    def threads(self, *of: object) -> dict[int, tuple[int, int]]:
        return dict(next(self._counts))


def counted(testbed: Testbed, *counts: Mapping[int, tuple[int, int]], **expected: float) -> Window:
    testbed.host.view = Counting(*counts)
    groups: Any = SimpleNamespace(files=testbed.host.view, directories=lambda name: [])
    with ApparatusWitness(testbed.apparatus, testbed.session, groups).watching(**expected):  # type: ignore[arg-type]
        pass
    return testbed.apparatus.windows[-1]


def test_a_window_is_the_difference_of_all_threads(testbed: Testbed) -> None:
    """One that is born inside counts whole; of one that has ended, the kernel knows nothing more."""
    window = counted(testbed, {1: (5_000_000, 10), 2: (9_000_000, 90)}, {1: (8_000_000, 17), 3: (1_000_000, 4)})
    assert window.wake_ups == 7 + 4 and window.cpu_s == pytest.approx(0.004)


def test_expected_wake_ups_are_those_of_messages_and_those_of_time(testbed: Testbed) -> None:
    nothing = {1: (0, 0)}
    window = counted(testbed, nothing, nothing, by_messages=14, idle_per_s=1e9)
    assert window.expected == pytest.approx(14 + 1e9 * window.elapsed_s)
    assert counted(testbed, nothing, nothing).expected == 0


def test_a_kernel_that_does_not_count_invalidates_nothing(testbed: Testbed) -> None:
    window = counted(testbed, {}, {})
    assert (window.wake_ups, window.cpu_s) == (None, None)
    assert apparatus_reasons([window]) == []
    groups: Any = SimpleNamespace(files=Counting({}, {}), directories=lambda name: [])
    assert ApparatusWitness(testbed.apparatus, testbed.session, groups).wake_ups(lambda: None, 0) == 0


def test_a_command_that_failed_has_no_window(testbed: Testbed) -> None:
    with pytest.raises(CommandFailed), witness(testbed).watching():
        raise CommandFailed(["ping"], 1, "")
    assert testbed.apparatus.windows == []


def test_windows_are_taken_once() -> None:
    first, second = Window(1, 5, 0.1), Window(2, 6, 0.1)
    apparatus = Apparatus(windows=[first, second])
    assert (apparatus.drain(), apparatus.drain()) == ([first, second], [])


def test_windows_of_all_hosts_of_a_testbed_are_taken(testbed: Testbed) -> None:
    far = replace(testbed, apparatus=Apparatus())
    both = replace(testbed, others={"sink": far, "source": testbed})
    testbed.apparatus.windows.append(Window(1, 5, 0.1))
    far.apparatus.windows.append(Window(2, 6, 0.1))
    assert both.apparatus_windows() == [Window(1, 5, 0.1), Window(2, 6, 0.1)], "each host's once"
    assert both.apparatus_windows() == []


# What is too much


@pytest.mark.parametrize(
    ("elapsed_s", "expected", "limit"), [(0, 0, 80), (1, 0, 120), (10, 0, 480), (0.5, 0, 100), (10, 414, 894)]
)
def test_a_bound_grows_with_time_and_with_what_is_expected(elapsed_s: float, expected: float, limit: int) -> None:
    """Not with the number of samples: a tool that reports each of them must not wake anything outside."""
    within, above = (Window(elapsed_s, limit + more, 0.1, expected) for more in (0, 1))
    assert within.most_wake_ups == pytest.approx(limit)
    assert apparatus_reasons([within]) == []
    assert apparatus_reasons([above]) == [
        f"the apparatus was in the measurement: Lastro, clients and daemons woke up {limit + 1} times in"
        f" {elapsed_s:.2f} s (limit {limit})"
    ]


def test_cpu_time_alone_invalidates_nothing() -> None:
    assert apparatus_reasons([Window(1, 120, 1.9)]) == []


def test_the_worst_window_is_named_and_quiet_ones_do_not_make_up_for_it() -> None:
    quiet = [Window(1000, 0, 0.0)] * 3
    (reason,) = apparatus_reasons([*quiet, Window(100, 4100, 1.0), Window(1, 300, 0.1), Window(1, 200, 0.1)])
    assert "woke up 300 times in 1.00 s (limit 120)" in reason
    assert apparatus_reasons([]) == apparatus_reasons(quiet) == []


# A trial


@pytest.fixture
def scenario(testbed: Testbed) -> Any:
    made = object.__new__(OnTestbed)
    made._testbed = testbed
    return made


def test_a_trial_notes_what_the_apparatus_did(scenario: Any, testbed: Testbed) -> None:
    outcome = Outcome()
    testbed.apparatus.windows += [Window(1.5, 20, 0.03), Window(2.5, 10, 0.01)]
    scenario.judge_apparatus(outcome)
    assert outcome.notes["apparatus"] == {"measured_s": 4.0, "wake_ups": 30, "cpus": 0.01}
    assert outcome.valid
    testbed.apparatus.windows.append(Window(4.0, 20, 0.08, killed=3))
    scenario.judge_apparatus(outcome)
    assert outcome.notes["apparatus"] == {"measured_s": 4.0, "wake_ups": 20, "cpus": 0.02, "killed": 3}
    again = Outcome()
    scenario.judge_apparatus(again)
    assert "apparatus" not in again.notes, "nothing was measured since"


def test_a_trial_without_counts_notes_nothing(scenario: Any, testbed: Testbed) -> None:
    outcome = Outcome()
    testbed.apparatus.windows.append(Window(1.5, None, None))
    scenario.judge_apparatus(outcome)
    assert outcome.valid and "apparatus" not in outcome.notes
    scenario._testbed = None
    scenario.judge_apparatus(outcome)
    assert outcome.valid, "a scenario without a testbed measures nothing by instances"


def test_a_trial_that_the_apparatus_disturbed_is_invalid_and_no_other(scenario: Any, testbed: Testbed) -> None:
    """Neither the next one, nor one after a trial that failed, nor one after a probe."""
    disturbed, ran = Window(1, 5000, 0.5), list[Window]()

    def run(config: Any, calibrations: Any) -> Outcome:
        testbed.apparatus.windows += ran
        if "fails" in config:
            raise CommandFailed(["ping"], 2, "unknown host")
        return Outcome()

    scenario.run = run
    judged = cast(Callable[..., Outcome], executor._outcome)
    testbed.apparatus.windows.append(disturbed)  # by a probe
    assert judged(scenario, {}, {}).valid
    ran.append(disturbed)
    assert "the apparatus was in the measurement" in judged(scenario, {}, {}).invalid_because[0]
    assert judged(scenario, {"fails": 1}, {}).invalid_because == ["`ping` exited with 2: unknown host"]
    ran.clear()
    assert judged(scenario, {}, {}).valid
