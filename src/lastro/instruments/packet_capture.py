"""One-way delays under an open load, from captures at both ends of the path, by the clock of one kernel.

tcpdump keeps the packets of sockperf that ask for an answer: one in ten. The kernel notes when the sender's interface
got each of them, and when the receiver's did, both by the same clock. What a packet waited before it left counts, too:
its schedule is found from the times at which packets left, as for round trips. Sources: tcpdump(1), pcap-savefile(5),
`MsgHeader` in message.h of sockperf."""

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
_RETIRED_S = 1.2  # the kernel hands over a part of its buffer when it is full, or after a second
_MAGIC = 0xA1B23C4D  # of files with nanoseconds
_FILE_HEADER, _RECORD = struct.Struct("<IHHiIII"), struct.Struct("<IIII")
_ETHERNET = 1
_DROPPED = re.compile(r"^(\d{1,15}) packets? dropped by kernel", re.MULTILINE)
_WARM_UP_NS = 0.4e9  # as sockperf omits
_NS = 1_000_000_000
_CLOCK = 0.02  # by which sockperf's period may differ from the kernel's clock


@dataclass(frozen=True, eq=False)
class OneWay:
    """The packets that asked for an answer and arrived, in the order in which they were due; `lost` did not arrive.

    All times are nanoseconds of the kernel's clock: when a packet was due, left its sender, and arrived. `waits_ns` are
    the delays of all that left, the lost ones too, from when they were due until they left."""

    due_ns: Times
    left_ns: Times
    arrived_ns: Times
    waits_ns: Times
    lost: int

    @cached_property
    def histogram(self) -> Histogram:
        """Delays from when packets were due, in nanoseconds. Raises: ValueError for impossible times."""
        from lastro.stats.histograms import Histogram  # loads numpy

        return Histogram.of((self.arrived_ns - self.due_ns).round(), self.lost)

    @cached_property
    def generator_delays(self) -> Histogram:
        """The part of the generator: how late packets left."""
        from lastro.stats.histograms import Histogram

        return Histogram.of(self.waits_ns.round())


@dataclass(slots=True)
class PacketCapture:
    """A capture on an interface, and what it holds when it has ended."""

    instance: Instance
    device: str
    data: bytes = field(default=b"", repr=False)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Capture inside the block. Raises: CommandFailed; CommandTimeout; InstrumentError if packets are missing."""
        file = f"{self.instance.memory_dir}/{_FILE}"  # the disk has no part in the delays
        argv = ["tcpdump", "-i", self.device, "-p", "-Z", "root", "-s", str(_BYTES), "-B", "8192"]
        argv += ["--time-stamp-precision=nano", "-w", file, _FILTER]
        with self.instance.during(argv, "listening on", _PATIENCE_S) as process:
            yield
            time.sleep(_RETIRED_S)
        words = process.stop().error_text
        if _DROPPED.findall(words) != ["0"]:
            raise InstrumentError(f"the capture on {self.device} lost packets: {words.strip()[-120:]!r}")
        self.data = self.instance.run(["sh", "-c", 'cat "$1"; rm "$1"', "sh", file]).stdout


def one_way(sent: bytes, received: bytes, period_ns: float, step: int) -> OneWay:
    """Return the one-way delays from the captures at both ends. Pure.

    A packet is due every `period_ns`; its number is `step` above that of the one before. Raises: InstrumentError if a
    capture is incomplete."""
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
    places = {number: place for place, number in enumerate(received_numbers.tolist())}
    received_at = np.array([place for place in map(places.get, numbers[timed].tolist()) if place is not None], np.int64)
    kept = timed & np.isin(numbers, received_numbers)
    if (arrived_ns[received_at] < left_ns[kept]).any():
        raise InstrumentError("packets arrived before they left: the clock was set meanwhile")
    return OneWay(due_ns[kept], left_ns[kept], arrived_ns[received_at], waits_ns, int(timed.sum() - kept.sum()))


def _times(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of each packet in a capture, and its nanoseconds. Raises: InstrumentError."""
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
