"""Docker's own networks: its bridges, its chains of rules, and a docker-proxy for each published port.

`nat` resembles its default network, but uses a bridge and rules that Lastro makes, so it works on every platform.

dockerd loads the kernel module br_netfilter. With it, each frame that crosses a bridge passes the rules of iptables,
also those for forwarding. Source: libnetwork/drivers/bridge/bridge.go in github.com/moby/moby."""

from __future__ import annotations

import re

from lastro.attachments._own_network import OwnNetwork
from lastro.platforms.docker import Docker


class DockerNat(OwnNetwork):
    name = "docker-nat"
    summary = "Docker's own networks: its bridges and rules, and published ports; for instances of Docker only"
    platform, title = Docker, "Docker"
    passed = re.compile(r"^\[(\d+):\d+\] -A FORWARD -j DOCKER-USER$", re.MULTILINE)
