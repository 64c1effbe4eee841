"""A hub: a bridge that learns no addresses, so every frame goes to every port. Replace the links and this line."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments.base import BatchLinks, Segment, dut_end


class MyPart(BatchLinks):
    name = "my-part"
    summary = "a veth pair (a tap, for a virtual machine) for each port, joined by a hub"

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        """Return the `ip -batch` commands that make these links. They run in the DUT's network namespace.

        Links that remain in that namespace have names that begin with `hub-`."""
        lines = [
            "link add name hub-br type bridge stp_state 0 forward_delay 0 mcast_snooping 0 ageing_time 0",
            "link set hub-br up",
        ]
        for segment in segments:
            for end, port in segment.ends():
                lines += [dut_end(end, port), f"link set {end} master hub-br up"]
        return lines
