"""The rate at which a CPU finds primes, by sysbench: an event is a search for all primes up to a limit, by division."""

from __future__ import annotations

from typing import Self

from lastro.instruments import _sysbench
from lastro.instruments._sysbench import EVENTS, THREADS, TIME_S
from lastro.instruments.base import TIME_TOOL, Workload, bounded
from lastro.results.samples import Metric, Reading
from lastro.study.model import Setting

_SPEED = 6e9  # of an ordinary core: it finds the primes up to N in N^1.5 / _SPEED seconds
_PRIMES = Setting("primes", 10_000, "an event is the search for all primes up to this", 3, 100_000_000)


class SysbenchCpu(Workload):
    name = "sysbench-cpu"
    summary = "search for primes by sysbench: events in a given time, or the time for a given number"
    packages = ("sysbench",)
    version_argv = _sysbench.VERSION_ARGV
    options = (_PRIMES, THREADS, EVENTS, TIME_S)
    metrics = (
        TIME_TOOL,
        Metric("cpu_events", "1/s", "higher", "searches for primes per second, all threads together (sysbench)"),
        Metric("cpu_event_mean", "ms", "lower", "mean time of one search (sysbench)"),
        Metric("cpu_event_p95", "ms", "lower", "95th percentile of the time of one search, in sysbench's buckets"),
    )

    def argv(self) -> list[str]:
        primes = f"--cpu-max-prime={_PRIMES.of(self.chosen)}"
        return ["sysbench", "cpu", primes, *_sysbench.limit_options(self.chosen), "run"]

    def read(self, text: str) -> Reading:
        done = _sysbench.report(text)
        rate = _sysbench.field(text, "rate", rf"events per second: +{_sysbench.NUMBER}\s")
        reasons = _sysbench.limits_reasons(done, self.chosen) + _sysbench.rate_reasons(rate, done)
        values = {
            "time_tool": done.total_s,
            "cpu_events": done.events / done.total_s,
            "cpu_event_mean": done.latency_mean_ms,
            "cpu_event_p95": done.latency_p95_ms,
        }
        return bounded(self.metrics, Reading(values, invalid_because=reasons))

    def expected_s(self, cpus: float, slowdown: float) -> float:
        if not (events := EVENTS.of(self.chosen)):
            return float(TIME_S.of(self.chosen))
        event_s: float = _PRIMES.of(self.chosen) ** 1.5 / _SPEED * slowdown
        return events * event_s / min(cpus, THREADS.of(self.chosen))

    def brief(self) -> Self:
        """Return a short version with the same kind of limit: a number of events, or a time."""
        short = {"primes": min(1000, _PRIMES.of(self.chosen)), "events": min(100, EVENTS.of(self.chosen)), "time_s": 1}
        return type(self)(**{**self.chosen, **short})
