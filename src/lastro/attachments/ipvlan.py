"""Ipvlan interfaces in L2 mode on one parent: all share its MAC address, and differ in their IP addresses.

Tested in a guest: the kernel of the development host has no ipvlan. Source: the kernel's networking/ipvlan.rst."""

from __future__ import annotations

from lastro.attachments._parent import ParentLinks
from lastro.testbed import IN_A_GUEST


class Ipvlan(ParentLinks):
    name = "ipvlan"
    summary = "ipvlan interfaces (ipvtap, for a virtual machine) in L2 mode on one parent; for end points only"
    remedy = f"use a kernel with ipvlan, {IN_A_GUEST}"
    no_transit = "ipvlan delivers a packet to the instance with its destination address, so no instance can forward it"
    container, machine = "ipvlan mode l2", "ipvtap mode l2"  # an ipvtap is opened as a macvtap is
