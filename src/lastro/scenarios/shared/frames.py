"""The frames that the function of a chain receives: their mean size, against the MTU of its link.

Links with offloads hand over segments of up to 64 kB. A function then does its work for a packet once for each segment,
although a wire would have carried the segment as dozens of frames."""

from __future__ import annotations

from dataclasses import dataclass

from lastro.functions.base import HEADER_BYTES, PASSED, TO_KERNEL, CounterReading, Readings
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

    A kernel may merge frames that arrived one by one (GRO), so `inside` may be larger than `on_link`; it is 0 if no
    counter counts packets inside. `mtu` is the MTU of the function's port."""

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


def frames_of(chain: Chain, meter: InterfaceMeter, counted: Readings, *, mixed: bool = False) -> Frames | None:
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
    # For frames that a program takes, a veth does not count the headers: use the counters of the program.
    passed = counted.get(PASSED, CounterReading(0, 0))
    is_forwarded_by_program = TO_KERNEL in counted  # as they arrived, so `inside` is their size on the link
    if inside and (mixed or is_forwarded_by_program):
        on_link = inside
    elif passed.packets:
        on_link = passed.bytes / passed.packets
    else:
        on_link = moved["rx_bytes"] / moved["rx_packets"]
    return Frames(on_link, inside, meter.mtu[port])


def judge_frames(frames: Frames | None, chain: Chain, offloads: str, outcome: Outcome) -> None:
    """Add the mean size of frames to `outcome`, and judge it.

    Frames that exceed the MTU make a trial invalid if its offloads are off. If offloads are on, a caveat on the
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
