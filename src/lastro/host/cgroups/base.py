"""What both versions of control groups share: limits, readings, and the lifecycle of a group."""

from __future__ import annotations

import errno
import os
import re
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

from lastro.errors import PlatformError, WriteFailed
from lastro.host.base import Host
from lastro.host.files import Files, LocalFiles

# Why the kernel refuses to write to a file of a control group, by the words of its error.
_REFUSALS = {
    os.strerror(errno.EBUSY): (
        "a group with processes cannot give controllers to groups below it: run Lastro where the group at the root of"
        " the mount is empty, such as a container with its own cgroup namespace and an init, or on the host"
    ),
    os.strerror(errno.EINVAL): (
        "the kernel does not accept this value here: the group may be threaded, the controller may be in use by version"
        " 1, or the CPUs, memory nodes or disk may not be those of this machine"
    ),
    os.strerror(errno.EROFS): (
        "control groups are mounted read-only, as in an unprivileged container: run it with --privileged, or mount"
        " /sys/fs/cgroup read-write"
    ),
    os.strerror(errno.EACCES): "control groups belong to another user here: run Lastro as root of the host",
    os.strerror(errno.ENOENT): "the controller is not enabled here: see cgroup.controllers of the group above",
    os.strerror(errno.EOPNOTSUPP): "the group above is threaded, and cannot have this controller",
}
PERIOD_US = 100_000  # of CPU quotas


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits and reservations of an instance; None means not set.

    cpus: CPU seconds per second (a hard quota). cpu_weight: weight under contention, 1 to 10000, 100 is usual.
    memory_bytes: hard limit. memory_reserved_bytes: reclaimed last. Rates are per second, on `block_device`.
    pids: processes and threads at the same time, with those that ended and are not yet reaped.

    No cgroup limits these: open_files, of each process (RLIMIT_NOFILE); link_bps, bits per second that the instance
    sends over a link of its own; connections, that its traffic keeps in a connection table."""

    cpus: float | None = None
    cpu_weight: int | None = None
    cpuset: str | None = None
    memory_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    read_bps: int | None = None
    write_bps: int | None = None
    read_iops: int | None = None
    write_iops: int | None = None
    block_device: str | None = None  # "MAJOR:MINOR"
    pids: int | None = None
    open_files: int | None = None
    link_bps: int | None = None
    connections: int | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))

    @property
    def cpu_shares(self) -> int | None:
        """The weight on version 1's scale (2 to 262144, 1024 is usual)."""
        return None if self.cpu_weight is None else max(2, min(262_144, round(self.cpu_weight * 1024 / 100)))


@dataclass(frozen=True, slots=True)
class GroupTasks:
    """The processes and threads of a group: how many it has now, and how many forks its limit has ever refused."""

    held: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources that a group has used since its creation: CPU seconds, bytes, operations.

    `hidden_s` is the part of `cpu_s` that the host's /proc does not show, as under Xen: a hypervisor gave it to an
    instance beside the host, whose kernel counts as stolen the time that it waited."""

    cpu_s: float = 0.0
    user_s: float = 0.0
    memory_bytes: int = 0
    memory_peak_bytes: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    read_ops: int = 0
    write_ops: int = 0
    hidden_s: float = 0.0

    @property
    def system_s(self) -> float:
        """CPU seconds of the host's kernel."""
        return self.cpu_s - self.user_s - self.hidden_s

    def since(self, earlier: Usage) -> Usage:
        """Return the use between two readings. The two values of memory are those of the later reading."""
        kept = {"memory_bytes", "memory_peak_bytes"}
        return Usage(
            **{
                f.name: getattr(self, f.name) - (0 if f.name in kept else getattr(earlier, f.name))
                for f in fields(self)
            }
        )


def total(used: Iterable[Usage]) -> Usage:
    """Return the sum of what several groups have used."""
    each = [*used]
    return Usage(**{f.name: sum(getattr(one, f.name) for one in each) for f in fields(Usage)})


class Cgroups(ABC):
    version: int

    def __init__(self, root: Path, files: Files | None = None) -> None:
        self.root, self.files = root, files or LocalFiles()
        self._peaks: dict[str, int] = {}  # open files that report a group's peak since they were written to

    @abstractmethod
    def directories(self, name: str) -> list[Path]:
        """Return the group's directory in every tree."""

    @abstractmethod
    def lacking(self) -> list[str]:
        """Return the controllers that limit resources and that this host does not have."""

    @abstractmethod
    def usage(self, name: str) -> Usage: ...

    @abstractmethod
    def cpu_file(self, name: str) -> Path:
        """Return the file that counts the group's CPU time, for `parse_cpu_s`."""

    @abstractmethod
    def parse_cpu_s(self, text: str) -> float:
        """Return the seconds of CPU time from the text of `cpu_file`."""

    @abstractmethod
    def pids_directory(self, name: str) -> Path:
        """Return the group's directory in the tree that counts processes."""

    def tasks(self, name: str) -> GroupTasks:
        """Return what the kernel counts of the group's processes. Raises: FileNotFoundError if it counts none."""
        files = {file: self.pids_directory(name) / file for file in ("pids.current", "pids.events")}
        text = self._texts(files, ("pids.current",))
        refused = re.search(r"^max (\d+)$", text["pids.events"], re.MULTILINE)
        return GroupTasks(int(text["pids.current"]), int(refused[1]) if refused else 0)

    @abstractmethod
    def kills_file(self, name: str) -> Path:
        """Return the file that counts the processes of the group that were killed for its limit on memory."""

    def memory_kills(self, names: Iterable[str]) -> int:
        """Return how many processes of these groups were killed for their limit on memory, all since their creation."""
        texts = self.files.read([str(self.kills_file(name)) for name in names]).values()
        return sum(int(match[1]) for text in texts if (match := re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)))

    @abstractmethod
    def peak_file(self, name: str) -> Path:
        """Return the file that reports the most memory that the group has had."""

    @contextmanager
    def fresh_peak(self, name: str) -> Iterator[bool]:
        """Make `usage` report the peak memory since the beginning of the block, not since the group's creation.

        Yields False if the peak is since the creation after all: on kernels that cannot reset it (version 2 before
        Linux 6.12), and on remote hosts, whose files we cannot hold open."""
        try:
            if not isinstance(self.files, LocalFiles):
                raise FileNotFoundError
            file = os.open(self.peak_file(name), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            yield False
            return
        try:
            fresh = _written(file, b"0\n")  # version 2 resets the peak for this open file alone
            if fresh:
                self._peaks[name] = file
            yield fresh
        finally:
            self._peaks.pop(name, None)
            os.close(file)

    def _peak(self, name: str, otherwise: str) -> int:
        return int(os.pread(self._peaks[name], 64, 0) if name in self._peaks else otherwise)

    @abstractmethod
    def settings(self, resources: Resources) -> list[tuple[str, str]]:
        """List (file, value) pairs that set the limits, in order; files are below the root, {name} is the group."""

    @abstractmethod
    def inherited(self, name: str) -> list[tuple[str, str]]:
        """List (file, text) pairs to write, in order, so that a new group can hold processes and be limited."""

    def make(self, host: Host, name: str, resources: Resources | None = None) -> None:
        """Make a group with limits. Raises: WriteFailed when the kernel refuses one."""
        host.run(["mkdir", "-p", *map(str, self.directories(name))])
        limits = self.settings(resources or Resources())
        for file, text in self.inherited(name):
            _write_apart(host, file, text)
        for file, text in limits:
            with _explained():
                host.write_text(str(self.root / file.format(name=name.strip("/"))), text)
        self.complete(host, name, resources or Resources())

    @abstractmethod
    def count_io(self, host: Host, name: str, device: str) -> None:
        """Make `usage` of the groups below `name` count reads and writes on a disk, given as "MAJOR:MINOR"."""

    def entering(self, name: str) -> list[str]:
        """Return the beginning of an argv whose process joins the group, and then becomes the rest of the argv.

        The process joins by itself, so that even its first instruction is counted in the group."""
        groups = shlex.join(map(str, self.directories(name)))
        return ["sh", "-c", f'for g in {groups}; do echo 0 > $g/cgroup.procs || exit 125; done; exec "$@"', "join"]

    def complete(self, host: Host, name: str, resources: Resources) -> None:
        """Set limits that a container runtime leaves out or rounds, so that a limit means the same on all platforms."""
        for file, text in self.completion(name, resources):
            with _explained():
                host.write_text(file, text)

    @abstractmethod
    def completion(self, name: str, resources: Resources) -> list[tuple[str, str]]:
        """List the (file, text) pairs that `complete` writes."""

    @abstractmethod
    def unlimited_disk(self, name: str) -> list[tuple[str, str]]:
        """List the (file, text) pairs that lift the group's limits of disk rates; none if it has no such limit.

        A dying container writes its file system back in its own group: under a limit, that may take very long, and the
        group cannot be removed before it ends."""

    def pids(self, name: str) -> set[int]:
        """Return the PIDs of the processes in the group and below it."""
        return self.files.pids_below([*map(str, self.directories(name))])

    def remove(self, name: str, patience_s: float = 20.0) -> None:
        """End the processes in the group and below it, and remove all of these groups.

        A process in a throttled write ends only when the write does, and a killed process leaves its group only after
        the kernel has freed its resources. So a group that is busy for a short time is not an error.

        Raises: PlatformError when a group cannot be removed in time, or for another reason."""
        deadline = time.monotonic() + patience_s
        directories = [*map(str, self.directories(name))]
        while True:
            self.files.end_below(directories)  # again: a fork may have escaped between our look and our signal
            left = self.files.remove_empty(directories)
            if not left:
                return
            if time.monotonic() > deadline or not all("busy" in reason for reason in left.values()):
                path, reason = next(iter(left.items()))
                raise PlatformError(f"cgroup {path} cannot be removed: {reason}")
            time.sleep(0.002)

    def _texts(self, files: Mapping[str, Path], required: tuple[str, ...]) -> dict[str, str]:
        """Return the texts of files by key, all read at the same time; empty for a missing file.

        Raises: FileNotFoundError when a required file is missing."""
        texts = self.files.read([*map(str, files.values())])
        for key in required:
            if str(files[key]) not in texts:
                raise FileNotFoundError(f"{files[key]} does not exist")
        return {key: texts.get(str(path), "") for key, path in files.items()}


def _write_apart(host: Host, file: str, text: str) -> None:
    """Write words to a file of a group; if the kernel refuses, word by word.

    Of several controllers in one write, it enables none, and does not say which it refuses."""
    try:
        host.write_text(file, text)
    except WriteFailed:
        for word in text.split():
            with _explained():
                host.write_text(file, word)


@contextmanager
def _explained() -> Iterator[None]:
    """Give the error of a write that the kernel refuses a hint. Source: the kernel's admin-guide/cgroup-v2."""
    try:
        yield
    except WriteFailed as error:
        error.hint = error.hint or next((hint for reason, hint in _REFUSALS.items() if reason in error.message), None)
        raise


def _written(file: int, data: bytes) -> bool:
    try:
        return os.write(file, data) == len(data)
    except OSError:
        return False
