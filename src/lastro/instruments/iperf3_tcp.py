"""Bulk TCP throughput by iperf3, as the receiver counts it, with a value for every second."""

from __future__ import annotations

from collections.abc import Mapping

from lastro.errors import InstrumentError
from lastro.instruments import iperf3
from lastro.instruments.base import UNWATCHED, Instrument, Watch, bounded
from lastro.platforms.base import Instance
from lastro.results.samples import Metric, Reading, Series
from lastro.study.model import DAY_S, Level, Setting

TCP_S = Setting("tcp_s", 5, "length of the TCP measurement, in whole seconds as iperf3 takes them", 1, DAY_S)
TCP_STREAMS = Setting("tcp_streams", 1, "parallel TCP connections", 1, 128)
_ROUNDING = 0.02


class Iperf3Tcp(Instrument):
    name = "iperf3-tcp"
    summary = "bulk TCP throughput, per second and mean"
    version_argv = ("iperf3", "--version")
    metrics = (
        Metric("throughput", "Mbit/s", "higher", "TCP throughput as the receiver counts it, mean over the test"),
        Metric("tcp_retransmits", "1", "lower", "retransmitted TCP segments"),
    )

    def measure(
        self, client: Instance, server: Instance, target: str, settings: Mapping[str, Level], watch: Watch = UNWATCHED
    ) -> Reading:
        duration_s = TCP_S.of(settings)
        streams = ["--parallel", str(TCP_STREAMS.of(settings))]
        report = iperf3.run(client, server, target, duration_s, streams, watch)
        return self.read(report, duration_s)

    def read(self, report: Mapping[str, object], duration_s: float) -> Reading:
        received_bytes = iperf3.number(report, "end", "sum_received", "bytes")
        throughput = iperf3.number(report, "end", "sum_received", "bits_per_second") / 1e6
        per_second = tuple(iperf3.number(item, "sum", "bits_per_second") / 1e6 for item in iperf3.intervals(report))
        received_s = iperf3.number(report, "end", "sum_received", "seconds")
        reasons = list(iperf3.check_duration(received_s, duration_s))
        if not received_bytes:
            reasons.append("no TCP traffic reached the sink")
        retransmits = iperf3.number(report, "end", "sum_sent", "retransmits")
        if abs(throughput * 1e6 * received_s - 8 * received_bytes) > 8 * (_ROUNDING * received_bytes + 1):
            numbers = f"{throughput:g} Mbit/s, but {received_bytes:g} bytes in {received_s:g} s"
            raise InstrumentError(f"impossible number: iperf3 reports {numbers}")
        if retransmits > iperf3.number(report, "end", "sum_sent", "bytes"):
            raise InstrumentError(f"impossible number: iperf3 reports {retransmits:g} retransmits, more than bytes")
        reading = Reading(
            {"throughput": throughput, "tcp_retransmits": retransmits},
            (Series("throughput", "Mbit/s", per_second),),
            payload_bytes=int(received_bytes),
            lasted_s=received_s,
            invalid_because=tuple(reasons),
        )
        return bounded(self.metrics, reading, duration_s)
