"""Round-trip times of datagrams at a constant rate, by irtt, which sends regardless of answers.

Each time counts from when its datagram was due: a sender that is late, as it is when it waits for a CPU, adds to the
time, and hides nothing (coordinated omission: Tene 2013). irtt sleeps for most of an interval and keeps a CPU busy for
the rest, the same on every platform: with Go's timers alone, it would be late by up to a millisecond. Its report comes
at the end, as JSON. Written for 0.9; source: irtt-client(1)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lastro.errors import CommandFailed, InstrumentError
from lastro.instruments.base import UNWATCHED, Instrument, Watch
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
_MOST_OWN = 0.5  # of a percentile
_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class ProbedRoundTrips:
    """Round trips from when each datagram was due, and how late each was sent, in ms; `lost` got no answer.

    Datagrams that irtt skipped are among them; `answered` counts those alone that left and came back."""

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
        """Probe for `loaded_s`, every `probe_interval_ms`."""
        return loaded_reading(self.probe(client, server, target, LOADED_S.of(settings), settings, watch))

    def probe(
        self,
        client: Instance,
        server: Instance,
        target: str,
        duration_s: float,
        settings: Mapping[str, Level],
        watch: Watch = UNWATCHED,
    ) -> ProbedRoundTrips:
        """Send datagrams every `probe_interval_ms`. Raises: InstrumentError; CommandFailed; CommandTimeout."""
        interval_ms, ip = PROBE_INTERVAL_MS.of(settings), "-6" if ":" in target else "-4"
        address = f"[{target}]:{PORT}" if ip == "-6" else f"{target}:{PORT}"
        argv = ["irtt", "client", ip, "-Q", "-i", f"{interval_ms:g}ms", "-d", f"{1000 * duration_s:.0f}ms"]
        argv += [f"--timer=hybrid:{_SLEEPS}", f"--wait={_WAIT_S:g}s", "-o", "-", address]
        with server.during(["irtt", "server", "-i", "0", "-b", address], "[ListenerStart]"):
            done = client.measure(argv, timeout_s=duration_s + _PATIENCE_S, check=False, watch=watch).done
        if done.returncode != 0 and not done.text.startswith("{"):
            raise CommandFailed(argv, done.returncode, done.error_text or done.text)
        return self.read(done.text, interval_ms, duration_s)

    def read(self, text: str, interval_ms: float, duration_s: float) -> ProbedRoundTrips:
        """Parse the report. A pure function. Raises: InstrumentError."""
        try:
            trips = json.loads(text)["round_trips"]
            sent_ms, back_ms = zip(*(_times_ms(trip) for trip in trips), strict=True)
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            raise InstrumentError(f"irtt's report is not one of round trips: {text.strip()[-80:]!r}") from error
        wanted = duration_s * 1000 / interval_ms
        if not 0.1 * wanted <= len(sent_ms) <= wanted + 1:  # skipped ones count as having waited
            raise InstrumentError(f"irtt sent {len(sent_ms)} datagrams instead of {wanted:.0f}")
        most_ms = 1000 * (duration_s + _PATIENCE_S)
        if any(later <= earlier for earlier, later in pairwise(sent_ms)) or any(
            back is not None and not sent < back < sent + most_ms for sent, back in zip(sent_ms, back_ms, strict=True)
        ):
            raise InstrumentError("irtt's report has times that go backwards, or beyond its own duration")
        return _probed(sent_ms, back_ms, interval_ms)


def loaded_reading(probed: ProbedRoundTrips) -> Reading:
    """Return percentiles of the probe, in ms; one that is mostly irtt's own lateness is dropped, with a remark."""
    if not probed.trips_ms:
        return Reading({LOADED_LOSS.name: 100.0}, invalid_because=("no datagram of the probe was answered",))
    found, late, remarks = dict[str, float](), dict[str, float](), list[Remark]()
    for name, q in _QUANTILES:
        # A datagram without an answer is later than all others.
        value = quantile_if_estimable((*probed.trips_ms, *(math.inf,) * probed.lost), q)
        own_delay = quantile_if_estimable(probed.late_ms, q)
        metric = f"latency_{name}_loaded"
        if value is None or own_delay is None:
            continue
        if not math.isfinite(value):
            text = f"{probed.lost} of {probed.sent} datagrams got no answer"
            remarks.append(Remark(AMONG_LOST, text, (metric,)))
            continue
        found[metric], late[metric] = value, own_delay
    kept, dropped = without_own_lateness(found, late)
    return Reading(
        {LOADED_LOSS.name: 100 * probed.lost / probed.sent, **kept},
        (Series("rtt_loaded", "ms", probed.trips_ms),),
        payload_bytes=Irtt.packet_bytes * probed.answered,
        remarks=(*remarks, *dropped),
    )


def without_own_lateness(
    found: Mapping[str, float], late: Mapping[str, float]
) -> tuple[dict[str, float], tuple[Remark, ...]]:
    """Return the metrics, in ms, without those that are mostly irtt's own lateness, and a remark for each of these.

    `late` has the same statistics of how late datagrams were sent."""
    own = {name for name, value in found.items() if late.get(name, 0.0) > _MOST_OWN * value}
    text = "{:.3f} ms; irtt itself sent as late as {:.3f} ms, since it had no CPU"
    remarks = [Remark(GENERATOR_DELAY, text.format(found[name], late[name]), (name,)) for name in found if name in own]
    return {name: value for name, value in found.items() if name not in own}, tuple(remarks)


def _times_ms(trip: Mapping[str, object]) -> tuple[float, float | None]:
    """Return when a datagram was sent, and when its answer came, by the client's monotonic clock."""
    client: Mapping[str, Mapping[str, int]] = trip["timestamps"]["client"]  # type: ignore[index]
    sent = client["send"]["monotonic"]
    back = client["receive"]["monotonic"] if trip["lost"] == "false" else None
    times = [value for value in (sent, back) if value is not None]
    if not all(isinstance(value, int) and 0 <= value < 2**62 for value in times):
        raise ValueError(f"not times: {times}")
    return sent / _NS_PER_MS, None if back is None else back / _NS_PER_MS


def _probed(sent_ms: Sequence[float], back_ms: Sequence[float | None], interval_ms: float) -> ProbedRoundTrips:
    """Return round trips from when each datagram was due.

    irtt sends at multiples of the interval after its first datagram. When it is late beyond one of them, it skips it.
    The datagram that it skipped would have left with the next one, and counts as if it had."""
    trips_ms, late_ms, lost, place = list[float](), list[float](), 0, 0
    for sent, back in zip(sent_ms, back_ms, strict=True):
        reached = max(place, math.floor((sent - sent_ms[0]) / interval_ms))
        for due in (min(sent, sent_ms[0] + missed * interval_ms) for missed in range(place, reached + 1)):
            late_ms.append(sent - due)
            if back is None:
                lost += 1
            else:
                trips_ms.append(back - due)
        place = reached + 1
    return ProbedRoundTrips(tuple(trips_ms), tuple(late_ms), lost, sum(back is not None for back in back_ms))
