"""The size of last-level caches, as the kernel reports it in /sys. Source: sysfs-devices-system-cpu."""

from __future__ import annotations

from functools import cache

from lastro.errors import InputError
from lastro.host.base import Host
from lastro.host.cgroups import parse_cpus
from lastro.host.local import LocalHost
from lastro.units import parse_size_bytes

CPUS = "/sys/devices/system/cpu"


@cache
def local_cache_bytes(cpuset: str) -> int:
    """Return `last_level_cache_bytes` for CPUs of this machine. Plans use it, since they have no testbed."""
    return last_level_cache_bytes(LocalHost(), cpuset)


def last_level_cache_bytes(host: Host, cpuset: str | None) -> int:
    """Return the total size in bytes of the last-level caches of the CPUs in `cpuset`, such as "0-3" (None: all CPUs).

    A cache that several CPUs share is counted once. 0 if the kernel does not report caches."""
    size_bytes: dict[tuple[int, str], int] = {}  # by level, and the CPUs that share the cache
    for cpu in sorted(parse_cpus(cpuset if cpuset is not None else _read(host, f"{CPUS}/online"))):
        last_level, last_directory = 0, ""
        for index in range(8):
            directory = f"{CPUS}/cpu{cpu}/cache/index{index}"
            level = _read(host, f"{directory}/level")
            if level.isdigit() and int(level) > last_level:
                last_level, last_directory = int(level), directory
        if last_directory:
            shared = _read(host, f"{last_directory}/shared_cpu_list") or str(cpu)
            size_bytes[last_level, shared] = _size(_read(host, f"{last_directory}/size"))
    return sum(size_bytes.values())


def _size(text: str) -> int:
    try:
        return parse_size_bytes(text)
    except InputError:
        return 0


def _read(host: Host, file: str) -> str:
    try:
        return host.read_text(file).strip()
    except OSError:
        return ""
