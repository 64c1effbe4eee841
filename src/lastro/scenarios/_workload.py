"""What scenarios of one workload in one instance share: equal resources, verified; the guest's own account."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from lastro import registry, validity
from lastro.errors import InputError, LastroError, Unavailable
from lastro.host.cgroups import Resources, Usage
from lastro.instruments._cache import numbers
from lastro.instruments.base import TIME_HOST, TIME_TOOL, Workload, time_reasons
from lastro.isolation.base import Isolation
from lastro.platforms.base import AVAILABLE, Availability, Instance, InstanceSpec, Platform, unavailable
from lastro.results.samples import Metric, Outcome, Reading
from lastro.scenarios.base import Config, make_part, platform_level
from lastro.study.levels import part_level, split_options
from lastro.study.model import Setting
from lastro.testbed import Testbed
from lastro.units import parse_size_bytes

_MIB = 1 << 20
_PROBE_LIMIT_S = 120.0
_LEAST_SEEN = 0.6  # of a guest's memory: its kernel keeps some for itself before it counts
_TICKS = os.sysconf("SC_CLK_TCK")
AUTO, FREE = "auto", "none"


def check_cpuset(text: str) -> None:
    """Raises: InputError for what is neither a list of CPUs nor one of the two words."""
    if text not in (AUTO, FREE) and not numbers(text):
        raise InputError(
            f"'{text}' is no list of CPUs", f"write it as the kernel does, such as 0-1,4, or {AUTO} or {FREE}"
        )


RESOURCES = (
    Setting("cpus", 1, "CPUs of the instance: of a machine, or the limit of a container", 1, 4096),
    Setting(
        "cpuset",
        AUTO,
        "CPUs that it is pinned to, such as 0-1; auto: the first ones; none: it is not pinned",
        check=check_cpuset,
    ),
    Setting("memory", "1G", "memory of the instance, in whole MiB", check=parse_size_bytes),
)
METRICS = (
    Metric("instance_cpus", "CPU", "lower", "CPU time per time of the instance as the host counts it, a monitor's too"),
    Metric("instance_memory", "MiB", "lower", "peak of memory of the instance as the host counts it, a monitor's too"),
    Metric("guest_cpus", "CPU", "lower", "CPU time per time in a virtual machine as its own kernel counts it"),
    Metric(
        "guest_memory", "MiB", "lower", "memory in use in a virtual machine at the end, as its own kernel counts it"
    ),
)


def workloads() -> frozenset[str]:
    """Names of the instruments that run inside one instance; of those that cannot be imported, too."""
    infos = registry.parts("instrument").values()
    return frozenset(info.name for info in infos if info.cls is None or issubclass(info.cls, Workload))


def workload_metrics(own: Sequence[Metric]) -> tuple[Metric, ...]:
    """The first of the scenario's own, those that workloads bring, the others."""
    found = {own[0].name: own[0]}
    for info in registry.parts("instrument").values():
        if info.cls is not None and issubclass(info.cls, Workload):
            found |= {metric.name: metric for metric in info.cls.metrics}
    return tuple((found | {metric.name: metric for metric in own}).values())


def workload(config: Config) -> Workload:
    """The instrument of a treatment with its options. Raises: Unavailable, InputError."""
    return make_part("instrument", part_level(config, "instrument"))  # type: ignore[no-any-return]


def slowdown(config: Config) -> float:
    """By what factor the treatment's platform makes a computation longer, about."""
    info = registry.parts("platform").get(split_options(str(config["platform"]))[0])
    return float(info.cls.slowdown) if info and info.cls else Platform.slowdown


def resources(config: Config) -> Resources:
    """The same on every platform. Raises: Unavailable when this host has not these CPUs."""
    wanted, usable, cpuset = int(config["cpus"]), sorted(os.sched_getaffinity(0)), str(config["cpuset"])
    if wanted > len(usable):
        raise Unavailable(f"this host has {len(usable)} CPUs, and the study asks for {wanted}", "ask for fewer `cpus`")
    pinned = usable[:wanted] if cpuset == AUTO else sorted(set(numbers(cpuset)))
    if cpuset != FREE and (len(pinned) != wanted or not set(pinned) <= set(usable)):
        raise Unavailable(
            f"cpuset = {cpuset} is not {wanted} of the CPUs {_ranges(usable)}", "name as many CPUs as `cpus`, or `auto`"
        )
    memory_mib = max(1, parse_size_bytes(str(config["memory"])) >> 20)  # machines are made of whole ones
    return Resources(cpus=wanted, cpuset=None if cpuset == FREE else _ranges(pinned), memory_bytes=memory_mib << 20)


def _ranges(numbers: Sequence[int]) -> str:
    """[0, 1, 3] -> '0-1,3', as the kernel writes it."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)


def without_limits(isolations: Sequence[Isolation]) -> Sequence[Isolation]:
    """All of them. Raises: Unavailable when one would set limits of its own."""
    for isolation in isolations:
        if isolation.needs_profile:
            raise Unavailable(
                f"isolation '{isolation.name}' sets limits, and this scenario's are the same for all",
                "choose them by `cpus`, `cpuset` and `memory`",
            )
    return isolations


# Seen from inside


def unequal(testbed: Testbed, instance: Instance) -> tuple[list[str], dict[str, Any]]:
    """Reasons why the instance has not the resources that it should have, and what it sees of them.

    CPUs are seen from inside. Memory is: of a machine, what its kernel finds; else the limit that the kernel holds."""
    wanted = instance.spec.resources
    lines = instance.run(["sh", "-c", "nproc; sed -n 's/^MemTotal: *//p' /proc/meminfo"]).text.splitlines()
    try:
        cpus, memory_bytes = int(lines[0]), int(lines[1].split()[0]) * 1024
    except (IndexError, ValueError):
        return [f"the instance does not tell its CPUs and memory but {lines}"], {}
    seen: dict[str, Any] = {"cpus": cpus, "memory_bytes": memory_bytes}
    reasons = []
    n_wanted = math.ceil(wanted.cpus or 1)
    if (wanted.cpuset is not None or not instance.shares_kernel) and cpus != n_wanted:
        reasons.append(f"the instance sees {cpus} CPUs instead of {n_wanted}")
    if instance.shares_kernel:
        for file, text in testbed.cgroups.settings(wanted):
            found = _limit(testbed, file.format(name=instance.cgroup.strip("/")))
            if found != text:
                reasons.append(f"{file.rpartition('/')[2]} of the instance is {found} instead of {text}")
    elif wanted.memory_bytes and not _LEAST_SEEN * wanted.memory_bytes < memory_bytes <= wanted.memory_bytes:
        reasons.append(f"the instance sees {memory_bytes >> 20} MiB of memory instead of {wanted.memory_bytes >> 20}")
    return reasons, seen


def _limit(testbed: Testbed, file: str) -> str:
    try:
        return testbed.host.read_text(str(testbed.cgroups.root / file)).strip()
    except OSError as error:
        return f"not readable ({error.strerror})"


@dataclass(frozen=True, slots=True)
class GuestAccount:
    """What a virtual machine's kernel says of itself: busy CPU seconds since its boot, stolen ones, memory in use."""

    busy_s: float
    stolen_s: float
    used_bytes: int

    @classmethod
    def of(cls, instance: Instance) -> GuestAccount | None:
        """None where the kernel is the host's. Source: proc(5)."""
        if instance.shares_kernel:
            return None
        done = instance.run(["sh", "-c", "head -n 1 /proc/stat; grep -E '^Mem(Total|Available):' /proc/meminfo"])
        try:
            first, total, available = done.text.splitlines()
            user, nice, system, idle, wait, irq, softirq, steal = map(int, first.split()[1:9])
            used_kib = int(total.split()[1]) - int(available.split()[1])
        except (ValueError, IndexError):  # a kernel that does not count
            return None
        if not any((user, nice, system, idle, wait)):  # as gVisor has it: there is a file, and nothing is counted
            return None
        return cls((user + nice + system + irq + softirq) / _TICKS, steal / _TICKS, used_kib << 10)


def account(
    used: Usage, elapsed_s: float, guest: GuestAccount | None, guest_after: GuestAccount | None
) -> dict[str, float]:
    """Measurements of METRICS: what the host has counted, and beside it what a machine has counted of itself."""
    found = {"instance_cpus": used.cpu_s / elapsed_s, "instance_memory": used.memory_peak_bytes / 2**20}
    if guest and guest_after:
        found["guest_cpus"] = (guest_after.busy_s - guest.busy_s) / elapsed_s
        found["guest_memory"] = guest_after.used_bytes / 2**20
    return found


# Its clock and its reading


def judge_clock(
    tool: Workload,
    reading: Reading,
    before: validity.ClockSample | None,
    after: validity.ClockSample | None,
    limit: float,
    outcome: Outcome,
) -> None:
    """What the tool timed by a clock that ran wrong is dropped, and told; what the host timed remains.

    `limit` is a share, such as 0.001."""
    measured, reasons = dict(reading.measurements), list(reading.invalid_because)
    found = validity.drift_between(before, after)
    if found:
        outcome.notes["clocks"] = {"instance": {"drift": found.ratio - 1, "uncertainty": found.uncertainty}}
    wrong = validity.drift_reasons({"instance": found}, limit) if found else []
    if wrong:
        dropped = sorted(set(measured) - tool.by_host_clock)
        measured = {name: value for name, value in measured.items() if name in tool.by_host_clock}
        outcome.notes["not timed by a good clock"] = {"because": wrong, "dropped": dropped}
    elif TIME_TOOL.name in measured and TIME_HOST.name in measured:
        reasons += time_reasons(measured[TIME_TOOL.name], measured[TIME_HOST.name])
    if TIME_HOST.name not in measured:
        outcome.notes["not timed on the host's clock"] = "the workload took less time than entering the instance"
    series = tuple(each for each in reading.series if not wrong or each.name in tool.by_host_clock)
    outcome.add(Reading(measured, series, invalid_because=tuple(reasons), notes=reading.notes))


# What can run here


class WorkloadProbes:
    """Each workload, tried once on a platform: a short version of itself.

    What differs in the short version too, such as thousands of threads, is tried by itself."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._probed: dict[Hashable, Availability] = {}

    def availability(self, config: Config, platform: Platform, tool: Workload, spec: InstanceSpec) -> Availability:
        where = (platform_level(config), config["isolation"], spec.resources)
        key = (where, tool.name, *sorted(tool.brief().chosen.items()))
        if key not in self._probed:
            self._probed[key] = self._probe(platform, tool, spec)
        return self._probed[key]

    def _probe(self, platform: Platform, tool: Workload, spec: InstanceSpec) -> Availability:
        try:
            tool.require(self._testbed.host)
            with platform.start(self._testbed, spec) as instance:
                brief = tool.brief()
                with brief.prepared(instance):
                    brief.run(instance, _PROBE_LIMIT_S)
        except LastroError as error:
            return unavailable(error)
        return AVAILABLE
