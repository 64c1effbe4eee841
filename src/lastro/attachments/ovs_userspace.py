"""Open vSwitch with its datapath in user space, whatever the kernel has: to compare it with `ovs`."""

from __future__ import annotations

from lastro.attachments.ovs import Ovs


class OvsUserspace(Ovs):
    name = "ovs-userspace"
    summary = "an Open vSwitch bridge with the datapath in user space"
    datapaths = ("netdev",)
