"""How instances inside the DUT are reached from outside, over the DUT's own links to the other roles.

The instances have addresses of one network, whose first is the DUT's. The other roles send all that is not theirs to
the DUT, and the DUT forwards: the line of roles has seen to both."""

from __future__ import annotations

import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from lastro.attachments.base import made
from lastro.platforms.base import Instance, Port, Tap
from lastro.testbed import Testbed

NETWORK = ipaddress.IPv4Network("198.18.64.0/18")
GATEWAY = str(NETWORK[1])
PORT = "eth0"  # of an instance
_EVERYTHING = "198.18.0.0/15"


@dataclass(frozen=True, slots=True)
class Hosted:
    """An instance by its number, from 0, and the TCP port at which it listens."""

    number: int
    instance: Instance
    listens_at: int

    @property
    def address(self) -> str:
        return str(NETWORK[2 + self.number])

    @property
    def port(self) -> Port:
        """Its interface: in the network of all, with the DUT as the way to anywhere else."""
        return Port(self.instance, PORT, f"{self.address}/{NETWORK.prefixlen}", (f"{_EVERYTHING} via {GATEWAY}",))

    @property
    def end(self) -> str:
        """The other end of its link, in the DUT's namespace."""
        return f"hub-h{self.number}"


class Hosting(ABC):
    """What an attachment adds that can host. `outside` is the DUT's address towards those who ask.

    `inside_dut`: instances live in the DUT's own namespace, and need no links. `lasting`: counters of what may be there

    before a load begins and outlast it, such as connections that an instance keeps to others."""

    inside_dut: ClassVar[bool] = False
    lasting: ClassVar[frozenset[str]] = frozenset()

    @contextmanager
    def ground(self, testbed: Testbed) -> Iterator[None]:
        """What is there once, for any number of instances."""
        yield

    @contextmanager
    def hosted(self, testbed: Testbed, instances: Sequence[Hosted], outside: str) -> Iterator[None]:
        """Links of these instances, up and configured, for as long as the block lasts; others may have theirs.

        Raises: PlatformError when one does not come up."""
        with made(testbed, testbed.dut, [line for each in instances for line in self.compile_hosted(each)]):
            self.publish(testbed, instances, outside)
            for each in instances:
                each.instance.plug([each.port], {PORT: Tap(each.end)} if each.instance.takes_taps else {})
            for each in instances:
                each.instance.ready()
            yield

    @abstractmethod
    def compile_hosted(self, hosted: Hosted) -> list[str]:
        """Lines for `ip -batch` in the DUT's namespace that make the link of an instance, and the way to it."""

    def publish(self, testbed: Testbed, instances: Sequence[Hosted], outside: str) -> None:  # noqa: B027 - few need it
        """Make instances known under other addresses than their own."""

    def endpoint(self, hosted: Hosted, outside: str) -> tuple[str, int]:
        """The address and the TCP port at which it is reached from outside."""
        return hosted.address, hosted.listens_at

    def seen_as(self, hosted: Hosted, outward: str) -> str:
        """The address as which others see it when it asks; `outward` is the DUT's own towards them."""
        return hosted.address

    def carried(self, testbed: Testbed) -> dict[str, int]:
        """Counters on the way to the instances: each must move with every load, the `lasting` ones since `ground`."""
        return {}
