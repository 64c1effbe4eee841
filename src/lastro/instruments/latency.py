"""Latency under an open load: packets leave at a constant rate, regardless of earlier ones.

    tool = SockperfLatency()
    with tool.answering(direction):
        trips = tool.round_trips(direction, traffic, rate_fps=50_000, duration_s=5.0)
    own = tool.own_delay(source, traffic, 50_000, 1.0)   # without the function, on the loopback of the source
    reading = percentiles_reading(trips.histogram, own.histogram, "latency_{}_at_50pct".format)

Each time counts from when its packet was due, not from when it was sent, and a packet without an answer counts as later
than all others. So the delay that a stopped function or generator causes is measured. A closed loop, such as ping,
would hide it (coordinated omission)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lastro.errors import InstrumentError
from lastro.results.samples import AMONG_LOST, AT_LEAST, GENERATOR_DELAY, TOO_FEW, PackedHistogram, Reading, Remark
from lastro.study.model import DAY_S, Setting

if TYPE_CHECKING:
    from lastro.instruments._schedule import Times
    from lastro.stats.histograms import Histogram

LATENCY_S = Setting("latency_s", 3.0, "length of the latency measurement at each load", 1, DAY_S)
QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999))
MAX = "max"  # of the packets that were answered
WORDS = {
    "p50": "median", "p90": "90th percentile", "p99": "99th percentile", "p99_9": "99.9th percentile",
    MAX: "maximum",
}  # fmt: skip
MOST_OWN_FRACTION = 0.5  # of a latency: a larger one may be the generator's delay, not the path's
_NS_PER_US = 1000.0


class MeasurementDisturbed(InstrumentError):
    """Other work on the host disturbed a measurement for a moment; the measurement can be repeated."""


@dataclass(frozen=True, eq=False)
class RoundTrips:
    """The times of the packets that requested an answer and got one, in the order in which they were due.

    `due_ns`, `sent_ns` and `answered_ns` are in nanoseconds of the sender's clock. `sent` and `asked` include a
    warm-up, whose packets have no times."""

    due_ns: Times
    sent_ns: Times
    answered_ns: Times
    lost: int  # number of packets that requested an answer and got none
    sent: int  # number of packets that left in `lasted_s` seconds
    asked: int  # number of these packets that requested an answer
    lasted_s: float

    @cached_property
    def histogram(self) -> Histogram:
        """The times from when a packet was due to its answer, in ns. Raises: ValueError if one is impossible."""
        from lastro.stats.histograms import Histogram  # loads numpy

        return Histogram.of((self.answered_ns - self.due_ns).round(), self.lost)

    @property
    def rate_fps(self) -> float:
        """The rate of the load: packets sent and answers requested, per second."""
        return (self.sent + self.asked) / self.lasted_s


def percentiles_reading(
    trips: Histogram,
    of_generator: Histogram | None,
    name: Callable[[str], str],
    lost_by_receiver: int = 0,
    own_is: str = "the generator alone, on its loopback",
) -> Reading:
    """Return the percentiles of `trips` in microseconds; `name` makes the name of a metric from 'p99' or 'max'.

    `of_generator` has the delays of the generator alone; None if they are unknown.
    `own_is` describes these delays in remarks.
    `lost_by_receiver` is the number of packets that got no answer because the receiver's program lost them.

    A percentile is dropped, with a remark, in these cases:
    - fewer than ten packets are beyond it, in `trips` or in `of_generator`;
    - the packet at this percentile got no answer. If the receiver lost most of the packets without an answer, the
      remark blames the generator;
    - more than half of it may be the delay of the generator alone;
    - without the packets that the receiver lost, it would be less than half as large.

    The maximum is that of the packets with an answer. If other packets got no answer, a remark says that it is a lower
    bound."""
    from lastro.stats.histograms import Histogram  # loads numpy

    values: dict[str, float] = {}
    remarks = []
    unanswered = f"{trips.lost} of {trips.n_events} packets got no answer"
    without_lost = Histogram(trips.counts, trips.lost - lost_by_receiver)
    for statistic, q in (*QUANTILES, (MAX, 1.0)):
        metric, value = name(statistic), _quantile(trips, q) / _NS_PER_US
        own_us = _quantile(of_generator, q) / _NS_PER_US if of_generator is not None else 0.0
        if q < 1 and not trips.is_estimable(q):
            kind, text = TOO_FEW, f"{trips.n_events} packets: fewer than ten are beyond it"
        elif math.isinf(value) or not trips.n:
            kind, text = AMONG_LOST, unanswered
            if 2 * lost_by_receiver > trips.lost:
                kind = GENERATOR_DELAY
                text += f"; {lost_by_receiver} of them had reached the receiver, whose program lost them"
        elif of_generator is not None and q < 1 and not of_generator.is_estimable(q):
            kind = TOO_FEW
            text = f"{of_generator.n_events} packets of the generator alone: fewer than ten are beyond it"
        elif own_us > MOST_OWN_FRACTION * value:
            alone = "lost packets" if math.isinf(own_us) else f"{own_us:.1f} µs"
            kind, text = GENERATOR_DELAY, f"{value:.1f} µs; {own_is}: {alone}"
        elif (without_lost_us := _quantile(without_lost, q) / _NS_PER_US) < MOST_OWN_FRACTION * value:
            kind = GENERATOR_DELAY
            text = f"{value:.1f} µs; {without_lost_us:.1f} µs without the packets that the receiver lost"
        else:
            values[metric] = value
            kind, text = (AT_LEAST, unanswered) if q == 1 and trips.lost else ("", "")
        if kind:
            remarks.append(Remark(kind, text, (metric,)))
    return Reading(values, remarks=tuple(remarks))


def pack_histogram(name: str, histogram: Histogram) -> PackedHistogram:
    """Return a histogram of nanoseconds in the compact form in which a trial stores it."""
    from lastro.results.hdr import to_bytes  # loads numpy

    return PackedHistogram(name, "ns", to_bytes(histogram))


def _quantile(histogram: Histogram, q: float) -> float:
    """Return the quantile `q` of all packets; 0 if there are none.

    For q = 1, return the maximum of the packets with an answer."""
    if q == 1:
        return histogram.maximum
    return histogram.quantile(q) if histogram.n_events else 0.0
