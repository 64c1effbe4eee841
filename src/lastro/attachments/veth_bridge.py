"""A veth pair for each port, all on one Linux bridge: what Docker does by default."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments.base import Attachment, Segment, batch, far_end
from lastro.testbed import Testbed


class VethBridge(Attachment):
    name = "veth-bridge"
    summary = "a veth pair (a tap, for a virtual machine) for each port, joined by one Linux bridge"

    separable = True

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        # No spanning tree and no multicast snooping: the bridge has no loops, and forwards from the first packet on.
        lines = []
        for bridge, joined in self.switches(segments).items():
            lines += [
                f"link add name {bridge} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                f"link set {bridge} up",
            ]
            for segment in joined:
                for end, port in segment.ends():
                    lines += [far_end(end, port), f"link set {end} master {bridge} up"]
        return lines

    def unplug(self, testbed: Testbed, segments: Sequence[Segment]) -> None:
        batch(testbed, testbed.dut, [f"link set {end} nomaster" for each in segments for end, _ in each.ends()])

    def replug(self, testbed: Testbed, segments: Sequence[Segment]) -> None:
        plugged = self.switches(segments).items()
        ends = [(end, bridge) for bridge, joined in plugged for each in joined for end, _ in each.ends()]
        batch(testbed, testbed.dut, [f"link set {end} master {bridge}" for end, bridge in ends])
