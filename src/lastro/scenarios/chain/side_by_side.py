"""Measurements on several chains at the same time, and what the host carries on all of them.

Each chain has its own client and server. The clients wait for each other between exec into their instances and the
start of the command, and then begin together. The apparatus notes when each command ran, so a trial knows for how long
all of them did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain as joined
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
    """A chain did not begin because another one failed, which says why."""


class _OneStart(Watch):
    """The watch of commands that begin at the same time; `inner` lasts from their start until the last has ended."""

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

    def on(self, instrument: Instrument, chain: Chain, settings: Mapping[str, Level]) -> Reading:
        try:
            return instrument.measure(chain.source, chain.sink, chain.path.sink, settings, self)
        except BaseException:
            self._together.abort()
            raise


def measure_on_all(
    testbed: Testbed, instrument: Instrument, chains: Sequence[Chain], settings: Mapping[str, Level], watch: Watch
) -> tuple[list[Reading], list[validity.Window]]:
    """Measure on all chains at the same time. Return the readings, and when the command of each ran.

    Raises: as `Instrument.measure`, the error of the chain that failed first."""
    windows, before = testbed.apparatus.windows, len(testbed.apparatus.windows)
    if len(chains) == 1:
        (chain,) = chains
        reading = instrument.measure(chain.source, chain.sink, chain.path.sink, settings, watch)
        return [reading], windows[before:]
    start = _OneStart(watch, len(chains))
    done = all_of([partial(start.on, instrument, chain, settings) for chain in chains], len(chains))
    failed = [error for each in done if (error := each.exception())]
    if failed:
        raise next((error for error in failed if not isinstance(error, _OtherFailed)), failed[0])
    # In each window, the apparatus sends the messages of all commands.
    expected = sum(each.expected for each in windows[before:])
    windows[before:] = [replace(each, expected=expected) for each in windows[before:]]
    return [each.result() for each in done], windows[before:]


def combined(readings: Sequence[Reading]) -> Reading:
    """Return the reading of all chains: the mean of each measurement, and the samples of one chain after the other."""
    first, *others = readings
    if not others:
        return first
    names = [name for name in first.measurements if all(name in each.measurements for each in others)]
    series = {each.name: each.unit for reading in readings for each in reading.series}
    samples = joined.from_iterable
    return replace(
        first,
        measurements={name: fmean(each.measurements[name] for each in readings) for name in names},
        series=tuple(
            Series(name, unit, tuple(samples(s.values for each in readings for s in each.series if s.name == name)))
            for name, unit in series.items()
        ),
        payload_bytes=sum(each.payload_bytes for each in readings),
        invalid_because=tuple(
            f"chain {number}: {reason}" for number, each in enumerate(readings, 1) for reason in each.invalid_because
        ),
        remarks=tuple(dict.fromkeys(remark for each in readings for remark in each.remarks)),
        notes=first.notes | {f"chain {number}": each.notes for number, each in enumerate(others, 2) if each.notes},
    )


def of_host(throughputs: Sequence[float], windows: Sequence[validity.Window]) -> dict[str, float]:
    """Return what the host carried on all chains, by the TCP throughput of each, and when each ran.

    Source of the index of fairness: Jain, Chiu and Hawe, DEC-TR-301 (1984)."""
    squares = sum(rate**2 for rate in throughputs)
    fairness = {FAIRNESS: sum(throughputs) ** 2 / (len(throughputs) * squares)} if squares else {}
    overlap = {OVERLAP: validity.overlap_percent(windows)} if windows else {}
    return {TOTAL: sum(throughputs), WORST: min(throughputs), **overlap, **fairness}


def mark_as_throughput(outcome: Outcome) -> None:
    """Give the rates of the whole host the remarks on the throughput of the chains, from which they are computed."""
    outcome.extend_caveats(THROUGHPUT, TOTAL, WORST)
    limited = [remark for remark in remarks_of(outcome.notes) if remark.kind == GENERATOR_LIMITED]
    for remark in limited:  # by its ceiling, which is of the throughput alone
        outcome.add_caveat(replace(remark, metrics=(TOTAL, WORST)))


def overlap_reasons(name: str, windows: Sequence[validity.Window], config: Config) -> list[str]:
    """Return why the chains did not carry their load at the same time."""
    limit = MIN_OVERLAP.of(config)
    if len(windows) < 2 or (found := validity.overlap_percent(windows)) >= limit:
        return []
    return [f"{name}: all chains carried their load in {found:.0f} % of the time in which any did (limit {limit:g} %)"]
