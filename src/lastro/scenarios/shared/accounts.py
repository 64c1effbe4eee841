"""CPU time and memory of an instance during its work, as the host and the guest count them."""

from __future__ import annotations

from dataclasses import replace

from lastro.host.cgroups import Usage
from lastro.results.samples import Metric, Reading
from lastro.scenarios.shared.guest_stats import GuestAccount

METRICS = (
    Metric(
        "instance_cpus",
        "CPU",
        "lower",
        "CPUs used by the instance during its work, as the host counts them, including those of a monitor",
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
SINCE_START = "since the instance's start: this host's kernel cannot reset it"  # of a memory peak
# The other metrics are counted in ticks of a guest's clock.
BY_HOST = frozenset({"instance_cpus", "instance_memory", "guest_memory"})
OVER_TIME = ("instance_cpus", "host_cpus")  # CPU time divided by the work's time on the host, and as exact


def with_account(
    reading: Reading, used: Usage, work_s: float | None, guest: GuestAccount | None, guest_after: GuestAccount | None
) -> Reading:
    """Return the reading with METRICS, as counted by the host, and as counted by a machine's kernel with its own clock.

    `work_s` is the duration of the work. If it is None, there is no rate of CPUs."""
    found = {"instance_memory": used.memory_peak_bytes / 2**20}
    if work_s:
        found["instance_cpus"] = used.cpu_s / work_s
    if guest and guest_after and guest_after.up_s > guest.up_s:
        found["guest_cpus"] = (guest_after.busy_s - guest.busy_s) / (guest_after.up_s - guest.up_s)
    if guest_after:
        found["guest_memory"] = guest_after.used_bytes / 2**20
    return replace(reading, measurements={**reading.measurements, **found})
