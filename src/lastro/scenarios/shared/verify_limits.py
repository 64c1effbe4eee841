"""Checks from inside and outside that an instance has the resources that the study specifies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lastro.host.caches import numbers
from lastro.host.cgroups import Resources
from lastro.platforms.base import Instance, InstanceSpec
from lastro.scenarios.shared.resources import MIB
from lastro.testbed import Testbed

_FIRMWARE_BYTES = 4 << 20  # the hole below 1 MiB, and tables at the end
KERNEL_BYTES = 96 << 20


def unequal(testbed: Testbed, instance: Instance) -> tuple[list[str], dict[str, Any]]:
    """Return a reason for each resource that differs from the specification, and notes of the observed values.

    CPUs, and the size of a machine's memory, are read inside. From outside, the kernel shows the limits on the
    instance's group, and the CPUs on which each of its threads may run; a machine's threads are its monitor's."""
    reasons, inside = _inside(instance)
    more, outside = _outside(testbed, instance)
    return reasons + more, {"seen inside": inside, "seen outside": outside}


def limits_of(spec: InstanceSpec) -> dict[str, Any]:
    """Return the limits in an instance's specification, to be noted."""
    return {name: value for name, value in asdict(spec.resources).items() if value is not None}


def _inside(instance: Instance) -> tuple[list[str], dict[str, Any]]:
    wanted = instance.spec.resources
    lines = instance.run(["sh", "-c", _LOOK]).text.splitlines()
    try:
        cpus, memory_bytes = int(lines[0]), int(lines[1].split()[0]) * 1024
    except (IndexError, ValueError):
        return [f"the instance did not report its CPUs and memory: {lines}"], {}
    seen: dict[str, Any] = {"cpus": cpus, "memory_bytes": memory_bytes}
    reasons = []
    n_wanted = cpus_inside(wanted, instance.shares_kernel)
    if n_wanted is not None and cpus != n_wanted:
        reasons.append(f"the instance sees {cpus} CPUs instead of {n_wanted}")
    if wanted.memory_bytes and instance.limits_outside().memory_bytes is None:
        seen["machine_bytes"] = _mapped_bytes(lines[2:])
        if not has_memory(wanted.memory_bytes, memory_bytes, seen["machine_bytes"]):
            mib = (seen["machine_bytes"] or memory_bytes) >> 20
            reasons.append(f"the instance sees {mib} MiB of memory instead of {wanted.memory_bytes >> 20}")
    return reasons, seen


def cpus_inside(wanted: Resources, shares_kernel: bool) -> int | None:
    """Return the number of CPUs that `nproc` must count; None means all CPUs of the host (no pinning).

    A machine counts its own CPUs; an instance on the host's kernel counts those it may run on, regardless of quota."""
    if not shares_kernel:
        return math.ceil(wanted.cpus or 1)
    return None if wanted.cpuset is None else len(numbers(wanted.cpuset))


_LOOK = (
    "nproc; sed -n 's/^MemTotal: *//p' /proc/meminfo; "
    "sed -n 's/^\\([0-9a-f]*-[0-9a-f]*\\) : System RAM$/\\1/p' /proc/iomem 2>/dev/null || :"
)


def _mapped_bytes(ranges: Sequence[str]) -> int:
    """Return a machine's memory by its firmware's map; 0 if the kernel hides the map (proc_iomem(5))."""
    total = 0
    for line in ranges:
        first, _, last = line.partition("-")
        total += int(last, 16) - int(first, 16) + 1
    return total if total > MIB else 0  # all addresses are zero for a reader without privilege


def has_memory(wanted_bytes: int, usable_bytes: int, machine_bytes: int) -> bool:
    """Return whether a machine has the requested memory, except the part that its firmware reserves.

    If the firmware's memory map is hidden, the memory that the kernel can use (MemTotal) decides: the kernel reserves
    1/64 for its page records (64 bytes for each 4 KiB), and memory for its image, initramfs and early tables."""
    if machine_bytes:
        return wanted_bytes - _FIRMWARE_BYTES <= machine_bytes <= wanted_bytes
    return wanted_bytes * 63 // 64 - KERNEL_BYTES <= usable_bytes <= wanted_bytes


def _outside(testbed: Testbed, instance: Instance) -> tuple[list[str], dict[str, Any]]:
    reasons, limits = [], instance.limits_outside()
    seen: dict[str, Any] = {}
    for file, text in testbed.cgroups.settings(limits):
        name = file.rpartition("/")[2]
        seen[name] = found = _limit(testbed, file.format(name=instance.cgroup.strip("/")))
        if found != text:
            reasons.append(f"{name} of the instance is {found} instead of {text}")
    if limits.cpuset is not None:
        threads = [allowed for pid in instance.pids() for allowed in _allowed(testbed, pid)]
        seen |= {"threads": len(threads), "CPUs allowed": sorted(set(threads))}
        strays = {text for text in threads if not set(numbers(text)) <= set(numbers(limits.cpuset))}
        if strays or (not threads and not instance.shares_kernel):
            where = f"on CPUs {', '.join(sorted(strays))}" if strays else "on unknown CPUs"
            reasons.append(f"a thread of the instance may run {where} instead of {limits.cpuset}")
    return reasons, seen


def _limit(testbed: Testbed, file: str) -> str:
    try:
        return testbed.host.read_text(str(testbed.cgroups.root / file)).strip()
    except OSError as error:
        return f"not readable ({error.strerror})"


def _allowed(testbed: Testbed, pid: int) -> list[str]:
    """Return the CPUs of each thread of a process, without threads that have ended. Source: proc_pid_status(5)."""
    view, tasks = testbed.host.view, f"/proc/{pid}/task"
    texts = view.read([f"{tasks}/{thread}/status" for thread in view.names(tasks)]).values()
    lines = [line for text in texts for line in text.splitlines()]
    return [line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:")]
