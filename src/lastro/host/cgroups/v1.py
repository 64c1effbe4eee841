"""Control groups, version 1: one tree per controller."""

from __future__ import annotations

import os
from pathlib import Path

from lastro.host.base import Host
from lastro.host.cgroups.base import PERIOD_US, Cgroups, Resources, Usage

_TICKS = os.sysconf("SC_CLK_TCK")


class CgroupsV1(Cgroups):
    """Control groups on version 1, and on hybrid hosts, whose version 2 tree has none of the required controllers."""

    version = 1
    _places = {
        "pids": "pids/{}",
        "cpu": "cpuacct/{}/cpuacct.usage",
        "peak": "memory/{}/memory.max_usage_in_bytes",
        "kills": "memory/{}/memory.oom_control",
    }
    _controllers = ("cpuset", "cpu", "blkio", "memory", "pids")

    def directories(self, name: str) -> list[Path]:
        return [self.root / tree / name.strip("/") for tree in self.files.directories(str(self.root))]

    def preparing_writes(self, name: str) -> list[tuple[str, str]]:
        """List the CPUs and memory nodes to write: each group on the path that has none gets those of its parent.

        A cpuset group without CPUs and memory nodes does not accept processes."""
        kinds, groups = ("cpuset.cpus", "cpuset.mems"), [self.root / "cpuset"]
        for part in Path(name.strip("/")).parts:
            groups.append(groups[-1] / part)
        texts = self.files.read([str(group / kind) for group in groups for kind in kinds])
        values = {kind: texts.get(str(groups[0] / kind), "").strip() for kind in kinds}
        if not any(values.values()):
            return []
        missing = []
        for group in groups[1:]:
            for kind in kinds:
                if text := texts.get(str(group / kind), "").strip():
                    values[kind] = text
                else:
                    missing.append((str(group / kind), values[kind]))
        return missing

    def missing_controllers(self) -> list[str]:
        trees = ",".join(self.files.directories(str(self.root))).split(",")  # such as "cpu,cpuacct"
        return [controller for controller in self._controllers if controller not in trees]

    def completing_writes(self, name: str, resources: Resources) -> list[tuple[str, str]]:
        """List the limit that forbids swap, if the kernel counts swap: Docker would allow as much swap as memory."""
        file = self.root / "memory" / name.strip("/") / "memory.memsw.limit_in_bytes"
        if not resources.memory_bytes or not self.files.exists(str(file)):
            return []
        return [(str(file), str(resources.memory_bytes))]

    def count_io(self, host: Host, name: str, device: str) -> None:
        """Write a rate of 0 (no limit), since recent kernels count only on disks for which a group has had a rate."""
        file = self.root / "blkio" / name.strip("/") / "blkio.throttle.write_bps_device"
        self.make(host, name)
        if self.files.exists(str(file)):
            host.write_text(str(file), f"{device} 0")

    def unlimited_disk(self, name: str) -> list[tuple[str, str]]:
        files = [str(self.root / "blkio" / name.strip("/") / file) for file in _RATE_FILES.values()]
        limits = self.files.read(files)
        return [(file, f"{line.split()[0]} 0") for file in files for line in limits.get(file, "").splitlines()]

    def parse_cpu_s(self, text: str) -> float:
        return int(text) / 1e9

    def usage(self, name: str) -> Usage:
        files = {file: self.root / tree / name.strip("/") / file for file, tree in _V1_USAGE.items()}
        text = self._texts(files, tuple(files))
        io = {field: _blkio_total(text[file]) for field, file in _BLKIO_FILES.items()}
        return Usage(
            cpu_s=self.parse_cpu_s(text["cpuacct.usage"]),
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
        limits = [(file, getattr(r, rate)) for rate, file in _RATE_FILES.items()]
        settings = [
            ("cpuset/{name}/cpuset.cpus", r.cpuset),
            ("cpu/{name}/cpu.cfs_period_us", PERIOD_US if r.cpus is not None else None),
            ("cpu/{name}/cpu.cfs_quota_us", round(r.cpus * PERIOD_US) if r.cpus is not None else None),
            ("cpu/{name}/cpu.shares", r.cpu_shares),
            ("memory/{name}/memory.limit_in_bytes", r.memory_bytes),
            ("memory/{name}/memory.soft_limit_in_bytes", r.memory_reserved_bytes),
            *(
                ("blkio/{name}/" + file, f"{r.block_device} {n}")
                for file, n in limits
                if r.block_device and n is not None
            ),
            ("pids/{name}/pids.max", r.pids),
        ]
        return [(file, str(value)) for file, value in settings if value is not None]


_RATE_FILES = {rate: f"blkio.throttle.{rate}_device" for rate in ("read_bps", "write_bps", "read_iops", "write_iops")}
_BLKIO_FILES = {"bytes": "blkio.throttle.io_service_bytes_recursive", "ops": "blkio.throttle.io_serviced_recursive"}
_V1_USAGE = {
    "cpuacct.usage": "cpuacct",
    "cpuacct.stat": "cpuacct",
    "memory.usage_in_bytes": "memory",
    "memory.max_usage_in_bytes": "memory",
    **dict.fromkeys(_BLKIO_FILES.values(), "blkio"),
}


def _blkio_total(text: str) -> tuple[int, int]:
    """Return the sums (reads, writes) over all devices, from lines such as '254:0 Read 4096'."""
    totals = {"Read": 0, "Write": 0}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in totals:
            totals[words[1]] += int(words[2])
    return totals["Read"], totals["Write"]
