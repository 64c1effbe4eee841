"""Podman's own networks: its bridges and its rules, by CNI plug-ins or by netavark, as the platform's option says.

It publishes ports by rules alone, without a process for each. Frames that cross its bridges pass no rules: unlike
Docker, Podman does not load the kernel module br_netfilter. Tested with Podman 4.3, CNI plug-ins 1.1 and netavark 1.4.
Where netavark makes rules of nftables, no counter of iptables moves, so trials with published ports are invalid."""

from __future__ import annotations

from lastro.attachments._own_network import OwnNetwork
from lastro.platforms.podman import Podman


class PodmanNat(OwnNetwork):
    name = "podman-nat"
    summary = "Podman's own networks: its bridges and rules, and published ports; for instances of Podman only"
    platform, title = Podman, "Podman"
