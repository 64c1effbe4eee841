"""Resources reserved for the chain and limited for its neighbour, from the usage in a run without an anomaly.

Kagami and Gaspary (2017) reserve CPU, memory, I/O operations and disk throughput for the chain's containers from the
usage in a previous run, and publish no numbers. In Lastro, an instance of the chain gets a CPU weight in proportion to
the chain's need and a memory reservation with headroom, but no quota: a saturating flow would measure the quota. The
neighbour gets the CPUs that the chain leaves free at its peak. It represents a misbehaving network function. So its
memory and disk limits are what the function needed when it behaved well, with headroom, and with a minimum below which
a process cannot work. Its limits on processes, open files, connections, and bits per second on its own link are fixed
numbers, since every function needs only a few of each. No cgroup limits the last three: RLIMIT_NOFILE, a rule of
nftables and a token bucket do. Each trial records the limits that applied.

On cgroup v1 the kernel does not throttle buffered writes, only direct and synchronous ones."""

from __future__ import annotations

from dataclasses import replace

from lastro.host.cgroups import Resources
from lastro.isolation.base import NEIGHBOUR, Isolation, MeasuredUse, Profile
from lastro.platforms.base import Availability, Instance, InstanceSpec, Platform
from lastro.testbed import IN_A_GUEST, Testbed

HEADROOM = 2.0
_IDLE = MeasuredUse(0, 0, 0, 0, 0, 0)
_FLOOR_CPUS = 0.1
_FLOOR_MEMORY_BYTES, _PAGE_BYTES = 64 << 20, 4096
_FLOOR_BPS = 4 << 20
_FLOOR_IOPS = 100
_PROCESSES = 256
_OPEN_FILES = 256  # of each process: with the processes, 65,536 in all
_CONNECTIONS = 256
_LINK_BPS = 2_000_000  # 4,000 of the smallest frames: twice the default UDP flow of the chain


class CgroupLimits(Isolation):
    name = "cgroups"
    summary = "reserves CPU and memory for the chain; limits these, disk, processes, files and links for the neighbour"
    needs_profile = True

    def apply(self, spec: InstanceSpec, profile: Profile | None) -> InstanceSpec:
        assert profile is not None, "the cgroups isolation is calibrated before it is applied"
        if spec.role == NEIGHBOUR:
            return replace(spec, resources=_neighbour_limits(profile))
        weight = max(100, min(10_000, round(1000 * profile.chain_cpus)))
        reserved = _memory_bytes(profile.needs.get(spec.role, _IDLE), profile)
        return replace(spec, resources=Resources(cpu_weight=weight, memory_reserved_bytes=reserved))

    def verify(self, instance: Instance) -> str | None:
        groups, limits = instance.testbed.cgroups, instance.limits_outside()
        if limits == Resources():
            return "the host's kernel shows no limits on it"
        for file, wanted in groups.settings(limits):
            path = groups.root / file.format(name=instance.cgroup.strip("/"))
            try:
                in_force = instance.testbed.host.read_text(str(path))
            except OSError:  # the kernel lacks the controller, and the platform ignored that
                return f"{path} cannot be read"
            if not set(wanted.split()) <= set(in_force.split()):
                return f"{file} is {in_force.strip()!r}, not {wanted!r}"
        if most := instance.spec.resources.open_files:
            in_force = instance.run(["sh", "-c", "ulimit -H -n"]).text.strip()
            return None if in_force == str(most) else f"a process may open {in_force} files, not {most}"
        return None

    def probe(self, testbed: Testbed, platform: Platform) -> Availability:
        availability = super().probe(testbed, platform)
        if availability or availability.remedy or not (lacking := testbed.cgroups.missing_controllers()):
            return availability
        return Availability(
            f"{availability.reason}; this host has no cgroup controller {', '.join(lacking)}",
            f"use a kernel that has the cgroup controller, {IN_A_GUEST}",
        )


def _neighbour_limits(profile: Profile) -> Resources:
    need = profile.needs.get("function", _IDLE)

    def rate_limit(used: float, floor: int) -> int | None:
        return max(floor, round(used * HEADROOM)) if profile.block_device else None

    return Resources(
        cpus=max(_FLOOR_CPUS, round(profile.usable_cpus - profile.chain_cpus, 2)),
        cpu_weight=10,
        memory_bytes=_memory_bytes(need, profile),
        read_bps=rate_limit(need.read_bps, _FLOOR_BPS),
        write_bps=rate_limit(need.write_bps, _FLOOR_BPS),
        read_iops=rate_limit(need.read_iops, _FLOOR_IOPS),
        write_iops=rate_limit(need.write_iops, _FLOOR_IOPS),
        block_device=profile.block_device,
        pids=_PROCESSES,
        open_files=_OPEN_FILES,
        link_bps=_LINK_BPS,
        connections=_CONNECTIONS,
    )


def _memory_bytes(need: MeasuredUse, profile: Profile) -> int:
    """Return twice the memory that an instance used, in whole pages, but at least what the platform needs to start."""
    pages = round(need.memory_bytes * HEADROOM / _PAGE_BYTES)
    return max(_FLOOR_MEMORY_BYTES, profile.least_memory_bytes, pages * _PAGE_BYTES)
