"""A meter observes instances under load: it reads counters of the kernel before and after.

It reads nothing in between, so that it does not disturb the measurement."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from lastro.platforms.base import Instance
from lastro.results.samples import Metric
from lastro.study.parts import Part
from lastro.testbed import Testbed


class Meter(Part):
    kind = "meter"
    metrics: ClassVar[tuple[Metric, ...]] = ()
    whole_host: ClassVar[bool] = False  # whether it watches more than its instances

    def __init__(self, testbed: Testbed, instances: Mapping[str, Instance]) -> None:
        """Create a meter of `instances`, which are {role: instance}."""
        self.testbed, self.instances = testbed, instances

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def read(self) -> dict[str, float]:
        """Return {metric name: value} of the time between `start` and `stop`."""

    def notes(self) -> dict[str, Any]:
        """Return further results to store in the trial's notes, as plain data; empty by default."""
        return {}
