"""Macvtap links in bridge mode on one parent, for everybody: the same kind of link under containers and machines.

A machine opens the character device of its link. A container has the link as an ordinary interface: as long as nobody
opens the device, the kernel hands what arrives to the network stack, as macvlan does."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments._parent import on_parent
from lastro.attachments.base import Attachment, Segment

_KIND = "macvtap mode bridge"


class Macvtap(Attachment):
    name = "macvtap"
    summary = "macvtap links in bridge mode on one parent, for containers as for virtual machines"
    tap_kind = "macvtap"
    remedy = "it needs a kernel with macvtap"

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        return on_parent(segments, _KIND, _KIND)
