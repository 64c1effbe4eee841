"""CPU time and memory of an instance during its work, as the host and the guest's own kernel count them (proc(5))."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from lastro.host.cgroups import Usage
from lastro.platforms.base import Instance
from lastro.results.samples import Metric, Reading
from lastro.units import MIB

_TICKS = os.sysconf("SC_CLK_TCK")
# One program reads all files: a process that starts between two reads would count in one file and not in the other.
_READ_COUNTERS = "grep -hE '^([0-9]|cpu |Mem(Total|Available):)' /proc/uptime /proc/stat /proc/meminfo 2>/dev/null || :"


@dataclass(frozen=True, slots=True)
class GuestCounters:
    """The counters of a virtual machine's kernel: busy and stolen CPU seconds since its boot, and memory in use.

    `up_s` is the time since that boot by the machine's own clock."""

    busy_s: float
    stolen_s: float
    used_bytes: int
    up_s: float

    @classmethod
    def of(cls, instance: Instance) -> GuestCounters | None:
        """Read the counters of an instance's own kernel; None if it has none, or one that does not count."""
        if instance.shares_kernel:
            return None
        done = instance.run(["sh", "-c", _READ_COUNTERS])
        try:
            uptime, first, total, available = done.text.splitlines()
            user, nice, system, idle, wait, irq, softirq, steal = map(int, first.split()[1:9])
            up_s = float(uptime.split()[0])
            used_kib = int(total.split()[1]) - int(available.split()[1])
        except (ValueError, IndexError):  # a kernel that does not count
            return None
        if not any((user, nice, system, idle, wait)):  # gVisor has the file, but counts nothing
            return None
        return cls((user + nice + system + irq + softirq) / _TICKS, steal / _TICKS, used_kib << 10, up_s)

    def since(self, earlier: GuestCounters) -> dict[str, float]:
        """Return busy, stolen and elapsed seconds since an earlier reading (guest's clock), and memory in use now."""
        busy_s, stolen_s = self.busy_s - earlier.busy_s, self.stolen_s - earlier.stolen_s
        seconds = {"busy_s": busy_s, "stolen_s": stolen_s, "elapsed_s": self.up_s - earlier.up_s}
        return {**{name: round(value, 3) for name, value in seconds.items()}, "used_bytes": self.used_bytes}


METRICS = (
    Metric(
        "instance_cpus", "CPU", "lower",
        "CPUs used by the instance during its work, as the host counts them, including those of a monitor",
    ),
    Metric(
        "instance_memory", "MiB", "lower",
        "memory peak of the instance under its workload, as the host counts it; page cache and monitor included",
    ),
    Metric("guest_cpus", "CPU", "lower", "CPUs used in a virtual machine, by its own kernel and clock"),
    Metric(
        "guest_memory", "MiB", "lower", "memory in use in a virtual machine at the end, as its own kernel counts it"
    ),
)  # fmt: skip
SINCE_START = "since the instance's start: this host's kernel cannot reset it"  # of a memory peak
# The metrics that do not depend on a guest's clock.
BY_HOST = frozenset({"instance_cpus", "instance_memory", "guest_memory"})
OVER_TIME = ("instance_cpus", "host_cpus")  # CPU time divided by the work's time on the host, and as exact


def with_usage_metrics(
    reading: Reading, used: Usage, work_s: float | None, guest: GuestCounters | None, guest_after: GuestCounters | None
) -> Reading:
    """Return the reading with METRICS added: the instance's CPUs and memory as the host and as a guest count them.

    `used` is what the host counted; `guest` and `guest_after` are readings of the guest's kernel before and after
    the work, or None. `work_s` is the duration of the work; if it is None, `instance_cpus` is left out."""
    values = {"instance_memory": used.memory_peak_bytes / MIB}
    if work_s:
        values["instance_cpus"] = used.cpu_s / work_s
    if guest and guest_after and guest_after.up_s > guest.up_s:
        values["guest_cpus"] = (guest_after.busy_s - guest.busy_s) / (guest_after.up_s - guest.up_s)
    if guest_after:
        values["guest_memory"] = guest_after.used_bytes / MIB
    return replace(reading, measurements={**reading.measurements, **values})
