"""TCP requests and responses by sockperf, one after the other over one connection, as in netperf's TCP_RR.

Both ends sleep until a packet comes, so each transaction includes two wake-ups besides the path. sockperf prints
percentiles of half a round trip; a transaction is a whole one. Written for 3.7 to 3.10; source: sockperf(1)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lastro.errors import InstrumentError
from lastro.instruments._transactions import QUANTILES, time_metrics, times_reading
from lastro.instruments.base import UNWATCHED, Instrument, Watch, bounded
from lastro.instruments.load_generator import PORT
from lastro.platforms.base import Instance
from lastro.results.samples import Metric, Reading
from lastro.study.model import DAY_S, Level, Setting

RR_S = Setting(
    "tcp_rr_s", 0, "length of the measurement of TCP requests and responses, in whole seconds; 0: none", 0, DAY_S
)
MESSAGE_BYTES = 64
_PATIENCE_S = 15.0
_CLOCK = 0.02  # a fraction: sockperf calibrates its clock, and is wrong by more when it is interrupted meanwhile
_TIMER_S = 0.05
_RUN = re.compile(r"\[Total Run\] RunTime=(\d{1,9}\.\d{1,9}) sec;.{0,90} ReceivedMessages=(\d{1,15})\b")
_VALID = re.compile(
    r"\[Valid Duration\] RunTime=(\d{1,9}\.\d{1,9}) sec; SentMessages=(\d{1,15}); ReceivedMessages=(\d{1,15})\b"
)
_PERCENTILE = re.compile(r"---> percentile (\d\d)\.000 = {1,20}(\d{1,12}\.\d{1,6})\b")
_TIMES = "tcp_transaction"


class SockperfRr(Instrument):
    name = "sockperf-rr"
    summary = (
        "TCP requests and responses of 64 bytes over one connection, by sockperf: how many a second, and their times"
    )
    packages = ("sockperf",)
    version_argv = ("sockperf", "--version")
    metrics = (
        Metric("tcp_transactions", "1/s", "higher", "TCP requests with their responses, one after the other"),
        *time_metrics(_TIMES, "times from a TCP request to its response"),
    )

    def measure(
        self, client: Instance, server: Instance, target: str, settings: Mapping[str, Level], watch: Watch = UNWATCHED
    ) -> Reading:
        duration_s = RR_S.of(settings)
        address = ["--tcp", "--ip", target, "--port", str(PORT)]
        argv = ["sockperf", "ping-pong", *address, "--time", str(duration_s), "--msg-size", str(MESSAGE_BYTES)]
        with server.during(["stdbuf", "-oL", "sockperf", "server", *address], "block on socket", _PATIENCE_S):
            done = client.measure(argv, timeout_s=duration_s + _PATIENCE_S, check=False, watch=watch).done
        done.require_success(argv)
        return self.read(done.text, duration_s)

    def read(self, text: str, duration_s: float) -> Reading:
        """Parse the summary. A pure function. Raises: InstrumentError."""
        runs, valid_parts = _RUN.findall(text), _VALID.findall(text)
        if len(runs) != 1 or len(valid_parts) != 1:
            raise InstrumentError(f"sockperf printed no summary of requests and responses: {text.strip()[-80:]!r}")
        lasted_s, answered = float(runs[0][0]), int(runs[0][1])
        valid_s, sent, received = (float(number) for number in valid_parts[0])
        if not 0 < valid_s <= lasted_s or not received <= min(sent, answered):
            raise InstrumentError(f"sockperf's numbers contradict each other: {text.strip()[-80:]!r}")
        reasons = []
        if abs(lasted_s - duration_s) > _CLOCK * duration_s + _TIMER_S:
            reasons.append(f"sockperf ran for {duration_s:g} s, and measured {lasted_s:g} s: its clock is wrong")
        if not received:
            reasons.append("no TCP request was answered")
        half_us = {int(percent): float(value) for percent, value in _PERCENTILE.findall(text)}
        if received and not half_us.keys() >= QUANTILES.keys():
            raise InstrumentError(f"sockperf printed no percentiles: {text.strip()[-80:]!r}")
        trip_ms = {percent: 2 * value / 1000 for percent, value in half_us.items()}
        more = {"payload_bytes": MESSAGE_BYTES * answered, "lasted_s": lasted_s, "invalid_because": tuple(reasons)}
        reading = times_reading(_TIMES, trip_ms, int(received), {self.metrics[0].name: received / valid_s}, **more)
        return bounded(self.metrics, reading, duration_s)
