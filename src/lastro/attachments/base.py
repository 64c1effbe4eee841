"""Attachments join ports of instances into segments; most are `BatchLinks`, made by one `ip` batch per namespace."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from lastro.attachments._offloads import links_made_by, switch_off, switch_off_script
from lastro.errors import LastroError, Unavailable
from lastro.grouping import by_key
from lastro.platforms.base import AVAILABLE, Availability, Instance, InstanceSpec, Platform, Port, Tap, start_all
from lastro.study.levels import join_options
from lastro.study.parts import Part
from lastro.testbed import Testbed

_SIDES = "ab"
MEMBER_END = "hub-member"  # the other end of a third port, in the DUT's namespace
_GROUP = 198  # of devices that are removed together: the kernel then waits once for all of them
_PROBE_S = "3"  # time for one reply: a busy host may lose the first packet


@dataclass(frozen=True, slots=True)
class Segment:
    """A link between two ports."""

    name: str  # short and unique in a topology
    ports: tuple[Port, Port]
    offloads: bool = True  # if false, each device segments packets and computes checksums itself, if it can

    def ends(self) -> list[tuple[str, Port]]:
        """Return (name of the link's other end in the DUT's namespace, port) for both ports."""
        return [(f"hub-{self.name}{side}", port) for side, port in zip(_SIDES, self.ports, strict=True)]


class Attachment(Part):
    """The links between instances; a new attachment defines `name` and `summary`, like every part, and `laid`.

    `laid` may make the links in any way: by `ip`, as `BatchLinks` do, by a daemon, or by a CNI plug-in."""

    kind = "attachment"
    tap_kind: ClassVar[str] = "tap"  # the device that a virtual machine opens
    remedy: ClassVar[str | None] = None  # what to do on a host that cannot provide the attachment
    no_transit: ClassVar[str | None] = None  # why an instance cannot forward packets over these links; None: it can
    # If set, each link ends at a device of the DUT, named as in `Segment.ends`, with this prefix.
    router_prefix: ClassVar[str | None] = None
    # One switch for each link, and all links made and removed together; only for `SeparableLinks`.
    separated: bool = False
    # The links leave the host, so the sender's CPU does not process packets on behalf of the receiver.
    wired: ClassVar[bool] = False
    # The platform makes the links: instances start inside `before_start`, with an `adapted_spec`.
    by_platform: ClassVar[bool] = False
    tap_offloads: bool = True  # whether a guest may leave checksums and segmentation to the reader of its tap
    own_cgroups: tuple[str, ...] = ()  # of daemons: their CPU time is a cost of the links, not foreign load
    node: Testbed | None = None  # where laid links end, by names of their own; None: in the DUT, as in `Segment.ends`

    @property
    def level(self) -> str:
        """The name with the chosen options, as a study writes it; options with their default are left out."""
        usual = {option.name: option.default for option in self.options}
        changed = [f"{name}={value}" for name, value in self.chosen.items() if value != usual[name]]
        return join_options(self.name, changed)

    @abstractmethod
    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> AbstractContextManager[None]:
        """Return a context in which the links and everything that joins them exist; its end removes them all.

        A port is made with its final name, in its own namespace; addresses and state are set afterwards. For an
        instance that takes taps, only the device in the DUT's namespace is made, named as in `Segment.ends`.
        Raises: Unavailable for instances or segments that such links cannot join."""

    def switch_offloads_off(self, testbed: Testbed, segments: Sequence[Segment]) -> None:
        """Switch off the offloads of laid links, as far as possible. Raises: Unavailable if the devices are unknown."""
        raise Unavailable(f"the devices of {self.name} are not known to Lastro", 'measure with offloads = "kernel"')

    @contextmanager
    def prepare(self, testbed: Testbed) -> Iterator[None]:
        """Provide, inside the block, what the links of many trials share, such as a daemon."""
        yield

    @contextmanager
    def before_start(self, testbed: Testbed, platforms: Sequence[Platform]) -> Iterator[None]:
        """Provide, inside the block, what must exist before the instances of a trial start. The default does nothing.

        `platforms` are those of the instances. Raises: Unavailable if the links cannot join their instances."""
        yield

    def adapted_spec(self, spec: InstanceSpec, platform: Platform) -> InstanceSpec:
        """Return `spec` with what the platform must know about the links when it starts the instance."""
        return spec

    @contextmanager
    def connect(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        """Make links, and configure their addresses in the instances, inside the block. Call `prepare` before."""
        with self.laid(testbed, segments):
            plain = [segment for segment in segments if not segment.offloads]
            if plain:
                self.switch_offloads_off(testbed, plain)
            self.plug(segments)
            machine_ports = (port for segment in plain for port in segment.ports if port.instance.takes_taps)
            for ports in by_key((id(port.instance), port) for port in machine_ports).values():
                ports[0].instance.run(["sh", "-e"], stdin=switch_off_script([port.name for port in ports]))
            yield

    def plug(self, segments: Sequence[Segment]) -> None:
        """Hand every instance its links, and wait until all instances run."""
        instances: list[Instance] = []
        all_ends = [end_and_port for segment in segments for end_and_port in segment.ends()]
        for ends in by_key((id(port.instance), (end, port)) for end, port in all_ends).values():
            ports, taps = [port for _, port in ends], {}
            instance = ports[0].instance
            if instance.takes_taps:
                for end, port in ends:
                    swapping = self.swapping(instance.testbed, segments, end)
                    taps[port.name] = Tap(end, self.tap_kind, self.tap_offloads, swapping)
            instance.plug(ports, taps)
            instances.append(instance)
        for instance in instances:
            instance.ready()

    def swapping(
        self, testbed: Testbed, segments: Sequence[Segment], end: str
    ) -> Callable[[], AbstractContextManager[None]] | None:
        """Return a callable that makes a context in which another device may take the place and name of `end`.

        `end` is the end of a link in the DUT's namespace. Return None if another device may always do so."""
        return None

    def member(self, testbed: Testbed, segments: Sequence[Segment], port: Port) -> AbstractContextManager[None]:
        """Return a context in which `port` is also on the link of `segments[0]`. The segments must be connected.

        The port's instance must accept links after its start. Raises: Unavailable if such links have only two ends."""
        raise _no_third_end(self)

    def facts(self, testbed: Testbed) -> dict[str, Any]:
        """Return provenance that only this attachment has, such as the versions of its programs; {} if there is none.

        The attachment need not be prepared. Raises: Unavailable."""
        return {}

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        """Return, by name, differences from other links that the study did not choose, such as the underlay's MTU."""
        return {}

    def counters(self, testbed: Testbed) -> dict[str, int]:
        """Return counters by name that prove that packets crossed the attachment: every flow must increase each."""
        return {}

    def probe(self, testbed: Testbed, platform: Platform) -> Availability:
        """Return whether two instances that are connected reach each other by a ping. Both parts must be prepared."""
        if platform.sends_by_host:
            return Availability(
                f"an instance of {platform.name} sends by the host's own network here: no other instance can reach it",
                'use this level where the instance sends to its own host: scenario "uplink", `towards = "host"`',
            )
        specs = [InstanceSpec(name=f"probe-{end}", role="probe", ports=("eth0",)) for end in _SIDES]
        try:
            with ExitStack() as stack:
                stack.enter_context(self.before_start(testbed, [platform]))
                specs = [self.adapted_spec(spec, platform) for spec in specs]
                a, b = start_all(stack, platform, testbed, specs)
                ends = (Port(a, "eth0", "198.18.255.1/24"), Port(b, "eth0", "198.18.255.2/24"))
                stack.enter_context(self.connect(testbed, [Segment("p", ends)]))
                a.run(["ping", "-c", "1", "-w", _PROBE_S, "198.18.255.2"])
        except LastroError as error:
            return Availability(error.message, error.hint or self.remedy)
        return AVAILABLE


class BatchLinks(Attachment):
    """Links that batches for `ip` make; a new attachment defines `compile`."""

    @abstractmethod
    def compile(self, segments: Sequence[Segment]) -> list[str]:
        """Return the `ip -batch` commands, for the DUT's namespace, that make all ports as `laid` describes."""

    def batches(self, testbed: Testbed, segments: Sequence[Segment]) -> list[tuple[str, list[str]]]:
        """Return all `ip` batches that make the links, as pairs (namespace in which the batch runs, its commands)."""
        return [(testbed.dut, self.compile(segments))]

    @contextmanager
    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        with made(testbed, testbed.dut, self.compile(segments), at_once=self.separated):
            yield

    def switch_offloads_off(self, testbed: Testbed, segments: Sequence[Segment]) -> None:
        switch_off(testbed, links_made_by(self.batches(testbed, segments)))

    def compile_member(self, segments: Sequence[Segment], port: Port) -> list[str]:
        """Return the `ip -batch` commands that put `port` on the link of `segments[0]`, for `member`.

        The other end of the port, in the DUT's namespace, is named `MEMBER_END`."""
        raise _no_third_end(self)

    @contextmanager
    def member(self, testbed: Testbed, segments: Sequence[Segment], port: Port) -> Iterator[None]:
        with made(testbed, testbed.dut, self.compile_member(segments, port)):
            port.instance.plug([port], {})
            yield


def _no_third_end(links: Attachment) -> Unavailable:
    return Unavailable(
        f"a link of {links.name} has two ends, and no place for a third instance",
        'choose an attachment with a switch or a router, such as "veth-bridge"',
    )


def dut_end(end: str, port: Port) -> str:
    """Return the `ip` command that makes `end` in the DUT's namespace: a tap, or a veth whose other end is `port`."""
    if port.instance.takes_taps:
        return f"tuntap add dev {end} mode tap"
    return f"link add name {end} type veth peer name {port.name} netns {port.netns}"


@contextmanager
def made(testbed: Testbed, netns: str, lines: Sequence[str], *, at_once: bool = False) -> Iterator[None]:
    """Run the `ip` commands `lines` in the namespace `netns`, and remove what they made when the block ends.

    If `at_once` is true, `lines` must make links only, and one command for each namespace removes them."""
    lines = _with_group(lines) if at_once else list(lines)
    try:
        batch(testbed, netns, lines)
        yield
    finally:
        removals: dict[str, list[str]] = {}
        for line in lines:  # the kernel deletes the second end of a veth pair with the first
            if match := re.match(r"(?:link add name|tuntap add dev) (\S+)(?: netns (\S+))?", line):
                removals.setdefault(match[2] or netns, []).append(f"link del dev {match[1]}\n")
            elif line.startswith("rule add "):
                removals.setdefault(netns, []).append(f"rule del {line.removeprefix('rule add ')}\n")
        for removal_netns, commands in removals.items():
            text = f"link del group {_GROUP}\n" if at_once else "".join(commands)
            testbed.host.run(["ip", "-force", "-n", removal_netns, "-batch", "-"], stdin=text, check=False)


def _with_group(lines: Sequence[str]) -> list[str]:
    """Return the `ip` commands `lines`, changed so that each link that they make belongs to `_GROUP`."""
    grouped = []
    for line in lines:
        grouped.append(re.sub(r"^(link add name \S+(?: netns \S+)?)", rf"\1 group {_GROUP}", line))
        if match := re.match(r"tuntap add dev (\S+)", line):
            grouped.append(f"link set dev {match[1]} group {_GROUP}")
    return grouped


def batch(testbed: Testbed, netns: str, lines: Sequence[str]) -> None:
    """Run the `ip` commands `lines` in the namespace `netns`, in one process."""
    if lines:
        testbed.host.run(["ip", "-n", netns, "-batch", "-"], stdin="\n".join(lines) + "\n")
