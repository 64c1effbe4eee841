"""An attachment joins ports of instances into segments. A topology compiles to one batch for `ip` per namespace."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from lastro.errors import LastroError
from lastro.platforms.base import AVAILABLE, Availability, InstanceSpec, unavailable
from lastro.testbed import Testbed


@dataclass(frozen=True, slots=True)
class Port:
    """An interface `name` to be made in namespace `netns`, with an address in CIDR form."""

    netns: str
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A link between two ports; `name` is short and unique in a topology."""

    name: str
    ports: tuple[Port, Port]


class Attachment(ABC):
    """`name` and `summary` as for every part; `compile` is all that a new one has to say."""

    kind = "attachment"
    name: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def compile(self, segments: Sequence[Segment]) -> list[str]:
        """Lines for `ip -batch` inside the DUT's namespace that make every port of every segment.

        A port is made with its final name, in its own namespace; addresses and state are set afterwards."""

    @contextmanager
    def connect(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        """Links with their addresses, up for as long as the block lasts."""
        lines = self.compile(segments)
        try:
            batch(testbed, testbed.dut, lines)
            ports = [port for segment in segments for port in segment.ports]
            for netns in dict.fromkeys(port.netns for port in ports):
                batch(testbed, netns, [line for port in ports if port.netns == netns for line in _configure(port)])
            yield
        finally:
            _remove(testbed, lines)

    def probe(self, testbed: Testbed) -> Availability:
        """Join two namespaces and send a ping across."""
        from lastro.platforms.native import Native

        specs = [InstanceSpec(name=f"probe-{self.name}-{end}", role="probe") for end in ("a", "b")]
        platform = Native()
        try:
            with platform.start(testbed, specs[0]) as a, platform.start(testbed, specs[1]) as b:
                ends = (Port(a.netns, "eth0", "198.18.255.1/24"), Port(b.netns, "eth0", "198.18.255.2/24"))
                with self.connect(testbed, [Segment("p", ends)]):
                    a.run(["ping", "-c", "1", "-W", "2", "198.18.255.2"])
        except LastroError as error:
            return unavailable(error)
        return AVAILABLE


def _remove(testbed: Testbed, lines: Sequence[str]) -> None:
    """Undo a batch: each link that it has named first, in the namespace where that lies; others go with those."""
    made = [match for line in lines if (match := re.match(r"link add name (\S+)(?: netns (\S+))?", line))]
    for netns in dict.fromkeys(match[2] for match in made):
        removal = "".join(f"link del dev {match[1]}\n" for match in made if match[2] == netns)
        testbed.host.run(["ip", "-force", "-n", netns or testbed.dut, "-batch", "-"], stdin=removal, check=False)


def batch(testbed: Testbed, netns: str, lines: Sequence[str]) -> None:
    """Run lines of `ip` inside a named namespace, in one process."""
    if lines:
        testbed.host.run(["ip", "-n", netns, "-batch", "-"], stdin="\n".join(lines) + "\n")


def _configure(port: Port) -> list[str]:
    return [f"address add {port.address} dev {port.name}", f"link set {port.name} up"]
