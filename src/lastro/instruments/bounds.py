"""The bounds of what a tool reports, by the physics of its own test. A number beyond them is a fault of the tool.

A time cannot be longer than the test, a fraction not above 100 %, and a rate not above what any hardware does today, by
the unit with which an instrument declares its metric. Bounds are wide: they find numbers that are impossible, not those
that are unusual."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from lastro.errors import InstrumentError
from lastro.results.samples import Metric, Reading

LONGEST_S = 86_400.0  # of a test whose duration the reader does not know
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


def most(unit: str, lasted_s: float = LONGEST_S) -> float:
    """Return the largest possible value in a unit in a test that took so long; infinite for other units."""
    return (lasted_s + _LATE_S) / _SECONDS[unit] if unit in _SECONDS else MOST.get(unit, math.inf)


def bounded(metrics: Iterable[Metric], reading: Reading, lasted_s: float = LONGEST_S) -> Reading:
    """Return a reading whose measurements and series are possible. Raises: InstrumentError."""
    units = {metric.name: metric.unit for metric in metrics}
    for name, value in reading.measurements.items():
        possible(name, value, units.get(name, ""), lasted_s)
    for series in reading.series:
        for value in (min(series.values), max(series.values)) if series.values else ():
            possible(series.name, value, series.unit, lasted_s)
    return reading


def possible(name: str, value: float, unit: str, lasted_s: float = LONGEST_S) -> float:
    """Return the value. Raises: InstrumentError if no test could have yielded it."""
    highest = most(unit, lasted_s)
    if not 0 <= value <= highest:
        where = f" in a test of {lasted_s:g} s" if unit in _SECONDS and lasted_s != LONGEST_S else ""
        raise InstrumentError(
            f"impossible number: {name} of {value:g} {unit}{where}".rstrip(),
            "the tool, or the clock of the machine below, does not work here; repeat the trial or use another tool",
        )
    return value
