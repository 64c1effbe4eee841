"""The measured window of a trial: what is read before and after a measurement, and how it is judged and noted.

Every scenario measures in such a window, so that none forgets a witness. A scenario without links or without a
neighbour does not pass them to its window. The first readings are taken in this order, the second ones in reverse
order: the neighbour's dose, clocks, links, the counters of a guest's kernel, the usage of instances, and the usage of
hosts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack

from lastro import validity
from lastro.attachments.base import Attachment
from lastro.errors import InstrumentError
from lastro.host.cgroups import Usage
from lastro.instruments.base import Watch
from lastro.isolation.base import NEIGHBOUR
from lastro.meters.host import HostMeter
from lastro.meters.usage import UsageMeter
from lastro.platforms.base import Instance
from lastro.results.samples import WHOLE_LIFE, Outcome, Reading, Remark
from lastro.scenarios.base import Config
from lastro.scenarios.shared.accounts import BY_HOST, SINCE_START, GuestCounters, with_usage_metrics
from lastro.scenarios.shared.clock_policy import MAX_TOOL_DRIFT, judge_clock, note_unverified_clock
from lastro.scenarios.shared.disturbance import Disturbance
from lastro.scenarios.shared.flow import judge_links
from lastro.scenarios.shared.host_limits import MAX_DRIFT_PERCENT, host_limits
from lastro.scenarios.shared.topology import note_meter, note_witness
from lastro.testbed import Testbed


class Meters(Watch):
    """The resource usage of hosts and instances, from the start of a measurement to its end.

    `instances` exist when the measurement starts. `add` adds instances that start later; they are counted since their
    start. `own_cgroups` are the cgroups of daemons on the testbed's host. `elsewhere` are testbeds on other hosts of
    the trial. With `with_commands`, the CPU time of commands that Lastro runs is not foreign. `kernel_s` is the CPU
    time of kernel threads that worked for the chain; the user of such threads sets it."""

    kernel_s = 0.0

    def __init__(
        self,
        testbed: Testbed,
        instances: Mapping[str, Instance],
        own_cgroups: Sequence[str] = (),
        *,
        elsewhere: Iterable[Testbed] = (),
        with_commands: bool = False,
    ) -> None:
        self.usage, self.host = UsageMeter(testbed, instances), HostMeter(testbed, instances, own_cgroups)
        beds = {bed.host: bed for bed in elsewhere if bed.host is not testbed.host}
        self.others = tuple(HostMeter(bed, {}) for bed in beds.values())
        self._with_commands = with_commands

    def add(self, instances: Mapping[str, Instance]) -> None:
        """Also measure these instances, which started after the meters, since their start."""
        self.usage.instances = {**self.usage.instances, **instances}

    def start(self) -> None:
        self.usage.start()
        for meter in (*self.others, self.host):
            meter.start()

    def stop(self) -> None:
        """Stop all meters, and give the meter of each host the CPU time of instances that it cannot see itself."""
        for meter in (self.host, *self.others):
            meter.stop()
        self.usage.stop()
        for meter in (self.host, *self.others):
            meter.hidden_s = sum(usage.hidden_s for usage in self._used_on(meter))

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Take the second readings, unless the block failed: an error while reading would hide the cause."""
        if kind is None:
            self.stop()

    def foreign_cpus(self, meter: HostMeter) -> float:
        """Return how many CPUs of the meter's host were used by processes outside of Lastro and the trial."""
        used_s = sum(usage.user_s for usage in self._used_on(meter))
        return meter.foreign_cpus(used_s + (meter.commands_user_s if self._with_commands else 0.0))

    def _used_on(self, meter: HostMeter) -> list[Usage]:
        """Return the usage of each instance on the meter's host."""
        if not self.others:
            return [*self.usage.used.values()]
        instances, host = self.usage.instances, meter.testbed.host
        return [usage for role, usage in self.usage.used.items() if instances[role].testbed.host is host]

    def judged(self, config: Config) -> Reading:
        """Return notes on each host, and reasons for invalidity if one was disturbed, without measurements."""
        notes: dict[str, object] = {}
        all_reasons: list[str] = []
        limits = host_limits(config)
        for meter in (self.host, *self.others):
            name, foreign_cpus = meter.testbed.host.name, self.foreign_cpus(meter)
            reasons = validity.host_reasons(meter.steal_percent, foreign_cpus, limits)
            note = {"foreign_cpus": round(foreign_cpus, 3), **meter.notes(), **meter.pressure()}
            notes["host" if meter is self.host else f"host {name}"] = note
            all_reasons += reasons if meter is self.host else [f"{name}: {reason}" for reason in reasons]
        return Reading({}, invalid_because=tuple(all_reasons), notes=notes)

    @property
    def beside_s(self) -> float:
        """The CPU seconds of a chain's neighbour, and of programs that belong neither to the chain nor to Lastro.

        Many kernels also charge the time of an interrupt, in which they forward packets, to the interrupted process. So
        the system time of the neighbour is limited to the host's system time outside of interrupts, less the system
        time of the chain and of Lastro."""
        host, used = self.host, self.usage.used
        neighbours = [usage for role, usage in used.items() if role == NEIGHBOUR]
        chain_system_s = self.kernel_s + sum(usage.system_s for role, usage in used.items() if role != NEIGHBOUR)
        most_system_s = max(0.0, host.totals.cpu_s["system"] - (host.own_cpu_s - host.own_user_s) - chain_system_s)
        user_s = host.others_user_s(self.usage.user_s) + sum(usage.user_s + usage.hidden_s for usage in neighbours)
        return user_s + min(most_system_s, sum(usage.system_s for usage in neighbours))

    def work_s(self, apparatus_s: float) -> float:
        """Return the CPU seconds of the host, less what the neighbour, other programs and Lastro used.

        `apparatus_s` is the CPU time of Lastro by its own account; the larger of this time and the meter's reading is
        used.

        What remains is the work of the chain: its programs, its monitors, the daemons of its links, and what the kernel
        does for its packets in the name of the process that it interrupts."""
        return max(0.0, self.host.busy_s - max(apparatus_s, self.host.own_cpu_s) - self.beside_s)


class MeasuredWindow(Meters):
    """The window of a trial's measurement: meters, and witnesses by which `judge` decides whether the trial is valid.

    Clocks of guests are read in scenarios with the setting `max_drift_percent`. `workload` is the role of an instance
    with a workload, or empty. With a workload, only the clock and the kernel's counters of that instance are read. If
    that clock is wrong, the trial stays valid, since the scenario drops the values that the clock timed."""

    guest: GuestCounters | None = None
    guest_after: GuestCounters | None = None
    drifts: Mapping[str, validity.ClockDrift] = {}
    fresh_peak = False  # whether the memory peak is that of the workload alone

    def __init__(
        self,
        testbed: Testbed,
        instances: Mapping[str, Instance],
        config: Config,
        own_cgroups: Sequence[str] = (),
        *,
        workload: str = "",
        links: Attachment | None = None,
        disturbance: Disturbance | None = None,
        elsewhere: Iterable[Testbed] = (),
        with_commands: bool = False,
    ) -> None:
        super().__init__(testbed, instances, own_cgroups, elsewhere=elsewhere, with_commands=with_commands)
        self._testbed, self._config, self._links, self._disturbance = testbed, config, links, disturbance
        self._workload, self._instances = workload, instances
        timed = [workload] if workload else instances
        self._timed = {role: instances[role] for role in timed if MAX_DRIFT_PERCENT.name in config}

    def start(self) -> None:
        if self._disturbance:
            self._disturbance.neighbour.require_alive()
            self._dose_before = self._disturbance.neighbour.reading()
        self._clocks = self._read_clocks()
        self._carried = self._links.counters(self._testbed) if self._links else {}
        self._stack = ExitStack()
        if self._workload:
            instance = self._instances[self._workload]
            self.guest = GuestCounters.of(instance)
            self.fresh_peak = self._stack.enter_context(self._testbed.cgroups.fresh_peak(instance.cgroup))
        super().start()

    def stop(self) -> None:
        super().stop()
        if self._workload:
            self.guest_after = GuestCounters.of(self._instances[self._workload])
        before, after = self._clocks, self._read_clocks()
        self.drifts = {role: validity.drift(before[role], after[role]) for role in before if role in after}
        self._carried_after = self._links.counters(self._testbed) if self._links else {}
        if self._disturbance:
            self._dose = self._disturbance.neighbour.dose_since(self._dose_before)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        with self._stack:
            super().__exit__(kind, *rest)

    def _read_clocks(self) -> dict[str, validity.ClockSample]:
        """Return {role: sample of its clock} for the instances to be timed that have a clock of their own."""
        samples = {role: instance.clock() for role, instance in self._timed.items()}
        return {role: sample for role, sample in samples.items() if sample is not None}

    def judge(self, outcome: Outcome) -> None:
        """Note all witnesses in `outcome`, and add a reason for invalidity for each that contradicts the trial."""
        if self.drifts:
            note_witness(outcome, "clocks", "the guests' clocks against the host's", self.drifts)
            drifts = self.drifts.items()
            notes = {role: {"drift": drift.ratio - 1, "uncertainty": drift.uncertainty} for role, drift in drifts}
            outcome.notes["clocks"] = notes
        if not self._workload and self._timed:
            limit = MAX_DRIFT_PERCENT.of(self._config) / 100
            outcome.invalidate(validity.drift_reasons(self.drifts, limit))
        if self._links:
            judge_links(self._links.name, self._carried, self._carried_after, outcome)
        outcome.add(self.judged(self._config))
        note_meter(outcome, self.usage)
        note_meter(outcome, self.host)
        if self._disturbance:
            role = self._disturbance.neighbour.instance.spec.role
            note_witness(outcome, "dose", "what the neighbour really did", (role,))
            self._disturbance.judge_dose(self._dose, self.host, outcome)

    def require_used(self, name: str) -> None:
        """Check that workload `name` ran a command in the window. Raises: InstrumentError when nothing was read."""
        if not self.usage.used:
            why = f"{name} did not run under watch"
            raise InstrumentError(why, "its `run` must pass `watch` to `run_timed`, or to `Instance.measure`")

    def record_workload(
        self, reading: Reading, by_host: Collection[str], work_s: float | None, outcome: Outcome, **how: bool
    ) -> None:
        """Judge the window of a workload, and record the workload's reading with its CPU time and memory.

        `by_host` are the metrics that the host's clock timed; `how` are options of `judge_clock`. If the memory peak
        could only be measured since the start of the instance, not of the workload, a remark reports this. `work_s`
        is the duration of the work; if it is None, no metric of CPUs on the host is recorded."""
        role, by_host = self._workload, BY_HOST.union(by_host)
        drift, limit = self.drifts.get(role), MAX_TOOL_DRIFT.of(self._config) / 100
        reading = with_usage_metrics(reading, self.usage.used[role], work_s, self.guest, self.guest_after)
        judge_clock(reading, by_host, drift, limit, outcome, **how)
        note_unverified_clock(self._instances[role], by_host, drift, limit, outcome)
        if not self.fresh_peak:
            outcome.add_caveat(Remark(WHOLE_LIFE, SINCE_START, ("instance_memory",)))
        host_use = self.host.read(work_s)
        outcome.measurements |= {name: value for name, value in host_use.items() if work_s or name != "host_cpus"}
        before_bytes = self.usage.before[self._workload].memory_bytes
        peak = "of the workload" if self.fresh_peak else SINCE_START
        memory = {"before_bytes": before_bytes, "peak": peak}
        outcome.notes |= {**self.usage.notes(), "elapsed_s": self.host.elapsed_s, "memory": memory}
        if self.guest and self.guest_after:
            outcome.notes["guest"] = self.guest_after.since(self.guest)
        self.judge(outcome)
