"""Own what you make: written down before, undone after, by whoever comes next when the owner is dead."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastro.errors import HostBusy, HostError, PlatformError, StoreError
from lastro.host.base import Host
from lastro.host.ledger import RUN_DIR, Ledger, session
from lastro.host.undo import UNDO, ObjectKind

from ..cli.conftest import until
from ..support.hostlisting import clean_host, listing, live, owned_processes, settled_differences

pytestmark = pytest.mark.root

DEAD = "dead00"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A host's state of its own, so that these tests neither wait for nor disturb anybody's measurement."""
    return tmp_path / "state"


@pytest.fixture
def undone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Objects of kind `note` are only noted when they are undone; one called `stuck` cannot be."""
    names: list[str] = []

    def undo(host: Host, name: str) -> None:
        if name == "stuck":
            raise PlatformError("it is stuck")
        names.append(name)

    monkeypatch.setitem(UNDO, "note", ObjectKind(lambda owner, name: True, undo))
    return names


@pytest.fixture
def ledger(state: Path) -> Iterator[Ledger]:
    made = Ledger(state)
    yield made
    made.close()


def leave(ledger: Ledger, *objects: tuple[str, str]) -> None:
    """As a session that is dead by now."""
    pid = 2**22 + 1  # above what Linux ever gives out
    ledger._db.execute("INSERT INTO session VALUES (?, ?, ?, ?)", (DEAD, pid, 1, "test"))
    for kind, name in objects:
        ledger.add(DEAD, kind, name)


# A session


def test_two_state_directories_are_one_host(state: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with session("the first", state=state), pytest.raises(HostBusy, match="the first"), session("next", state=other):
        pass
    with session("next", state=other):
        pass


def test_objects_are_written_down_before_and_undone_in_reverse_order(state: Path, undone: list[str]) -> None:
    with session("test", state=state) as held:
        base = len(held.owned_objects())
        with held.owned("note", "first"), held.owned("note", "second"):
            assert [each.name for each in held.owned_objects()][: -base or None] == ["second", "first"]
            assert undone == []
        assert undone == ["second", "first"]
        assert len(held.owned_objects()) == base


def test_an_error_undoes_everything(state: Path, undone: list[str]) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        session("test", state=state) as held,
        held.owned("note", "first"),
        held.owned("note", "second"),
    ):
        raise ZeroDivisionError
    assert undone == ["second", "first"]
    assert not held.run_dir.exists()
    assert not held.scratch_dir.exists()
    assert Ledger(state).dead_sessions() == []


def test_a_session_takes_its_directories_and_processes_with_it(state: Path) -> None:
    with session("test", state=state) as held:
        held.host.run(["sh", "-c", "setsid sleep 86390 >/dev/null 2>&1 & exit 0"])
        (held.run_dir / "sub").mkdir()
        (held.scratch_dir / "file").write_text("x")
        # In the middle of exec, a process shows no environment.
        pids = until(lambda: owned_processes(held.token), "the process")
    assert not live(pids)
    assert not held.run_dir.exists()
    assert not held.scratch_dir.exists()


def test_what_cannot_be_undone_raises_and_stays_in_the_ledger(state: Path, undone: list[str]) -> None:
    with pytest.raises(PlatformError, match="stuck"), session("test", state=state) as held, held.owned("note", "stuck"):
        pass
    found = Ledger(state)
    assert [each.name for each in found.objects(held.token)] == ["stuck"]
    found.close()


# Cleaning up after the dead


def test_the_dead_are_cleaned_up_after_newest_first(ledger: Ledger, undone: list[str]) -> None:
    leave(ledger, ("note", "first"), ("note", "second"))
    assert [each.name for each in ledger.clean()] == ["second", "first"]
    assert undone == ["second", "first"]
    assert ledger.clean() == []
    assert ledger.dead_sessions() == []


def test_the_next_session_cleans_up(ledger: Ledger, state: Path, undone: list[str]) -> None:
    leave(ledger, ("note", "left"))
    with session("next", state=state):
        assert undone == ["left"]


def test_an_interrupt_while_the_dead_are_cleaned_up_after_waits_for_its_end(
    ledger: Ledger, state: Path, undone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(ledger, ("note", "first"), ("note", "second"))
    interrupts = [KeyboardInterrupt()]

    def undo(host: Host, name: str) -> None:
        if interrupts:
            raise interrupts.pop()
        undone.append(name)

    monkeypatch.setitem(UNDO, "note", ObjectKind(lambda owner, name: True, undo))
    with pytest.raises(KeyboardInterrupt), session("test", state=state):
        pytest.fail("it went on after the interrupt")
    assert undone == ["second", "first"]
    assert ledger.dead_sessions() == []


def test_what_an_interrupt_kept_its_owner_from_undoing_is_undone_by_the_session(
    ledger: Ledger, state: Path, undone: list[str]
) -> None:
    with pytest.raises(KeyboardInterrupt), session("test", state=state) as held:
        ledger.add(held.token, "note", "between two instructions")
        raise KeyboardInterrupt
    assert undone == ["between two instructions"]
    assert ledger.objects(held.token) == []


def test_the_living_are_left_alone(state: Path, undone: list[str]) -> None:
    with session("test", state=state) as held, held.owned("note", "mine"):
        other = Ledger(state)
        assert other.clean() == []
        other.close()
        assert undone == []


def test_a_process_id_that_was_given_to_somebody_else_is_no_life(ledger: Ledger, undone: list[str]) -> None:
    """A session is its process id and the time when that process started."""
    ledger._db.execute("INSERT INTO session VALUES (?, ?, ?, ?)", (DEAD, os.getpid(), 1, "test"))
    ledger.add(DEAD, "note", "left")
    assert ledger.dead_sessions() == [DEAD]
    ledger.clean()
    assert undone == ["left"]


def test_one_object_that_is_stuck_does_not_keep_the_others(ledger: Ledger, undone: list[str]) -> None:
    leave(ledger, ("note", "first"), ("note", "stuck"), ("note", "last"))
    for _ in range(2):
        with pytest.raises(HostError, match="could not remove note stuck: it is stuck") as caught:
            ledger.clean()
        assert "lastro clean" in str(caught.value.hint)
    assert undone == ["last", "first"]
    assert [each.name for each in ledger.objects(DEAD)] == ["stuck"]


def test_a_kind_of_a_newer_version_is_told_and_kept(ledger: Ledger, undone: list[str]) -> None:
    leave(ledger, ("note", "first"), ("hologram", "h0"))
    with pytest.raises(HostError, match="unknown kind of object: 'hologram'"):
        ledger.clean()
    assert undone == ["first"]
    assert [each.kind for each in ledger.objects(DEAD)] == ["hologram"]


@pytest.mark.parametrize("kind", ["netns", "cgroup", "directory", "mount", "netns-dir"])
def test_what_was_never_made_or_is_gone_already_is_no_error(ledger: Ledger, state: Path, kind: str) -> None:
    names = {
        "netns": f"lastro-{DEAD}-gone", "cgroup": f"/lastro/{DEAD}/gone", "directory": f"{state}/scratch/{DEAD}",
        "mount": f"{state}/rootfs/{12 * '0'}/rootfs", "netns-dir": "/run/netns",
    }  # fmt: skip
    leave(ledger, (kind, names[kind]))
    assert [each.kind for each in ledger.clean()] == [kind]


@pytest.mark.parametrize(
    "place",
    [
        "precious", "lastro/precious", "lastro", "scratch/precious", "scratch", f"{DEAD}/precious",
        f"old/scratch/{DEAD}", f"scratch/{DEAD}/../../precious",
    ],
)  # fmt: skip
def test_a_damaged_ledger_removes_no_foreign_directory(ledger: Ledger, state: Path, place: str) -> None:
    (state / place).mkdir(parents=True, exist_ok=True)
    (state / place / "file").write_text("precious")
    leave(ledger, ("directory", str(state / place)))
    with pytest.raises(HostError, match="was not created by Lastro"):
        ledger.clean()
    assert (state / place / "file").read_text() == "precious"


@pytest.mark.parametrize(
    "name", ["/", "/etc", "", ".", str(RUN_DIR), f"{RUN_DIR}/..", "scratch/dead00", "/root/lastro"]
)
def test_a_damaged_ledger_removes_nothing_of_the_systems(ledger: Ledger, name: str) -> None:
    leave(ledger, ("directory", name))
    with pytest.raises(HostError, match="was not created by Lastro"):
        ledger.clean()
    assert Path("/etc/passwd").exists()


def test_what_is_mounted_in_a_directory_is_unmounted_and_never_emptied(
    ledger: Ledger, state: Path, tmp_path: Path
) -> None:
    precious, place = tmp_path / "precious", state / "scratch" / DEAD / "a b"
    for path in (precious, place):
        path.mkdir(parents=True)
    (precious / "file").write_text("x")
    subprocess.run(["mount", "--bind", str(precious), str(place)], check=True)
    leave(ledger, ("directory", str(place.parent)))
    ledger.clean()
    assert (precious / "file").read_text() == "x"
    assert not place.parent.exists()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


# The ledger's file


def test_a_ledger_that_is_no_database_is_named(state: Path) -> None:
    state.mkdir()
    (state / "ledger.db").write_text("not a database, " * 100)
    with pytest.raises(StoreError, match=r"ledger\.db: file is not a database"):
        Ledger(state)


def test_a_state_that_cannot_be_a_directory_is_named(state: Path) -> None:
    state.write_text("a file")
    with pytest.raises(StoreError, match=str(state)):
        Ledger(state)


# A real crash

VICTIM = """
from contextlib import ExitStack
from lastro import registry
from lastro.attachments.base import Segment
from lastro.platforms.base import Port
from lastro.host.ledger import session
from lastro.host.lock import silently
from lastro.image import rootfs
from lastro.platforms.base import InstanceSpec
from lastro.testbed import local_testbed
import time

with ExitStack() as stack:
    held = stack.enter_context(session("victim", wait=silently))
    store = held.ledger.state / "rootfs"
    image = rootfs.ensure(rootfs.ImageRecipe.of_this_host(held.host), store, held.host)
    testbed = stack.enter_context(local_testbed(held, image))
    instances = []
    for name in ("native", "runc", "docker"):
        platform = registry.get("platform", name)()
        stack.enter_context(platform.prepare(testbed))
        instances.append(stack.enter_context(platform.start(testbed, InstanceSpec(f"on-{name}", "role"))))
        instances[-1].spawn(["sleep", "86389"])
    ends = (Port(instances[0], "eth0", "198.18.9.1/24"), Port(instances[1], "eth0", "198.18.9.2/24"))
    stack.enter_context(registry.get("attachment", "veth-bridge")().connect(testbed, [Segment("s", ends)]))
    instances[0].run(["ping", "-c", "1", "-W", "2", "198.18.9.2"])
    time.sleep(0.3)
    print(held.token, flush=True)
    time.sleep(60)
"""


def test_a_session_killed_by_kill_9_is_removed_without_a_trace() -> None:
    with clean_host():
        before = listing()
    victim = subprocess.Popen([sys.executable, "-c", VICTIM], stdout=subprocess.PIPE, text=True)
    assert victim.stdout is not None
    token = victim.stdout.readline().strip()
    assert token, "the victim ended before its time"
    ledger = Ledger()
    try:
        assert {each.kind for each in ledger.objects(token)} >= {"netns", "cgroup", "directory"}
        orphans = owned_processes(token)
        victim.send_signal(signal.SIGKILL)
        victim.wait(10)
        victim.stdout.close()
        with clean_host():  # or whoever held the host in between has cleaned it
            assert ledger.objects(token) == []
            assert not live(orphans) - {victim.pid}
            assert not owned_processes(token)
            assert settled_differences(before) == []
    finally:
        ledger.close()
