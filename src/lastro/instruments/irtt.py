"""Round-trip times of datagrams at a constant rate, by irtt, which sends regardless of answers.

Each time counts from when its datagram was due, so it includes the delay of a sender that waits for a CPU (coordinated
omission: Tene 2013). On every platform, irtt sleeps for most of an interval and keeps a CPU busy for the rest: with
Go's timers alone, it would be late by up to a millisecond. It prints its report at the end, as JSON. Written for 0.9;
source: irtt-client(1)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lastro.errors import CommandFailed, InstrumentError
from lastro.instruments.base import UNWATCHED, Instrument, Watch
from lastro.instruments.load_generator import Direction
from lastro.platforms.base import Instance
from lastro.results.samples import AMONG_LOST, GENERATOR_DELAY, Metric, Reading, Remark, Series
from lastro.stats.quantiles import quantile_if_estimable
from lastro.study.model import DAY_S, Level, Setting

PROBE_INTERVAL_MS = Setting("probe_interval_ms", 10.0, "time between two datagrams of irtt", 1, 10_000)
LOADED_S = Setting("loaded_s", 0.0, "length of the measurement of latency beside a TCP stream; 0: none", 0, DAY_S)
PORT = 2112
LOADED = tuple(
    Metric(f"latency_{name}_loaded", "ms", "lower", f"{words} of round trips beside a TCP stream, from when due")
    for name, words in (("p50", "median"), ("p95", "95th percentile"), ("p99", "99th percentile"))
)
LOADED_LOSS = Metric("loss_loaded", "%", "lower", "datagrams of the probe without an answer, beside a TCP stream")
_QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
_SLEEPS = 0.95  # of each interval
_WAIT_S, _PATIENCE_S = 1.0, 15.0
_MOST_OWN = 0.5  # fraction of a percentile
_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class ProbedRoundTrips:
    """Round trips of datagrams at a constant rate; all times count from when a datagram was due, in ms.

    `trips_ms` has the time until the answer, for each datagram with an answer.
    `late_ms` has the time until it was sent, for each datagram.
    `lost` is the number of datagrams without an answer.
    `answered` is the number of datagrams that were sent and answered.
    All except `answered` include the datagrams that irtt skipped because it was late."""

    trips_ms: tuple[float, ...]
    late_ms: tuple[float, ...]
    lost: int
    answered: int

    @property
    def sent(self) -> int:
        return len(self.trips_ms) + self.lost


class Irtt(Instrument):
    name = "irtt"
    summary = "round trips of datagrams at a constant rate, from when each was due, by irtt: idle or beside a load"
    packages = ("irtt",)
    version_argv = ("irtt", "version")
    packet_bytes = 88  # with the headers of IP and UDP
    metrics = (*LOADED, LOADED_LOSS)

    def measure(
        self, client: Instance, server: Instance, target: str, settings: Mapping[str, Level], watch: Watch = UNWATCHED
    ) -> Reading:
        """Send a datagram every `probe_interval_ms`, for `loaded_s`, and return the metrics of `loaded_reading`.

        A TCP stream should run meanwhile; the caller starts it."""
        return loaded_reading(self.probe(Direction(client, server, target), LOADED_S.of(settings), settings, watch))

    def probe(
        self, way: Direction, duration_s: float, settings: Mapping[str, Level], watch: Watch = UNWATCHED
    ) -> ProbedRoundTrips:
        """Send a datagram every `probe_interval_ms`, for `duration_s`, and return the round trips.

        Raises: InstrumentError; CommandFailed; CommandTimeout."""
        interval_ms = PROBE_INTERVAL_MS.of(settings)
        address = f"[{way.target}]:{PORT}" if way.ip == "6" else f"{way.target}:{PORT}"
        argv = ["irtt", "client", f"-{way.ip}", "-Q", "-i", f"{interval_ms:g}ms", "-d", f"{1000 * duration_s:.0f}ms"]
        argv += [f"--timer=hybrid:{_SLEEPS}", f"--wait={_WAIT_S:g}s", "-o", "-", address]
        with way.receiver.during(["irtt", "server", "-i", "0", "-b", address], "[ListenerStart]"):
            done = way.sender.measure(argv, timeout_s=duration_s + _PATIENCE_S, check=False, watch=watch).done
        if done.returncode != 0 and not done.text.startswith("{"):
            raise CommandFailed(argv, done.returncode, done.error_text or done.text)
        return self.read(done.text, interval_ms, duration_s)

    def read(self, text: str, interval_ms: float, duration_s: float) -> ProbedRoundTrips:
        """Parse irtt's report of a run of `duration_s`. A pure function. Raises: InstrumentError."""
        try:
            trips = json.loads(text)["round_trips"]
            sent_ms, back_ms = zip(*(_times_ms(trip) for trip in trips), strict=True)
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            raise InstrumentError(f"irtt's report is not one of round trips: {text.strip()[-80:]!r}") from error
        wanted = duration_s * 1000 / interval_ms
        if not 0.1 * wanted <= len(sent_ms) <= wanted + 1:  # fewer: irtt skips datagrams when it is late
            raise InstrumentError(f"irtt sent {len(sent_ms)} datagrams instead of {wanted:.0f}")
        longest_ms = 1000 * (duration_s + _PATIENCE_S)
        in_order = all(earlier < later for earlier, later in pairwise(sent_ms))
        pairs = zip(sent_ms, back_ms, strict=True)
        possible_trips = all(back is None or sent < back < sent + longest_ms for sent, back in pairs)
        if not in_order or not possible_trips:
            raise InstrumentError("irtt's report has times that go backwards, or beyond its own duration")
        return _round_trips(sent_ms, back_ms, interval_ms)


def loaded_reading(probed: ProbedRoundTrips) -> Reading:
    """Return the metrics LOADED and LOADED_LOSS.

    A percentile that is mostly irtt's own lateness is left out, with a remark."""
    if not probed.trips_ms:
        return Reading({LOADED_LOSS.name: 100.0}, invalid_because=("no datagram of the probe was answered",))
    latency_ms, late_ms, remarks = dict[str, float](), dict[str, float](), list[Remark]()
    for name, q in _QUANTILES:
        # A datagram without an answer is later than all others.
        value = quantile_if_estimable((*probed.trips_ms, *(math.inf,) * probed.lost), q)
        own_delay = quantile_if_estimable(probed.late_ms, q)
        metric = f"latency_{name}_loaded"
        if value is None or own_delay is None:
            continue
        if math.isfinite(value):
            latency_ms[metric], late_ms[metric] = value, own_delay
        else:
            text = f"{probed.lost} of {probed.sent} datagrams got no answer"
            remarks.append(Remark(AMONG_LOST, text, (metric,)))
    latency_ms, late_remarks = without_own_lateness(latency_ms, late_ms)
    return Reading(
        {LOADED_LOSS.name: 100 * probed.lost / probed.sent, **latency_ms},
        (Series("rtt_loaded", "ms", probed.trips_ms),),
        payload_bytes=Irtt.packet_bytes * probed.answered,
        remarks=(*remarks, *late_remarks),
    )


def without_own_lateness(
    latency_ms: Mapping[str, float], late_ms: Mapping[str, float]
) -> tuple[dict[str, float], tuple[Remark, ...]]:
    """Return the latencies that are not mostly irtt's own lateness, and a remark for each of the others.

    `latency_ms` is {metric: value}. `late_ms` has the same statistic, such as the median, of the delay of sending:
    the time from when a datagram was due until it was sent."""
    kept, remarks = dict[str, float](), list[Remark]()
    for name, value in latency_ms.items():
        own_delay = late_ms.get(name, 0.0)
        if own_delay > _MOST_OWN * value:
            text = f"{value:.3f} ms; irtt itself sent as late as {own_delay:.3f} ms, since it had no CPU"
            remarks.append(Remark(GENERATOR_DELAY, text, (name,)))
        else:
            kept[name] = value
    return kept, tuple(remarks)


def _times_ms(trip: Mapping[str, Any]) -> tuple[float, float | None]:
    """Return (when a datagram was sent, when its answer came), in ms of the client's monotonic clock.

    The second is None if there was no answer. Raises: KeyError, TypeError, ValueError for a report in another
    format."""
    client: Mapping[str, Mapping[str, int]] = trip["timestamps"]["client"]
    sent = client["send"]["monotonic"]
    back = client["receive"]["monotonic"] if trip["lost"] == "false" else None
    times = [value for value in (sent, back) if value is not None]
    if not all(isinstance(value, int) and 0 <= value < 2**62 for value in times):
        raise ValueError(f"not times: {times}")
    return sent / _NS_PER_MS, None if back is None else back / _NS_PER_MS


def _round_trips(sent_ms: Sequence[float], back_ms: Sequence[float | None], interval_ms: float) -> ProbedRoundTrips:
    """Return round trips from when each datagram was due, given when it was sent and when its answer came (None: lost).

    irtt sends at multiples of the interval after its first datagram. If it is late by an interval or more, it skips the
    datagrams that were due meanwhile. A skipped datagram counts as if it had left together with the next one that was
    sent."""
    trips_ms, late_ms, lost, next_number = list[float](), list[float](), 0, 0
    for sent, back in zip(sent_ms, back_ms, strict=True):
        number = max(next_number, math.floor((sent - sent_ms[0]) / interval_ms))
        for skipped_or_sent in range(next_number, number + 1):
            due = min(sent, sent_ms[0] + skipped_or_sent * interval_ms)
            late_ms.append(sent - due)
            if back is None:
                lost += 1
            else:
                trips_ms.append(back - due)
        next_number = number + 1
    return ProbedRoundTrips(tuple(trips_ms), tuple(late_ms), lost, sum(back is not None for back in back_ms))
