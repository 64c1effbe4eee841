"""A UDP load by iperf3: how much of a nominal rate is offered, and how much of it arrives."""

from __future__ import annotations

from collections.abc import Mapping

from lastro.instruments import _iperf3
from lastro.instruments._udp import UdpFlow, UdpLoad
from lastro.platforms.base import Instance


class Iperf3UdpLoad(UdpLoad):
    name = "iperf3-udp-load"
    summary = "a UDP load at a nominal rate by iperf3: what was offered, what arrived, loss and jitter"
    tool = "iperf3"
    version_argv = ("iperf3", "--version")

    def flow(
        self, client: Instance, server: Instance, target: str, rate_bps: float, datagram_bytes: int, duration_s: float
    ) -> UdpFlow:
        options = ["--udp", "--bitrate", f"{rate_bps:.0f}", "--length", str(datagram_bytes)]
        return self.read(_iperf3.run(client, server, target, duration_s, options))

    def read(self, report: Mapping[str, object]) -> UdpFlow:
        """Raises: InstrumentError."""
        sent, received = ("end", "sum_sent"), ("end", "sum_received")
        return UdpFlow(
            sent_bytes=_iperf3.number(report, *sent, "bytes"),
            sent_s=_iperf3.number(report, *sent, "seconds"),
            received_bytes=_iperf3.number(report, *received, "bytes"),
            received_s=_iperf3.number(report, *received, "seconds"),
            jitter_ms=_iperf3.number(report, *received, "jitter_ms"),
        )
