"""Macvlan interfaces in bridge mode on one parent, which hand packets to each other in memory.

The parent is one end of a veth pair, so that no network card of the host is touched."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments.base import Attachment, Segment


class MacvlanBridge(Attachment):
    name = "macvlan-bridge"
    summary = "macvlan interfaces in bridge mode on one parent"

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        parent = [
            "link add name hub-parent type veth peer name hub-peer",
            "link set hub-parent up",
            "link set hub-peer up",
        ]
        return parent + [
            f"link add link hub-parent name {port.name} netns {port.netns} type macvlan mode bridge"
            for segment in segments
            for port in segment.ports
        ]
