"""Jitter and loss of a UDP flow at a fixed rate, by iperf3.

Jitter is the value that iperf3 reports: the smoothed difference of transit times at the receiver, as defined for RTP
(RFC 3550, section 6.4.1: J += (|D| - J) / 16)."""

from __future__ import annotations

from collections.abc import Mapping

from lastro.errors import InstrumentError
from lastro.instruments import iperf3
from lastro.instruments.base import UNWATCHED, Instrument, Watch, bounded, require_possible
from lastro.platforms.base import Instance
from lastro.results.samples import Metric, Reading
from lastro.study.model import DAY_S, Level, Setting
from lastro.units import parse_rate_bps

UDP_S = Setting("udp_s", 5, "length of the UDP measurement, in whole seconds as iperf3 takes them; 0: none", 0, DAY_S)
UDP_RATE = Setting("udp_rate", "1M", "rate of the UDP flow in bit/s", check=parse_rate_bps)
_LEAST_OFFERED = 0.95


class Iperf3Udp(Instrument):
    name = "iperf3-udp"
    summary = "jitter and loss of a UDP flow of fixed rate"
    version_argv = ("iperf3", "--version")
    metrics = (
        Metric("jitter", "ms", "lower", "smoothed variation of UDP transit times (RFC 3550), by the receiver"),
        Metric("udp_loss", "%", "lower", "UDP datagrams that did not arrive"),
    )

    def measure(
        self, client: Instance, server: Instance, target: str, settings: Mapping[str, Level], watch: Watch = UNWATCHED
    ) -> Reading:
        duration_s, rate = UDP_S.of(settings), UDP_RATE.of(settings)
        report = iperf3.run(client, server, target, duration_s, ["--udp", "--bitrate", rate], watch)
        return self.read(report, duration_s, parse_rate_bps(rate))

    def read(self, report: Mapping[str, object], duration_s: float, rate_bps: float) -> Reading:
        sent, received = ("end", "sum_sent"), ("end", "sum_received")
        sent_bytes, received_bytes = (iperf3.number(report, *side, "bytes") for side in (sent, received))
        seconds = iperf3.number(report, *sent, "seconds")
        if not sent_bytes or not seconds or received_bytes > sent_bytes:
            numbers = f"{sent_bytes:g} bytes sent in {seconds:g} seconds, {received_bytes:g} received"
            raise InstrumentError(f"iperf3 reports impossible numbers: {numbers}")
        # By bytes at both ends: iperf3 itself counts gaps in the sequence, which misses the loss of the last datagrams.
        loss_percent = 100 * (1 - received_bytes / sent_bytes)
        reasons = list(iperf3.check_duration(seconds, duration_s))
        if not received_bytes:
            reasons.append("no UDP traffic reached the sink")
        # A short test at a low rate offers whole datagrams only: allow for one.
        grain_bps = 8 * iperf3.number(report, "start", "test_start", "blksize") / duration_s
        offered_bps = 8 * sent_bytes / seconds
        if offered_bps < _LEAST_OFFERED * rate_bps - grain_bps:
            offered = f"{offered_bps / 1e6:.2f} of {rate_bps / 1e6:.2f} Mbit/s"
            reasons.append(f"the generator was the bottleneck: it offered {offered}")
        measured = {"jitter": iperf3.number(report, *received, "jitter_ms"), "udp_loss": loss_percent}
        reading = Reading(measured, payload_bytes=int(received_bytes), invalid_because=tuple(reasons))
        require_possible("offered rate", offered_bps / 1e6, "Mbit/s")
        return bounded(self.metrics, reading, duration_s)
