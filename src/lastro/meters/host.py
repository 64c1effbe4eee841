"""Activity of the whole host: busy CPUs, steal, pressure, and foreign load. Source: proc(5), kernel psi.rst."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from lastro.host.activity import TOTALS, ActivityReading, read_activity, totals_of
from lastro.host.ledger import Session
from lastro.meters.base import Meter
from lastro.platforms.base import Instance
from lastro.results.samples import Metric
from lastro.testbed import Testbed


class _MachineUnderGuest:
    """The activity of the machine that runs a guest, from the creation of this object to `stop`.

    `rivals` are the PIDs of the session's other guests, whose CPU use counts as foreign load."""

    def __init__(self, session: Session, rivals: frozenset[int]) -> None:
        self._session, self._rivals = session, rivals
        self._before, self._lastro_before = self._look(), os.times()

    def stop(self) -> None:
        now, lastro = self._look(), os.times()
        self.totals = now.totals.since(self._before.totals)
        before = self._lastro_before
        lastro_s = lastro.user + lastro.children_user - before.user - before.children_user
        foreign_s = now.foreign_user_s(self._before, self._session.pids() - self._rivals, lastro_s)
        self.foreign_cpus = foreign_s / (now.at_s - self._before.at_s)

    def _look(self) -> ActivityReading:
        with self._session.host.recorded():
            return read_activity(self._session.host)


class HostMeter(Meter):
    name = "host"
    summary = "busy CPUs, steal and pressure of the whole host"
    whole_host = True
    metrics = (
        Metric("host_cpus", "CPU", "neither", "CPUs that were busy on the whole host, interrupts included"),
        Metric("host_steal", "%", "lower", "CPU time that a hypervisor gave to other machines"),
        Metric("psi_cpu", "%", "lower", "time in which some task waited for a CPU"),
        Metric("psi_memory", "%", "lower", "time in which some task waited for memory"),
        Metric("psi_io", "%", "lower", "time in which some task waited for a disk"),
    )

    _under: _MachineUnderGuest | None = None  # only in a guest
    hidden_s = 0.0  # CPU time that a hypervisor gave to the trial's instances that run beside this host

    def __init__(self, testbed: Testbed, instances: Mapping[str, Instance], own_cgroups: Sequence[str] = ()) -> None:
        """Create a meter of the host; `own_cgroups` are the cgroups of the platform's daemons."""
        super().__init__(testbed, instances)
        self._own_cgroups = own_cgroups

    def start(self) -> None:
        controller = self.testbed.guest_controller
        self._under = _MachineUnderGuest(controller, self.testbed.rivals) if controller else None
        self._before = self.testbed.host.glance(TOTALS)
        self._daemons_user_s = self._read_daemons_user_s()

    def stop(self) -> None:
        before, now = self._before, self.testbed.host.glance(TOTALS)
        self.elapsed_s = now.at_s - before.at_s
        self.totals = totals_of(now.texts).since(totals_of(before.texts))
        self.own_user_s = now.spent.own_user_s - before.spent.own_user_s
        self.own_cpu_s = now.spent.own_s - before.spent.own_s
        self.commands_user_s = now.spent.commands_user_s - before.spent.commands_user_s
        self.daemons_user_s = self._read_daemons_user_s() - self._daemons_user_s
        if self._under:
            self._under.stop()

    def _read_daemons_user_s(self) -> float:
        return sum(self.testbed.cgroups.usage(name).user_s for name in self._own_cgroups)

    def read(self, work_s: float | None = None) -> dict[str, float]:
        """Return {metric name: value}.

        `host_cpus` is CPU time divided by `work_s`, the seconds that the work took; by default, by the time between
        `start` and `stop`. Pass `work_s` if the meter ran longer than the work."""
        return {
            "host_cpus": self.busy_s / (work_s or self.elapsed_s),
            "host_steal": self.steal_percent,
            **self.pressure(),
        }

    def pressure(self) -> dict[str, float]:
        """Return the percentage of time in which some task waited for each resource, such as {"psi_io": 1.5}.

        Empty on a kernel without PSI."""
        return {f"psi_{name}": 100 * seconds / self.elapsed_s for name, seconds in self.totals.stalled_s.items()}

    @property
    def busy_s(self) -> float:
        """CPU seconds that the whole host was busy, including interrupts, and instances that run in domains of Xen."""
        seconds = self.totals.cpu_s
        return sum(seconds.values()) - seconds["idle"] - seconds["iowait"] - seconds["steal"] + self.hidden_s

    @property
    def steal_percent(self) -> float:
        """The percentage of CPU time that other virtual machines took from this host.

        The kernel also counts as stolen the time of the trial's own instances that run beside this host, in domains of
        Xen. All of that time is subtracted, so an equal amount taken by foreign domains is not noticed."""
        own_percent = 100 * self.hidden_s / (sum(self.totals.cpu_s.values()) or 1.0)
        under_percent = self._under.totals.steal_percent if self._under else 0.0
        return max(self.totals.steal_percent - own_percent, under_percent, 0.0)

    def foreign_cpus(self, instances_user_s: float) -> float:
        """Return how many CPUs were busy in user mode with processes of neither Lastro nor its instances, on average.

        `instances_user_s` is the user time of the instances. Only user mode is counted: the kernel's work for the
        trial's traffic belongs to no cgroup, and would look like foreign load. In a guest, only Lastro runs, so the
        processes of the machine that runs the guest are counted instead."""
        if self._under:
            return self._under.foreign_cpus
        return self.others_user_s(instances_user_s) / self.elapsed_s

    def others_user_s(self, instances_user_s: float) -> float:
        """Return the user-mode CPU seconds of processes on this host that belong to neither Lastro nor its instances.

        `instances_user_s` is the user time of the instances. If this host is a guest, the processes are those inside
        the guest."""
        return max(0.0, self.totals.user_s - instances_user_s - self.own_user_s - self.daemons_user_s)

    def notes(self) -> dict[str, Any]:
        return {
            "steal_percent": round(self.steal_percent, 3),
            "lastro_cpu_percent": round(100 * self.own_cpu_s / self.elapsed_s, 3),
        }
