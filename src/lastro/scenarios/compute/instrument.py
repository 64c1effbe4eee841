"""One workload in one instance: its instrument, its metrics, and whether it is available."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager

from lastro import registry
from lastro.errors import LastroError
from lastro.host.cgroups import Resources
from lastro.host.local import here
from lastro.instruments.base import Workload
from lastro.platforms.base import AVAILABLE, Availability, Instance, unavailable
from lastro.results.samples import Metric
from lastro.scenarios.base import Config, chosen_part
from lastro.scenarios.shared.resources import MIB
from lastro.scenarios.shared.verify_limits import KERNEL_BYTES
from lastro.testbed import Testbed
from lastro.units import human_bytes


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
    return chosen_part(Workload, config)


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

        The limit leaves room for the kernel of a machine on every platform, so that the task is the same on all."""
        needed, memory_bytes = tool.least_memory_bytes(self._testbed.host, limits.cpuset), limits.memory_bytes
        if memory_bytes is None or needed <= memory_bytes * 63 // 64 - KERNEL_BYTES:
            return AVAILABLE
        whole = math.ceil((needed + KERNEL_BYTES) * 64 / 63 / MIB)
        return Availability(
            f"{tool.name} needs {human_bytes(needed)}, but the instance has {human_bytes(memory_bytes)} of memory",
            f'set memory = "{whole}M" or more, or choose a smaller task for the instrument',
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
