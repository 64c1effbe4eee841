"""Code shared by scenarios with one workload in one instance: resources and their verification, accounts, clocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from lastro import registry, validity
from lastro.errors import InputError, LastroError, Unavailable
from lastro.host.cgroups import Resources, Usage
from lastro.host.local import here
from lastro.instruments._cache import numbers
from lastro.instruments.base import TIME_HOST, TIME_TOOL, Workload, time_reasons
from lastro.isolation.base import Isolation, isolate, parts_of
from lastro.platforms.base import AVAILABLE, Availability, Instance, InstanceSpec, Platform, unavailable
from lastro.results.samples import (
    CLOCK_NOT_VERIFIED,
    TOO_SHORT,
    WHOLE_LIFE,
    WRONG_CLOCK,
    Metric,
    Outcome,
    Reading,
    Remark,
)
from lastro.scenarios._guest_account import GuestAccount
from lastro.scenarios.base import Config, make_part
from lastro.study.levels import part_level, split_options
from lastro.study.model import Setting
from lastro.testbed import Testbed
from lastro.units import human_bytes, parse_size_bytes

_MIB = 1 << 20
_FIRMWARE_BYTES = 4 << 20  # the hole below 1 MiB, and tables at the end
_KERNEL_BYTES = 96 << 20
AUTO, FREE = "auto", "none"
CLOCK = "clock of the tool"  # the key under which it is reported
SINCE_START = "since the instance's start: this host's kernel cannot reset it"  # of a memory peak


def check_cpuset(text: str) -> None:
    """Check a `cpuset`. Raises: InputError when it is not a list of CPUs, 'auto' or 'none'."""
    if text not in (AUTO, FREE) and not numbers(text):
        raise InputError(
            f"'{text}' is not a list of CPUs", f"write it as the kernel does, such as 0-1,4, or {AUTO} or {FREE}"
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
    Metric(
        "instance_cpus",
        "CPU",
        "lower",
        "CPUs used by the instance during its work, as the host counts them; a monitor's included",
    ),
    Metric(
        "instance_memory",
        "MiB",
        "lower",
        "memory peak of the instance under its workload, as the host counts it; page cache and monitor included",
    ),
    Metric("guest_cpus", "CPU", "lower", "CPUs used in a virtual machine, by its own kernel and clock"),
    Metric(
        "guest_memory", "MiB", "lower", "memory in use in a virtual machine at the end, as its own kernel counts it"
    ),
)
# The other metrics are counted in ticks of a guest's clock.
BY_HOST = frozenset({"instance_cpus", "instance_memory", "guest_memory"})
OVER_TIME = ("instance_cpus", "host_cpus")  # CPU time divided by the work's time on the host, and as exact


def workloads() -> frozenset[str]:
    """Return the names of instruments that run inside one instance, including those that cannot be imported."""
    infos = registry.parts("instrument").values()
    return frozenset(info.name for info in infos if info.cls is None or issubclass(info.cls, Workload))


def workload_metrics(own: Sequence[Metric]) -> tuple[Metric, ...]:
    """Return the first of the scenario's own metrics, then those that workloads bring, then its others."""
    found = {own[0].name: own[0]}
    for info in registry.parts("instrument").values():
        if info.cls is not None and issubclass(info.cls, Workload):
            found |= {metric.name: metric for metric in info.cls.metrics}
    return tuple((found | {metric.name: metric for metric in own}).values())


def workload(config: Config) -> Workload:
    """Return the instrument of a treatment with its options. Raises: Unavailable, InputError."""
    return make_part("instrument", part_level(config, "instrument"))  # type: ignore[no-any-return]


def slowdown(config: Config) -> float:
    """Estimate the factor by which the treatment's platform slows down a computation."""
    info = registry.parts("platform").get(split_options(str(config["platform"]))[0])
    return float(info.cls.slowdown) if info and info.cls else Platform.slowdown


def resources(config: Config, testbed: Testbed) -> Resources:
    """Return the resources, equal on every platform. Raises: Unavailable when this host does not have these CPUs."""
    wanted, usable, cpuset = int(config["cpus"]), testbed.usable_cpus, str(config["cpuset"])
    if wanted > len(usable):
        raise Unavailable(f"this host has {len(usable)} CPUs, and the study asks for {wanted}", "ask for fewer `cpus`")
    pinned = usable[:wanted] if cpuset == AUTO else sorted(set(numbers(cpuset)))
    if cpuset != FREE and (len(pinned) != wanted or not set(pinned) <= set(usable)):
        raise Unavailable(
            f"cpuset = {cpuset} is not {wanted} of the CPUs {_ranges(usable)}", "name exactly `cpus` CPUs, or `auto`"
        )
    memory_mib = max(1, parse_size_bytes(str(config["memory"])) >> 20)  # machines take whole MiB
    limits = Resources(cpus=wanted, cpuset=None if cpuset == FREE else _ranges(pinned), memory_bytes=memory_mib << 20)
    return testbed.on_own_cpus(limits)


def _ranges(numbers: Sequence[int]) -> str:
    """Format CPU numbers as the kernel does: [0, 1, 3] -> '0-1,3'."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)


def without_limits(isolations: Sequence[Isolation]) -> Sequence[Isolation]:
    """Return all isolations. Raises: Unavailable when one of them would set limits of its own."""
    for isolation in isolations:
        if isolation.needs_profile:
            raise Unavailable(
                f"isolation '{isolation.name}' sets limits, but this scenario sets the same for all",
                "set them with `cpus`, `cpuset` and `memory`",
            )
    return isolations


def limited_spec(config: Config, testbed: Testbed, role: str) -> InstanceSpec:
    """Return the spec of an instance. Raises: Unavailable if the host lacks resources or isolation changes them."""
    spec = InstanceSpec(testbed.session.unique(role), role, resources=resources(config, testbed))
    isolations = [registry.get("isolation", part)() for part in parts_of(str(config["isolation"]))]
    return isolate(spec, without_limits(isolations), None)


# Verification of resources, from inside and from outside


def unequal(testbed: Testbed, instance: Instance) -> tuple[list[str], dict[str, Any]]:
    """Return reasons why the instance does not have the resources that it should have, and notes of what was seen.

    CPUs, and the size of a machine's memory, are read inside. From outside, the kernel shows the limits on the
    instance's group, and the CPUs on which each of its threads may run; a machine's threads are its monitor's."""
    reasons, inside = _inside(instance)
    more, outside = _outside(testbed, instance)
    return reasons + more, {"seen inside": inside, "seen outside": outside}


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
            told = (seen["machine_bytes"] or memory_bytes) >> 20
            reasons.append(f"the instance sees {told} MiB of memory instead of {wanted.memory_bytes >> 20}")
    return reasons, seen


def cpus_inside(wanted: Resources, shares_kernel: bool) -> int | None:
    """Return how many CPUs `nproc` must count; None: all of the host's, since the instance is not pinned.

    A machine counts its own CPUs; an instance on the host's kernel counts those it may run on, regardless of quota."""
    if not shares_kernel:
        return math.ceil(wanted.cpus or 1)
    return None if wanted.cpuset is None else len(numbers(wanted.cpuset))


_LOOK = (
    "nproc; sed -n 's/^MemTotal: *//p' /proc/meminfo; "
    "sed -n 's/^\\([0-9a-f]*-[0-9a-f]*\\) : System RAM$/\\1/p' /proc/iomem 2>/dev/null || :"
)


def _mapped_bytes(ranges: Sequence[str]) -> int:
    """Return a machine's memory as its firmware handed it over; 0 where its kernel hides it (proc_iomem(5))."""
    total = 0
    for line in ranges:
        first, _, last = line.partition("-")
        total += int(last, 16) - int(first, 16) + 1
    return total if total > _MIB else 0  # all addresses are zero for a reader without privilege


def has_memory(wanted_bytes: int, usable_bytes: int, machine_bytes: int) -> bool:
    """Return whether a machine has the memory that was asked for, less what its firmware keeps for itself.

    Where the firmware's memory map is hidden, judge by what the kernel has left to use (MemTotal): it keeps a 64th for
    its records of pages (64 bytes for each 4 KiB), and its own image, initramfs and early tables."""
    if machine_bytes:
        return wanted_bytes - _FIRMWARE_BYTES <= machine_bytes <= wanted_bytes
    return wanted_bytes * 63 // 64 - _KERNEL_BYTES <= usable_bytes <= wanted_bytes


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


# Accounts


def with_account(
    reading: Reading,
    used: Usage,
    work_s: float | None,
    guest: GuestAccount | None,
    guest_after: GuestAccount | None,
    *,
    apart_s: float = 0.0,
) -> Reading:
    """Return the reading with METRICS: what the host counted, and what a machine's kernel counted by its own clock.

    `work_s` is how long the work took, not how long it was watched, which includes the overhead of exec; None means
    not known, and then there is no rate of CPUs. `apart_s`: CPU seconds in `used` that do not belong to the work."""
    found = {"instance_memory": used.memory_peak_bytes / 2**20}
    if work_s:
        found["instance_cpus"] = max(0.0, used.cpu_s - apart_s) / work_s
    if guest and guest_after and guest_after.up_s > guest.up_s:
        found["guest_cpus"] = (guest_after.busy_s - guest.busy_s) / (guest_after.up_s - guest.up_s)
    if guest_after:
        found["guest_memory"] = guest_after.used_bytes / 2**20
    return replace(reading, measurements={**reading.measurements, **found})


def tell_peak(fresh: bool, outcome: Outcome) -> None:
    """Add a remark unless the memory peak is `fresh`, which means of the workload alone."""
    if not fresh:
        outcome.remark(Remark(WHOLE_LIFE, SINCE_START, ("instance_memory",)))


# The instance's clock


def by_good_clocks(
    reading: Reading, by_host: Collection[str], found: validity.Drift | None, limit: float, outcome: Outcome
) -> Reading:
    """Return the reading without what an instance's clock timed, if that clock ran wrong; report what was dropped.

    `by_host` names what the host timed; all series that it does not name were timed by the sender or the tool. `limit`
    is a fraction, such as 0.001."""
    if found is None:
        return reading
    outcome.notes["clocks"] = {"instance": {"drift": found.ratio - 1, "uncertainty": found.uncertainty}}
    wrong = validity.drift_reasons({"instance": found}, limit)
    if not wrong:
        if validity.unverified(found, limit) is None:
            outcome.tell({CLOCK: f"its own, within {100 * limit:g} % of the host's"})
        return reading
    kept = {name: value for name, value in reading.measurements.items() if name in by_host}
    dropped = sorted(set(reading.measurements) - set(kept))
    if dropped:  # a remark that names no metric would apply to all
        outcome.remark(Remark(WRONG_CLOCK, "; ".join(wrong), tuple(dropped)))
    lost = "what it timed was dropped" if dropped else "no metric depends on it"
    outcome.tell({CLOCK: f"its own, which ran wrong: {lost}"})
    return replace(reading, measurements=kept, series=tuple(each for each in reading.series if each.name in by_host))


def tell_unverified(
    instance: Instance, by_host: Collection[str], found: validity.Drift | None, limit: float, outcome: Outcome
) -> None:
    """Report a foreign kernel's clock that could not be verified, which does not invalidate the trial.

    Call this after `by_good_clocks` and before the host's meters add their metrics. `by_host` names metrics that do not
    depend on the instance's clock."""
    if instance.shares_kernel:
        outcome.tell({CLOCK: "the host's"})
        return
    why = validity.unverified(found, limit)
    if why and not (found and validity.drift_reasons({"instance": found}, limit)):
        if timed := tuple(name for name in outcome.measurements if name not in by_host):
            outcome.remark(Remark(CLOCK_NOT_VERIFIED, why, timed))
        outcome.tell({CLOCK: "its own, not verified"})


def judge_clock(
    reading: Reading, by_host: Collection[str], found: validity.Drift | None, limit: float, outcome: Outcome
) -> None:
    """Add the reading without what a wrong clock timed; invalidate it if the tool worked longer than its process."""
    reading = by_good_clocks(reading, by_host, found, limit, outcome)
    measured, reasons = reading.measurements, reading.invalid_because
    if TIME_TOOL.name in measured and TIME_HOST.name in measured:
        reasons += time_reasons(measured[TIME_TOOL.name], measured[TIME_HOST.name])
    for each in reading.remarks:
        if each.kind == TOO_SHORT and TIME_HOST.name in each.metrics:
            outcome.remark(replace(each, metrics=OVER_TIME))
    outcome.add(replace(reading, invalid_because=reasons))


# Availability


Started = Callable[[Workload], AbstractContextManager[Instance]]


class WorkloadProbes:
    """Probes of workloads: a short version of each is tried once on each platform.

    Options that also change the short version, such as thousands of threads, are tried separately."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._probed: dict[Hashable, Availability] = {}

    def availability(self, where: Hashable, tool: Workload, limits: Resources, started: Started) -> Availability:
        """Try a workload once in each place. `where` identifies the place; `started` starts it as a trial would."""
        if not (found := self._room(tool, limits)):
            return found
        key = (where, limits, tool.name, *sorted(tool.brief().chosen.items()))
        if key not in self._probed:
            self._probed[key] = self._probe(tool, started)
        return self._probed[key]

    def _room(self, tool: Workload, limits: Resources) -> Availability:
        """Return whether the full workload fits into memory, which its short version would not show.

        On every platform the limit leaves room for a machine's kernel, so that the task is the same on all."""
        needed, memory_bytes = tool.least_memory_bytes(self._testbed.host, limits.cpuset), limits.memory_bytes
        if memory_bytes is None or needed <= memory_bytes * 63 // 64 - _KERNEL_BYTES:
            return AVAILABLE
        whole = math.ceil((needed + _KERNEL_BYTES) * 64 / 63 / _MIB)
        return Availability(
            f"{tool.name} needs {human_bytes(needed)}, but the instance has {human_bytes(memory_bytes)} of memory",
            f'set memory = "{whole}M" or more, or give the instrument less to work on',
        )

    def _probe(self, tool: Workload, started: Started) -> Availability:
        try:
            tool.require(here(self._testbed.host))
            brief = tool.brief()
            with started(brief) as instance, brief.prepared(instance):
                brief.run(instance, brief.probe_limit_s)
        except LastroError as error:
            return unavailable(error)
        return AVAILABLE
