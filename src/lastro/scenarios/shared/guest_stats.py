"""The CPU time and memory of a virtual machine, as its own kernel counts them. Source: proc(5)."""

from __future__ import annotations

import os
from dataclasses import dataclass

from lastro.platforms.base import Instance

_TICKS = os.sysconf("SC_CLK_TCK")
# One program reads all files: a process that starts between two reads would count in one file and not in the other.
_ACCOUNT = "grep -hE '^([0-9]|cpu |Mem(Total|Available):)' /proc/uptime /proc/stat /proc/meminfo 2>/dev/null || :"


@dataclass(frozen=True, slots=True)
class GuestAccount:
    """The counters of a virtual machine's kernel: busy and stolen CPU seconds since its boot, and memory in use.

    `up_s` is the time since that boot by its own clock."""

    busy_s: float
    stolen_s: float
    used_bytes: int
    up_s: float

    @classmethod
    def of(cls, instance: Instance) -> GuestAccount | None:
        """Read an instance's counters; None if the kernel is that of the host, or has no counters."""
        if instance.shares_kernel:
            return None
        done = instance.run(["sh", "-c", _ACCOUNT])
        try:
            uptime, first, total, available = done.text.splitlines()
            user, nice, system, idle, wait, irq, softirq, steal = map(int, first.split()[1:9])
            up_s = float(uptime.split()[0])
            used_kib = int(total.split()[1]) - int(available.split()[1])
        except (ValueError, IndexError):  # a kernel that does not count
            return None
        if not any((user, nice, system, idle, wait)):  # as in gVisor: there is a file, but nothing is counted
            return None
        return cls((user + nice + system + irq + softirq) / _TICKS, steal / _TICKS, used_kib << 10, up_s)

    def since(self, earlier: GuestAccount) -> dict[str, float]:
        """Return CPU seconds and elapsed time by its own clock since an earlier reading, and the memory in use now."""
        busy_s, stolen_s = self.busy_s - earlier.busy_s, self.stolen_s - earlier.stolen_s
        seconds = {"busy_s": busy_s, "stolen_s": stolen_s, "elapsed_s": self.up_s - earlier.up_s}
        return {**{name: round(value, 3) for name, value in seconds.items()}, "used_bytes": self.used_bytes}
