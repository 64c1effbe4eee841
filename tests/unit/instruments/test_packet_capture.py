"""One-way delays from captures at both ends: when packets were due, left and arrived; captures that are not whole."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from lastro.errors import InstrumentError
from lastro.host.base import Completed
from lastro.instruments.latency import percentiles_reading
from lastro.instruments.packet_capture import OneWayDelays, PacketCapture
from lastro.instruments.sockperf_latency import SockperfLatency
from lastro.results.samples import GENERATOR_DELAY

from ...support.recording import FakeInstance, answer

RATE_FPS, MPS = 5500, 5000
PERIOD_NS = 2_000_000  # of every tenth packet
EPOCH_NS = 1_764_000_000_999_000_000
N = 1000
CROSSING_NS = 30_000


def pcap(packets: Iterable[tuple[int, int]], size: int = 60, magic: int = 0xA1B23C4D) -> bytes:
    """A file of tcpdump with packets of (number, nanoseconds)."""
    found = struct.pack("<IHHiIII", magic, 2, 4, 0, 0, 64, 1)
    for number, ns in packets:
        frame = bytes(42) + struct.pack(">QHI", number, 3, 18) + bytes(size - 56)
        found += struct.pack("<IIII", ns // 10**9, ns % 10**9, len(frame), size) + frame
    return found


def left(late_ns: int = 2_000, drift: float = 0.0) -> list[tuple[int, int]]:
    """Packets that leave up to `late_ns` after they were due, by a clock that drifts against the sender's."""
    rng = random.Random(1)
    begin = EPOCH_NS
    return [
        (10 * n, begin + round(n * PERIOD_NS * (1 + drift)) + (0 if n % 7 == 0 else rng.randrange(late_ns)))
        for n in range(N)
    ]


def arrived(packets: list[tuple[int, int]], lost: frozenset[int] = frozenset()) -> list[tuple[int, int]]:
    return [(number, ns + CROSSING_NS) for number, ns in packets if number not in lost]


def delays(sent: list[tuple[int, int]], received: list[tuple[int, int]]) -> OneWayDelays:
    return SockperfLatency().one_way(pcap(sent), pcap(received), RATE_FPS)


@pytest.mark.parametrize("drift", [0.0, 0.013, -0.019, 2e-5])
def test_delays_count_from_when_packets_were_due_by_any_clock(drift: float) -> None:
    packets = left(drift=drift)
    found = delays(packets, arrived(packets))
    due_ns = np.array([round(n * PERIOD_NS * (1 + drift)) for n in range(N)])
    assert found.due_ns == pytest.approx(due_ns[due_ns >= 0.4e9], abs=30), "without the first 0.4 s"
    assert found.lost == 0
    crossed_ns = found.arrived_ns - found.left_ns
    assert crossed_ns == pytest.approx([CROSSING_NS] * len(crossed_ns))
    assert 0 <= found.generator_delays.quantile(0.5) <= 2_100


def test_a_sender_that_stops_shows_in_every_packet_that_was_due() -> None:
    packets = [(number, max(ns, EPOCH_NS + 1_200_000_000) if ns > EPOCH_NS + 10**9 else ns) for number, ns in left()]
    found = delays(packets, arrived(packets))
    waited_ms = (found.arrived_ns - found.due_ns)[300:400] / 1e6
    assert waited_ms == pytest.approx(np.arange(200, 0, -2), abs=0.1)
    reading = percentiles_reading(found.histogram, found.generator_delays, "{}".format)
    assert {remark.kind for remark in reading.remarks if "max" in remark.metrics} == {GENERATOR_DELAY}, "of its own"


def test_packets_that_do_not_arrive_are_later_than_all_others() -> None:
    packets = left()
    found = delays(packets, arrived(packets, frozenset(range(4000, 4100, 10))))
    assert (found.lost, found.histogram.lost, len(found.due_ns)) == (10, 10, 790)


def test_nothing_that_arrives_is_all_lost() -> None:
    found = delays(left(), [])
    assert (found.lost, len(found.due_ns)) == (800, 0)


@pytest.mark.parametrize(
    ("sent", "received", "why"),
    [
        (b"", pcap([]), "the capture is empty"),
        (pcap(left(), magic=0xA1B2C3D4), pcap([]), "another format"),
        (pcap(left())[:-3], pcap([]), "is cut off"),
        (pcap(left()[:10]) + pcap(left()[10:], size=70)[24:], pcap([]), "of several sizes"),
        (pcap([*left()[:50], *left()[51:]]), pcap([]), "at the sender has gaps"),
        (pcap([]), pcap([]), "at the sender has gaps: 0 packets"),
        (pcap(left()), pcap([(7, EPOCH_NS)]), "did not leave, or arrived twice"),
        (pcap(left()), pcap([left()[500]] * 2), "did not leave, or arrived twice"),
        (pcap(left()), pcap([(number, ns - 10**9) for number, ns in left()]), "the clock was set"),
    ],
)
def test_captures_that_are_not_whole_are_refused(sent: bytes, received: bytes, why: str) -> None:
    with pytest.raises(InstrumentError, match=why):
        SockperfLatency().one_way(sent, received, RATE_FPS)


def capturing(dropped: str) -> FakeInstance:
    """An instance whose tcpdump reports `dropped`, on standard error as tcpdump does."""
    words = f"tcpdump: listening on in0\n17 packets captured\n18 packets received by filter\n{dropped}"

    def answers(argv: Sequence[str]) -> Completed:
        return answer(error=words) if argv[0] == "tcpdump" else answer("packets")

    return FakeInstance(answers)


def test_a_capture_keeps_the_packets_that_ask_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lastro.instruments.packet_capture._FLUSH_S", 0)
    instance = capturing("0 packets dropped by kernel\n")
    capture = PacketCapture(instance, "in0")  # type: ignore[arg-type]
    with capture.running():
        assert capture.data == b""
    assert capture.data == b"packets"
    (argv,), (ready,) = instance.served, instance.readiness
    assert argv[0] == "tcpdump" and ready == "listening on"
    assert argv[-1] == "udp dst port 11111 and udp[16:2] & 6 = 2"
    file = "/dev/shm/lastro-latency.pcap"
    assert argv[argv.index("-w") + 1] == file, "in memory: the disk has no part in the delays"
    assert instance.commands == [["sh", "-c", 'cat "$1"; rm "$1"', "sh", file]]
    for dropped in ("3 packets dropped by kernel\n", ""):
        lossy = PacketCapture(capturing(dropped), "in0")  # type: ignore[arg-type]
        with pytest.raises(InstrumentError, match="the capture on in0 lost packets"), lossy.running():
            pass
