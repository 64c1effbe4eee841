"""Docker's default network: its own bridge, its chains of rules, and a docker-proxy for each published port.

`nat` resembles it, but uses a bridge and rules that Lastro makes, so it works on every platform."""

from __future__ import annotations

from lastro.attachments._own_network import OwnNetwork
from lastro.platforms.docker import Docker


class DockerNat(OwnNetwork):
    name = "docker-nat"
    summary = "Docker's own bridge, rules and docker-proxy, with published ports; for instances of Docker only"
    platform, title = Docker, "Docker"
