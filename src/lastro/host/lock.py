"""A lock that lets one Lastro process at a time measure on a host, in the order of their requests.

The kernel frees the lock even after kill -9. The queue has a file, called a ticket, for each waiting process."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from io import FileIO
from pathlib import Path

from lastro.errors import HostBusy, StoreError
from lastro.host.files import start_time, stat_fields

_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A process that holds a host or waits for it: its purpose, PID and command, and since when (local time)."""

    purpose: str
    pid: int = field(default_factory=os.getpid)
    command: str = field(default_factory=lambda: shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]))
    since: str = field(default_factory=lambda: datetime.now().astimezone().isoformat(timespec="seconds"))

    @property
    def text(self) -> str:
        if not self.pid:
            return self.purpose
        return f"{self.purpose} (process {self.pid}, since {self.since[:16].replace('T', ' ')})"

    @classmethod
    def read(cls, text: str) -> LockHolder | None:
        """Parse the text of a lock file: what `write` returns, or only a purpose, which a remote Lastro writes.

        None for an empty text, which means that the holder has not yet written to the lock file."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return cls(text.strip(), 0, "", "") if text.strip() else None

    def write(self) -> str:
        return json.dumps(asdict(self))


OnWait = Callable[[LockHolder | None, int], None]  # the holder, if known, and the number of processes ahead of us


def holder(state: Path) -> LockHolder | None:
    """Return the process that holds the host; None if none holds it, or the holder has not yet written its name."""
    try:
        with open(state / "lock", encoding="utf-8") as file:
            return LockHolder.read(file.read())
    except OSError:
        return None


def silently(holder: LockHolder | None, ahead: int) -> None:
    """Wait without reporting anything."""


@contextmanager
def lock(state: Path, purpose: str, wait: OnWait | None = None) -> Iterator[None]:
    """Hold the host of the state directory inside the block.

    Meanwhile, `wait` is called several times a second with the holder, or None, and the number of processes ahead.

    Raises: HostBusy when `wait` is None and another process holds the host or waits; StoreError when the disk is full,
    failing or read-only."""
    me = LockHolder(purpose)
    with _store_errors(state):
        state.mkdir(mode=0o700, exist_ok=True)
        make_private(state / "lock")
        opened = open(state / "lock", "ab+", buffering=0)  # noqa: SIM115 (entered below); a buffer that cannot be written would fail once more
    with opened as file:
        if wait is None:
            before = _waiting(state)
            if before or not _try_lock(file):
                first = holder(state) or (before[0][1] if before else None)
                raise HostBusy(
                    f"this host is in use by {first.text if first else 'another Lastro'}",
                    "two measurements would disturb each other: wait, or use --wait",
                )
        else:
            _queue(state, me, file, wait)
            me = LockHolder(purpose)
        with _store_errors(state):
            file.truncate(0)
            file.write(me.write().encode())
        try:
            yield
        finally:
            with suppress(OSError):  # the name stays, which is harmless; the kernel frees the lock
                file.truncate(0)


def make_private(file: Path) -> None:
    """Create a file if needed, and let only its owner open it: a user who can open a lock file can hold the lock."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


@contextmanager
def _store_errors(state: Path) -> Iterator[None]:
    """Raise StoreError for an OSError from the block."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{state} cannot be written: {error.strerror or error}", "free some space, or see why it is read-only"
        ) from error


def _try_lock(file: FileIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _queue(state: Path, me: LockHolder, file: FileIO, on_wait: OnWait) -> None:
    """Wait until no earlier process is waiting and the lock is free, and take the lock."""
    ticket = state / "queue" / f"{time.monotonic_ns():020d}-{me.pid}-{start_time(me.pid)}"
    with _store_errors(state):
        ticket.parent.mkdir(exist_ok=True)
        ticket.write_text(me.write(), encoding="utf-8")
    try:
        while True:
            ahead = [other for path, other in _waiting(state) if path.name < ticket.name]
            if not ahead and _try_lock(file):
                return
            on_wait(holder(state), len(ahead))
            time.sleep(_POLL_S)
    finally:
        ticket.unlink(missing_ok=True)


def _waiting(state: Path) -> list[tuple[Path, LockHolder]]:
    """Return (ticket, process) of each waiting process, earliest first.

    Tickets of processes that have ended are removed. Stopped processes (Ctrl-Z) are left out, since others need not
    wait for them."""
    waiting = []
    for ticket in sorted((state / "queue").glob("*-*-*")):
        _, pid, started = ticket.name.split("-")
        if str(start_time(int(pid))) != started:
            ticket.unlink(missing_ok=True)
            continue
        if stat_fields(int(pid))[:1] == ["T"]:
            continue
        try:
            process = LockHolder.read(ticket.read_text(encoding="utf-8"))
        except FileNotFoundError:  # it has just got the host
            continue
        waiting.append((ticket, process or LockHolder("another Lastro", int(pid))))
    return waiting
