"""Open vSwitch with the datapath in user space even if the kernel has one, for comparison with `ovs`."""

from __future__ import annotations

from lastro.attachments.ovs import Ovs


class OvsUserspace(Ovs):
    name = "ovs-userspace"
    summary = "an Open vSwitch bridge with the datapath in user space"
    datapaths = ("netdev",)
