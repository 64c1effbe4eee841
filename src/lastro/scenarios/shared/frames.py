"""The frames that the function of a chain receives: their mean size, against the MTU of its link.

Links with offloads hand over segments of up to 64 kB. A function then does its work for a packet once for each segment,
although a wire would have carried the segment as dozens of frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lastro.functions.base import HEADER_BYTES, PASSED, TO_KERNEL, CounterReading
from lastro.meters.interfaces import InterfaceMeter
from lastro.results.samples import LARGE_SEGMENTS, Metric, Outcome, Remark
from lastro.scenarios.shared.chain import Chain
from lastro.study.model import Setting

FRAME_SIZE = Metric(
    "frame_size", "B", "neither", "mean size of the frames that the function received during the TCP measurement"
)
KERNEL, OFF = "kernel", "off"
OFFLOADS = Setting(
    "offloads",
    KERNEL,
    "segmentation and checksum offloads of the links: the kernel's, or off, so that no frame exceeds the MTU",
    choices=(KERNEL, OFF),
)


@dataclass(frozen=True, slots=True)
class Frames:
    """The mean size of frames in bytes, with Ethernet headers: on the function's link, and inside the function.

    A kernel may merge frames that arrived one by one (GRO), so `inside` may be larger than `on_link`. It is 0 if
    nothing counts packets inside. `mtu` is that of the function's port."""

    on_link: float
    inside: float
    mtu: int

    @property
    def largest(self) -> float:
        return max(self.on_link, self.inside)

    @property
    def fit(self) -> bool:
        """Whether frames of the mean size fit the MTU."""
        return self.largest <= self.mtu + HEADER_BYTES


def frames_of(
    chain: Chain, meter: InterfaceMeter, counted: Mapping[str, CounterReading], *, mixed: bool = False
) -> Frames | None:
    """Return the mean sizes of the frames that arrived at the function's inside port; None if they are unknown.

    `meter` and `counted` have the increases of the interfaces' and of the function's own counters over the same time.
    With `mixed`, the port also received other traffic. Then only `counted` shows the size of the flow's frames, and
    None is returned without it."""
    port = f"function.{chain.path.inside}"
    moved = meter.moved.get(port)
    if not moved or not moved["rx_packets"]:
        return None
    crossed = counted.get("crossed", CounterReading(0, 0))
    inside = crossed.bytes / crossed.packets + HEADER_BYTES if crossed.packets else 0.0
    if mixed and not inside:
        return None
    passed = counted.get(PASSED, CounterReading(0, 0))  # with headers, which a veth does not count for a program
    arrived = passed if passed.packets else CounterReading(moved["rx_packets"], moved["rx_bytes"])
    by_program = TO_KERNEL in counted  # which forwards frames as they arrived, and a veth does not count their headers
    on_link = inside if inside and (mixed or by_program) else arrived.bytes / arrived.packets
    return Frames(on_link, inside, meter.mtu[port])


def judge_frames(frames: Frames | None, chain: Chain, offloads: str, outcome: Outcome) -> None:
    """Add the mean size of frames to `outcome`, and judge it.

    If frames exceed the MTU, the trial is invalid if its offloads are off. If they are on, a caveat on the
    throughput is added for functions that work on each packet."""
    if frames is None:
        return
    outcome.measurements[FRAME_SIZE.name] = frames.on_link
    if frames.fit:
        return
    size = f"{frames.largest:.0f} B on average, with an MTU of {frames.mtu}"
    if offloads == OFF:
        outcome.invalidate([f"offloads are off, but the function received frames of {size}"])
    elif chain.function.per_packet:
        outcome.add_caveat(Remark(LARGE_SEGMENTS, f"the function received segments of {size}", ("throughput",)))
