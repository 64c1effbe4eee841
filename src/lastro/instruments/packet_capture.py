"""One-way delays under an open load, from captures at both ends of the path, by the clock of one kernel.

tcpdump stores the packets of sockperf that request an answer: one in ten. The kernel records when each packet passed
the sender's interface, and when it passed the receiver's, by the same clock. Delays count from when a packet was due,
as for round trips; `_schedule` computes this from the times at which packets left. Sources: tcpdump(1),
pcap-savefile(5), `MsgHeader` in message.h of sockperf."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from lastro.errors import InstrumentError
from lastro.instruments.load_generator import PORT
from lastro.platforms.base import Instance

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lastro.instruments._schedule import Times
    from lastro.stats.histograms import Histogram

PACKAGES = ("tcpdump",)  # of the image
_FILE = "lastro-latency.pcap"
_FLAGS = "udp[16:2]"  # after the header of UDP and a number of eight bytes: 2 asks for an answer, 4 is a warm-up
_FILTER = f"udp dst port {PORT} and {_FLAGS} & 6 = 2"
_BYTES = 64  # kept of each packet: headers and the number
_NUMBER_AT = 14 + 20 + 8
_PATIENCE_S = 15.0
_FLUSH_S = 1.2  # the kernel hands over a part of its buffer when it is full, or after a second
_MAGIC = 0xA1B23C4D  # of files with nanoseconds
_FILE_HEADER, _RECORD = struct.Struct("<IHHiIII"), struct.Struct("<IIII")
_ETHERNET = 1
_DROPPED = re.compile(r"^(\d{1,15}) packets? dropped by kernel", re.MULTILINE)
_WARM_UP_NS = 0.4e9  # as sockperf omits
_NS = 1_000_000_000
_CLOCK = 0.02  # by which sockperf's period may differ from the kernel's clock


@dataclass(frozen=True, eq=False)
class OneWayDelays:
    """The times of the packets that requested an answer and arrived, in the order in which they were due.

    `due_ns`, `left_ns` and `arrived_ns` are when each of these packets was due, left its sender, and arrived, in
    nanoseconds of the kernel's clock, relative to when the first packet left.
    `waits_ns` has a delay for each packet that left, whether it arrived or was lost: the time from when the packet was
    due until it left.
    `lost` is the number of packets that left and did not arrive.
    The packets of the warm-up are not included anywhere."""

    due_ns: Times
    left_ns: Times
    arrived_ns: Times
    waits_ns: Times
    lost: int

    @cached_property
    def histogram(self) -> Histogram:
        """The times from when a packet was due to its arrival, in ns. Raises: ValueError if one is impossible."""
        from lastro.stats.histograms import Histogram  # loads numpy

        return Histogram.of((self.arrived_ns - self.due_ns).round(), self.lost)

    @cached_property
    def generator_delays(self) -> Histogram:
        """The times from when a packet was due until it left, in nanoseconds: the delays in the generator."""
        from lastro.stats.histograms import Histogram

        return Histogram.of(self.waits_ns.round())


@dataclass(slots=True)
class PacketCapture:
    """A capture on the interface `device` of an instance; `data` is its file, in tcpdump's format, after `running`."""

    instance: Instance
    device: str
    data: bytes = field(default=b"", repr=False)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Capture inside the block, and set `data` at its end.

        Raises: CommandFailed; CommandTimeout; InstrumentError if the kernel dropped packets."""
        file = f"{self.instance.memory_dir}/{_FILE}"  # in memory, so that the disk causes no delays
        argv = ["tcpdump", "-i", self.device, "-p", "-Z", "root", "-s", str(_BYTES), "-B", "8192"]
        argv += ["--time-stamp-precision=nano", "-w", file, _FILTER]
        with self.instance.during(argv, "listening on", _PATIENCE_S) as process:
            yield
            time.sleep(_FLUSH_S)
        summary = process.stop().error_text
        if _DROPPED.findall(summary) != ["0"]:
            raise InstrumentError(f"the capture on {self.device} lost packets: {summary.strip()[-120:]!r}")
        self.data = self.instance.run(["sh", "-c", 'cat "$1"; rm "$1"', "sh", file]).stdout


def one_way(sent: bytes, received: bytes, period_ns: float, step: int) -> OneWayDelays:
    """Return the one-way delays from the captures at the sender and at the receiver. Pure.

    A captured packet is due every `period_ns`. The numbers of successive captured packets differ by `step`.

    Raises: InstrumentError if a capture is incomplete, or if packets arrived twice or before they left."""
    import numpy as np

    from lastro.instruments._schedule import due_times

    numbers, left_ns = _times(sent)
    received_numbers, arrived_ns = _times(received)
    if len(numbers) < 2 or (np.diff(numbers) != step).any() or (np.diff(left_ns) < 0).any():
        raise InstrumentError(f"the capture at the sender has gaps: {len(numbers)} packets")
    if len(np.unique(received_numbers)) < len(received_numbers) or not np.isin(received_numbers, numbers).all():
        raise InstrumentError("the capture at the receiver has packets that did not leave, or arrived twice")
    arrived_ns, left_ns = ((ns - left_ns[0]).astype(np.float64) for ns in (arrived_ns, left_ns))
    due_ns = due_times(left_ns, period_ns, False, (-_CLOCK * period_ns, _CLOCK * period_ns))
    timed = due_ns >= due_ns[0] + _WARM_UP_NS
    waits_ns = (left_ns - due_ns)[timed]
    arrived = timed & np.isin(numbers, received_numbers)
    index_received = {number: index for index, number in enumerate(received_numbers.tolist())}
    arrived_ns = arrived_ns[[index_received[number] for number in numbers[arrived].tolist()]]
    if (arrived_ns < left_ns[arrived]).any():
        raise InstrumentError("packets arrived before they left: the clock was set meanwhile")
    return OneWayDelays(due_ns[arrived], left_ns[arrived], arrived_ns, waits_ns, int(timed.sum() - arrived.sum()))


def _times(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (numbers, times) of the packets in a capture file. Times are in ns since 1970. Raises: InstrumentError."""
    import numpy as np

    if len(data) < _FILE_HEADER.size:
        raise InstrumentError("the capture is empty")
    magic, *_, link_type = _FILE_HEADER.unpack_from(data)
    rest = data[_FILE_HEADER.size :]
    if magic != _MAGIC or link_type != _ETHERNET:
        raise InstrumentError("the capture has another format than tcpdump's with nanoseconds")
    if not rest:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    kept = _RECORD.unpack_from(rest)[2] if len(rest) >= _RECORD.size else 0
    size = _RECORD.size + kept
    if kept < _NUMBER_AT + 8 or len(rest) % size:
        raise InstrumentError("the capture is cut off, or has frames of several sizes")
    fields = [("s", "<u4"), ("ns", "<u4"), ("kept", "<u4"), ("size", "<u4"), ("before", f"V{_NUMBER_AT}")]
    layout = np.dtype([*fields, ("number", ">u8"), ("after", f"V{kept - _NUMBER_AT - 8}")])
    packets = np.frombuffer(rest, layout)
    if (packets["kept"] != kept).any() or (packets["ns"] >= _NS).any() or (packets["number"] >= 2**53).any():
        raise InstrumentError("the capture has frames of several sizes, or impossible times")
    return packets["number"].astype(np.int64), packets["s"].astype(np.int64) * _NS + packets["ns"]
