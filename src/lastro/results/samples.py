"""What one trial yields: metrics, measurements, series, and a verdict on the trial itself. Pure data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Better = Literal["higher", "lower", "neither"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A named quantity: its unit, and the direction in which it is better."""

    name: str
    unit: str
    better: Better
    summary: str


@dataclass(frozen=True, slots=True)
class Series:
    """The raw samples under a measurement, in the order in which they were taken."""

    name: str
    unit: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one instrument or meter says of one trial: measurements by metric name, and the series under them.

    `payload_bytes` is what an instrument received at the far end: the witnesses of the path must account for it.
    `notes` are what a reader of the numbers should know, such as that a cache stood before the disk."""

    measurements: dict[str, float]
    series: tuple[Series, ...] = ()
    payload_bytes: int = 0
    invalid_because: tuple[str, ...] = ()
    notes: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    """All that a trial yielded. It is valid when no reason against it was found; validity is not value."""

    measurements: dict[str, float] = field(default_factory=dict)
    series: list[Series] = field(default_factory=list)
    invalid_because: list[str] = field(default_factory=list)
    notes: dict[str, object] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        return not self.invalid_because

    def add(self, reading: Reading, prefix: str = "") -> None:
        self.measurements.update({prefix + name: value for name, value in reading.measurements.items()})
        self.series.extend(reading.series)
        self.invalid_because.extend(reading.invalid_because)
        self.notes |= reading.notes

    def doubt(self, reasons: Iterable[str]) -> None:
        """Add each reason why this trial cannot be used."""
        self.invalid_because.extend(reasons)
