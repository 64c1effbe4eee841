"""Ipvlan interfaces in L2 mode on one parent: all share its MAC address, and differ in their IP addresses.

Tested in a guest: the kernel of the development host has no ipvlan. Source: the kernel's networking/ipvlan.rst."""

from __future__ import annotations

from collections.abc import Sequence

from lastro.attachments._parent import member_on_parent, on_parent
from lastro.attachments.base import BatchLinks, Segment
from lastro.platforms.base import Port
from lastro.testbed import IN_A_GUEST


class Ipvlan(BatchLinks):
    name = "ipvlan"
    summary = "ipvlan interfaces (ipvtap, for a virtual machine) in L2 mode on one parent; for end points only"
    tap_kind = "macvtap"  # an ipvtap is opened in the same way
    remedy = f"use a kernel with ipvlan, {IN_A_GUEST}"
    no_transit = "ipvlan delivers a packet to the instance with its destination address, so no instance can forward it"

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        return on_parent(segments, "ipvlan mode l2", "ipvtap mode l2")

    def compile_member(self, segments: Sequence[Segment], port: Port) -> list[str]:
        return member_on_parent(port, "ipvlan mode l2")
