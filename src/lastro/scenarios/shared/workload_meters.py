"""The readings that a scenario takes around the command of a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from lastro import validity
from lastro.errors import InstrumentError
from lastro.host.cgroups import Usage
from lastro.instruments.base import Watch
from lastro.meters.host import HostMeter
from lastro.meters.usage import UsageMeter
from lastro.platforms.base import Instance
from lastro.results.samples import WHOLE_LIFE, Outcome, Remark
from lastro.scenarios.base import Config
from lastro.scenarios.shared.accounts import SINCE_START
from lastro.scenarios.shared.guest_stats import GuestAccount
from lastro.scenarios.shared.topology import note_meter, note_witness
from lastro.testbed import Testbed


class WorkloadWatch(Watch):
    """Readings of the host, of each instance's cgroup, and of a guest's counters and clock, before and after.

    `main` is the role of the instance with the workload; `daemons` are cgroups."""

    def __init__(
        self, testbed: Testbed, everyone: Mapping[str, Instance], main: str, daemons: Sequence[str] = ()
    ) -> None:
        self._testbed, self._everyone = testbed, everyone
        self._instance, self._main = everyone[main], main
        self.host = HostMeter(testbed, everyone, daemons)
        self.used: dict[str, Usage] = {}  # by role, while the command ran

    def __enter__(self) -> None:
        self._stack = ExitStack()
        instance = self._instance
        self._clock, self.guest = instance.clock(), GuestAccount.of(instance)
        self.fresh_peak = self._stack.enter_context(self._testbed.cgroups.fresh_peak(instance.cgroup))
        self._before = {role: each.usage() for role, each in self._everyone.items()}
        self.host.start()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Take the second readings, unless the block failed: an instance may be gone, and a new error would hide it."""
        with self._stack:
            if kind is None:
                self.host.stop()
                self.used = {role: each.usage().since(self._before[role]) for role, each in self._everyone.items()}
                self.guest_after = GuestAccount.of(self._instance)
                self.drift = validity.drift_between(self._clock, self._instance.clock())

    def require_used(self, name: str) -> None:
        """Check that workload `name` ran a command under watch. Raises: InstrumentError when nothing was read."""
        if not self.used:
            raise InstrumentError(
                f"{name} did not run under watch",
                "its `run` must pass `watch` to `run_timed`, or to `Instance.measure`",
            )

    @property
    def elapsed_s(self) -> float:
        return self.host.elapsed_s

    @property
    def foreign_cpus(self) -> float:
        return self.host.foreign_cpus(sum(used.user_s for used in self.used.values()))

    def note_witnesses(self, outcome: Outcome) -> None:
        """Note the witnesses beside the trial's topology."""
        note_meter(outcome, self.host)
        note_witness(outcome, UsageMeter.name, UsageMeter.summary, self._everyone)
        if self.drift:
            note_witness(outcome, "clocks", "the guest's clock against the host's", (self._main,))

    def notes(self) -> dict[str, Any]:
        notes: dict[str, Any] = {
            "usage": {role: asdict(used) for role, used in self.used.items()},
            "elapsed_s": self.elapsed_s,
            "host": {
                "foreign_cpus": round(self.foreign_cpus, 3),
                **self.host.notes(),
                **self.host.pressure(),
            },
            "memory": {
                "before_bytes": self._before[self._main].memory_bytes,
                "peak": "of the workload" if self.fresh_peak else SINCE_START,
            },
        }
        if self.guest and self.guest_after:
            notes["guest"] = self.guest_after.since(self.guest)
        return notes


def record_watched(watch: WorkloadWatch, work_s: float | None, config: Config, outcome: Outcome) -> None:
    """Record the readings of a watch, and invalidate the trial if other processes disturbed its host.

    A memory peak that is not only that of the workload gets a remark. `work_s` is the duration of the work; if it is
    None, there is no rate of CPUs."""
    if not watch.fresh_peak:
        outcome.add_caveat(Remark(WHOLE_LIFE, SINCE_START, ("instance_memory",)))
    found = watch.host.read(work_s)
    outcome.measurements |= {name: value for name, value in found.items() if work_s or name != "host_cpus"}
    outcome.notes |= watch.notes()
    outcome.invalidate(validity.host_reasons(watch.host.steal_percent, watch.foreign_cpus, config))
