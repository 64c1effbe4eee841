"""Macvlan interfaces in bridge mode on one parent, which hand packets to each other in memory."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments._parent import on_parent
from lastro.attachments.base import Attachment, Segment


class MacvlanBridge(Attachment):
    name = "macvlan-bridge"
    summary = "macvlan interfaces (macvtap, for a virtual machine) in bridge mode on one parent"
    tap_kind = "macvtap"
    remedy = "it needs a kernel with macvlan"

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        return on_parent(segments, "macvlan mode bridge", "macvtap mode bridge")
