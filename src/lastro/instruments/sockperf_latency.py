"""Latency under an open load, by sockperf, which keeps an absolute schedule, and catches up when it is late.

The percentiles that sockperf reports count from when a packet was sent. So it logs the times of all packets
(`--full-log`), and `_schedule` computes when each packet was due. Written for 3.7 to 3.10; sources: sockperf(1), and
`client_statistics` in its client.cpp."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from lastro.errors import InstrumentError
from lastro.host.base import Process
from lastro.instruments.base import UNWATCHED, Instrument, Watch
from lastro.instruments.latency import (
    LATENCY_S,
    WORDS,
    MeasurementDisturbed,
    RoundTrips,
    pack_histogram,
    percentiles_reading,
)
from lastro.instruments.load_generator import BUFFER_BYTES, OFFERED_FPS, PORT, SIZE, Direction, Traffic
from lastro.instruments.packet_capture import OneWayDelays, one_way
from lastro.platforms.base import Instance
from lastro.results.samples import Metric, Reading
from lastro.study.model import Level

ANSWERS_EVERY = 10  # few, so that the way back carries a tenth of the load, but enough for the 99th percentile
_PATIENCE_S = 15.0
_UNTIMED_S = 0.45  # at the beginning and the end of a run
_NS = 1_000_000_000
_CLOCK = 0.02  # a fraction: it measures the rate of the processor's counter for 0.1 s, and may be interrupted meanwhile
_TIMER_S = 0.05  # how late a signal may be that ends a run
_MOST_DISORDERED = 0.001  # sockperf does not log these
_TICK_NS = 1.0  # of its clock, at most: each period is rounded down to ticks
_LOG = "lastro-latency.csv"
_RUN = re.compile(r"\[Total Run\] RunTime=(\d{1,9}\.\d{1,9}) sec;.{0,90} SentMessages=(\d{1,15});")
_LOST = re.compile(
    r"# dropped messages = (\d{1,15}); # duplicated messages = (\d{1,15}); # out-of-order messages = (\d{1,15})\b"
)
_HEADING = "packet, txTime(sec), rxTime(sec),"
_TIME = re.compile(r"\d{1,9}\.(\d{9})", re.ASCII)


class SockperfLatency(Instrument):
    name = "sockperf-latency"
    summary = "round trips of packets under an open load, from when each was due, by sockperf"
    packages = ("sockperf",)
    version_argv = ("sockperf", "--version")
    metrics = tuple(
        Metric(f"round_trip_{name}", "µs", "lower", f"{words} of round trips under an open load, from when due")
        for name, words in WORDS.items()
    )

    def measure(
        self, client: Instance, server: Instance, target: str, settings: Mapping[str, Level], watch: Watch = UNWATCHED
    ) -> Reading:
        """Offer frames of `frame_size` for `latency_s`, and return the percentiles of the round trips.

        `offered_fps` is the rate of frames and answers together."""
        direction = Direction(client, server, target)
        traffic = Traffic.of(SIZE.of(settings))
        with self.answering(direction):
            trips = self.round_trips(direction, traffic, OFFERED_FPS.of(settings), LATENCY_S.of(settings), watch)
        reading = percentiles_reading(trips.histogram, None, "round_trip_{}".format)
        return replace(reading, histograms=(pack_histogram("round trip", trips.histogram),))

    def answering(self, direction: Direction) -> AbstractContextManager[Process]:
        """Run a server at the receiver that answers packets inside the block. Raises: CommandFailed; CommandTimeout."""
        argv = ["sockperf", "server", "--ip", direction.target, "--port", str(PORT), "--buffer-size", str(BUFFER_BYTES)]
        return direction.receiver.during(["stdbuf", "-oL", *argv], "block on socket", _PATIENCE_S)

    def own_delay(self, sender: Instance, traffic: Traffic, rate_fps: float, duration_s: float) -> RoundTrips:
        """Return the round trips on the sender's loopback: the delay of the meter, its sockets and the scheduler.

        Raises: as `round_trips`."""
        loopback = Direction(sender, sender, "127.0.0.1")
        with self.answering(loopback):
            return self.round_trips(loopback, traffic, rate_fps, duration_s)

    @staticmethod
    def mps(rate_fps: float) -> int:
        """Return the packets per second to send, so that packets and answers together have the rate `rate_fps`."""
        return max(1, round(rate_fps * ANSWERS_EVERY / (ANSWERS_EVERY + 1)))

    @classmethod
    def one_way(cls, sent: bytes, received: bytes, rate_fps: float) -> OneWayDelays:
        """Return the delays in one direction from the captures at sender and receiver. Raises: InstrumentError.

        `rate_fps` is the rate that `round_trips` was called with."""
        return one_way(sent, received, float(_NS // cls.mps(rate_fps) * ANSWERS_EVERY), ANSWERS_EVERY)

    def round_trips(
        self, direction: Direction, traffic: Traffic, rate_fps: float, duration_s: float, watch: Watch = UNWATCHED
    ) -> RoundTrips:
        """Send packets for `duration_s`, and return the times of those that request an answer.

        `rate_fps` is the rate of packets and answers together. Raises: MeasurementDisturbed if the run was shorter or
        longer than `duration_s`; InstrumentError if its report cannot be right; CommandFailed; CommandTimeout."""
        whole_s = math.ceil(duration_s + _UNTIMED_S)
        mps, log = self.mps(rate_fps), f"{direction.sender.memory_dir}/{_LOG}"
        argv = ["sockperf", "under-load", "--ip", direction.target, "--port", str(PORT), "--time", str(whole_s)]
        argv += ["--mps", str(mps), "--reply-every", str(ANSWERS_EVERY)]
        argv += ["--msg-size", str(traffic.payload_bytes[0]), "--full-rtt", "--full-log", log]
        argv += ["--buffer-size", str(BUFFER_BYTES)]
        if direction.sender.shares_kernel:  # on a CPU apart from that of the function's kernel
            argv += ["--sender-affinity", str(direction.sender.testbed.usable_cpus[0])]
        done = direction.sender.measure(argv, timeout_s=whole_s + _PATIENCE_S, check=False, watch=watch).done
        done.require_success(argv)
        return self.read(direction.sender.run(["sh", "-c", 'cat "$1"; rm "$1"', "sh", log]).text, mps, whole_s)

    def read(self, text: str, mps: int, duration_s: float) -> RoundTrips:
        """Return the round trips in sockperf's log of a run that was to send `mps` packets per second for `duration_s`.

        A pure function. Raises: MeasurementDisturbed when sockperf's clock was wrong, or sockperf had no CPU at the end
        of the run; InstrumentError when the log cannot be right."""
        import numpy as np

        from lastro.instruments._schedule import due_times

        if "No messages were received from the server" in text:  # sockperf then does not report how many it sent
            sent, no_times = int(mps * duration_s), np.zeros(0)
            asked = sent // ANSWERS_EVERY
            return RoundTrips(no_times, no_times, no_times, asked, sent, asked, duration_s)
        runs, counts = _RUN.findall(text), _LOST.findall(text)
        if len(runs) != 1 or len(counts) != 1:
            raise InstrumentError(f"sockperf's log has no summary: {text.strip()[-80:]!r}")
        lasted_s, sent = float(runs[0][0]), int(runs[0][1])
        lost, doubled, disordered = map(int, counts[0])
        rows = _rows(text)
        _require_length(lasted_s, sent / mps, duration_s)
        if not 0 < sent <= 1.01 * mps * (lasted_s + 1):
            raise InstrumentError(f"sockperf says that it sent {sent} packets in {lasted_s:g} s, at {mps} per second")
        if len(rows) + lost + disordered > sent // ANSWERS_EVERY:
            raise InstrumentError(f"sockperf says that {len(rows)} of {sent} packets were answered and {lost} were not")
        if disordered + doubled > _MOST_DISORDERED * len(rows):
            message = f"{disordered} answers came out of order and {doubled} twice: sockperf omits their times"
            raise InstrumentError(message)
        times = np.array(rows, dtype=np.float64)
        sent_ns, answered_ns = times[:, 0], times[:, 1]
        if (np.diff(sent_ns) < 0).any() or (answered_ns < sent_ns).any():
            raise InstrumentError("sockperf's log has times that go backwards")
        if answered_ns.max() - sent_ns.min() > _NS * (duration_s + _PATIENCE_S):
            raise InstrumentError("sockperf's log has times beyond its own duration")
        period_ns = float(_NS // mps * ANSWERS_EVERY)
        slack_ns = (-_TICK_NS * ANSWERS_EVERY, 0.1 * _TICK_NS * ANSWERS_EVERY)
        due_ns = due_times(sent_ns, period_ns, bool(lost or disordered), slack_ns)
        return RoundTrips(due_ns, sent_ns, answered_ns, lost, sent, sent // ANSWERS_EVERY, lasted_s)


def _require_length(lasted_s: float, sending_s: float, duration_s: float) -> None:
    """Raise MeasurementDisturbed if a run of `duration_s` by the kernel's timer took another time by sockperf's clock.

    `lasted_s` is the time by sockperf's clock. `sending_s` is the time that the packets that were sent take at the
    nominal rate. The kernel's timer ends a run by a signal. A sender that waits for a CPU sends nothing, and notices
    the signal late: its clock is right. A sender whose clock runs fast sends until the signal, at a rate that is too
    high."""
    tolerance_s = _CLOCK * duration_s + _TIMER_S
    if abs(lasted_s - duration_s) <= tolerance_s:
        return
    if lasted_s > duration_s and sending_s <= duration_s + tolerance_s:
        why = f"sockperf had no CPU at the end of its run: it ran for {lasted_s:g} s instead of {duration_s:g} s"
        raise MeasurementDisturbed(why, "keep other work off this host, or off the generator's CPU")
    raise MeasurementDisturbed(f"sockperf's clock is wrong: it ran for {duration_s:g} s, and measured {lasted_s:g} s")


def _rows(text: str) -> list[tuple[int, int]]:
    """Return (when sent, when answered) of each packet in the log, in nanoseconds of sockperf's clock.

    Raises: InstrumentError."""
    _, heading, table = text.partition(_HEADING)
    lines = table.splitlines()[1:-1]
    if not heading or not lines or not table.rstrip("\n").endswith("---"):
        raise InstrumentError(f"sockperf's log has no complete table of packets: {text.strip()[-80:]!r}")
    packets = []
    for number, line in enumerate(lines):
        cells = line.split(", ")
        if len(cells) != 4 or cells[0] != str(number) or not all(map(_TIME.fullmatch, cells[1:3])):
            raise InstrumentError(f"line {number} of sockperf's log is not a packet: {line[:80]!r}")
        _, sent_s, answered_s, _ = cells
        packets.append((int(sent_s.replace(".", "")), int(answered_s.replace(".", ""))))  # nine decimals: nanoseconds
    return packets
