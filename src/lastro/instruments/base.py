"""An instrument loads the path between two instances and measures what comes of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from lastro.platforms.base import Instance
from lastro.results.samples import Metric, Reading
from lastro.study.model import Level


class Instrument(ABC):
    """`metrics` are what it measures; `version_argv` prints its version, run inside an instance."""

    kind = "instrument"
    name: ClassVar[str]
    summary: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]]
    version_argv: ClassVar[tuple[str, ...]]

    @abstractmethod
    def measure(self, client: Instance, server: Instance, target: str, settings: Mapping[str, Level]) -> Reading:
        """One measurement from `client` to address `target`, which is `server`'s.

        Raises: InstrumentError when the tool's output cannot be a measurement; CommandFailed; CommandTimeout."""
