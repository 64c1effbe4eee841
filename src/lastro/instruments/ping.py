"""Round-trip times by ping on an idle link, all of which are stored; percentiles only if the sample is large enough.

Below 10 ms between two requests, ping does not sleep: it keeps a CPU busy, which is then awake when an answer comes.
Such times are not comparable with those of a ping that sleeps, so only irtt measures at shorter intervals. Source:
main_loop in ping_common.c of iputils."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from statistics import fmean

from lastro.errors import InstrumentError
from lastro.instruments.base import LONGEST_S, UNWATCHED, Instrument, Watch, bounded
from lastro.platforms.base import Instance
from lastro.results.samples import Metric, Reading, Series
from lastro.stats.quantiles import quantile_if_estimable
from lastro.study.model import DAY_S, Level, Setting

_REPLY = re.compile(r"bytes from .*: icmp_seq=\d+ .*time=(\d{1,9}(?:\.\d{1,9})?) ms(?! \(DUP!\))")
_SENT = re.compile(r"\b(\d{1,12}) packets transmitted")
_LASTED = re.compile(r"\btime (\d{1,12})ms$", re.MULTILINE)
_ECHO_BYTES = 84  # an IP packet with ping's usual payload of 56 bytes
_PATIENCE_S = 10.0
PING_S = Setting("ping_s", 5.0, "length of the measurement of latency on the idle link", 0.5, DAY_S)
PING_INTERVAL_MS = Setting(
    "ping_interval_ms", 100, "time between two echo requests of ping; irtt can send more often", 10, 10_000
)
MARKED_PERCENT = Setting(
    "ping_suspect_percent", 0,
    "echo requests of ping with the signature for which dpi searches, so that it redirects them", 0, 100,
)  # fmt: skip
PATTERN = "ping_pattern"  # the setting with the bytes, in hexadecimal, that fill the payload of marked requests


class Ping(Instrument):
    name = "ping"
    summary = "round-trip times: mean, maximum, percentiles that the sample allows"
    version_argv = ("ping", "-V")
    metrics = (
        Metric("latency_mean", "ms", "lower", "mean round-trip time on the idle link"),
        Metric("latency_max", "ms", "lower", "largest round-trip time of the trial on the idle link: the latency peak"),
        Metric("latency_p50", "ms", "lower", "median round-trip time on the idle link"),
        Metric("latency_p95", "ms", "lower", "95th percentile on the idle link; at least 59 replies"),
        Metric("latency_p99", "ms", "lower", "99th percentile on the idle link; at least 299 replies"),
        Metric("ping_loss", "%", "lower", "echo requests without a reply"),
    )

    def measure(
        self, client: Instance, server: Instance, target: str, settings: Mapping[str, Level], watch: Watch = UNWATCHED
    ) -> Reading:
        duration_s, interval_s = PING_S.of(settings), PING_INTERVAL_MS.of(settings) / 1000
        n, marked = echo_requests(settings)
        commands = [
            ["ping", "-n", "-i", f"{interval_s:g}", "-c", str(count), *filling, "-W", "1", target]
            for count, filling in [(marked, ["-p", str(settings.get(PATTERN))]), (n - marked, [])]
            if count
        ]
        argv = commands[0] if len(commands) == 1 else ["sh", "-c", "; ".join(map(shlex.join, commands))]
        done = client.measure(argv, timeout_s=duration_s + _PATIENCE_S, check=False, watch=watch).done
        return self.read(done.text)

    def read(self, text: str) -> Reading:
        summaries = _SENT.findall(text)
        if not summaries:
            raise InstrumentError(f"ping printed no summary: {text[-80:]!r}")
        sent = sum(map(int, summaries))
        # By line, not by sequence number, which starts over after 65,536 requests. Duplicates do not count as replies.
        rtts_ms = [float(rtt_ms) for rtt_ms in _REPLY.findall(text)]
        if len(rtts_ms) > sent:
            raise InstrumentError(f"ping counts {sent} requests, but prints {len(rtts_ms)} replies")
        if not rtts_ms:
            return Reading({"ping_loss": 100.0}, invalid_because=("no echo request was answered",))
        lasted = _LASTED.findall(text)
        reading = idle_reading(rtts_ms, sent, _ECHO_BYTES)
        return bounded(self.metrics, reading, sum(map(int, lasted)) / 1000 if lasted else LONGEST_S)


def echo_requests(settings: Mapping[str, Level]) -> tuple[int, int]:
    """Return (number of echo requests, number of these that carry the pattern).

    The requests that carry the pattern are sent first."""
    n = max(1, round(1000 * PING_S.of(settings) / PING_INTERVAL_MS.of(settings)))
    return n, round(n * MARKED_PERCENT.of(settings) / 100) if PATTERN in settings else 0


def idle_reading(rtts_ms: Sequence[float], sent: int, packet_bytes: int) -> Reading:
    """Return the latency and loss on an idle link. `rtts_ms` are the round trips of the packets that were answered.

    `sent` is the number of all packets. A percentile is left out if there are too few times for it."""
    loss_percent = 100 * (1 - len(rtts_ms) / sent) if sent else 0.0
    measurements = {"latency_mean": fmean(rtts_ms), "latency_max": max(rtts_ms), "ping_loss": loss_percent}
    for name, q in (("latency_p50", 0.5), ("latency_p95", 0.95), ("latency_p99", 0.99)):
        if (value := quantile_if_estimable(rtts_ms, q)) is not None:
            measurements[name] = value
    return Reading(measurements, (Series("rtt", "ms", tuple(rtts_ms)),), payload_bytes=packet_bytes * len(rtts_ms))
