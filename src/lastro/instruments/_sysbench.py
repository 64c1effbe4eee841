"""Options and reports that all sysbench tests share. Source: sysbench 1.0 (Debian), sb_timer.c and sysbench.c."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lastro.errors import InstrumentError
from lastro.instruments.base import positive
from lastro.study.model import DAY_S, Level, Setting

VERSION_ARGV = ("sysbench", "--version")
THREADS = Setting("threads", 1, "number of concurrent threads", 1, 4096)
EVENTS = Setting("events", 0, "number of events or transactions; 0: measure for `time_s`", 0, 10**9, by_profile=True)
TIME_S = Setting("time_s", 10, "length of the measurement in whole seconds, if `events` is 0", 1, DAY_S)
NUMBER = r"(\d{1,15}(?:\.\d{1,9})?)"


@dataclass(frozen=True, slots=True)
class SysbenchResult:
    """The results at the end of every sysbench test; latencies are those of one event."""

    total_s: float
    events: int
    threads: int
    latency_mean_ms: float
    latency_p95_ms: float


def report(text: str) -> SysbenchResult:
    """Parse a report. Raises: InstrumentError when the text is not a report, or reports no events or no time."""
    return SysbenchResult(
        total_s=positive("sysbench's total time", field(text, "total time", rf"total time: +{NUMBER}s")),
        events=int(positive("sysbench's number of events", field(text, "events", r"number of events: +(\d{1,15})\s"))),
        threads=int(field(text, "number of threads", r"Number of threads: (\d{1,6})\s")),
        latency_mean_ms=field(text, "mean latency", rf"avg: +{NUMBER}\s"),
        latency_p95_ms=field(text, "95th percentile", rf"95th percentile: +{NUMBER}\s"),
    )


def field(text: str, what: str, pattern: str) -> float:
    """Return the number that the regular expression `pattern` captures in a report; errors call it `what`.

    Raises: InstrumentError unless the pattern matches exactly once."""
    matches = re.findall(pattern, text, re.ASCII | re.MULTILINE)
    if len(matches) != 1:
        raise InstrumentError(f"sysbench printed its {what} {len(matches)} times: …{text[-80:]!r}")
    return float(matches[0])


def limit_options(chosen: Mapping[str, Level]) -> list[str]:
    """Return sysbench's options for the threads, and for the number of events or, if that is 0, the time."""
    events = EVENTS.of(chosen)
    return [f"--threads={THREADS.of(chosen)}", f"--events={events}", f"--time={0 if events else TIME_S.of(chosen)}"]


def limits_reasons(done: SysbenchResult, chosen: Mapping[str, Level]) -> tuple[str, ...]:
    """Return reasons for invalidity if the test did not have the threads and the limit that its options ask for.

    The limit is a number of events, or if that is 0, a time."""
    events, reasons = EVENTS.of(chosen), threads_reasons(done, THREADS.of(chosen))
    if not events:
        return reasons + length_reasons(done, TIME_S.of(chosen))
    if done.events != events:
        return (*reasons, f"sysbench did {done.events} events instead of {events}")
    return reasons


def threads_reasons(done: SysbenchResult, threads: int) -> tuple[str, ...]:
    """Return a reason for invalidity if the test did not use the requested number of threads."""
    return () if done.threads == threads else (f"sysbench worked with {done.threads} threads instead of {threads}",)


def rate_reasons(rate: float, done: SysbenchResult) -> tuple[str, ...]:
    """Return a reason for invalidity if the rate that sysbench reports contradicts its events and its time.

    sysbench reads the clock once for the rate and once for the time. In between, a virtual machine on a busy host may
    be paused (0.16 s was measured), so the times may differ by 0.25 s, or by a quarter of a test of less than 1 s."""
    computed = done.events / done.total_s
    if abs(rate - computed) <= (0.02 + 0.25 / max(1.0, done.total_s)) * computed + 2:
        return ()
    return (f"sysbench counts {done.events} events in {done.total_s:g} s but reports a rate of {rate:g}/s",)


def length_reasons(done: SysbenchResult, asked_s: float) -> tuple[str, ...]:
    """Return a reason for invalidity if the test was shorter than asked. It may be longer, to finish an event."""
    return () if done.total_s >= 0.95 * asked_s else (f"sysbench ran for {done.total_s:g} s instead of {asked_s:g} s",)
