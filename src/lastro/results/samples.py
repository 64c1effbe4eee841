"""The results of one trial: metrics, measurements, series, and reasons for its invalidity. Pure data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

MAX_ATTEMPTS = 3  # an invalid trial is repeated at most twice before it is given up

Better = Literal["higher", "lower", "neither"]

# Keys of a trial's notes that the report shows as marks and as a section, for every scenario.
REMARKS, REALLY = "remarks", "really"

_UNITS_OF_AMOUNTS = frozenset(
    {"1", "%", "bit", "kbit", "Mbit", "Gbit", "B", "kB", "MB", "GB", "KiB", "MiB", "GiB", "ns", "us", "µs", "ms", "s"}
    | {"min", "h", "CPU", "CPUs", "J", "W", "Hz"}
)
_UNITS_OF_SPEED = frozenset({"%", "ns", "us", "µs", "ms", "s", "min", "h", "CPU", "CPUs"})


def depends_on_speed(unit: str) -> bool:
    """Return whether values in a unit depend on the speed of a processor: times, rates, CPU use, and percentages."""
    return not _UNITS_OF_SPEED.isdisjoint(unit.split("/"))


@dataclass(frozen=True, slots=True)
class Metric:
    """A named quantity, its unit, and the direction in which it is better.

    `signed` is true for a difference or a change, which may be negative. `cell` is only for a metric that a search in a
    grid measures: the names of the two metrics that are the lower and the upper end of the grid cell found. This metric
    is one of the two, and the true value lies between both."""

    name: str
    unit: str
    better: Better
    summary: str
    signed: bool = False
    cell: tuple[str, str] | None = None

    @property
    def non_negative(self) -> bool:
        """True if values cannot be negative, judged by the unit: amounts, times, fractions and rates, if not signed."""
        return not self.signed and all(part in _UNITS_OF_AMOUNTS for part in self.unit.split("/"))

    def width(self, measurements: Mapping[str, float]) -> float:
        """Return the width of the cell in `measurements`, with a sign; 0 without a cell, or if an end is missing.

        The true value of the metric lies between the measured value and this value plus the width. So the width is
        negative if the metric is the upper end of the cell."""
        if self.cell is None or not all(end in measurements for end in self.cell):
            return 0.0
        lower, upper = (measurements[end] for end in self.cell)
        return lower - upper if self.name == self.cell[1] else upper - lower


@dataclass(frozen=True, slots=True)
class Series:
    """The raw samples of a measurement, in the order in which they were taken."""

    name: str
    unit: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PackedHistogram:
    """All samples of a measurement as counts, packed by `results.hdr`; `unit` is the unit of the counted integers."""

    name: str
    unit: str
    packed: bytes


@dataclass(frozen=True, slots=True)
class Remark:
    """A caveat on valid numbers: the report marks them, and the trial stays valid.

    `kind` is a short text that all remarks of one kind share, such as THROUGH_CACHE; `text` describes this trial.
    `metrics` are the metrics that the remark concerns; empty means all metrics of the trial. If the trial has no value
    of a metric in `metrics`, the value was dropped because of what the remark describes."""

    kind: str
    text: str
    metrics: tuple[str, ...] = ()


GENERATOR_LIMITED = "generator-limited"
THROUGH_CACHE = "through a cache"
WRONG_CLOCK = "wrong clock"
CLOCK_NOT_VERIFIED = "clock not verified"
TOO_SHORT = "too short to time"
CLOSED_LOOP = "closed loop"
WHOLE_LIFE = "peak of a whole life"
AT_LEAST = "at least"
OVERLOADED = "overloaded"
GENERATOR_DELAY = "generator delay"
LARGE_SEGMENTS = "segments beyond the MTU"
TOO_FEW = "too few packets"
AMONG_LOST = "among lost packets"
OTHER_TRAFFIC = "other traffic"
GOAL_NOT_MET = "goal not met"
GIVEN_BACK = "memory given back"
KINDS_OF_REMARKS = (
    GENERATOR_LIMITED, THROUGH_CACHE, WRONG_CLOCK, CLOCK_NOT_VERIFIED, TOO_SHORT, CLOSED_LOOP, WHOLE_LIFE, AT_LEAST,
    OVERLOADED, GENERATOR_DELAY, LARGE_SEGMENTS, TOO_FEW, AMONG_LOST, OTHER_TRAFFIC, GOAL_NOT_MET, GIVEN_BACK,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading of one instrument or meter in one trial: measurements by metric name, and their series."""

    measurements: dict[str, float]
    series: tuple[Series, ...] = ()
    payload_bytes: int = 0  # data that the receiver got, which the witnesses of the path must confirm
    invalid_because: tuple[str, ...] = ()
    notes: dict[str, object] = field(default_factory=dict)  # stored with the trial
    remarks: tuple[Remark, ...] = ()  # become marks in the report
    # How the values were measured, such as {"page cache": "in use"}; equal in all trials of a treatment.
    really: dict[str, str] = field(default_factory=dict)
    lasted_s: float = 0.0  # duration of the transfer of `payload_bytes` by the receiver's clock; 0 if unknown
    histograms: tuple[PackedHistogram, ...] = ()


@dataclass(slots=True)
class Outcome:
    """The result of a trial: its values, and the reasons for its invalidity. It is valid if there are no reasons.

    `notes` are a record for people. `results.trial_notes` defines types for the few notes on which programs rely."""

    measurements: dict[str, float] = field(default_factory=dict)
    series: list[Series] = field(default_factory=list)
    invalid_because: list[str] = field(default_factory=list)
    notes: dict[str, object] = field(default_factory=dict)
    histograms: list[PackedHistogram] = field(default_factory=list)

    @property
    def valid(self) -> bool:
        return not self.invalid_because

    def add(self, reading: Reading, prefix: str = "") -> None:
        self.measurements.update({prefix + name: value for name, value in reading.measurements.items()})
        self.series.extend(reading.series)
        self.histograms.extend(reading.histograms)
        self.invalid_because.extend(reading.invalid_because)
        self.notes |= reading.notes
        for remark in reading.remarks:
            self.add_caveat(remark)
        self.add_condition(reading.really)

    def add_caveat(self, remark: Remark) -> None:
        """Add a remark to the notes, as plain data under the key REMARKS."""
        remarks = self.notes.setdefault(REMARKS, [])
        assert isinstance(remarks, list)
        remarks.append({**asdict(remark), "metrics": list(remark.metrics)})

    def extend_caveats(self, metric: str, *computed: str) -> None:
        """Let each remark on `metric` also apply to the metrics `computed` from its value."""
        remarks = self.notes.get(REMARKS, [])
        assert isinstance(remarks, list)
        for remark in remarks:
            if metric in remark["metrics"]:
                remark["metrics"] += computed

    def add_condition(self, facts: dict[str, str]) -> None:
        """Add facts on how the values were measured, such as the file system, to the notes, under the key REALLY."""
        really = self.notes.setdefault(REALLY, {}) if facts else {}
        assert isinstance(really, dict)
        really.update(facts)

    def invalidate(self, reasons: Iterable[str]) -> None:
        """Add reasons for the trial's invalidity."""
        self.invalid_because.extend(reasons)
