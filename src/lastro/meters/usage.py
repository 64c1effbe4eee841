"""Use of CPU, memory and disk by each instance, from its own cgroup."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from lastro.host.cgroups import Usage
from lastro.meters.base import Meter
from lastro.results.samples import Metric
from lastro.units import MIB

_NEIGHBOUR = "neighbour"


class UsageMeter(Meter):
    """A meter of instances. An instance that is added to `instances` after `start` is measured from its own start."""

    used: Mapping[str, Usage] = {}  # by role, from `start` to `stop`

    name = "usage"
    summary = "CPU, memory and disk of each instance, from its own cgroup"
    metrics = (
        Metric("chain_cpus", "CPU", "neither", "CPUs used by all instances under test together"),
        Metric(
            "function_cpus", "CPU", "neither",
            "CPUs used by the function's processes, without the kernel's work on packets",
        ),
        Metric("chain_memory", "MiB", "lower", "sum of the memory peaks of the instances under test"),
    )  # fmt: skip

    def start(self) -> None:
        self._started_s = time.monotonic()
        self.before = self._readings()

    def stop(self) -> None:
        self.elapsed_s = time.monotonic() - self._started_s
        self.used = {role: now.since(self.before.get(role, Usage())) for role, now in self._readings().items()}

    def _readings(self) -> dict[str, Usage]:
        return {role: instance.usage() for role, instance in self.instances.items()}

    def read(self, work_s: float | None = None) -> dict[str, float]:
        """Return {metric name: value}.

        CPU time is divided by `work_s`, the seconds that the work took; by default, by the time between `start` and
        `stop`. Pass `work_s` if the meter ran longer than the work."""
        elapsed_s = work_s or self.elapsed_s
        chain = {role: used for role, used in self.used.items() if role != _NEIGHBOUR}
        return {
            "chain_cpus": sum(used.cpu_s for used in chain.values()) / elapsed_s,
            "function_cpus": sum(used.cpu_s for role, used in chain.items() if role.startswith("function")) / elapsed_s,
            "chain_memory": sum(used.memory_peak_bytes for used in chain.values()) / MIB,
        }

    def notes(self) -> dict[str, Any]:
        return {"usage": {role: asdict(used) for role, used in self.used.items()}}

    @property
    def user_s(self) -> float:
        """Seconds of CPU time in user mode of all instances together, including the neighbour."""
        return sum(used.user_s for used in self.used.values())
