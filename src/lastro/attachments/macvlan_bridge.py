"""Macvlan interfaces in bridge mode on one parent, which hand packets to each other in memory."""

from __future__ import annotations

from lastro.attachments._parent import ParentLinks
from lastro.testbed import IN_A_GUEST


class MacvlanBridge(ParentLinks):
    name = "macvlan-bridge"
    summary = "macvlan interfaces (macvtap, for a virtual machine) in bridge mode on one parent"
    remedy = f"use a kernel with macvlan, {IN_A_GUEST}"
    container, machine = "macvlan mode bridge", "macvtap mode bridge"
