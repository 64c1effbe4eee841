"""One veth pair straight between two instances: no bridge, no way out, the fewest steps that a packet can take."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments.base import Attachment, Segment


class VethDirect(Attachment):
    name = "veth-direct"
    summary = "a veth pair straight between two instances"

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        return [
            f"link add name {a.name} netns {a.netns} type veth peer name {b.name} netns {b.netns}"
            for a, b in (segment.ports for segment in segments)
        ]
