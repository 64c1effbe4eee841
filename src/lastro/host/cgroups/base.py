"""The common part of both versions of control groups: limits, readings, and the lifecycle of a group."""

from __future__ import annotations

import errno
import os
import re
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar

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
    """Limits and reservations of an instance; None means not set. Cgroups do not set the last three."""

    cpus: float | None = None  # CPU seconds per second (a hard quota)
    cpu_weight: int | None = None  # share of contended CPUs, from 1 to 10000; the kernel's default is 100
    cpuset: str | None = None
    memory_bytes: int | None = None  # hard limit
    memory_reserved_bytes: int | None = None  # the kernel reclaims it only after all other memory
    read_bps: int | None = None  # bytes per second, on the disk `block_device`
    write_bps: int | None = None
    read_iops: int | None = None  # operations per second
    write_iops: int | None = None
    block_device: str | None = None  # "MAJOR:MINOR"
    pids: int | None = None  # processes and threads that exist at the same time, including zombies
    open_files: int | None = None  # of each process (RLIMIT_NOFILE)
    link_bps: int | None = None  # bits per second that the instance sends over each of its links
    connections: int | None = None  # entries for the instance's traffic in a connection table

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))

    @property
    def cpu_shares(self) -> int | None:
        """The weight on version 1's scale: 2 to 262144, by default 1024."""
        return None if self.cpu_weight is None else max(2, min(262_144, round(self.cpu_weight * 1024 / 100)))


@dataclass(frozen=True, slots=True)
class GroupTasks:
    """The tasks of a group: `held` processes and threads now, and `refused` forks because of its limit so far."""

    held: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources that a group has used since its creation: CPU seconds, bytes, operations."""

    cpu_s: float = 0.0
    user_s: float = 0.0
    memory_bytes: int = 0
    memory_peak_bytes: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    read_ops: int = 0
    write_ops: int = 0
    # The part of `cpu_s` that the host's /proc does not count, such as the CPU time of Xen domains. The host's kernel
    # reports the time in which it waited for a CPU that a domain used as steal time.
    hidden_s: float = 0.0

    @property
    def system_s(self) -> float:
        """CPU seconds that the host's kernel spent for the group."""
        return self.cpu_s - self.user_s - self.hidden_s

    def since(self, earlier: Usage) -> Usage:
        """Return the usage since the reading `earlier`, but `memory_bytes` and `memory_peak_bytes` of this reading."""
        names = [f.name for f in fields(self) if f.name not in ("memory_bytes", "memory_peak_bytes")]
        return replace(self, **{name: getattr(self, name) - getattr(earlier, name) for name in names})


def total(usages: Iterable[Usage]) -> Usage:
    """Return the sum of several usages."""
    summands = [*usages]
    return Usage(**{f.name: sum(getattr(usage, f.name) for usage in summands) for f in fields(Usage)})


class Cgroups(ABC):
    version: int
    # The paths below the root, with {} for the group's name, of the directory in the tree of the controller `pids`, and
    # of the files with the CPU time, the peak memory, and the count of processes that a memory limit has killed.
    _places: ClassVar[Mapping[str, str]]

    def __init__(self, root: Path, files: Files | None = None) -> None:
        self.root, self.files = root, files or LocalFiles()
        self._peaks: dict[str, int] = {}  # by group: a file descriptor that reports the peak since it was written to

    @abstractmethod
    def directories(self, name: str) -> list[Path]:
        """Return the group's directory in every tree."""

    @abstractmethod
    def missing_controllers(self) -> list[str]:
        """Return the controllers that limits need and this host lacks, such as "pids"; empty if it has all."""

    @abstractmethod
    def usage(self, name: str) -> Usage:
        """Return the group's usage since its creation. Raises: OSError when the group does not exist."""

    def cpu_file(self, name: str) -> Path:
        """Return the path of the file with the group's CPU time; `parse_cpu_s` parses its text."""
        return self._place("cpu", name)

    def _place(self, what: str, name: str) -> Path:
        return self.root / self._places[what].format(name.strip("/")).lstrip("/")

    @abstractmethod
    def parse_cpu_s(self, text: str) -> float:
        """Return the CPU seconds in the text of the file `cpu_file`."""

    def pids_directory(self, name: str) -> Path:
        """Return the group's directory in the tree of the controller `pids`."""
        return self._place("pids", name)

    def tasks(self, name: str) -> GroupTasks:
        """Return the kernel's count of the group's tasks. Raises: FileNotFoundError if the kernel has no such count."""
        files = {file: self.pids_directory(name) / file for file in ("pids.current", "pids.events")}
        text = self._texts(files, ("pids.current",))
        refused = re.search(r"^max (\d+)$", text["pids.events"], re.MULTILINE)
        return GroupTasks(int(text["pids.current"]), int(refused[1]) if refused else 0)

    def memory_kills(self, names: Iterable[str]) -> int:
        """Return how many processes of these groups the kernel has killed so far because of a memory limit."""
        texts = self.files.read([str(self._place("kills", name)) for name in names]).values()
        return sum(int(n) for text in texts for n in re.findall(r"^oom_kill (\d+)$", text, re.MULTILINE)[:1])

    def peak_file(self, name: str) -> Path:
        """Return the path of the file that reports the peak memory of the group."""
        return self._place("peak", name)

    @contextmanager
    def fresh_peak(self, name: str) -> Iterator[bool]:
        """Make `usage` report the peak memory since the beginning of the block, not since the group's creation.

        Yield whether the kernel has reset the peak. False means that `usage` still reports the peak since the group's
        creation: on version 2 before Linux 6.12, and on remote hosts, whose files cannot be kept open."""
        try:
            if not isinstance(self.files, LocalFiles):
                raise FileNotFoundError
            file = os.open(self.peak_file(name), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            yield False
            return
        is_reset = False
        try:
            with suppress(OSError):
                os.write(file, b"0\n")  # version 2 resets the peak only for this file descriptor
                self._peaks[name], is_reset = file, True
            yield is_reset
        finally:
            self._peaks.pop(name, None)
            os.close(file)

    def _peak(self, name: str, otherwise: str) -> int:
        return int(os.pread(self._peaks[name], 64, 0) if name in self._peaks else otherwise)

    @abstractmethod
    def settings(self, resources: Resources) -> list[tuple[str, str]]:
        """List the (file, value) pairs to write, in order, to set these limits on a group.

        Files are relative to `root`, and contain `{name}` in place of the group's name."""

    @abstractmethod
    def preparing_writes(self, name: str) -> list[tuple[str, str]]:
        """List the (file, text) pairs to write, in order, before a new group can contain processes and have limits."""

    def make(self, host: Host, name: str, resources: Resources | None = None) -> None:
        """Create a group with limits. Raises: WriteFailed when the kernel refuses a limit."""
        host.run(["mkdir", "-p", *map(str, self.directories(name))])
        limits = self.settings(resources or Resources())
        for file, text in self.preparing_writes(name):
            _write_words(host, file, text)
        for file, text in limits:
            with _hint_on_refusal():
                host.write_text(str(self.root / file.format(name=name.strip("/"))), text)
        self.complete(host, name, resources or Resources())

    @abstractmethod
    def count_io(self, host: Host, name: str, device: str) -> None:
        """Make the kernel count the reads and writes of groups below `name` on the disk `device`, "MAJOR:MINOR"."""

    def entering(self, name: str) -> list[str]:
        """Return the prefix of a command line whose process joins the group and then executes the command.

        The group's counters thus include the command from its first instruction on."""
        groups = shlex.join(map(str, self.directories(name)))
        return ["sh", "-c", f'for g in {groups}; do echo 0 > $g/cgroup.procs || exit 125; done; exec "$@"', "join"]

    def complete(self, host: Host, name: str, resources: Resources) -> None:
        """Set the limits that a container runtime leaves out or rounds, so that a limit is equal on all platforms."""
        for file, text in self.completing_writes(name, resources):
            with _hint_on_refusal():
                host.write_text(file, text)

    @abstractmethod
    def completing_writes(self, name: str, resources: Resources) -> list[tuple[str, str]]:
        """List the (file, text) pairs that `complete` writes."""

    @abstractmethod
    def unlimited_disk(self, name: str) -> list[tuple[str, str]]:
        """List the (file, text) pairs to write to remove the group's limits of disk rates; empty if it has none.

        When a container ends, its cached writes still go to the disk at the rate of its group. Under a limit, this may
        take very long, and until then the group cannot be removed."""

    def pids(self, name: str) -> set[int]:
        """Return the PIDs of the processes in the group and in all groups below it."""
        return self.files.pids_below([*map(str, self.directories(name))])

    def remove(self, name: str, patience_s: float = 20.0) -> None:
        """Kill the processes in the group and in all groups below it, and remove these groups.

        A process in a throttled write ends only when the write does, and a killed process leaves its group only after
        the kernel has freed its resources. So a busy group is tried again for up to `patience_s`.

        Raises: PlatformError when a group is still busy after that time, or cannot be removed for another reason."""
        deadline = time.monotonic() + patience_s
        directories = [*map(str, self.directories(name))]
        while True:
            self.files.end_below(directories)  # repeated, since a process may fork before it gets the signal
            remaining = self.files.remove_empty(directories)
            if not remaining:
                return
            if time.monotonic() > deadline or not all("busy" in reason for reason in remaining.values()):
                path, reason = next(iter(remaining.items()))
                raise PlatformError(f"cgroup {path} cannot be removed: {reason}")
            time.sleep(0.002)

    def _texts(self, files: Mapping[str, Path], required: tuple[str, ...]) -> dict[str, str]:
        """Return {key: text} for {key: path}, empty for a missing file. Raises: FileNotFoundError if it is required."""
        texts = self.files.read([*map(str, files.values())])
        for key in required:
            if str(files[key]) not in texts:
                raise FileNotFoundError(f"{files[key]} does not exist")
        return {key: texts.get(str(path), "") for key, path in files.items()}


def _write_words(host: Host, file: str, text: str) -> None:
    """Write all words of `text` to a cgroup file in one write or, if the kernel refuses that, each in its own write.

    If the kernel refuses one of several controllers, it enables none of them, and does not report which it refused."""
    try:
        host.write_text(file, text)
    except WriteFailed:
        for word in text.split():
            with _hint_on_refusal():
                host.write_text(file, word)


@contextmanager
def _hint_on_refusal() -> Iterator[None]:
    """Add a hint to a WriteFailed that says why the kernel refused. Source: the kernel's admin-guide/cgroup-v2."""
    try:
        yield
    except WriteFailed as error:
        error.hint = error.hint or next((hint for reason, hint in _REFUSALS.items() if reason in error.message), None)
        raise
