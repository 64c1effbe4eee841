"""Control groups, version 1 (one tree per controller) and version 2 (one tree), behind one small interface.

Names are paths below the root of every tree, such as `/lastro/1a2b3c/source`. Source: the kernel's
admin-guide/cgroup-v1 and admin-guide/cgroup-v2."""

from __future__ import annotations

import os
import re
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

from lastro.errors import PlatformError
from lastro.host.base import Host
from lastro.host.files import Files, LocalFiles

_PERIOD_US = 100_000
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits and reservations of an instance; None means not set.

    cpus: CPU seconds per second (a hard quota). cpu_weight: weight under contention, 1 to 10000, 100 is usual.
    memory_bytes: hard limit. memory_reserved_bytes: reclaimed last. Rates are per second, on `block_device`.
    pids: processes and threads at the same time, with those that ended and are not yet reaped."""

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

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))

    @property
    def cpu_shares(self) -> int | None:
        """The weight on version 1's scale (2 to 262144, 1024 is usual)."""
        return None if self.cpu_weight is None else max(2, min(262_144, round(self.cpu_weight * 1024 / 100)))


@dataclass(frozen=True, slots=True)
class Tasks:
    """The processes and threads of a group: how many it has now, and how many forks its limit has ever refused."""

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

    def since(self, earlier: Usage) -> Usage:
        """Return the use between two readings. The two values of memory are those of the later reading."""
        kept = {"memory_bytes", "memory_peak_bytes"}
        return Usage(
            **{
                f.name: getattr(self, f.name) - (0 if f.name in kept else getattr(earlier, f.name))
                for f in fields(self)
            }
        )


class Cgroups(ABC):
    version: int

    def __init__(self, root: Path, files: Files | None = None) -> None:
        self.root, self.files = root, files or LocalFiles()
        self._peaks: dict[str, int] = {}  # open files that report a group's peak since they were written to

    @abstractmethod
    def directories(self, name: str) -> list[Path]:
        """Return the group's directory in every tree."""

    @abstractmethod
    def usage(self, name: str) -> Usage: ...

    @abstractmethod
    def pids_directory(self, name: str) -> Path:
        """Return the group's directory in the tree that counts processes."""

    def tasks(self, name: str) -> Tasks:
        """Return what the kernel counts of the group's processes. Raises: FileNotFoundError if it counts none."""
        files = {file: self.pids_directory(name) / file for file in ("pids.current", "pids.events")}
        text = self._texts(files, ("pids.current",))
        refused = re.search(r"^max (\d+)$", text["pids.events"], re.MULTILINE)
        return Tasks(int(text["pids.current"]), int(refused[1]) if refused else 0)

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
        files = [
            *self.inherited(name),
            *((str(self.root / file.format(name=name.strip("/"))), text) for file, text in limits),
        ]
        for file, text in files:
            host.write_text(file, text)
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
            host.write_text(file, text)

    @abstractmethod
    def completion(self, name: str, resources: Resources) -> list[tuple[str, str]]:
        """List the (file, text) pairs that `complete` writes."""

    def pids(self, name: str) -> set[int]:
        """Return the PIDs of the processes in the group and below it."""
        return self.files.pids_below([*map(str, self.directories(name))])

    def remove(self, name: str, patience_s: float = 20.0) -> None:
        """End the processes in the group and below it, and remove all of these groups.

        A process in a throttled write ends only when the write does, and a killed process leaves its group only after
        the kernel has freed its resources. So a group that is busy for a short time is not an error.

        Raises: PlatformError when a group cannot be removed in time."""
        deadline = time.monotonic() + patience_s
        directories = [*map(str, self.directories(name))]
        while True:
            self.files.end_below(directories)  # again: a fork may have escaped between our look and our signal
            left = self.files.remove_empty(directories)
            if not left:
                return
            if time.monotonic() > deadline:
                path, reason = next(iter(left.items()))
                raise PlatformError(f"cgroup {path} cannot be removed: {reason}")
            time.sleep(0.002)

    def _texts(self, files: Mapping[str, Path], required: tuple[str, ...]) -> dict[str, str]:
        """Return the texts of files by key, all read at the same time; empty for a missing file.

        Raises: FileNotFoundError when a required file is missing."""
        found = self.files.read([*map(str, files.values())])
        for key in required:
            if str(files[key]) not in found:
                raise FileNotFoundError(f"{files[key]} does not exist")
        return {key: found.get(str(path), "") for key, path in files.items()}


def _written(file: int, data: bytes) -> bool:
    try:
        return os.write(file, data) == len(data)
    except OSError:
        return False


class CgroupsV1(Cgroups):
    """Control groups on version 1, and on hybrid hosts, whose version 2 tree has no controller that we need."""

    version = 1

    def directories(self, name: str) -> list[Path]:
        return [self.root / tree / name.strip("/") for tree in self.files.directories(str(self.root))]

    def inherited(self, name: str) -> list[tuple[str, str]]:
        """Give new cpuset groups CPUs and memory nodes of their parent: without them, they accept no process."""
        kinds, above = ("cpuset.cpus", "cpuset.mems"), [self.root / "cpuset"]
        for part in Path(name.strip("/")).parts:
            above.append(above[-1] / part)
        texts = self.files.read([str(group / kind) for group in above for kind in kinds])
        values = {kind: texts.get(str(above[0] / kind), "").strip() for kind in kinds}
        missing = []
        for group in above[1:] if any(values.values()) else ():
            for kind in kinds:
                found = texts.get(str(group / kind), "").strip()
                values[kind] = found or values[kind]
                if not found:
                    missing.append((str(group / kind), values[kind]))
        return missing

    def pids_directory(self, name: str) -> Path:
        return self.root / "pids" / name.strip("/")

    def peak_file(self, name: str) -> Path:
        return self.root / "memory" / name.strip("/") / "memory.max_usage_in_bytes"

    def completion(self, name: str, resources: Resources) -> list[tuple[str, str]]:
        """Allow no swap, if the kernel counts it: by default, Docker allows as much swap as memory."""
        file = self.root / "memory" / name.strip("/") / "memory.memsw.limit_in_bytes"
        if not resources.memory_bytes or not self.files.exists(str(file)):
            return []
        return [(str(file), str(resources.memory_bytes))]

    def count_io(self, host: Host, name: str, device: str) -> None:
        """Set a rate of 0 (no limit): recent kernels count on a disk only if some group has had a rate for it."""
        file = self.root / "blkio" / name.strip("/") / "blkio.throttle.write_bps_device"
        self.make(host, name)
        if self.files.exists(str(file)):
            host.write_text(str(file), f"{device} 0")

    def usage(self, name: str) -> Usage:
        files = {file: self.root / tree / name.strip("/") / file for file, tree in _V1_USAGE.items()}
        text = self._texts(files, tuple(files))
        io = {field: _blkio_total(text[file]) for field, file in _BLKIO_FILES.items()}
        return Usage(
            cpu_s=int(text["cpuacct.usage"]) / 1e9,
            user_s=int(text["cpuacct.stat"].split()[1]) / _TICKS,
            memory_bytes=int(text["memory.usage_in_bytes"]),
            memory_peak_bytes=self._peak(name, text["memory.max_usage_in_bytes"]),
            read_bytes=io["bytes"][0],
            write_bytes=io["bytes"][1],
            read_ops=io["ops"][0],
            write_ops=io["ops"][1],
        )

    def settings(self, resources: Resources) -> list[tuple[str, str]]:
        r = resources
        device = r.block_device
        wanted = [
            ("cpuset/{name}/cpuset.cpus", r.cpuset),
            ("cpu/{name}/cpu.cfs_period_us", _PERIOD_US if r.cpus is not None else None),
            ("cpu/{name}/cpu.cfs_quota_us", round(r.cpus * _PERIOD_US) if r.cpus is not None else None),
            ("cpu/{name}/cpu.shares", r.cpu_shares),
            ("memory/{name}/memory.limit_in_bytes", r.memory_bytes),
            ("memory/{name}/memory.soft_limit_in_bytes", r.memory_reserved_bytes),
            ("blkio/{name}/blkio.throttle.read_bps_device", _on(device, r.read_bps)),
            ("blkio/{name}/blkio.throttle.write_bps_device", _on(device, r.write_bps)),
            ("blkio/{name}/blkio.throttle.read_iops_device", _on(device, r.read_iops)),
            ("blkio/{name}/blkio.throttle.write_iops_device", _on(device, r.write_iops)),
            ("pids/{name}/pids.max", r.pids),
        ]
        return [(file, str(value)) for file, value in wanted if value is not None]


_BLKIO_FILES = {"bytes": "blkio.throttle.io_service_bytes", "ops": "blkio.throttle.io_serviced"}
_V1_USAGE = {
    "cpuacct.usage": "cpuacct",
    "cpuacct.stat": "cpuacct",
    "memory.usage_in_bytes": "memory",
    "memory.max_usage_in_bytes": "memory",
    **dict.fromkeys(_BLKIO_FILES.values(), "blkio"),
}


def _blkio_total(text: str) -> tuple[int, int]:
    """Sum up (reads, writes) over all devices, from lines such as '254:0 Read 4096'."""
    totals = {"Read": 0, "Write": 0}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in totals:
            totals[words[1]] += int(words[2])
    return totals["Read"], totals["Write"]


def _on(device: str | None, value: int | None) -> str | None:
    return f"{device} {value}" if device and value is not None else None


class CgroupsV2(Cgroups):
    version = 2
    _controllers = ("cpuset", "cpu", "io", "memory", "pids")

    def directories(self, name: str) -> list[Path]:
        return [self.root / name.strip("/")]

    def inherited(self, name: str) -> list[tuple[str, str]]:
        """Enable controllers in all parent groups: a group has only those that every ancestor enables for children."""
        file = str(self.root / "cgroup.controllers")
        available = set(self.files.read([file]).get(file, "").split())
        wanted = " ".join(f"+{controller}" for controller in self._controllers if controller in available)
        above = [
            self.root,
            *reversed(list((self.root / name.strip("/")).parents)[: len(Path(name.strip("/")).parts) - 1]),
        ]
        return [(str(group / "cgroup.subtree_control"), wanted) for group in above if wanted]

    def pids_directory(self, name: str) -> Path:
        return self.root / name.strip("/")

    def peak_file(self, name: str) -> Path:
        return self.root / name.strip("/") / "memory.peak"

    def count_io(self, host: Host, name: str, device: str) -> None:
        """Do nothing: version 2 always counts."""

    def usage(self, name: str) -> Usage:
        files = ("cpu.stat", "io.stat", "memory.current", "memory.peak")  # the last is new in Linux 5.19
        # Every group has the first file: without it, the group is gone. Files of controllers may be missing.
        text = self._texts({file: self.root / name.strip("/") / file for file in files}, files[:1])
        cpu = {key: int(value) for key, value in (line.split() for line in text["cpu.stat"].splitlines())}
        io = {"rbytes": 0, "wbytes": 0, "rios": 0, "wios": 0}
        for word in text["io.stat"].split():
            key, _, value = word.partition("=")
            if key in io:
                io[key] += int(value)
        current = int(text["memory.current"] or 0)
        return Usage(
            cpu_s=cpu.get("usage_usec", 0) / 1e6,
            user_s=cpu.get("user_usec", 0) / 1e6,
            memory_bytes=current,
            memory_peak_bytes=self._peak(name, text["memory.peak"] or str(current)),
            read_bytes=io["rbytes"],
            write_bytes=io["wbytes"],
            read_ops=io["rios"],
            write_ops=io["wios"],
        )

    def completion(self, name: str, resources: Resources) -> list[tuple[str, str]]:
        """Set the weight, no swap, and the memory reservation, which parent groups need, too.

        Runtimes compute the weight from the shares of version 1, each by a different formula. The kernel grants a group
        no more reserved memory than its parent has."""
        group = self.root / name.strip("/")
        found = []
        if resources.cpu_weight is not None:
            found.append((str(group / "cpu.weight"), str(resources.cpu_weight)))
        if resources.memory_bytes is not None and self.files.exists(str(group / "memory.swap.max")):
            found.append((str(group / "memory.swap.max"), "0"))
        reserved = resources.memory_reserved_bytes
        for parent in group.parents if reserved is not None else ():
            if parent == self.root:
                break
            siblings = {parent / child for child in self.files.directories(str(parent))} - {group}
            lows = self.files.read([str(child / "memory.low") for child in siblings]).values()
            reserved = (reserved or 0) + sum(int(low) for text in lows if (low := text.strip()).isdigit())
            found.append((str(parent / "memory.low"), str(reserved)))
            group = parent
        return found

    def settings(self, resources: Resources) -> list[tuple[str, str]]:
        r = resources
        rates = {"rbps": r.read_bps, "wbps": r.write_bps, "riops": r.read_iops, "wiops": r.write_iops}
        given = " ".join(f"{key}={value}" for key, value in rates.items() if value is not None)
        wanted = [
            ("{name}/cpuset.cpus", r.cpuset),
            ("{name}/cpu.max", f"{round(r.cpus * _PERIOD_US)} {_PERIOD_US}" if r.cpus is not None else None),
            ("{name}/cpu.weight", r.cpu_weight),
            ("{name}/memory.max", r.memory_bytes),
            ("{name}/memory.low", r.memory_reserved_bytes),
            ("{name}/io.max", f"{r.block_device} {given}" if r.block_device and given else None),
            ("{name}/pids.max", r.pids),
        ]
        return [(file, str(value)) for file, value in wanted if value is not None]


def parse_cpus(text: str) -> frozenset[int]:
    """Parse CPUs, '0-2,5' -> {0, 1, 2, 5}; nothing when it is not a list as the kernel writes it (cpuset(7))."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            return frozenset()
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


# The query of `block_device_of` for the shell of a remote host.
_DISK = """n=/sys/dev/block/$(stat -c %Hd:%Ld -- "$1"); [ -e "$n" ] || exit 0
n=$(readlink -f "$n"); [ ! -e "$n/partition" ] || n=${n%/*}; cat "$n/dev\""""


def detect(root: Path = Path("/sys/fs/cgroup"), files: Files | None = None) -> Cgroups:
    """Return version 2 if its controllers are at the root of the mount, as on systemd hosts; else version 1."""
    files = files or LocalFiles()
    version2 = files.exists(str(root / "cgroup.controllers"))
    return CgroupsV2(root, files) if version2 else CgroupsV1(root, files)


def block_device_of(path: Path, host: Host | None = None) -> str | None:
    """Return 'MAJOR:MINOR' of the whole disk under a path, or None if there is none (tmpfs, overlay)."""
    if host is not None and host.remote:
        return host.run(["sh", "-c", _DISK, "disk", str(path)]).text.strip() or None
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    node = Path(f"/sys/dev/block/{number}")
    if not node.exists():
        return None
    # Throttling works on whole disks: for a partition, take its parent.
    whole = node.resolve().parent / "dev" if (node / "partition").exists() else node / "dev"
    return whole.read_text().strip()
