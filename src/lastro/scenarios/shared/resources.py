"""The CPUs and the memory of one instance: settings, the specification made from them, and checks of the instance."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from lastro.errors import InputError, Unavailable
from lastro.host.cgroups import Resources, parse_cpus
from lastro.isolation.base import Isolation, isolate
from lastro.platforms.base import Instance, InstanceSpec
from lastro.scenarios.base import Config, isolations_of
from lastro.study.model import Setting
from lastro.testbed import Testbed
from lastro.units import MIB, parse_size_bytes

AUTO, FREE = "auto", "none"


def check_cpuset(text: str) -> None:
    """Check a `cpuset`. Raises: InputError when it is not a list of CPUs, 'auto' or 'none'."""
    if text not in (AUTO, FREE) and not parse_cpus(text):
        why = f"'{text}' is not a list of CPUs"
        raise InputError(why, f"write it as the kernel does, such as 0-1,4, or {AUTO} or {FREE}")


CPUS = Setting(
    "cpus", 1, "CPUs of the instance: of a machine, or the limit of a container; 0: all", 0, 4096, by_profile=True
)
CPUSET = Setting(
    "cpuset", AUTO, "CPUs to which it is pinned, such as 0-1; auto: the first ones; none: not pinned",
    check=check_cpuset, by_profile=True,
)  # fmt: skip
MEMORY = Setting("memory", "1G", "memory of the instance, in whole MiB", check=parse_size_bytes, by_profile=True)
RESOURCES = (CPUS, CPUSET, MEMORY)


def expected_cpus(config: Config) -> float:
    """Return how many CPUs an instance would have on this machine, for plans. `cpus` of 0 means all."""
    return CPUS.of(config) or len(os.sched_getaffinity(0))


def cpus_and_memory(config: Config, testbed: Testbed) -> Resources:
    """Return the limits on CPUs and memory, equal on every platform. Raises: Unavailable if the host lacks CPUs."""
    usable = len(testbed.usable_cpus)
    if (wanted := CPUS.of(config) or usable) > usable:
        raise Unavailable(f"this host has {usable} CPUs, but the study requires {wanted}", "set fewer `cpus`")
    memory_mib = max(1, parse_size_bytes(MEMORY.of(config)) >> 20)  # machines take whole MiB
    return Resources(cpus=wanted, memory_bytes=memory_mib << 20)


def resources(config: Config, testbed: Testbed) -> Resources:
    """Return the limits on CPUs and memory, with the CPUs to which an instance is pinned, if any.

    Raises: Unavailable if the host lacks these CPUs."""
    usable = testbed.usable_cpus
    cpuset = CPUSET.of(config)
    limits = cpus_and_memory(config, testbed)
    wanted = int(limits.cpus or 0)
    pinned = usable[:wanted] if cpuset == AUTO else sorted(parse_cpus(cpuset))
    if cpuset != FREE and (len(pinned) != wanted or not set(pinned) <= set(usable)):
        why = f"cpuset = {cpuset} is not {wanted} of the CPUs {ranges(usable)}"
        raise Unavailable(why, "name exactly `cpus` CPUs, or `auto`")
    return testbed.on_own_cpus(replace(limits, cpuset=None if cpuset == FREE else ranges(pinned)))


def ranges(numbers: Sequence[int]) -> str:
    """Format CPU numbers as the kernel does: [0, 1, 3] -> '0-1,3'."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def require_no_limits(isolations: Sequence[Isolation]) -> None:
    """Check that no isolation sets limits of its own. Raises: Unavailable if one does."""
    for isolation in isolations:
        if isolation.needs_profile:
            why = f"isolation '{isolation.name}' sets limits, but this scenario sets those of all treatments"
            raise Unavailable(why, "set them with `cpus`, `cpuset` and `memory`")


def limited_spec(config: Config, testbed: Testbed, role: str) -> InstanceSpec:
    """Return the specification of an instance with the treatment's limits and isolations.

    Raises: Unavailable if the host lacks CPUs, or if an isolation sets limits of its own."""
    spec = InstanceSpec(testbed.session.unique(role), role, resources=resources(config, testbed))
    isolations = isolations_of(config)
    require_no_limits(isolations)
    return isolate(spec, isolations, None)


_FIRMWARE_BYTES = 4 << 20  # at most: the hole below 1 MiB, and tables at the end
KERNEL_BYTES = 96 << 20


def check_resources(testbed: Testbed, instance: Instance) -> tuple[list[str], dict[str, Any]]:
    """Return (reasons: how an instance's resources differ from its specification, notes: the values that were read).

    CPUs, and the size of a machine's memory, are read inside. From outside, the kernel shows the limits on the
    instance's cgroup, and the CPUs on which each of its threads may run; a machine's threads are its monitor's."""
    reasons_inside, inside = _inside(instance)
    reasons_outside, outside = _outside(testbed, instance)
    return reasons_inside + reasons_outside, {"seen inside": inside, "seen outside": outside}


def limits_of(spec: InstanceSpec) -> dict[str, Any]:
    """Return {name: value} of the limits in an instance's specification, without those that are None."""
    return {name: value for name, value in asdict(spec.resources).items() if value is not None}


def _inside(instance: Instance) -> tuple[list[str], dict[str, Any]]:
    wanted = instance.spec.resources
    lines = instance.run(["sh", "-c", _READ_CPUS_AND_MEMORY]).text.splitlines()
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
    """Return the number of CPUs that `nproc` must print inside; None if an unpinned instance sees all of the host's.

    A machine counts its own CPUs; an instance on the host's kernel counts those it may run on, regardless of quota."""
    if not shares_kernel:
        return math.ceil(wanted.cpus or 1)
    return None if wanted.cpuset is None else len(parse_cpus(wanted.cpuset))


_READ_CPUS_AND_MEMORY = (
    "nproc; sed -n 's/^MemTotal: *//p' /proc/meminfo; "
    "sed -n 's/^\\([0-9a-f]*-[0-9a-f]*\\) : System RAM$/\\1/p' /proc/iomem 2>/dev/null || :"
)


def _mapped_bytes(ranges: Sequence[str]) -> int:
    """Return the bytes in these ranges of a machine's memory map; 0 if the kernel hides the map (proc_iomem(5))."""
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
        try:
            path = testbed.cgroups.root / file.format(name=instance.cgroup.strip("/"))
            in_force = testbed.host.read_text(str(path)).strip()
        except OSError as error:
            in_force = f"not readable ({error.strerror})"
        seen[name] = in_force
        if in_force != text:
            reasons.append(f"{name} of the instance is {in_force} instead of {text}")
    if limits.cpuset is not None:
        threads = [allowed for pid in instance.pids() for allowed in _allowed(testbed, pid)]
        seen |= {"threads": len(threads), "CPUs allowed": sorted(set(threads))}
        strays = {text for text in threads if not parse_cpus(text) <= parse_cpus(limits.cpuset)}
        if strays or (not threads and not instance.shares_kernel):
            where = f"on CPUs {', '.join(sorted(strays))}" if strays else "on unknown CPUs"
            reasons.append(f"a thread of the instance may run {where} instead of {limits.cpuset}")
    return reasons, seen


def _allowed(testbed: Testbed, pid: int) -> list[str]:
    """Return the list of allowed CPUs of each thread of a process that runs. Source: proc_pid_status(5)."""
    view, tasks = testbed.host.view, f"/proc/{pid}/task"
    texts = view.read([f"{tasks}/{thread}/status" for thread in view.names(tasks)]).values()
    lines = [line for text in texts for line in text.splitlines()]
    return [line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:")]
