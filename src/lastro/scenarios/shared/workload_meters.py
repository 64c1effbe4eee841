"""The readings that a scenario takes around the command of a workload."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from statistics import median
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

    `main` is the role of the instance with the workload. Processes that exec into it, such as a client of a container's
    daemon, run in the group `clients`. They belong to Lastro: they count neither as load of the instance nor as
    foreign, regardless of their parent process."""

    def __init__(
        self, testbed: Testbed, everyone: Mapping[str, Instance], main: str, daemons: Sequence[str], clients: str
    ) -> None:
        self._testbed, self._everyone, self._clients = testbed, everyone, clients
        self._instance, self._main = everyone[main], main
        self.host = HostMeter(testbed, everyone, (*daemons, clients))
        self.through = testbed.cgroups.entering(clients)
        self._own = (*daemons, clients)
        self._entries: list[tuple[float, float]] = []
        self._entered_s: list[float] = []
        self.used: dict[str, Usage] = {}  # by role, while the command ran

    @contextmanager
    def entering(self) -> Iterator[None]:
        before, began_s = self._cpu_s(), time.monotonic()
        yield
        self._entered_s.append(time.monotonic() - began_s)
        inside, own = (after - earlier for after, earlier in zip(self._cpu_s(), before, strict=True))
        self._entries.append((inside, inside + own))

    def _cpu_s(self) -> tuple[float, float]:
        """Return the CPU seconds that the instance has used, and those of the daemons and exec clients."""
        return self._instance.usage().cpu_s, sum(self._testbed.cgroups.usage(name).cpu_s for name in self._own)

    @property
    def entered_cpu_s(self) -> tuple[float, float]:
        """The overhead of exec in CPU seconds: in the instance, and in total on its host; the median of a few execs."""
        if not self._entries:
            return 0.0, 0.0
        inside, everywhere = zip(*self._entries, strict=True)
        return median(inside), median(everywhere)

    def __enter__(self) -> None:
        self._stack = ExitStack()
        instance = self._instance
        self._clock, self.guest = instance.clock(), GuestAccount.of(instance)
        self.fresh_peak = self._stack.enter_context(self._testbed.cgroups.fresh_peak(instance.cgroup))
        self._before = {role: each.usage() for role, each in self._everyone.items()}
        self._entering = self._testbed.cgroups.usage(self._clients)
        self.host.start()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Take the second readings, unless the block failed: an instance may be gone, and a new error would hide it."""
        with self._stack:
            if kind is None:
                self.host.stop()
                self.used = {role: each.usage().since(self._before[role]) for role, each in self._everyone.items()}
                self._entering = self._testbed.cgroups.usage(self._clients).since(self._entering)
                self.guest_after = GuestAccount.of(self._instance)
                self.drift = validity.drift_between(self._clock, self._instance.clock())

    def require_used(self, name: str) -> None:
        """Check that workload `name` ran a command under watch. Raises: InstrumentError when nothing was read."""
        if not self.used:
            raise InstrumentError(f"{name} did not run under watch", "its `run` must pass `watch` to `run_timed`")

    @property
    def elapsed_s(self) -> float:
        return self.host.elapsed_s

    @property
    def work_s(self) -> float | None:
        """The duration of the work: the watched time less the median overhead of exec; None if that is most of it."""
        entering_s = median(self._entered_s) if self._entered_s else 0.0
        worked_s = self.elapsed_s - entering_s
        return worked_s if worked_s > entering_s else None

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
                "entering_cpu_s": round(self._entering.cpu_s, 6),
                "entered_cpu_s": [round(seconds, 6) for seconds in self.entered_cpu_s],
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


@contextmanager
def watching(
    testbed: Testbed, everyone: Mapping[str, Instance], main: str, daemons: Sequence[str]
) -> Iterator[WorkloadWatch]:
    """Yield a watch, with a cgroup for exec clients that is removed after the block. `daemons` are cgroups, too."""
    clients = f"{testbed.session.cgroup}/{testbed.session.unique('clients')}"
    with testbed.session.owned("cgroup", clients):
        testbed.cgroups.make(testbed.host, clients)
        yield WorkloadWatch(testbed, everyone, main, daemons, clients)


def record_watched(watch: WorkloadWatch, work_s: float | None, config: Config, outcome: Outcome) -> None:
    """Record the readings of a watch, and invalidate the trial if other processes disturbed its host.

    A memory peak that is not only that of the workload gets a remark. `work_s` is the duration of the work; if it is
    None, there is no rate of CPUs."""
    if not watch.fresh_peak:
        outcome.add_caveat(Remark(WHOLE_LIFE, SINCE_START, ("instance_memory",)))
    found = watch.host.read(work_s, watch.entered_cpu_s[1])
    outcome.measurements |= {name: value for name, value in found.items() if work_s or name != "host_cpus"}
    outcome.notes |= watch.notes()
    outcome.invalidate(validity.host_reasons(watch.host.steal_percent, watch.foreign_cpus, config))
