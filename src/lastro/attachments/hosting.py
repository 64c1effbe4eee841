"""Access to instances inside the DUT from outside, over the links between the DUT and the other roles.

The instances share one network, whose first address belongs to the DUT. The other roles send all traffic to others by
way of the DUT, which forwards it; the three-node testbed sets this up."""

from __future__ import annotations

import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from lastro.attachments.base import made
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port, Tap
from lastro.testbed import Testbed

NETWORK = ipaddress.IPv4Network("198.18.64.0/18")
GATEWAY = str(NETWORK[1])
PORT = "eth0"  # the interface of an instance
_EVERYTHING = "198.18.0.0/15"


@dataclass(frozen=True, slots=True)
class HostedInstance:
    """An instance that the DUT hosts. `number` counts instances from 0; `listens_at` is the instance's TCP port."""

    number: int
    instance: Instance
    listens_at: int

    @property
    def address(self) -> str:
        return str(NETWORK[2 + self.number])

    @property
    def port(self) -> Port:
        """The instance's interface, with its address in the network of all instances; its gateway is the DUT."""
        return Port(self.instance, PORT, f"{self.address}/{NETWORK.prefixlen}", (f"{_EVERYTHING} via {GATEWAY}",))

    @property
    def end(self) -> str:
        """The name of the other end of the instance's link, in the DUT's namespace."""
        return f"hub-h{self.number}"


class HostingAttachment(ABC):
    """The part of an attachment that hosts instances. `outside` is the address of the DUT towards the clients."""

    inside_dut: ClassVar[bool] = False  # instances run in the namespace of the DUT and need no links
    own_dut: ClassVar[bool] = False  # each trial needs a new namespace for the DUT, since rules are left in it
    # The counters that a load need not increase: the connections that they count may have been open before it.
    lasting: ClassVar[frozenset[str]] = frozenset()

    @contextmanager
    def base_network(self, testbed: Testbed, platform: Platform) -> Iterator[None]:
        """Set up, inside the block, what instances share: a bridge, for example.

        Raises: Unavailable if the platform's instances cannot be on it."""
        yield

    def published_spec(self, spec: InstanceSpec, number: int, inside: int, outside: str) -> InstanceSpec:
        """Return `spec` with what the platform must know when it starts the instance, such as a published port.

        `number` is that of the instance, and `inside` the TCP port on which it will listen."""
        return spec

    @contextmanager
    def hosted(self, testbed: Testbed, instances: Sequence[HostedInstance], outside: str) -> Iterator[None]:
        """Connect `instances` inside the block. When it begins, their links are configured and up.

        Other instances may already be connected. Raises: PlatformError when a link does not come up."""
        with made(testbed, testbed.dut, [line for hosted in instances for line in self.compile_hosted(hosted)]):
            self.publish(testbed, instances, outside)
            for hosted in instances:
                taps = {PORT: Tap(hosted.end)} if hosted.instance.takes_taps else {}
                hosted.instance.plug([hosted.port], taps)
            for hosted in instances:
                hosted.instance.ready()
            yield

    @abstractmethod
    def compile_hosted(self, hosted: HostedInstance) -> list[str]:
        """Return the `ip -batch` commands, for the DUT's namespace, that make an instance's link and route."""

    def publish(self, testbed: Testbed, instances: Sequence[HostedInstance], outside: str) -> None:  # noqa: B027 - few need it
        """Make instances reachable from outside, such as at published ports of the DUT; by default, do nothing."""

    def endpoint(self, hosted: HostedInstance, outside: str) -> tuple[str, int]:
        """Return the (address, TCP port) at which clients reach an instance."""
        return hosted.address, hosted.listens_at

    def seen_as(self, hosted: HostedInstance, outward: str) -> str:
        """Return the source address that servers see; `outward` is that of the DUT on its link to the servers."""
        return hosted.address

    def traffic_counters(self, testbed: Testbed) -> dict[str, int]:
        """Return counters of forwarded traffic by name; {} if there are none.

        Every load must increase each counter. A counter in `lasting` need only have increased since `base_network`."""
        return {}
