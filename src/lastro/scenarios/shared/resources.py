"""The CPUs and the memory of one instance: settings of a study, and the specification made from them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from lastro.errors import InputError, Unavailable
from lastro.host.caches import numbers
from lastro.host.cgroups import Resources
from lastro.isolation.base import Isolation, isolate
from lastro.platforms.base import InstanceSpec
from lastro.scenarios.base import Config, isolations_of
from lastro.study.model import Setting
from lastro.testbed import Testbed
from lastro.units import parse_size_bytes

MIB = 1 << 20
AUTO, FREE = "auto", "none"


def check_cpuset(text: str) -> None:
    """Check a `cpuset`. Raises: InputError when it is not a list of CPUs, 'auto' or 'none'."""
    if text not in (AUTO, FREE) and not numbers(text):
        raise InputError(
            f"'{text}' is not a list of CPUs", f"write it as the kernel does, such as 0-1,4, or {AUTO} or {FREE}"
        )


CPUS = Setting(
    "cpus", 1, "CPUs of the instance: of a machine, or the limit of a container; 0: all", 0, 4096, by_profile=True
)
CPUSET = Setting(
    "cpuset",
    AUTO,
    "CPUs to which it is pinned, such as 0-1; auto: the first ones; none: not pinned",
    check=check_cpuset,
    by_profile=True,
)
MEMORY = Setting("memory", "1G", "memory of the instance, in whole MiB", check=parse_size_bytes, by_profile=True)
RESOURCES = (CPUS, CPUSET, MEMORY)


def expected_cpus(config: Config) -> float:
    """Return how many CPUs an instance has on this machine, for plans."""
    return CPUS.of(config) or len(os.sched_getaffinity(0))


def cpus_and_memory(config: Config, testbed: Testbed) -> Resources:
    """Return the limits, equal on every platform. Raises: Unavailable when this host does not have so many CPUs."""
    usable = len(testbed.usable_cpus)
    if (wanted := CPUS.of(config) or usable) > usable:
        raise Unavailable(f"this host has {usable} CPUs, but the study requires {wanted}", "set fewer `cpus`")
    memory_mib = max(1, parse_size_bytes(MEMORY.of(config)) >> 20)  # machines take whole MiB
    return Resources(cpus=wanted, memory_bytes=memory_mib << 20)


def resources(config: Config, testbed: Testbed) -> Resources:
    """Return the limits, with the CPUs to which an instance is pinned. Raises: Unavailable if the host lacks CPUs."""
    usable, cpuset, limits = testbed.usable_cpus, CPUSET.of(config), cpus_and_memory(config, testbed)
    wanted = int(limits.cpus or 0)
    pinned = usable[:wanted] if cpuset == AUTO else sorted(set(numbers(cpuset)))
    if cpuset != FREE and (len(pinned) != wanted or not set(pinned) <= set(usable)):
        raise Unavailable(
            f"cpuset = {cpuset} is not {wanted} of the CPUs {ranges(usable)}", "name exactly `cpus` CPUs, or `auto`"
        )
    return testbed.on_own_cpus(replace(limits, cpuset=None if cpuset == FREE else ranges(pinned)))


def ranges(numbers: Sequence[int]) -> str:
    """Format CPU numbers as the kernel does: [0, 1, 3] -> '0-1,3'."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)


def without_limits(isolations: Sequence[Isolation]) -> Sequence[Isolation]:
    """Return all isolations. Raises: Unavailable when one of them would set other limits."""
    for isolation in isolations:
        if isolation.needs_profile:
            raise Unavailable(
                f"isolation '{isolation.name}' sets limits, but this scenario sets those of all treatments",
                "set them with `cpus`, `cpuset` and `memory`",
            )
    return isolations


def limited_spec(config: Config, testbed: Testbed, role: str) -> InstanceSpec:
    """Return the spec of an instance. Raises: Unavailable if the host lacks resources or isolation changes them."""
    spec = InstanceSpec(testbed.session.unique(role), role, resources=resources(config, testbed))
    return isolate(spec, without_limits(isolations_of(config)), None)
