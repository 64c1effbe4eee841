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
)
from lastro.requirements import NOTHING, Requirements
from lastro.testbed import Testbed

_SIDES = "ab"
_SWITCH = "hub-br"
_GROUP = 198  # of the devices that are removed together: the kernel waits once for all, not for each
_PROBE_S = "3"  # one answer within this time: a busy host may lose the first packet


@dataclass(frozen=True, slots=True)
class Segment:
    """A link between two ports; `name` is short and unique in a topology."""

    name: str
    ports: tuple[Port, Port]

    def ends(self) -> list[tuple[str, Port]]:
        """Each port with the name of its link's other end in the DUT's namespace."""
        return [(f"hub-{self.name}{side}", port) for side, port in zip(_SIDES, self.ports, strict=True)]


class Attachment(ABC):
    """`name` and `summary` as for every part; `compile` is all that a new one has to say.

    `remedy` is what to do on a host where it cannot be had. `no_transit` says why no instance can forward what comes
    to it over such links, where that is so. `router_prefix`: each port's link ends at a device of the DUT's, named as
    `Segment.ends` says but for this prefix, by which the DUT itself is reached. `separable`: it can give every segment
    a switch of its own, and does when `apart` is set."""

    kind = "attachment"
    name: ClassVar[str]
    summary: ClassVar[str]
    requirements: ClassVar[Requirements] = NOTHING  # of the host; `lastro setup` installs them
    tap_kind: ClassVar[str] = "tap"  # what a virtual machine opens
    remedy: ClassVar[str | None] = None
    no_transit: ClassVar[str | None] = None
    router_prefix: ClassVar[str | None] = None
    separable: ClassVar[bool] = False
    apart: bool = False
    tap_offloads: bool = True  # may a virtual machine leave checksums and segmentation to what reads its tap?
    own_cgroups: tuple[str, ...] = ()  # of daemons: what they use is the links' cost, not foreign load

    @abstractmethod
    def compile(self, segments: Sequence[Segment]) -> list[str]:
        """Lines for `ip -batch` inside the DUT's namespace that make every port of every segment.

        A port is made with its final name, in its own namespace; addresses and state are set afterwards. The port of
        an instance that takes taps ends in the DUT's namespace, in a device named as `Segment.ends` says."""

    def compile_tc(self, segments: Sequence[Segment]) -> list[str]:
        """Lines for `tc -batch` inside the DUT's namespace, run after those of `compile`."""
        return []

    def switches(self, segments: Sequence[Segment]) -> dict[str, list[Segment]]:
        """The segments on each switch, by its name."""
        return {f"br-{each.name}": [each] for each in segments} if self.apart else {_SWITCH: list(segments)}

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """What the links need once for many trials, such as a daemon."""
        yield

    @contextmanager
    def connect(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        """Links with their addresses, up for as long as the block lasts. The attachment is prepared."""
        with self.laid(testbed, segments):
            self.plug(segments)
            yield

    @contextmanager
    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        """The links, and all that joins them; the ports have no addresses yet."""
        with made(testbed, testbed.dut, self.compile(segments), at_once=self.apart):
            if tc := self.compile_tc(segments):
                testbed.host.run(["tc", "-n", testbed.dut, "-batch", "-"], stdin="\n".join(tc) + "\n")
            yield

    def plug(self, segments: Sequence[Segment]) -> None:
        """Hand every instance its links, and wait until all of them run."""
        ends = [(end, port) for segment in segments for end, port in segment.ends()]
        instances: dict[int, Instance] = {id(port.instance): port.instance for _, port in ends}
        for instance in instances.values():
            own = [(end, port) for end, port in ends if port.instance is instance]
            ends_taps = {port.name: Tap(end, self.tap_kind, self.tap_offloads) for end, port in own}
            taps = ends_taps if instance.takes_taps else {}
            instance.plug([port for _, port in own], taps)
        for instance in instances.values():
            instance.ready()

    # Failures of links that are apart

    def cut(self, testbed: Testbed, segments: Sequence[Segment], *, carrier: bool = False) -> None:
        """Cut links at once: what is sent is lost in silence, or else both ends see that the carrier is gone.

        A virtual machine's port has a carrier as long as the machine runs."""
        self._turn(testbed, segments, "down") if carrier else self.unplug(testbed, segments)

    def mend(self, testbed: Testbed, segments: Sequence[Segment], *, carrier: bool = False) -> None:
        """Undo `cut`, of the same links in the same way."""
        self._turn(testbed, segments, "up") if carrier else self.replug(testbed, segments)

    def unplug(self, testbed: Testbed, segments: Sequence[Segment]) -> None:
        """Take the far ends of links off their switches, and leave them up."""
        raise NotImplementedError

    def replug(self, testbed: Testbed, segments: Sequence[Segment]) -> None:
        raise NotImplementedError

    def _turn(self, testbed: Testbed, segments: Sequence[Segment], state: str) -> None:
        ends = [end for segment in segments for end, _ in segment.ends()]
        batch(testbed, testbed.dut, [f"link set {end} {state}" for end in ends])

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        """What differs with these links although the study holds it equal."""
        return {}

    def counters(self, testbed: Testbed) -> dict[str, int]:
        """What witnesses that packets go the way which the attachment promises: each must move with every flow."""
        return {}

    def probe(self, testbed: Testbed, platform: Platform) -> Availability:
        """Join two instances and send a ping across. Platform and attachment are prepared."""
        specs = [InstanceSpec(name=f"probe-{end}", role="probe", ports=("eth0",)) for end in _SIDES]
        try:
            with ExitStack() as stack:
                a, b = start_all(stack, platform, testbed, specs)
                ends = (Port(a, "eth0", "198.18.255.1/24"), Port(b, "eth0", "198.18.255.2/24"))
                stack.enter_context(self.connect(testbed, [Segment("p", ends)]))
                a.run(["ping", "-c", "1", "-w", _PROBE_S, "198.18.255.2"])
        except LastroError as error:
            return Availability(error.message, error.hint or self.remedy)
        return AVAILABLE


def far_end(end: str, port: Port) -> str:
    """The line that makes `end` in the DUT's namespace: a tap, or a veth whose other end is the port."""
    if port.instance.takes_taps:
        return f"tuntap add dev {end} mode tap"
    return f"link add name {end} type veth peer name {port.name} netns {port.netns}"


@contextmanager
def made(testbed: Testbed, netns: str, lines: Sequence[str], *, at_once: bool = False) -> Iterator[None]:
    """What a batch for `ip` inside a named namespace makes, for as long as the block lasts.

    `at_once`: it makes links alone, and they are removed together, one command for each namespace."""
    lines = _grouped(lines) if at_once else list(lines)
    try:
        batch(testbed, netns, lines)
        yield
    finally:
        _remove(testbed, netns, lines, at_once=at_once)


def _grouped(lines: Sequence[str]) -> list[str]:
    found = []
    for line in lines:
        found.append(re.sub(r"^(link add name \S+(?: netns \S+)?)", rf"\1 group {_GROUP}", line))
        if match := re.match(r"tuntap add dev (\S+)", line):
            found.append(f"link set dev {match[1]} group {_GROUP}")
    return found


def _remove(testbed: Testbed, netns: str, lines: Sequence[str], *, at_once: bool) -> None:
    """Undo a batch: each link and rule that it has named first; where a link lies elsewhere, there. Others go along."""
    undone: dict[str, list[str]] = {}
    for line in lines:
        if match := re.match(r"(?:link add name|tuntap add dev) (\S+)(?: netns (\S+))?", line):
            undone.setdefault(match[2] or netns, []).append(f"link del dev {match[1]}\n")
        elif line.startswith("rule add "):
            undone.setdefault(netns, []).append(f"rule del {line.removeprefix('rule add ')}\n")
    for place, removal in undone.items():
        text = f"link del group {_GROUP}\n" if at_once else "".join(removal)
        testbed.host.run(["ip", "-force", "-n", place, "-batch", "-"], stdin=text, check=False)


def batch(testbed: Testbed, netns: str, lines: Sequence[str]) -> None:
    """Run lines of `ip` inside a named namespace, in one process."""
    if lines:
        testbed.host.run(["ip", "-n", netns, "-batch", "-"], stdin="\n".join(lines) + "\n")
