"""Read files of a host's kernel and disk, and end processes there, without a record in the transcript."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # the PATH; that of the user may be empty
OWNER_VARIABLE = "LASTRO_OWNER"  # in the environment of every process that we start, to find them after a crash
# Type, mode, owner, group, size, time, target of a link and path of each file: find(1), -printf.
LISTING_FORMAT = r"%y\t%m\t%U\t%G\t%s\t%T@\t%l\t%P\0"
_AT_ONCE = 256  # processes to kill in one call, since each needs a file descriptor


class Files(ABC):
    """The files and processes of one host. A file or process that disappears during a call is left out."""

    @abstractmethod
    def read(self, paths: Sequence[str]) -> dict[str, str]:
        """Return {path: text of the file}; files that cannot be read are left out."""

    @abstractmethod
    def names(self, directory: str) -> list[str]:
        """List the names of all entries of a directory, sorted; empty if the directory cannot be read."""

    @abstractmethod
    def directories(self, directory: str) -> list[str]:
        """List the names of a directory's subdirectories, sorted, without symbolic links to directories."""

    @abstractmethod
    def exists(self, path: str) -> bool: ...

    @abstractmethod
    def pids_below(self, groups: Sequence[str]) -> set[int]:
        """Return the PIDs of the processes in these cgroups, given as directories, and in all cgroups below them."""

    @abstractmethod
    def owned_pids(self, token: str) -> set[int]:
        """Return the PIDs of the processes that have a session's token in their environment, except Lastro itself."""

    @abstractmethod
    def threads(self, token: str, groups: Sequence[str], excluded: Sequence[str]) -> dict[int, tuple[int, int]]:
        """Return {thread ID: (CPU time in ns, voluntary context switches)} of the threads of a session.

        A process belongs to the session if it has the token in its environment, or is in one of the cgroups `groups`.
        Lastro itself and the servers of its connections are included. Processes in the cgroups `excluded` are left out.
        Empty on a kernel that does not count CPU time and switches by thread. Source: proc_pid_status(5); the kernel's
        scheduler/sched-stats."""

    @abstractmethod
    def end_owned(self, token: str) -> set[int]:
        """Send SIGKILL to the processes with a session's token in their environment, except Lastro; return the PIDs."""

    @abstractmethod
    def end_below(self, groups: Sequence[str]) -> None:
        """Send SIGKILL to the processes in these cgroups, given as directories, and in all cgroups below them."""

    @abstractmethod
    def listing(self, tree: str) -> str:
        """Return the names and inode data of all files in a tree, as find(1) prints them by LISTING_FORMAT."""

    @abstractmethod
    def remove_empty(self, directories: Sequence[str], *, below: bool = True) -> dict[str, str]:
        """Remove each of `directories` that is empty; with `below`, first remove the empty directories below it.

        Return {path: reason} of the directories that could not be removed."""


_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


@contextmanager
def _readable() -> Iterator[None]:
    """Ignore an OSError inside the block, so that a file that cannot be read is skipped.

    An OSError is still raised for lack of descriptors or memory: otherwise, all facts would be recorded as absent."""
    try:
        yield
    except OSError as error:
        if error.errno in _EXHAUSTED:
            raise


class LocalFiles(Files):
    def read(self, paths: Sequence[str]) -> dict[str, str]:
        texts = {}
        for path in paths:
            with _readable():
                texts[path] = Path(path).read_text(encoding="utf-8", errors="replace")
        return texts

    def names(self, directory: str) -> list[str]:
        with _readable():
            return sorted(entry.name for entry in Path(directory).iterdir())
        return []

    def directories(self, directory: str) -> list[str]:
        with _readable(), os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return []

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def pids_below(self, groups: Sequence[str]) -> set[int]:
        pids: set[int] = set()
        for top in groups:
            for directory, _, _ in os.walk(top):  # unlike a glob, it tolerates groups that vanish meanwhile
                with suppress(OSError):
                    pids.update(int(line) for line in (Path(directory) / "cgroup.procs").read_bytes().split())
        return pids

    def owned_pids(self, token: str) -> set[int]:
        mark = f"{OWNER_VARIABLE}={token}".encode()
        pids = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    owned = mark in (entry / "environ").read_bytes().split(b"\0")
                    if owned and start_time(int(entry.name)) is not None:
                        pids.add(int(entry.name))
        return pids - {os.getpid()}

    def threads(self, token: str, groups: Sequence[str], excluded: Sequence[str]) -> dict[int, tuple[int, int]]:
        pids = self.owned_pids(token) | self.pids_below(groups) | {os.getpid()}
        activity = {}
        for pid in pids - self.pids_below(excluded):
            for thread in self.names(f"/proc/{pid}/task"):
                with suppress(OSError, ValueError, IndexError):
                    place = Path(f"/proc/{pid}/task/{thread}")
                    ran_ns = int((place / "schedstat").read_bytes().split()[0])
                    waits = (place / "status").read_bytes().partition(b"\nvoluntary_ctxt_switches:")[2].split()[0]
                    activity[int(thread)] = (ran_ns, int(waits))
        return activity

    def end_owned(self, token: str) -> set[int]:
        return _kill(lambda: self.owned_pids(token))

    def end_below(self, groups: Sequence[str]) -> None:
        for group in groups:
            with suppress(OSError), open(Path(group, "cgroup.kill"), "r+") as file:  # version 2, from Linux 5.14 on
                file.write("1")
        _kill(lambda: self.pids_below(groups))

    def listing(self, tree: str) -> str:
        argv = ["find", tree, "-printf", LISTING_FORMAT]
        done = subprocess.run(argv, capture_output=True, check=True, env={"PATH": SEARCHED})
        return done.stdout.decode(errors="surrogateescape")

    def remove_empty(self, directories: Sequence[str], *, below: bool = True) -> dict[str, str]:
        remaining = {}
        for top in directories:
            paths = [directory for directory, _, _ in os.walk(top, topdown=False)] if below else [top]
            for path in paths:
                try:
                    Path(path).rmdir()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    remaining[path] = error.strerror or str(error)
        return remaining


def _kill(find_pids: Callable[[], set[int]]) -> set[int]:
    """Send SIGKILL to the processes that `find_pids` returns, and return the PIDs found.

    The kernel may reuse a PID before the signal is sent. So a descriptor (pidfd) is opened for each process, and the
    process is killed only if a second call of `find_pids` still returns its PID."""
    descriptors: dict[int, int] = {}
    try:
        pids = find_pids()
        for pid in sorted(pids)[:_AT_ONCE]:
            with suppress(OSError):
                descriptors[pid] = os.pidfd_open(pid)
        confirmed = descriptors.keys() & find_pids() if descriptors else set[int]()
        for pid in confirmed:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptors[pid], signal.SIGKILL)
        return pids
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)


def file_sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def boot_id() -> str:
    """Return the kernel's identifier of this machine's current boot; empty if the kernel has none."""
    return "".join(LocalFiles().read(["/proc/sys/kernel/random/boot_id"]).values()).strip()


def start_time(pid: int) -> int | None:
    """Return when a local process started, in clock ticks since boot; None when it has ended.

    The PID and the start time together identify a process, since PIDs are reused."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields and fields[0] != "Z" else None


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat of a local process, from the third one (its state) on; empty if it has ended.

    The first two fields are left out: the PID, and the name, which may be any bytes."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
