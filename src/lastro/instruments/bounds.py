"""Reject numbers that no test could have yielded, such as a time that is longer than the test.

The unit of a metric determines its bound: a time is at most the length of the test, a percentage at most 100, and a
rate at most what any hardware does today. Bounds are wide: a number may be unusual, but not impossible."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from lastro.errors import InstrumentError
from lastro.results.samples import Metric, Reading

LONGEST_S = 86_400.0  # assumed for a test of unknown duration
_LATE_S = 10.0  # a tool waits for the last answers
_SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
MOST: Mapping[str, float] = {
    "%": 100.0,
    "Mbit/s": 1e8,  # 100 Tbit/s
    "MB/s": 1e8,  # 100 TB/s
    "MiB/s": 1e11,  # sysbench counts blocks that it does not touch
    "1/s": 1e12,
    "1": 2.0**53,  # counts that a double holds exactly
}


def largest_possible(unit: str, lasted_s: float = LONGEST_S) -> float:
    """Return the largest possible value in `unit`, in a test of `lasted_s` seconds; infinity for an unknown unit."""
    return (lasted_s + _LATE_S) / _SECONDS[unit] if unit in _SECONDS else MOST.get(unit, math.inf)


def bounded(metrics: Iterable[Metric], reading: Reading, lasted_s: float = LONGEST_S) -> Reading:
    """Return the reading unchanged. Raises: InstrumentError if a measurement or a value of a series is impossible.

    `metrics` have the units of the measurements; a measurement of any other name may be any number from 0."""
    units = {metric.name: metric.unit for metric in metrics}
    for name, value in reading.measurements.items():
        require_possible(name, value, units.get(name, ""), lasted_s)
    for series in reading.series:
        if series.values:
            require_possible(series.name, min(series.values), series.unit, lasted_s)
            require_possible(series.name, max(series.values), series.unit, lasted_s)
    return reading


def require_possible(name: str, value: float, unit: str, lasted_s: float = LONGEST_S) -> None:
    """Raise InstrumentError if no test of `lasted_s` seconds could have yielded this value."""
    if not 0 <= value <= largest_possible(unit, lasted_s):
        where = f" in a test of {lasted_s:g} s" if unit in _SECONDS and lasted_s != LONGEST_S else ""
        raise InstrumentError(
            f"impossible number: {name} of {value:g} {unit}{where}".rstrip(),
            "the tool, or the clock of the machine below, does not work here; repeat the trial or use another tool",
        )
