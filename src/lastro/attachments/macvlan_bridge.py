"""Macvlan interfaces in bridge mode on one parent, which hand packets to each other in memory."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments._parent import on_parent
from lastro.attachments.base import Attachment, Segment
from lastro.testbed import IN_A_GUEST


class MacvlanBridge(Attachment):
    name = "macvlan-bridge"
    summary = "macvlan interfaces (macvtap, for a virtual machine) in bridge mode on one parent"
    tap_kind = "macvtap"
    remedy = f"use a kernel with macvlan, {IN_A_GUEST}"

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        return on_parent(segments, "macvlan mode bridge", "macvtap mode bridge")
