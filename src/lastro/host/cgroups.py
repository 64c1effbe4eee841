"""Control groups, version 1 (one tree per controller) and version 2 (one tree), behind one small interface.

Names are paths below the root of every tree, such as `/lastro/1a2b3c/source`. Source: the kernel's
admin-guide/cgroup-v1 and admin-guide/cgroup-v2."""

from __future__ import annotations

import os
import shlex
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from signal import SIGKILL

from lastro.errors import PlatformError
from lastro.host.base import Host

_PERIOD_US = 100_000
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits and reservations of an instance. None means: not set.

    cpus: CPU time per time (a hard quota). cpu_weight: share under contention, 1 to 10000, 100 is usual.
    memory_bytes: hard limit. memory_reserved_bytes: reclaimed last. Rates are per second, on `block_device`."""

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

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) is not None for field in fields(self))

    @property
    def cpu_shares(self) -> int | None:
        """The weight on version 1's scale (2 to 262144, 1024 is usual)."""
        return None if self.cpu_weight is None else max(2, min(262_144, round(self.cpu_weight * 1024 / 100)))


@dataclass(frozen=True, slots=True)
class Usage:
    """What a group has used since it was made: CPU seconds, bytes, operations."""

    cpu_s: float = 0.0
    user_s: float = 0.0
    memory_bytes: int = 0
    memory_peak_bytes: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    read_ops: int = 0
    write_ops: int = 0

    def since(self, earlier: Usage) -> Usage:
        """The use between two readings. Memory is not a difference: current and peak as they are now."""
        kept = {"memory_bytes", "memory_peak_bytes"}
        return Usage(
            **{
                f.name: getattr(self, f.name) - (0 if f.name in kept else getattr(earlier, f.name))
                for f in fields(self)
            }
        )


class Cgroups(ABC):
    version: int

    def __init__(self, root: Path) -> None:
        self.root = root

    @abstractmethod
    def directories(self, name: str) -> list[Path]:
        """Where the group is in every tree."""

    @abstractmethod
    def usage(self, name: str) -> Usage: ...

    @abstractmethod
    def settings(self, resources: Resources) -> list[tuple[str, str]]:
        """(file below the root, with {name} for the group; value) that put limits into force, in order."""

    @abstractmethod
    def inherited(self, name: str) -> list[tuple[str, str]]:
        """(file, text) to write, in order, so that a new group can hold processes and be limited."""

    def make(self, host: Host, name: str, resources: Resources | None = None) -> None:
        """A group with limits. Raises: PlatformError when the kernel refuses one."""
        host.run(["mkdir", "-p", *map(str, self.directories(name))])
        limits = self.settings(resources or Resources())
        files = [
            *self.inherited(name),
            *((str(self.root / file.format(name=name.strip("/"))), text) for file, text in limits),
        ]
        for file, text in files:
            host.write_text(file, text)
        self.complete(host, name, resources or Resources())

    def entering(self, name: str) -> list[str]:
        """The beginning of an argv whose process joins the group before it becomes the rest of the argv.

        By itself, so that not even its first instruction is counted elsewhere."""
        groups = shlex.join(map(str, self.directories(name)))
        return ["sh", "-c", f'for g in {groups}; do echo 0 > $g/cgroup.procs || exit 125; done; exec "$@"', "join"]

    def complete(self, host: Host, name: str, resources: Resources) -> None:
        """Put into force what a container runtime leaves out or rounds, so that a limit means the same everywhere."""
        for file, text in self.completion(name, resources):
            host.write_text(file, text)

    @abstractmethod
    def completion(self, name: str, resources: Resources) -> list[tuple[str, str]]:
        """(file, text) for `complete`."""

    def pids(self, name: str) -> set[int]:
        """Processes in the group and below it."""
        found: set[int] = set()
        for top in self.directories(name):
            for directory, _, _ in os.walk(top):  # unlike a glob, at ease with groups that vanish meanwhile
                with suppress(OSError):
                    found.update(int(line) for line in (Path(directory) / "cgroup.procs").read_text().split())
        return found

    def remove(self, name: str, patience_s: float = 20.0) -> None:
        """End what is in the group and below it, and remove all of it.

        A process in the middle of a throttled write ends only when the write does.

        Raises: PlatformError when the kernel does not let it go in time."""
        deadline = time.monotonic() + patience_s
        _kill(self.pids(name))
        for directory in self.directories(name):
            for path, _, _ in os.walk(directory, topdown=False):
                self._rmdir_when_empty(name, Path(path), deadline)

    def _rmdir_when_empty(self, name: str, path: Path, deadline: float) -> None:
        """A killed process leaves its group only when it has been torn down: busy for a moment is no error."""
        while True:
            try:
                path.rmdir()
            except FileNotFoundError:
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise PlatformError(f"cgroup {path} cannot be removed: {error.strerror}") from error
                _kill(self.pids(name))  # again: a fork may have got away between our look and our signal
                time.sleep(0.002)
            else:
                return


def _kill(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, SIGKILL)


class CgroupsV1(Cgroups):
    """Also hybrid hosts, whose version 2 tree holds no controller that we need."""

    version = 1

    def directories(self, name: str) -> list[Path]:
        trees = sorted(tree for tree in self.root.iterdir() if tree.is_dir() and not tree.is_symlink())
        return [tree / name.strip("/") for tree in trees]

    def inherited(self, name: str) -> list[tuple[str, str]]:
        """A new cpuset group is empty, and takes no process until it has CPUs and memory nodes of its parent."""
        current = self.root / "cpuset"
        if not current.is_dir():
            return []
        values = {file: (current / file).read_text().strip() for file in ("cpuset.cpus", "cpuset.mems")}
        missing = []
        for part in Path(name.strip("/")).parts:
            current /= part
            for file in values:
                found = (current / file).read_text().strip() if (current / file).exists() else ""
                values[file] = found or values[file]
                if not found:
                    missing.append((str(current / file), values[file]))
        return missing

    def completion(self, name: str, resources: Resources) -> list[tuple[str, str]]:
        """No swap beyond the memory limit, where the kernel counts swap at all: Docker allows as much again."""
        file = self.root / "memory" / name.strip("/") / "memory.memsw.limit_in_bytes"
        return [(str(file), str(resources.memory_bytes))] if resources.memory_bytes and file.exists() else []

    def usage(self, name: str) -> Usage:
        def read(controller: str, file: str) -> str:
            return (self.root / controller / name.strip("/") / file).read_text()

        io = {field: _blkio_total(read("blkio", file)) for field, file in _BLKIO_FILES.items()}
        user_ticks = int(read("cpuacct", "cpuacct.stat").split()[1])
        return Usage(
            cpu_s=int(read("cpuacct", "cpuacct.usage")) / 1e9,
            user_s=user_ticks / _TICKS,
            memory_bytes=int(read("memory", "memory.usage_in_bytes")),
            memory_peak_bytes=int(read("memory", "memory.max_usage_in_bytes")),
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
        ]
        return [(file, str(value)) for file, value in wanted if value is not None]


_BLKIO_FILES = {"bytes": "blkio.throttle.io_service_bytes", "ops": "blkio.throttle.io_serviced"}


def _blkio_total(text: str) -> tuple[int, int]:
    """(reads, writes) over all devices, from lines such as '254:0 Read 4096'."""
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
        """A controller is there only when every group above has switched it on for its children."""
        available = set((self.root / "cgroup.controllers").read_text().split())
        wanted = " ".join(f"+{controller}" for controller in self._controllers if controller in available)
        above = [
            self.root,
            *reversed(list((self.root / name.strip("/")).parents)[: len(Path(name.strip("/")).parts) - 1]),
        ]
        return [(str(group / "cgroup.subtree_control"), wanted) for group in above if wanted]

    def usage(self, name: str) -> Usage:
        directory = self.root / name.strip("/")

        def read(file: str) -> str:
            """A file of a controller that may be missing: memory.peak, say, came with kernel 5.19."""
            return (directory / file).read_text() if (directory / file).exists() else ""

        lines = (directory / "cpu.stat").read_text().splitlines()  # in every group: without it the group is gone
        cpu = {key: int(value) for key, value in (line.split() for line in lines)}
        io = {"rbytes": 0, "wbytes": 0, "rios": 0, "wios": 0}
        for word in read("io.stat").split():
            key, _, value = word.partition("=")
            if key in io:
                io[key] += int(value)
        current = int(read("memory.current") or 0)
        return Usage(
            cpu_s=cpu.get("usage_usec", 0) / 1e6,
            user_s=cpu.get("user_usec", 0) / 1e6,
            memory_bytes=current,
            memory_peak_bytes=int(read("memory.peak") or current),
            read_bytes=io["rbytes"],
            write_bytes=io["wbytes"],
            read_ops=io["rios"],
            write_ops=io["wios"],
        )

    def completion(self, name: str, resources: Resources) -> list[tuple[str, str]]:
        """The weight itself, which runtimes compute from version 1's shares, each by a formula of its own; no swap;

        and the reservation in every group above too, since the kernel grants a group no more than its parent has."""
        group = self.root / name.strip("/")
        found = []
        if resources.cpu_weight is not None:
            found.append((str(group / "cpu.weight"), str(resources.cpu_weight)))
        if resources.memory_bytes is not None and (group / "memory.swap.max").exists():
            found.append((str(group / "memory.swap.max"), "0"))
        reserved = resources.memory_reserved_bytes
        for parent in group.parents if reserved is not None else ():
            if parent == self.root:
                break
            siblings = (child for child in parent.iterdir() if child.is_dir() and child != group)
            reserved = (reserved or 0) + sum(_low_bytes(child) for child in siblings)
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
        ]
        return [(file, str(value)) for file, value in wanted if value is not None]


def _low_bytes(group: Path) -> int:
    file = group / "memory.low"
    text = file.read_text().strip() if file.exists() else "0"
    return int(text) if text.isdigit() else 0


def detect(root: Path = Path("/sys/fs/cgroup")) -> Cgroups:
    """Version 2 when its controllers are at the root of the mount, as systemd hosts have it; else version 1."""
    return CgroupsV2(root) if (root / "cgroup.controllers").exists() else CgroupsV1(root)


def block_device_of(path: Path) -> str | None:
    """'MAJOR:MINOR' of the whole disk under a path, or None where there is none (tmpfs, overlay)."""
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    node = Path(f"/sys/dev/block/{number}")
    if not node.exists():
        return None
    # Throttling works on whole disks: for a partition, its parent.
    whole = node.resolve().parent / "dev" if (node / "partition").exists() else node / "dev"
    return whole.read_text().strip()
