"""A UDP load by iperf3: the offered and the received fraction of a nominal rate."""

from __future__ import annotations

from collections.abc import Mapping

from lastro.instruments import iperf3
from lastro.instruments.base import Watch
from lastro.instruments.udp_load import OfferedLoad, UdpFlow, UdpLoad
from lastro.platforms.base import Instance


class Iperf3UdpLoad(UdpLoad):
    name = "iperf3-udp-load"
    summary = "a UDP load at a nominal rate by iperf3: offered and received rate, loss and jitter"
    tool = "iperf3"
    version_argv = ("iperf3", "--version")

    def flow(self, client: Instance, server: Instance, target: str, offer: OfferedLoad, watch: Watch) -> UdpFlow:
        options = ["--udp", "--bitrate", f"{offer.rate_bps:.0f}", "--length", str(offer.datagram_bytes)]
        return self.read(iperf3.run(client, server, target, offer.duration_s, options, watch))

    def read(self, report: Mapping[str, object]) -> UdpFlow:
        """Return the bytes, seconds and jitter of both ends from iperf3's report. Raises: InstrumentError."""
        sent, received = ("end", "sum_sent"), ("end", "sum_received")
        return UdpFlow(
            sent_bytes=iperf3.number(report, *sent, "bytes"),
            sent_s=iperf3.number(report, *sent, "seconds"),
            received_bytes=iperf3.number(report, *received, "bytes"),
            received_s=iperf3.number(report, *received, "seconds"),
            jitter_ms=iperf3.number(report, *received, "jitter_ms"),
        )
