"""Control groups, version 2: one tree for all controllers."""

from __future__ import annotations

from pathlib import Path

from lastro.host.base import Host
from lastro.host.cgroups.base import PERIOD_US, Cgroups, Resources, Usage


class CgroupsV2(Cgroups):
    version = 2
    _places = {"pids": "{}", "cpu": "{}/cpu.stat", "peak": "{}/memory.peak", "kills": "{}/memory.events"}
    _controllers = ("cpuset", "cpu", "io", "memory", "pids")

    def directories(self, name: str) -> list[Path]:
        return [self.root / name.strip("/")]

    def preparing_writes(self, name: str) -> list[tuple[str, str]]:
        """List the (file, text) pairs that enable the controllers in every ancestor group, from the root down.

        A group has only the controllers that all of its ancestors enable for their children."""
        missing = self.missing_controllers()
        text = " ".join(f"+{controller}" for controller in self._controllers if controller not in missing)
        if not text:
            return []
        parents = [self.root]
        for part in Path(name.strip("/")).parts[:-1]:
            parents.append(parents[-1] / part)
        return [(str(group / "cgroup.subtree_control"), text) for group in parents]

    def missing_controllers(self) -> list[str]:
        file = str(self.root / "cgroup.controllers")
        available = self.files.read([file]).get(file, "").split()
        return [controller for controller in self._controllers if controller not in available]

    def count_io(self, host: Host, name: str, device: str) -> None:
        """Do nothing: version 2 always counts reads and writes."""

    def unlimited_disk(self, name: str) -> list[tuple[str, str]]:
        file = str(self.root / name.strip("/") / "io.max")
        lines = self.files.read([file]).get(file, "").splitlines()
        return [(file, f"{line.split()[0]} rbps=max wbps=max riops=max wiops=max") for line in lines]

    def parse_cpu_s(self, text: str) -> float:
        return _counts(text).get("usage_usec", 0) / 1e6

    def usage(self, name: str) -> Usage:
        files = ("cpu.stat", "io.stat", "memory.current", "memory.peak")  # the last is new in Linux 5.19
        # Every group has the first file: without it, the group is gone. Files of controllers may be missing.
        text = self._texts({file: self.root / name.strip("/") / file for file in files}, files[:1])
        io = {"rbytes": 0, "wbytes": 0, "rios": 0, "wios": 0}
        for word in text["io.stat"].split():
            key, _, value = word.partition("=")
            if key in io:
                io[key] += int(value)
        current = int(text["memory.current"] or 0)
        return Usage(
            cpu_s=self.parse_cpu_s(text["cpu.stat"]),
            user_s=_counts(text["cpu.stat"]).get("user_usec", 0) / 1e6,
            memory_bytes=current,
            memory_peak_bytes=self._peak(name, text["memory.peak"] or str(current)),
            read_bytes=io["rbytes"],
            write_bytes=io["wbytes"],
            read_ops=io["rios"],
            write_ops=io["wios"],
        )

    def completing_writes(self, name: str, resources: Resources) -> list[tuple[str, str]]:
        """List the CPU weight, a swap limit of 0, and the memory reservations of all ancestor groups.

        Runtimes compute the weight from the CPU shares of version 1, each by a different formula. A group's reservation
        is effective only as far as its parent's, so each ancestor reserves the sum of its children's reservations."""
        group = self.root / name.strip("/")
        settings = []
        if resources.cpu_weight is not None:
            settings.append((str(group / "cpu.weight"), str(resources.cpu_weight)))
        if resources.memory_bytes is not None and self.files.exists(str(group / "memory.swap.max")):
            settings.append((str(group / "memory.swap.max"), "0"))
        reserved = resources.memory_reserved_bytes
        if reserved is None:
            return settings
        for parent in group.parents:
            if parent == self.root:
                break
            siblings = {parent / child for child in self.files.directories(str(parent))} - {group}
            texts = self.files.read([str(child / "memory.low") for child in siblings]).values()
            reserved += sum(int(text) for text in texts if text.strip().isdigit())
            settings.append((str(parent / "memory.low"), str(reserved)))
            group = parent
        return settings

    def settings(self, resources: Resources) -> list[tuple[str, str]]:
        r = resources
        rates = {"rbps": r.read_bps, "wbps": r.write_bps, "riops": r.read_iops, "wiops": r.write_iops}
        limits = " ".join(f"{key}={value}" for key, value in rates.items() if value is not None)
        settings = [
            ("{name}/cpuset.cpus", r.cpuset),
            ("{name}/cpu.max", f"{round(r.cpus * PERIOD_US)} {PERIOD_US}" if r.cpus is not None else None),
            ("{name}/cpu.weight", r.cpu_weight),
            ("{name}/memory.max", r.memory_bytes),
            ("{name}/memory.low", r.memory_reserved_bytes),
            ("{name}/io.max", f"{r.block_device} {limits}" if r.block_device and limits else None),
            ("{name}/pids.max", r.pids),
        ]
        return [(file, str(value)) for file, value in settings if value is not None]


def _counts(text: str) -> dict[str, int]:
    return {key: int(value) for key, value in (line.split() for line in text.splitlines())}
