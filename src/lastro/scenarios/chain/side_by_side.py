"""Measurements on several chains at the same time, and the total throughput of the host.

Each chain has its own client and server; `shared.simultaneous` starts their commands together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from lastro import validity
from lastro.instruments.base import Instrument, Watch
from lastro.results.samples import Metric, Reading, Series
from lastro.scenarios.shared.chain import Chain
from lastro.scenarios.shared.simultaneous import MEMORY, OVERLAP, at_the_same_time
from lastro.study.model import Level
from lastro.testbed import Testbed

THROUGHPUT = "throughput"  # of TCP, on each chain
TOTAL, WORST, FAIRNESS = "host_throughput", "worst_throughput", "throughput_fairness"
METRICS = (
    Metric(TOTAL, "Mbit/s", "higher", "TCP throughput of all chains together: what the whole host carries"),
    Metric(WORST, "Mbit/s", "higher", "TCP throughput of the chain that got least"),
    Metric(
        FAIRNESS, "1", "higher", "Jain's index of the chains' TCP throughputs: 1 if all are equal, 1/n if one has all"
    ),
    replace(OVERLAP, summary="time in which all chains carried TCP, of that in which any did"),
    MEMORY,
)


def measure_on_all(
    testbed: Testbed, instrument: Instrument, chains: Sequence[Chain], settings: Mapping[str, Level], watch: Watch
) -> tuple[list[Reading], list[validity.Window]]:
    """Measure on all chains at the same time; return (readings in the order of the chains, times of their commands).

    Raises: as `Instrument.measure`; see `at_the_same_time`."""
    calls = [partial(instrument.measure, chain.source, chain.sink, chain.path.sink, settings) for chain in chains]
    return at_the_same_time(testbed, calls, watch)


def combined(readings: Sequence[Reading]) -> Reading:
    """Return one reading for all chains: means of measurements, and series with the samples of one chain after another.

    Payload bytes are added up. A measurement that one of the chains lacks is left out."""
    first, *others = readings
    if not others:
        return first
    common = [name for name in first.measurements if all(name in other.measurements for other in others)]
    units: dict[str, str] = {}
    samples: dict[str, list[float]] = {}
    reasons: list[str] = []
    notes = dict(first.notes)
    for number, reading in enumerate(readings, 1):
        for series in reading.series:
            units[series.name] = series.unit
            samples.setdefault(series.name, []).extend(series.values)
        reasons += [f"chain {number}: {reason}" for reason in reading.invalid_because]
        if number > 1 and reading.notes:
            notes[f"chain {number}"] = reading.notes
    return replace(
        first,
        measurements={name: fmean(reading.measurements[name] for reading in readings) for name in common},
        series=tuple(Series(name, unit, tuple(samples[name])) for name, unit in units.items()),
        payload_bytes=sum(reading.payload_bytes for reading in readings),
        invalid_because=tuple(reasons),
        remarks=tuple(dict.fromkeys(remark for reading in readings for remark in reading.remarks)),
        notes=notes,
    )


def of_host(throughputs: Sequence[float], windows: Sequence[validity.Window]) -> dict[str, float]:
    """Return the total and the worst TCP throughput, their fairness, and the overlap in time, by metric.

    `throughputs` has a value for each chain, and `windows` the times of the chains' commands. Without windows, the
    result has no overlap. Source of the index of fairness: Jain, Chiu and Hawe, DEC-TR-301 (1984)."""
    squares = sum(rate**2 for rate in throughputs)
    fairness = {FAIRNESS: sum(throughputs) ** 2 / (len(throughputs) * squares)} if squares else {}
    overlap = {OVERLAP.name: validity.overlap_percent(windows)} if windows else {}
    return {TOTAL: sum(throughputs), WORST: min(throughputs), **overlap, **fairness}
