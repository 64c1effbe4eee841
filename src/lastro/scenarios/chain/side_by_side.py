"""Measurements on several chains at the same time, and what the host carries on all of them.

Each chain has its own client and server. After exec into their instances, the clients wait for each other, and then
start their commands together. The apparatus notes when each command ran, so a trial knows for how long all commands ran
at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from threading import Barrier, BrokenBarrierError, Lock

from lastro import validity
from lastro.errors import InstrumentError
from lastro.host.threads import all_of
from lastro.instruments.base import Instrument, Watch
from lastro.results.samples import GENERATOR_LIMITED, Metric, Outcome, Reading, Series
from lastro.results.trial_notes import remarks_of
from lastro.scenarios.base import Config
from lastro.scenarios.shared.chain import Chain
from lastro.study.model import Level, Setting
from lastro.testbed import Testbed

MIN_OVERLAP = Setting(
    "min_overlap_percent", 90.0, "time in which all chains carry their load, of that in which any does", 0, 100
)
THROUGHPUT = "throughput"  # of TCP, on each chain
TOTAL, WORST, FAIRNESS, OVERLAP = "host_throughput", "worst_throughput", "throughput_fairness", "chains_overlap"
MEMORY = "memory_per_chain"
METRICS = (
    Metric(TOTAL, "Mbit/s", "higher", "TCP throughput of all chains together: what the whole host carries"),
    Metric(WORST, "Mbit/s", "higher", "TCP throughput of the chain that got least"),
    Metric(
        FAIRNESS, "1", "higher", "Jain's index of the chains' TCP throughputs: 1 if all are equal, 1/n if one has all"
    ),
    Metric(OVERLAP, "%", "neither", "time in which all chains carried TCP, of that in which any did"),
    Metric(MEMORY, "MiB", "lower", "sum of the memory peaks of the instances under test, for each chain"),
)
_WAIT_S = 60.0  # for exec into the instances of all chains


class _OtherFailed(InstrumentError):
    """Error: the measurement on a chain did not begin because another chain failed; its error has the cause."""


class _OneStart(Watch):
    """A watch of `n` commands that begin together; `inner` runs from their start until the last one has ended."""

    def __init__(self, inner: Watch, n: int) -> None:
        self._inner, self._left, self._lock = inner, n, Lock()
        self._together = Barrier(n, inner.__enter__, _WAIT_S)

    def __enter__(self) -> None:
        try:
            self._together.wait()
        except BrokenBarrierError:
            raise _OtherFailed(f"the measurement in another chain did not begin within {_WAIT_S:g} s") from None

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        with self._lock:
            self._left -= 1
            if not self._left:
                self._inner.__exit__(kind, *rest)

    def measure_on(self, instrument: Instrument, chain: Chain, settings: Mapping[str, Level]) -> Reading:
        try:
            return instrument.measure(chain.source, chain.sink, chain.path.sink, settings, self)
        except BaseException:
            self._together.abort()
            raise


def measure_on_all(
    testbed: Testbed, instrument: Instrument, chains: Sequence[Chain], settings: Mapping[str, Level], watch: Watch
) -> tuple[list[Reading], list[validity.Window]]:
    """Measure on all chains at the same time; return (readings in the order of the chains, times of their commands).

    `watch` runs from the common start until the last command has ended.
    Raises: as `Instrument.measure`, an error of a chain that failed by itself."""
    windows, before = testbed.apparatus.windows, len(testbed.apparatus.windows)
    if len(chains) == 1:
        (chain,) = chains
        reading = instrument.measure(chain.source, chain.sink, chain.path.sink, settings, watch)
        return [reading], windows[before:]
    start = _OneStart(watch, len(chains))
    futures = all_of([partial(start.measure_on, instrument, chain, settings) for chain in chains], len(chains))
    errors = [error for future in futures if (error := future.exception())]
    if errors:
        causes = [error for error in errors if not isinstance(error, _OtherFailed)]
        raise (causes or errors)[0]
    # In each window, the apparatus sends the messages of all commands.
    expected = sum(window.expected for window in windows[before:])
    windows[before:] = [replace(window, expected=expected) for window in windows[before:]]
    return [future.result() for future in futures], windows[before:]


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

    `throughputs` are those of the chains, and `windows` the times of their commands. Without windows, there is no
    overlap. Source of the index of fairness: Jain, Chiu and Hawe, DEC-TR-301 (1984)."""
    squares = sum(rate**2 for rate in throughputs)
    fairness = {FAIRNESS: sum(throughputs) ** 2 / (len(throughputs) * squares)} if squares else {}
    overlap = {OVERLAP: validity.overlap_percent(windows)} if windows else {}
    return {TOTAL: sum(throughputs), WORST: min(throughputs), **overlap, **fairness}


def mark_as_throughput(outcome: Outcome) -> None:
    """Apply the remarks on the chains' throughput also to the host's total and worst, which are computed from it."""
    outcome.extend_caveats(THROUGHPUT, TOTAL, WORST)
    limited = [remark for remark in remarks_of(outcome.notes) if remark.kind == GENERATOR_LIMITED]
    for remark in limited:  # by its ceiling, which is of the throughput alone
        outcome.add_caveat(replace(remark, metrics=(TOTAL, WORST)))


def overlap_reasons(name: str, windows: Sequence[validity.Window], config: Config) -> list[str]:
    """Return a reason if all commands ran at the same time for less than `min_overlap_percent`; else [].

    `windows` are the times of the commands. The percentage is of the time in which any of them ran."""
    limit = MIN_OVERLAP.of(config)
    if len(windows) < 2 or (found := validity.overlap_percent(windows)) >= limit:
        return []
    return [f"{name}: all chains carried their load in {found:.0f} % of the time in which any did (limit {limit:g} %)"]
