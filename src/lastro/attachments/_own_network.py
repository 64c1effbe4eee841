"""The networks of a container platform: bridges and rules that the platform itself makes.

In a chain, each segment is a network, as `docker network create` makes it, and the platform connects its running
instances to it. An instance of another platform, such as the bare host, gets a veth pair whose other end is a port of
the network's bridge. In the scenario `proxy`, instances are on the platform's default network, with published ports.

The platform makes its rules when the network begins and whenever an instance starts. It leaves rules behind, and may
set the policy of forwarding to DROP. So they are in a namespace that ends with the trial."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from ipaddress import IPv4Interface
from typing import ClassVar

from lastro.attachments._offloads import switch_off
from lastro.attachments.base import MEMBER_END, Attachment, Segment, batch, dut_end, made
from lastro.attachments.hosting import GATEWAY, NETWORK, HostedInstance, HostingAttachment
from lastro.attachments.routing import forwarded_packets, inside
from lastro.errors import PlatformError, Unavailable
from lastro.platforms.base import InstanceSpec, Platform, Port
from lastro.platforms.container import OwnNetworks
from lastro.platforms.docker import Docker
from lastro.platforms.podman import Podman
from lastro.requirements import Requirements
from lastro.testbed import Testbed, set_sysctls, with_new_dut

_COUNTERS = {"DNAT": "published", "MASQUERADE": "translated"}  # by the target of a rule
_RULE = re.compile(r"^\[(\d+):\d+\] -A .* -j (DNAT|MASQUERADE)\b", re.MULTILINE)
_DEFAULT_GATEWAY = "198.19.255.1/24"  # of the default network, beside those of a chain
_FILTERS_FRAMES = "net.bridge.bridge-nf-call-iptables"


class OwnNetwork(HostingAttachment, Attachment):
    """The networks that a platform makes for its instances."""

    platform: ClassVar[type[Docker] | type[Podman]]
    title: ClassVar[str]  # the platform's name in messages
    # Matches, in the output of iptables-save, the rule that every packet between two instances passes, with its packet
    # count. None if the platform lets frames cross its bridges without rules.
    passed: ClassVar[re.Pattern[str] | None] = None
    requirements = Requirements(packages=("iptables",))
    own_dut = True
    by_platform = True
    lasting = frozenset({"translated"})  # counts connections, as with `nat`
    _networks: OwnNetworks | None = None  # inside `before_start`
    _filters: bool | None = None  # whether frames passed rules in the last chain; None before the first
    _made_by = ""  # what made the last networks

    # In a chain: a network for each segment

    @contextmanager
    def before_start(self, testbed: Testbed, platforms: Sequence[Platform]) -> Iterator[None]:
        """Let the platform make networks inside the block, in a namespace that stands for the instances' host."""
        own_platforms = {id(part): part for part in platforms if isinstance(part, self.platform)}
        if len(own_platforms) > 1:
            raise Unavailable(
                f"instances with different options of {self.platform.name} cannot share networks of {self.title}'s own",
                "name the same level of the platform for all of them",
            )
        platform = self._required(next(iter(own_platforms.values()), platforms[0]))
        with (
            with_new_dut(testbed, testbed.session.unique(self.platform.name)) as node,
            platform.own_network(node, _DEFAULT_GATEWAY, routed=True) as self._networks,
        ):
            self._made_by = self._networks.made_by
            if self.passed:
                set_sysctls(node.host, node.dut, {_FILTERS_FRAMES: "1"})
            self._filters = bool(self.passed) and _filters_frames(node)
            self.node = node
            try:
                yield
            finally:
                self.node = self._networks = None

    def _required(self, platform: Platform) -> Docker | Podman:
        """Return `platform` if it is the platform of these networks. Raises: Unavailable if it is another one."""
        if not isinstance(platform, self.platform):
            raise Unavailable(
                f"{platform.name} does not start instances on {self.title}'s own network",
                f'use it with the platform {self.platform.name}; otherwise choose "nat"',
            )
        return platform

    def adapted_spec(self, spec: InstanceSpec, platform: Platform) -> InstanceSpec:
        return replace(spec, own_network=isinstance(platform, self.platform))

    @contextmanager
    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        ports = [port for segment in segments for port in segment.ports]
        if any(":" in port.address for port in ports):
            raise Unavailable(f"{self.title}'s own networks are for IPv4 here", 'choose "veth-bridge" for IPv6')
        if any(port.instance.takes_taps for port in ports):
            raise Unavailable(f"{self.title}'s own networks have no taps for machines", 'choose "veth-bridge" for them')
        assert self._networks is not None, "start the instances inside `before_start`"
        for name in dict.fromkeys(port.instance.spec.name for port in ports if port.instance.spec.own_network):
            self._run_network("disconnect", self._networks.first, name)
        with ExitStack() as stack:
            for segment in segments:
                stack.enter_context(self._network(segment))
                by_platform = [port for port in segment.ports if port.instance.spec.own_network]
                for port in by_platform:  # before the others: Podman makes the bridge for its own first instance
                    stack.enter_context(self._connected(segment, port))
                for end, port in segment.ends():
                    if port not in by_platform:
                        stack.enter_context(self._on_bridge(segment, end, port))
            yield

    def _run_network(self, *words: str, check: bool = True) -> None:
        assert self.node is not None and self._networks is not None
        self.node.host.run([*self._networks.client, "network", *words], check=check)

    @contextmanager
    def _network(self, segment: Segment) -> Iterator[None]:
        """Keep the network of a segment inside the block."""
        subnet = IPv4Interface(segment.ports[0].address).network
        try:
            options = self._networks.options if self._networks else ()
            self._run_network("create", *options, f"--subnet={subnet}", f"--gateway={subnet[-2]}", _name(segment))
            yield
        finally:
            self._run_network("rm", _name(segment), check=False)

    @contextmanager
    def _connected(self, segment: Segment, port: Port) -> Iterator[None]:
        """Let the platform connect an instance inside the block, and give the interface the name of its port."""
        assert self.node is not None
        network = _name(segment)
        container = port.instance.spec.name
        host = self.node.host
        try:
            self._run_network("connect", f"--ip={port.ip}", network, container)
            given = _interface_with_address(self.node, port.netns, port.ip)
            rename = [f"link set {given} down", f"link set {given} name {port.name}"]
            batch(self.node, port.netns, [*rename, f"address flush dev {port.name}"])
            try:
                yield
            finally:  # the platform looks for the interface by the name that it gave
                restore = f"link set {port.name} down\nlink set {port.name} name {given}\n"
                host.run(["ip", "-n", port.netns, "-batch", "-"], stdin=restore, check=False)
        finally:
            self._run_network("disconnect", "--force", network, container, check=False)

    def _on_bridge(self, segment: Segment, end: str, port: Port) -> AbstractContextManager[None]:
        """Return a context in which a port's other end, `end`, is a port of the bridge of a segment's network."""
        assert self.node is not None
        gateway = IPv4Interface(segment.ports[0].address).network[-2]
        bridge = _interface_with_address(self.node, self.node.dut, str(gateway))
        return made(self.node, self.node.dut, [dut_end(end, port), f"link set {end} master {bridge} up"])

    @contextmanager
    def member(self, testbed: Testbed, segments: Sequence[Segment], port: Port) -> Iterator[None]:
        with self._on_bridge(segments[0], MEMBER_END, port):
            port.instance.plug([port], {})
            yield

    def switch_offloads_off(self, testbed: Testbed, segments: Sequence[Segment]) -> None:
        assert self.node is not None, "lay the links first"
        shown = testbed.host.run_json(["ip", "-n", self.node.dut, "-j", "link", "show"])
        links = {self.node.dut: [link["ifname"] for link in shown if link["ifname"] != "lo"]}
        for port in (port for segment in segments for port in segment.ports):
            links.setdefault(port.netns, []).append(port.name)
        switch_off(testbed, links)

    def counters(self, testbed: Testbed) -> dict[str, int]:
        """Return how many packets on bridges passed the platform's rules (`filtered`); {} if no packet has to."""
        if not (self.node and self.passed and self._filters):
            return {}
        saved = inside(self.node, ["iptables-save", "--counters", "--table", "filter"])
        return {"filtered": sum(map(int, self.passed.findall(saved)))}

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        found = {"made by": self._made_by} if self._made_by else {}
        if self._filters is not None:
            found["frames on its bridges"] = f"pass {self.title}'s rules" if self._filters else "pass no rules"
        return found

    # Hosting: the default network, with a published port for each instance

    @contextmanager
    def base_network(self, testbed: Testbed, platform: Platform) -> Iterator[None]:
        with self._required(platform).own_network(testbed, f"{GATEWAY}/{NETWORK.prefixlen}") as networks:
            self._made_by = networks.made_by
            yield

    def published_spec(self, spec: InstanceSpec, number: int, inside: int, outside: str) -> InstanceSpec:
        return replace(spec, own_network=True, published=f"{outside}:{inside + number}:{inside}")

    @contextmanager
    def hosted(self, testbed: Testbed, instances: Sequence[HostedInstance], outside: str) -> Iterator[None]:
        yield  # the platform has connected the instances, and given each the next free address

    def compile_hosted(self, hosted: HostedInstance) -> list[str]:
        return []

    def endpoint(self, hosted: HostedInstance, outside: str) -> tuple[str, int]:
        return outside, hosted.listens_at + hosted.number

    def seen_as(self, hosted: HostedInstance, outward: str) -> str:
        return outward

    def traffic_counters(self, testbed: Testbed) -> dict[str, int]:
        """Return how many packets were `routed`, and how many connections were `published` or `translated`.

        The last two count the matches of the platform's DNAT and MASQUERADE rules."""
        counts = dict.fromkeys(_COUNTERS.values(), 0)
        for packets, target in _RULE.findall(inside(testbed, ["iptables-save", "--counters", "--table", "nat"])):
            counts[_COUNTERS[target]] += int(packets)
        return {"routed": forwarded_packets(testbed), **counts}


def _name(segment: Segment) -> str:
    """Return the name of a segment's network, which is unique among those of a private daemon."""
    return f"lastro-{segment.name}"


def _interface_with_address(testbed: Testbed, netns: str, address: str) -> str:
    """Return the name of the interface with an address in a network namespace. Raises: PlatformError without one."""
    shown = testbed.host.run_json(["ip", "-n", netns, "-j", "address", "show", "to", f"{address}/32"])
    for interface in shown:
        if name := interface.get("ifname"):
            return str(name)
    raise PlatformError(f"no interface got the address {address}")


def _filters_frames(testbed: Testbed) -> bool:
    """Return whether the kernel can pass frames on a bridge through rules of iptables (br_netfilter)."""
    return testbed.host.view.exists(f"/proc/sys/{_FILTERS_FRAMES.replace('.', '/')}")
