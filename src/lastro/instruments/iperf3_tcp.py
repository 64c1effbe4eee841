"""Bulk TCP throughput by iperf3, as the receiver counts it, with a value for every second."""

from __future__ import annotations

from collections.abc import Mapping

from lastro.instruments import _iperf3
from lastro.instruments.base import UNWATCHED, Instrument, Watch
from lastro.platforms.base import Instance
from lastro.results.samples import Metric, Reading, Series
from lastro.study.model import Level


class Iperf3Tcp(Instrument):
    name = "iperf3-tcp"
    summary = "bulk TCP throughput, per second and mean"
    version_argv = ("iperf3", "--version")
    metrics = (
        Metric("throughput", "Mbit/s", "higher", "TCP throughput as the receiver counts it, mean over the test"),
        Metric("tcp_retransmits", "1", "lower", "retransmitted TCP segments"),
    )

    def measure(
        self,
        client: Instance,
        server: Instance,
        target: str,
        settings: Mapping[str, Level],
        watch: Watch = UNWATCHED,
    ) -> Reading:
        duration_s = float(settings["tcp_s"])
        streams = ["--parallel", str(settings["tcp_streams"])]
        report = _iperf3.run(client, server, target, duration_s, streams, watch)
        return self.read(report, duration_s)

    def read(self, report: Mapping[str, object], duration_s: float) -> Reading:
        received_bytes = _iperf3.number(report, "end", "sum_received", "bytes")
        throughput = _iperf3.number(report, "end", "sum_received", "bits_per_second") / 1e6
        per_second = tuple(_iperf3.number(item, "sum", "bits_per_second") / 1e6 for item in _iperf3.intervals(report))
        received_s = _iperf3.number(report, "end", "sum_received", "seconds")
        reasons = list(_iperf3.check_duration(received_s, duration_s))
        if not received_bytes:
            reasons.append("no TCP traffic reached the sink")
        return Reading(
            {"throughput": throughput, "tcp_retransmits": _iperf3.number(report, "end", "sum_sent", "retransmits")},
            (Series("throughput", "Mbit/s", per_second),),
            payload_bytes=int(received_bytes),
            lasted_s=received_s,
            invalid_because=tuple(reasons),
        )
