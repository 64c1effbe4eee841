"""A veth pair for each port, all on one Linux bridge: what Docker does by default."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments.base import Attachment, Segment, far_end

_BRIDGE = "hub-br"


class VethBridge(Attachment):
    name = "veth-bridge"
    summary = "a veth pair (a tap, for a virtual machine) for each port, joined by one Linux bridge"

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        # No spanning tree and no multicast snooping: the bridge has no loops, and forwards from the first packet on.
        lines = [
            f"link add name {_BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            f"link set {_BRIDGE} up",
        ]
        for segment in segments:
            for end, port in segment.ends():
                lines += [far_end(end, port), f"link set {end} master {_BRIDGE} up"]
        return lines
