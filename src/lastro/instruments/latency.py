"""Meters of latency under an open load: packets leave at a constant rate, regardless of earlier ones.

    with meter.answering(way):
        trips = meter.round_trips(way, traffic, rate_fps=50_000, duration_s=5.0)
    own = meter.own_delay(source, traffic, 50_000, 1.0)   # without the function, on the loopback of the source
    reading = percentiles_reading(trips.histogram, own.histogram, "latency_{}_at_50pct".format)

Each time counts from when its packet was due, not from when it was sent, and a packet without an answer counts as later
than all others. So neither a stopped function nor a stopped generator hides the waiting that it caused, which a closed
loop such as ping does (coordinated omission)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from lastro.errors import InstrumentError
from lastro.host.base import Process
from lastro.instruments.base import UNWATCHED, Instrument, Watch
from lastro.instruments.load_generator import Direction, Traffic
from lastro.platforms.base import Instance
from lastro.results.samples import AMONG_LOST, AT_LEAST, GENERATOR_DELAY, TOO_FEW, PackedHistogram, Reading, Remark
from lastro.study.model import DAY_S, Setting

if TYPE_CHECKING:
    from lastro.instruments._schedule import Times
    from lastro.stats.histograms import Histogram

LATENCY_S = Setting("latency_s", 3.0, "length of the latency measurement at each load", 1, DAY_S)
QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999))
MAX = "max"  # of the packets that were answered
STATISTICS = (*(name for name, _ in QUANTILES), MAX)
MOST_OWN = 0.5  # of a latency: what is more than half the generator's own delay is not a property of the path
_LOOPBACK = "127.0.0.1"
_NS_PER_US = 1000.0


class MeasurementDisturbed(InstrumentError):
    """Other work on the host disturbed a measurement for a moment: it can be repeated."""


@dataclass(frozen=True, eq=False)
class RoundTrips:
    """The packets that asked for an answer, and got one, in the order in which they were due.

    All times are nanoseconds of the sender's clock. `lost` packets got no answer. `sent` counts all packets that left
    in `lasted_s`, `asked` those of them that asked for an answer; both include a warm-up without times."""

    due_ns: Times
    sent_ns: Times
    answered_ns: Times
    lost: int
    sent: int
    asked: int
    lasted_s: float

    @cached_property
    def histogram(self) -> Histogram:
        """Round trips from when packets were due, in nanoseconds. Raises: ValueError for impossible times."""
        from lastro.stats.histograms import Histogram  # loads numpy

        return Histogram.of((self.answered_ns - self.due_ns).round(), self.lost)

    @property
    def rate_fps(self) -> float:
        """The rate of the load: packets that were sent, and the answers for which they asked."""
        return (self.sent + self.asked) / self.lasted_s


class LatencyMeter(Instrument):
    """A generator of an open load that times some of its packets.

    `packages` are Debian packages that it needs in the image; `step_s` is the unit of its durations. One packet of
    `answers_every` asks for an answer, which is part of the load."""

    packages: ClassVar[tuple[str, ...]] = ()
    step_s: ClassVar[float] = 0.0
    answers_every: ClassVar[int] = 1

    @abstractmethod
    def answering(self, direction: Direction) -> AbstractContextManager[Process]:
        """Answer packets inside the block, at the receiver of a way. Raises: CommandFailed; CommandTimeout."""

    @abstractmethod
    def round_trips(
        self, direction: Direction, traffic: Traffic, rate_fps: float, duration_s: float, watch: Watch = UNWATCHED
    ) -> RoundTrips:
        """Send packets whose rate is `rate_fps` with their answers, and time them.

        Raises: MeasurementDisturbed when it did not run as long as it should; InstrumentError when its report cannot be
        right, or when nothing was answered; CommandFailed; CommandTimeout."""

    def own_delay(self, sender: Instance, traffic: Traffic, rate_fps: float, duration_s: float) -> RoundTrips:
        """Time packets that never leave the sender: what the meter, its sockets and the scheduler take by themselves.

        Raises: as `round_trips`."""
        alone = Direction(sender, sender, _LOOPBACK)
        with self.answering(alone):
            return self.round_trips(alone, traffic, rate_fps, duration_s)


def percentiles_reading(
    trips: Histogram,
    of_generator: Histogram | None,
    name: Callable[[str], str],
    lost_by_receiver: int = 0,
    own_is: str = "the generator alone, on its loopback",
) -> Reading:
    """Return the percentiles in microseconds that the samples allow; `name` makes a metric's name of 'p99' or 'max'.

    A percentile is dropped, with a remark, if fewer than ten packets lie beyond it, here or with the generator alone;
    if it lies among packets without an answer; or if more than half of it may be the own delay of the generator, which
    `own_is` describes. Of the packets without an answer, `lost_by_receiver` had reached the receiver: if these are most
    of them, they are the generator's. They raise every percentile, so one that would be less than half without them is
    dropped, too. The maximum is that of the answered packets, so packets without an answer make it a lower bound."""
    from lastro.stats.histograms import Histogram  # loads numpy

    values: dict[str, float] = {}
    remarks = []
    others = Histogram(trips.counts, trips.lost - lost_by_receiver)
    for statistic, q in (*QUANTILES, (MAX, 1.0)):
        metric = name(statistic)
        value = _quantile(trips, q) / _NS_PER_US
        own_us = _quantile(of_generator, q) / _NS_PER_US if of_generator is not None else 0.0
        if q < 1 and not trips.is_estimable(q):
            text = f"{trips.n_in_all} packets: fewer than ten are beyond it"
            remarks.append(Remark(TOO_FEW, text, (metric,)))
        elif math.isinf(value) or not trips.n:
            text = f"{trips.lost} of {trips.n_in_all} packets got no answer"
            if 2 * lost_by_receiver > trips.lost:
                text += f"; {lost_by_receiver} of them had reached the receiver, whose program lost them"
                remarks.append(Remark(GENERATOR_DELAY, text, (metric,)))
            else:
                remarks.append(Remark(AMONG_LOST, text, (metric,)))
        elif of_generator is not None and q < 1 and not of_generator.is_estimable(q):
            text = f"{of_generator.n_in_all} packets of the generator alone: fewer than ten are beyond it"
            remarks.append(Remark(TOO_FEW, text, (metric,)))
        elif own_us > MOST_OWN * value:
            alone = "lost packets" if math.isinf(own_us) else f"{own_us:.1f} µs"
            text = f"{value:.1f} µs; {own_is}: {alone}"
            remarks.append(Remark(GENERATOR_DELAY, text, (metric,)))
        elif (of_others_us := _quantile(others, q) / _NS_PER_US) < MOST_OWN * value:
            text = f"{value:.1f} µs; {of_others_us:.1f} µs without the packets that the receiver lost"
            remarks.append(Remark(GENERATOR_DELAY, text, (metric,)))
        else:
            values[metric] = value
            if q == 1 and trips.lost:
                text = f"{trips.lost} of {trips.n_in_all} packets got no answer"
                remarks.append(Remark(AT_LEAST, text, (metric,)))
    return Reading(values, remarks=tuple(remarks))


def pack_histogram(name: str, histogram: Histogram) -> PackedHistogram:
    """Return a histogram of nanoseconds as a trial stores it."""
    from lastro.results.hdr import packed  # loads numpy

    return PackedHistogram(name, "ns", packed(histogram))


def _quantile(histogram: Histogram, q: float) -> float:
    """Return a quantile of all packets; the maximum is that of the packets with an answer. 0 without any."""
    if q == 1:
        return histogram.maximum
    return histogram.quantile(q) if histogram.n_in_all else 0.0
