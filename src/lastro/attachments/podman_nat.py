"""Podman's own network: its bridge and its rules, by CNI plug-ins or by netavark, whichever Podman has here.

It publishes ports by rules alone, without a process for each. Tested with Podman 4.3 and CNI plug-ins. Where netavark
makes rules of nftables, no counter of iptables moves, so trials are invalid."""

from __future__ import annotations

from lastro.attachments._own_network import OwnNetwork
from lastro.platforms.podman import Podman


class PodmanNat(OwnNetwork):
    name = "podman-nat"
    summary = "Podman's own bridge and rules, with published ports; for instances of Podman only"
    platform, title = Podman, "Podman"
