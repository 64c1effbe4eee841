"""Macvtap links in bridge mode on one parent: the same kind of link for containers and virtual machines.

A virtual machine opens the character device of its link. A container uses the link as an ordinary interface: as long as
the device is not open, the kernel passes incoming packets to the network stack, as macvlan does."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments._parent import member_on_parent, on_parent
from lastro.attachments.base import BatchLinks, Segment
from lastro.platforms.base import Port
from lastro.testbed import IN_A_GUEST

_KIND = "macvtap mode bridge"


class Macvtap(BatchLinks):
    name = "macvtap"
    summary = "macvtap links in bridge mode on one parent, for containers and virtual machines"
    tap_kind = "macvtap"
    remedy = f"use a kernel with macvtap, {IN_A_GUEST}"

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        return on_parent(segments, _KIND, _KIND)

    def compile_member(self, segments: Sequence[Segment], port: Port) -> list[str]:
        return member_on_parent(port, _KIND)
