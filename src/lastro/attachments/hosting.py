"""Access to instances inside the DUT from outside, over the links between the DUT and the other roles.

The instances share one network, whose first address belongs to the DUT. The other roles send all traffic that is not
for themselves to the DUT, which forwards it; the three-node testbed sets this up."""

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
    """An instance with its number, counted from 0, and the TCP port on which it listens."""

    number: int
    instance: Instance
    listens_at: int

    @property
    def address(self) -> str:
        return str(NETWORK[2 + self.number])

    @property
    def port(self) -> Port:
        """The interface of the instance, in the network of all instances; the DUT is its default gateway."""
        return Port(self.instance, PORT, f"{self.address}/{NETWORK.prefixlen}", (f"{_EVERYTHING} via {GATEWAY}",))

    @property
    def end(self) -> str:
        """The other end of the instance's link, in the DUT's namespace."""
        return f"hub-h{self.number}"


class HostingAttachment(ABC):
    """The part of an attachment that hosts instances. `outside` is the address of the DUT towards the clients.

    `inside_dut` is true if instances run in the namespace of the DUT and need no links. `own_dut` is true if each trial
    needs a new namespace for the DUT, since the attachment leaves rules in it. `lasting` names counters of objects that
    may exist before and after a load, such as connections that an instance keeps open."""

    inside_dut: ClassVar[bool] = False
    own_dut: ClassVar[bool] = False
    lasting: ClassVar[frozenset[str]] = frozenset()

    @contextmanager
    def base_network(self, testbed: Testbed, platform: Platform) -> Iterator[None]:
        """Set up what the instances share, inside the block.

        Raises: Unavailable if instances of the platform cannot be hosted in this way."""
        yield

    def announced(self, spec: InstanceSpec, number: int, inside: int, outside: str) -> InstanceSpec:
        """Return the specification of instance `number` with what must be known at its start, such as a published port.

        `inside` is the TCP port on which the instance will listen."""
        return spec

    @contextmanager
    def hosted(self, testbed: Testbed, instances: Sequence[HostedInstance], outside: str) -> Iterator[None]:
        """Connect these instances inside the block, in which their links are configured and up.

        Other instances may already be connected. Raises: PlatformError when a link does not come up."""
        with made(testbed, testbed.dut, [line for each in instances for line in self.compile_hosted(each)]):
            self.publish(testbed, instances, outside)
            for each in instances:
                each.instance.plug([each.port], {PORT: Tap(each.end)} if each.instance.takes_taps else {})
            for each in instances:
                each.instance.ready()
            yield

    @abstractmethod
    def compile_hosted(self, hosted: HostedInstance) -> list[str]:
        """Return lines for `ip -batch` in the DUT's namespace that make an instance's link, and the route to it."""

    def publish(self, testbed: Testbed, instances: Sequence[HostedInstance], outside: str) -> None:  # noqa: B027 - few need it
        """Make instances reachable from outside, such as at published ports of the DUT; by default, do nothing."""

    def endpoint(self, hosted: HostedInstance, outside: str) -> tuple[str, int]:
        """Return the address and the TCP port at which an instance is reached from outside."""
        return hosted.address, hosted.listens_at

    def seen_as(self, hosted: HostedInstance, outward: str) -> str:
        """Return the source address that servers see when an instance connects; `outward` is the DUT's towards them."""
        return hosted.address

    def carried(self, testbed: Testbed) -> dict[str, int]:
        """Return counters of forwarded traffic: each must move with every load, `lasting` ones since `base_network`."""
        return {}
