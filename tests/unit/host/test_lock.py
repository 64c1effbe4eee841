"""One Lastro at a time on a host, in the order in which they came."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lastro.errors import HostBusy, StoreError
from lastro.host.lock import LockHolder, OnWait, holder, lock, silently

pytestmark = pytest.mark.processes

_WAIT = """
import sys, time, pathlib
from lastro.host.lock import lock
told = []
def tell(holder, ahead):
    told.append((holder.purpose if holder else None, ahead)) or len(told) == 1 and print("waiting", flush=True)
with lock(pathlib.Path(sys.argv[1]), sys.argv[2], tell):
    with open(sys.argv[1] + "/turns", "a") as turns:
        print(sys.argv[2], *told[0], file=turns)
    time.sleep(0.3)
"""


def waiter(state: Path, name: str) -> subprocess.Popen[str]:
    """A process that has begun to wait."""
    process = subprocess.Popen([sys.executable, "-c", _WAIT, str(state), name], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    return process


def test_the_name_of_a_holder_goes_with_it_after_an_error_too(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), lock(tmp_path, "campaign /edge"):
        raise KeyboardInterrupt
    assert holder(tmp_path) is None


def test_a_second_one_is_told_who_holds_the_host(tmp_path: Path) -> None:
    with lock(tmp_path, "campaign /edge"):
        with pytest.raises(HostBusy) as caught, lock(tmp_path, "second"):
            pass
        expected = rf"this host is in use by campaign /edge \(process {os.getpid()}, since 20\d\d-\d\d-\d\d \d\d:\d\d\)"
        assert re.fullmatch(expected, caught.value.message)
        assert "--wait" in str(caught.value.hint)
    with lock(tmp_path, "second"):
        pass


@pytest.mark.parametrize(("name", "wait"), [("lock", None), ("queue", silently)])
def test_a_state_that_cannot_be_written_is_named(tmp_path: Path, name: str, wait: OnWait | None) -> None:
    """As on a disk that is read-only, for which a file in the place of a directory stands here, and vice versa."""
    if name == "lock":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).touch()
    with pytest.raises(StoreError, match=f"{tmp_path} cannot be written") as caught, lock(tmp_path, "first", wait):
        pass
    assert "read-only" in str(caught.value.hint)


def test_an_error_of_who_holds_the_host_is_no_error_of_the_lock(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="mine"), lock(tmp_path, "first"):
        raise FileNotFoundError("mine")
    with lock(tmp_path, "second"):
        pass


def test_who_waits_gets_the_host_in_the_order_in_which_they_came_and_nobody_overtakes(tmp_path: Path) -> None:
    with lock(tmp_path, "the first"):
        waiters = [waiter(tmp_path, name) for name in ("a", "b", "c")]
    overtaken = 0
    while any(each.poll() is None for each in waiters):
        try:
            with lock(tmp_path, "impatient"):
                overtaken += len((tmp_path / "turns").read_text().splitlines()) < 3
        except HostBusy:
            time.sleep(0.01)
    assert [each.wait(20) for each in waiters] == [0, 0, 0]
    assert (tmp_path / "turns").read_text().splitlines() == [
        "a the first 0", "b the first 1", "c the first 2",
    ]  # fmt: skip
    assert overtaken == 0
    assert list((tmp_path / "queue").iterdir()) == []


def test_one_that_died_while_it_waited_keeps_nobody_waiting(tmp_path: Path) -> None:
    with lock(tmp_path, "the first"):
        dead = waiter(tmp_path, "dead")
        alive = waiter(tmp_path, "alive")
        dead.kill()
        dead.wait()
    assert alive.wait(20) == 0
    assert (tmp_path / "turns").read_text() == "alive the first 1\n"
    with lock(tmp_path, "afterwards"):
        assert list((tmp_path / "queue").iterdir()) == []


def test_a_holder_is_read_as_far_as_it_is_known() -> None:
    assert LockHolder.read("") is None
    other = LockHolder.read("campaign /far")
    assert other is not None and other.text == "campaign /far"
    mine = LockHolder("campaign /edge")
    assert LockHolder.read(mine.write()) == mine
