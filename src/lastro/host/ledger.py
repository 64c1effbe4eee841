"""A ledger of the objects that Lastro makes on a host, each recorded before it is made.

The ledger is one SQLite file for each host, not for each campaign: it survives the loss of a campaign's directory, and
also lists objects that `lastro doctor` makes. A session is one run of a Lastro process; the session is dead when the
process has ended."""

from __future__ import annotations

import itertools
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lastro.errors import ConnectionLost, HostError, LastroError, PlatformError, StoreError, TrialError
from lastro.host import cgroups
from lastro.host.base import RUN_DIR as RUN_DIR
from lastro.host.base import Host, directory_from
from lastro.host.files import start_time
from lastro.host.local import LocalHost
from lastro.host.lock import OnWait, lock, make_private
from lastro.host.state_dirs import close_to_others
from lastro.host.undo import MODULES, Owner, is_token, kernel_module, mounts_below, undo
from lastro.host.undo import NETNS_DIR as NETNS_DIR

STATE_DIR = directory_from("LASTRO_STATE", "/var/lib/lastro")
HOST_LOCK = Path("/run/lastro-host")  # of all state directories: two of them are still one host
_KILL_PATIENCE_S = 5.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS session(token TEXT PRIMARY KEY, pid INTEGER, started INTEGER, purpose TEXT);
CREATE TABLE IF NOT EXISTS object(
    id INTEGER PRIMARY KEY, session TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class OwnedObject:
    """An object in the ledger: its id there, the token of the session that made it, its kind, and its name."""

    id: int
    session: str
    kind: str
    name: str


class Ledger:
    """The list, in the directory `state`, of the objects that Lastro has made on a host and not yet removed."""

    def __init__(self, state: Path = STATE_DIR) -> None:
        self.state = state
        self._turn = threading.Lock()  # instances may start in parallel
        try:
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_private(state / "ledger.db")
            self._db = sqlite3.connect(state / "ledger.db", isolation_level=None, timeout=10, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            # With NORMAL, a crash of Lastro loses nothing, and kernel objects do not survive a crash of the host.
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"{state}/ledger.db: {error}", "is the disk full, or the directory not writable?"
            ) from error

    def close(self) -> None:
        self._db.close()

    def _execute(self, sql: str, *values: Any) -> list[Any]:
        """Execute a statement and return its rows. Raises: StoreError when the disk is full, failing or read-only."""
        try:
            with self._turn:
                return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            hint = "free some space on that disk, or find out why it cannot be written; then run `lastro clean`"
            raise StoreError(f"{self.state}/ledger.db: {error}", hint) from error

    def add(self, session: str, kind: str, name: str) -> int:
        """Record an object of the session with token `session`, and return the object's id. Raises: StoreError."""
        sql = "INSERT INTO object(session, kind, name) VALUES (?, ?, ?) RETURNING id"
        return int(self._execute(sql, session, kind, name)[0][0])

    def drop(self, object_id: int) -> None:
        self._execute("DELETE FROM object WHERE id = ?", object_id)

    def open_session(self, token: str, purpose: str) -> None:
        pid = os.getpid()
        self._execute("INSERT INTO session VALUES (?, ?, ?, ?)", token, pid, start_time(pid), purpose)

    def close_session(self, token: str) -> None:
        """Delete the record of a session, unless the ledger still lists objects of it."""
        sql = "DELETE FROM session WHERE token = ? AND NOT EXISTS (SELECT 1 FROM object WHERE session = ?)"
        self._execute(sql, token, token)

    def dead_sessions(self) -> list[str]:
        return self._sessions(alive=False)

    def live_sessions(self) -> list[str]:
        return self._sessions(alive=True)

    def _sessions(self, *, alive: bool) -> list[str]:
        rows = self._execute("SELECT token, pid, started FROM session")
        return [token for token, pid, began in rows if (isinstance(pid, int) and start_time(pid) == began) is alive]

    def objects(self, session: str) -> list[OwnedObject]:
        """Return the objects that a session still owns, newest first: the order in which to remove them."""
        sql = "SELECT id, session, kind, name FROM object WHERE session = ? ORDER BY id DESC"
        return [OwnedObject(*row) for row in self._execute(sql, session)]

    def clean(self, host: Host | None = None, state: Path | None = None) -> list[OwnedObject]:
        """Kill the processes and remove the objects of dead sessions on a host, and return the removed objects.

        By default, the host is this machine. `state` is the host's directory for large files.

        Raises: HostError, in the end, when an object could not be removed, or its session cannot have made it."""
        removed, problems = [], []
        for token in self.dead_sessions():
            if not is_token(token):
                problems.append(f"session {token!r}: not a valid session name")
                continue
            owner = Owner(host or LocalHost(token), token, state or self.state)
            _end_processes(owner.host, token)
            for owned in self.objects(token):
                try:
                    undo(owner, owned.kind, owned.name)
                except (LastroError, OSError) as error:
                    problems.append(f"{owned.kind} {owned.name}: {error}")
                else:
                    self.drop(owned.id)
                    removed.append(owned)
            self.close_session(token)
        if problems:
            raise HostError(
                "could not remove " + "; ".join(problems), "find out what uses it, then run `lastro clean` again"
            )
        return removed


class Session:
    """One run of Lastro on a host: its token, its directories, and the objects that it owns.

    `state` is the host's directory for large files; by default, it is the directory of the ledger."""

    def __init__(self, ledger: Ledger, token: str, host: Host, state: Path | None = None) -> None:
        self.ledger, self.token, self.host, self.state = ledger, token, host, state or ledger.state
        self.run_dir = host.run_root / token  # small files: bundles, sockets
        self.scratch_dir = self.state / "scratch" / token  # on a real disk: writable layers
        self.cgroup = f"/lastro/{token}"
        self._owner = Owner(host, token, self.state)
        self.built_s = 0.0
        self._numbers = itertools.count(1)

    def unique(self, name: str) -> str:
        """Return "NAME-N", where N is new in this session: what could not be removed blocks no later name."""
        return f"{name}-{next(self._numbers)}"

    def netns_name(self, role: str) -> str:
        return f"lastro-{self.token}-{role}"

    @contextmanager
    def building(self) -> Iterator[None]:
        """Add the duration of the block to `built_s`, the time spent on building things that later sessions reuse."""
        began_s = time.monotonic()
        try:
            yield
        finally:
            self.built_s += time.monotonic() - began_s

    @contextmanager
    def owned(self, kind: str, name: str) -> Iterator[None]:
        """Record an object before the block makes it; after the block, remove the object and its record.

        After a failed removal, the record stays for `lastro clean`. Raises: PlatformError for a second of that name."""
        if any((owned.kind, owned.name) == (kind, name) for owned in self.owned_objects()):
            raise PlatformError(f"{kind} {name} is already in use", "give each instance a unique name")
        object_id = self.ledger.add(self.token, kind, name)
        try:
            yield
        finally:
            try:
                undo(self._owner, kind, name)
            except KeyboardInterrupt:  # the removal is incomplete; further signals are ignored until it is done
                undo(self._owner, kind, name)
                self.ledger.drop(object_id)
                raise
            self.ledger.drop(object_id)

    @contextmanager
    def owned_module(self, module: str) -> Iterator[None]:
        """Remove one of `undo.MODULES` after the block if it was loaded inside, and no other module uses it."""
        if self.host.view.exists(MODULES[module]):
            yield
            return
        with self.owned("module", kernel_module(self.host, module)):
            yield

    def mark(self) -> int:
        """Return the greatest id of the session's objects, for `undo_since`: what is made later has greater ids."""
        return max((owned.id for owned in self.owned_objects()), default=0)

    def undo_since(self, mark: int) -> None:
        """Remove the objects with ids above `mark` that are still in the ledger because an earlier removal failed.

        Raises: HostError when an object cannot be removed, since it would disturb the next measurement."""
        self.host.recover()
        for owned in self.owned_objects():
            if owned.id > mark:
                try:
                    undo(self._owner, owned.kind, owned.name)
                except (TrialError, OSError) as error:
                    raise HostError(
                        f"{owned.kind} {owned.name} cannot be removed: {error}",
                        "find out what uses it, then run `lastro resume`",
                    ) from error
                self.ledger.drop(owned.id)

    def owned_objects(self) -> list[OwnedObject]:
        return self.ledger.objects(self.token)

    def pids(self) -> set[int]:
        """Return the PIDs, except Lastro's own, with the session's token in their environment or in its cgroup."""
        files = self.host.view
        return files.owned_pids(self.token) | cgroups.detect(files=files).pids(self.cgroup)

    def end(self) -> None:
        """Remove the session's objects that are still in the ledger, and close the session if none remain.

        Objects remain after an interrupt, for example. It is not an error if one cannot be removed: `owned` has already
        raised that error, and the object stays in the ledger for `lastro clean`."""
        with suppress(LastroError):  # the same for an unreachable host
            self.host.recover()
        remaining = self.owned_objects()
        with suppress(ConnectionLost):
            if remaining:
                _end_processes(self.host, self.token)
        for owned in remaining:
            with suppress(LastroError, OSError):
                undo(self._owner, owned.kind, owned.name)
                self.ledger.drop(owned.id)
        self.ledger.close_session(self.token)


@contextmanager
def session(
    purpose: str, *, state: Path = STATE_DIR, wait: OnWait | None = None, beside: bool = False
) -> Iterator[Session]:
    """Hold this host, clean up after dead sessions, and yield a session that owns what is made inside the block.

    With `beside`, neither hold the host nor clean up, since the process that started this one has done so.

    Raises: HostBusy when another Lastro holds the host and `wait` is None; HostError when another user owns or may have
    changed the state directory, or when it contains files that are not Lastro's."""
    close_to_others(LocalHost(), state, RUN_DIR)
    ledger = Ledger(state)
    with ExitStack() as stack:
        stack.callback(ledger.close)
        if not beside:
            for place in (state, HOST_LOCK):
                stack.enter_context(lock(place, purpose, wait))
            _finish(ledger.clean)
        token = secrets.token_hex(3)
        yield stack.enter_context(enter_session(Session(ledger, token, LocalHost(token)), purpose))


@contextmanager
def enter_session(session: Session, purpose: str) -> Iterator[Session]:
    """Register a session in its ledger, and own the objects that every session has; remove them after the block.

    They are its two directories, its cgroup, and the mount for network namespaces if the host has none."""
    with ExitStack() as stack:
        stack.callback(_finish, session.end)
        session.ledger.open_session(session.token, purpose)
        if not mounts_below(session.host, str(NETNS_DIR)):
            stack.enter_context(session.owned("netns-dir", str(NETNS_DIR)))
        # Everything of an instance except its network is in these three: removing them also ends containers and mounts.
        directories = [("directory", session.run_dir), ("directory", session.scratch_dir)]
        for kind, name in (*directories, ("cgroup", session.cgroup)):
            stack.enter_context(session.owned(kind, str(name)))
        stack.callback(_end_processes, session.host, session.token)
        stack.callback(_reconnect, session.host)
        session.host.run(["mkdir", "-p", str(session.run_dir), str(session.scratch_dir)])
        yield session


def _reconnect(host: Host) -> None:
    """Reconnect before cleaning up; the trial has already reported the error."""
    with suppress(LastroError):
        host.recover()


def _finish(clean_up: Callable[[], object]) -> None:
    """Run a clean-up; if Ctrl-C interrupts it, run it again from the start, and only then raise KeyboardInterrupt."""
    try:
        clean_up()
    except KeyboardInterrupt:
        clean_up()
        raise


def _end_processes(host: Host, token: str) -> None:
    """Kill every process with a session's token in its environment. Raises: HostError when processes do not end."""
    deadline = time.monotonic() + _KILL_PATIENCE_S
    empty_looks = 0
    while empty_looks < 2:  # a single look may miss a process in the middle of exec, which has no environment
        pids = host.view.end_owned(token)
        empty_looks = 0 if pids else empty_looks + 1
        if pids and time.monotonic() > deadline:
            raise HostError(f"processes {sorted(pids)} do not end", "see what they wait for in /proc/PID/stack")
        time.sleep(0.005)
