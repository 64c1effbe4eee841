"""Macvlan interfaces in bridge mode on one parent, which hand packets to each other in memory."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments._parent import member_on_parent, on_parent
from lastro.attachments.base import BatchLinks, Segment
from lastro.platforms.base import Port
from lastro.testbed import IN_A_GUEST


class MacvlanBridge(BatchLinks):
    name = "macvlan-bridge"
    summary = "macvlan interfaces (macvtap, for a virtual machine) in bridge mode on one parent"
    tap_kind = "macvtap"
    remedy = f"use a kernel with macvlan, {IN_A_GUEST}"

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        return on_parent(segments, "macvlan mode bridge", "macvtap mode bridge")

    def compile_member(self, segments: Sequence[Segment], port: Port) -> list[str]:
        return member_on_parent(port, "macvlan mode bridge")
