"""Macvtap links in bridge mode on one parent: the same kind of link for containers and virtual machines.

A virtual machine opens the character device of its link. A container uses the link as an ordinary interface: as long as
the device is not open, the kernel passes incoming packets to the network stack, as macvlan does."""

from __future__ import annotations

from lastro.attachments._parent import ParentLinks
from lastro.testbed import IN_A_GUEST


class Macvtap(ParentLinks):
    name = "macvtap"
    summary = "macvtap links in bridge mode on one parent, for containers and virtual machines"
    remedy = f"use a kernel with macvtap, {IN_A_GUEST}"
    container, machine = "macvtap mode bridge", "macvtap mode bridge"
