"""An attachment joins ports of instances into segments. A topology compiles to one batch for `ip` per namespace."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import ClassVar

from lastro.errors import LastroError
from lastro.platforms.base import (
    AVAILABLE,
    Availability,
    Instance,
    InstanceSpec,
    Platform,
    Port,
    Tap,
    start_all,
    unavailable,
)
from lastro.testbed import Testbed

_SIDES = "ab"


@dataclass(frozen=True, slots=True)
class Segment:
    """A link between two ports; `name` is short and unique in a topology."""

    name: str
    ports: tuple[Port, Port]

    def ends(self) -> list[tuple[str, Port]]:
        """Each port with the name of its link's other end in the DUT's namespace."""
        return [(f"hub-{self.name}{side}", port) for side, port in zip(_SIDES, self.ports, strict=True)]


class Attachment(ABC):
    """`name` and `summary` as for every part; `compile` is all that a new one has to say."""

    kind = "attachment"
    name: ClassVar[str]
    summary: ClassVar[str]
    tap_kind: ClassVar[str] = "tap"  # what a virtual machine opens

    @abstractmethod
    def compile(self, segments: Sequence[Segment]) -> list[str]:
        """Lines for `ip -batch` inside the DUT's namespace that make every port of every segment.

        A port is made with its final name, in its own namespace; addresses and state are set afterwards. The port of
        an instance that takes taps ends in the DUT's namespace, in a device named as `Segment.ends` says."""

    def compile_tc(self, segments: Sequence[Segment]) -> list[str]:
        """Lines for `tc -batch` inside the DUT's namespace, run after those of `compile`."""
        return []

    @contextmanager
    def connect(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        """Links with their addresses, up for as long as the block lasts."""
        lines = self.compile(segments)
        try:
            batch(testbed, testbed.dut, lines)
            if tc := self.compile_tc(segments):
                testbed.host.run(["tc", "-n", testbed.dut, "-batch", "-"], stdin="\n".join(tc) + "\n")
            self.plug(segments)
            yield
        finally:
            _remove(testbed, lines)

    def plug(self, segments: Sequence[Segment]) -> None:
        """Hand every instance its links, and wait until all of them run."""
        ends = [(end, port) for segment in segments for end, port in segment.ends()]
        instances: dict[int, Instance] = {id(port.instance): port.instance for _, port in ends}
        for instance in instances.values():
            own = [(end, port) for end, port in ends if port.instance is instance]
            taps = {port.name: Tap(end, self.tap_kind) for end, port in own} if instance.takes_taps else {}
            instance.plug([port for _, port in own], taps)
        for instance in instances.values():
            instance.ready()

    def probe(self, testbed: Testbed, platform: Platform) -> Availability:
        """Join two instances and send a ping across. The platform is prepared."""
        specs = [InstanceSpec(name=f"probe-{end}", role="probe", ports=("eth0",)) for end in _SIDES]
        try:
            with ExitStack() as stack:
                a, b = start_all(stack, platform, testbed, specs)
                ends = (Port(a, "eth0", "198.18.255.1/24"), Port(b, "eth0", "198.18.255.2/24"))
                stack.enter_context(self.connect(testbed, [Segment("p", ends)]))
                a.run(["ping", "-c", "1", "-W", "2", "198.18.255.2"])
        except LastroError as error:
            return unavailable(error)
        return AVAILABLE


def far_end(end: str, port: Port) -> str:
    """The line that makes `end` in the DUT's namespace: a tap, or a veth whose other end is the port."""
    if port.instance.takes_taps:
        return f"tuntap add dev {end} mode tap"
    return f"link add name {end} type veth peer name {port.name} netns {port.netns}"


def _remove(testbed: Testbed, lines: Sequence[str]) -> None:
    """Undo a batch: each link that it has named first, in the namespace where that lies; others go with those."""
    pattern = r"(?:link add name|tuntap add dev) (\S+)(?: netns (\S+))?"
    made = [match for line in lines if (match := re.match(pattern, line))]
    for netns in dict.fromkeys(match[2] for match in made):
        removal = "".join(f"link del dev {match[1]}\n" for match in made if match[2] == netns)
        testbed.host.run(["ip", "-force", "-n", netns or testbed.dut, "-batch", "-"], stdin=removal, check=False)


def batch(testbed: Testbed, netns: str, lines: Sequence[str]) -> None:
    """Run lines of `ip` inside a named namespace, in one process."""
    if lines:
        testbed.host.run(["ip", "-n", netns, "-batch", "-"], stdin="\n".join(lines) + "\n")
