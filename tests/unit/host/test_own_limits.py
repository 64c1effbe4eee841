"""What Lastro itself has no room for, threads or open files, ends a command or waits its turn; nothing else ends."""

from __future__ import annotations

import errno
import os
import resource
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lastro import cli
from lastro.errors import CommandFailed
from lastro.host.local import LocalHost
from lastro.host.threads import run_all
from lastro.interrupts import HungUp, Terminated

pytestmark = pytest.mark.processes


def no_thread(self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def open_files() -> set[str]:
    """The descriptors of this process. Those that earlier tests left to the garbage collector may go at any time."""
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


@contextmanager
def room_for(n: int) -> Iterator[None]:
    """This process may open `n` more files, at descriptors that nothing holds."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, open_files()))
    held = [os.open("/dev/null", os.O_RDONLY)]
    while held[-1] < highest:  # so that there is no gap below the limit
        held.append(os.open("/dev/null", os.O_RDONLY))
    resource.setrlimit(resource.RLIMIT_NOFILE, (held[-1] + 1 + n, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for file in held:
            os.close(file)


@pytest.mark.parametrize("n", range(10))
def test_a_command_without_room_for_its_files_has_failed_and_leaves_none(n: int) -> None:
    host = LocalHost()
    host.run(["true"])  # what the first call imports takes a file, too
    before = open_files()
    with room_for(n):
        try:
            assert host.run(["echo", "done"]).text == "done\n"
            assert n >= 3
        except CommandFailed as error:
            assert "Too many open files" in error.message and n < 9  # its own, and a few of subprocess
    assert not open_files() - before


@pytest.mark.parametrize("n", range(10))
def test_a_process_without_room_for_its_files_has_failed_and_leaves_none(n: int) -> None:
    host = LocalHost()
    host.run(["true"])
    before = open_files()
    with room_for(n):
        try:
            process = host.spawn(["sleep", "60"])
        except CommandFailed as error:
            assert "Too many open files" in error.message and n < 9
        else:
            process.stop()
            assert n >= 2
    assert not open_files() - before


def test_a_process_that_nobody_can_read_is_ended_and_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    before, word = open_files(), f"lastro-test-{os.getpid()}"
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(CommandFailed, match="can't start new thread"):
        LocalHost().spawn(["perl", "-e", "sleep 60", word])  # a shell may have a child, for whose end nobody waits
    assert not open_files() - before
    monkeypatch.undo()
    assert LocalHost().run(["pgrep", "-f", f"{word}$"], check=False).text == ""


@pytest.mark.parametrize("most", [0, 1, 3, 99])
def test_calls_come_to_their_end_in_as_many_threads_as_there_can_be(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    start, n_started = threading.Thread.start, 0

    def scarce(self: threading.Thread) -> None:
        nonlocal n_started
        n_started += 1
        start(self) if n_started <= most else no_thread(self)

    monkeypatch.setattr(threading.Thread, "start", scarce)

    def call(n: int) -> tuple[int, int]:
        if n == 5:
            raise ValueError(n)
        time.sleep(0.01)
        return n, threading.get_ident()

    futures = run_all([lambda n=n: call(n) for n in range(9)], 4)  # type: ignore[misc]
    found = [future.result() for n, future in enumerate(futures) if n != 5]
    assert [n for n, _ in found] == [0, 1, 2, 3, 4, 6, 7, 8] and isinstance(futures[5].exception(), ValueError)
    assert len({thread for _, thread in found}) <= max(1, min(most, 4))


def test_an_interruption_comes_through_and_lets_nothing_else_begin() -> None:
    begun = []

    def call(n: int) -> None:
        begun.append(n)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(KeyboardInterrupt):
            run_all([lambda n=n: call(n) for n in range(9)], 4)  # type: ignore[misc]
    assert begun == [0]


def test_nothing_to_call_is_nothing() -> None:
    assert run_all([], 4) == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "lastro: out of memory\n"),
        (RuntimeError("can't start new thread"), "lastro: out of memory\n"),
        (ImportError("x.so: failed to map segment from shared object"), "lastro: out of memory\n"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "lastro: out of memory\n"),
        (ImportError("No module named 'x'"), "lastro: this is a bug in Lastro"),
    ],
    ids=repr,
)
def test_a_command_without_memory_is_no_defect(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As a library reports it, whose own error is the last of several."""

    def fails(args: object) -> int:
        raise ImportError("the library cannot be loaded") from error

    monkeypatch.setattr("lastro.cli.parts.run", fails)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert cli.main(["parts"]) == 1
    assert capsys.readouterr().err.startswith(words)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Error building a validator:\n  SchemaError: Error building another:\nKeyboardInterrupt: ", 130),
        ("Error building it:\nTerminated: ", 143),
        ("Error building it:\nHungUp: ", 129),
    ],
)
def test_an_interrupt_that_a_library_hides_is_no_defect(
    text: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(args: object) -> int:
        raise ValueError(text)

    monkeypatch.setattr("lastro.cli.parts.run", fails)
    assert cli.main(["parts"]) == code
    assert capsys.readouterr().err == "lastro: interrupted\n"


@pytest.mark.parametrize(("interrupt", "code"), [(KeyboardInterrupt(), 130), (Terminated(), 143), (HungUp(), 129)])
def test_an_interrupt_while_a_class_is_created_is_no_defect(
    interrupt: KeyboardInterrupt, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python makes it the cause of another error."""

    class Named:
        def __set_name__(self, owner: type, name: str) -> None:
            raise interrupt

    def fails(args: object) -> None:
        type("Created", (), {"attribute": Named()})

    monkeypatch.setattr("lastro.cli.parts.run", fails)
    assert cli.main(["parts"]) == code
    assert "interrupted" in capsys.readouterr().err
