"""Macvlan interfaces in bridge mode on one parent, which hand packets to each other in memory.

The parent is one end of a veth pair, so that no network card of the host is touched."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments.base import Attachment, Segment
from lastro.platforms.base import Port


class MacvlanBridge(Attachment):
    name = "macvlan-bridge"
    summary = "macvlan interfaces (macvtap, for a virtual machine) in bridge mode on one parent"
    tap_kind = "macvtap"

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        parent = [
            "link add name hub-parent type veth peer name hub-peer",
            "link set hub-parent up",
            "link set hub-peer up",
        ]
        return parent + [line for segment in segments for end, port in segment.ends() for line in _port(end, port)]


def _port(end: str, port: Port) -> list[str]:
    if port.instance.takes_taps:
        return [f"link add link hub-parent name {end} type macvtap mode bridge", f"link set {end} up"]
    return [f"link add link hub-parent name {port.name} netns {port.netns} type macvlan mode bridge"]
