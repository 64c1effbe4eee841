"""An overlay between two hosts: packets cross from one to the other inside VXLAN (RFC 7348), one id for each segment.

Both hosts are network namespaces on one machine: the DUT's, and a second one. A veth pair between them is the underlay.
It has an MTU of 1550, so that ports keep the 1500 of every other attachment: a smaller MTU inside would mix the cost of
the overlay with that of smaller segments.

The two instances of a segment are on different hosts. A virtual machine opens its tap in the DUT's namespace; if it
belongs to the second host, its tap is then moved there, which works for an open tap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lastro.attachments.base import MEMBER_END, BatchLinks, Segment, batch, dut_end, made
from lastro.attachments.separable import SeparableLinks, run_in_namespaces
from lastro.platforms.base import Port
from lastro.study.model import Level
from lastro.testbed import IN_A_GUEST, QUIET, Testbed, set_sysctls

_UNDERLAY = "under"
_ADDRESSES = ("198.19.0.1", "198.19.0.2")
_MTU = 1550
_PORT = 4789


class Vxlan(SeparableLinks, BatchLinks):
    name = "vxlan"
    summary = (
        "a VXLAN overlay between two hosts, which are two namespaces here: each segment crosses from one to the other"
    )
    remedy = f"use a kernel with vxlan, {IN_A_GUEST}"

    def __init__(self, **chosen: Level) -> None:
        super().__init__(**chosen)
        # {end of a link: its host}, of all links: by some of them alone, `_ends_on_host` could place an end elsewhere.
        self._host_of: dict[str, int] = {}

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        """Return the `ip -batch` commands for the first host; they also make the taps of the second host's machines."""
        lines = _underlay(0) + _bridges_on_host(segments, 0)
        second_host = _ends_on_host(segments, 1)
        return lines + [dut_end(end, port) for end, port, _ in second_host if port.instance.takes_taps]

    def compile_second(self, segments: Sequence[Segment]) -> list[str]:
        """Return the `ip -batch` commands that set up the second host; they run in its namespace."""
        return _underlay(1) + _bridges_on_host(segments, 1)

    def compile_member(self, segments: Sequence[Segment], port: Port) -> list[str]:
        """Return the `ip -batch` commands that put `port` on the first segment's bridge on the first host."""
        return [dut_end(MEMBER_END, port), f"link set {MEMBER_END} master {_bridge(segments[0])} up"]

    def batches(self, testbed: Testbed, segments: Sequence[Segment]) -> list[tuple[str, list[str]]]:
        second = _second_netns(testbed)
        cable = (testbed.dut, [_cable(second)])
        return [cable, *super().batches(testbed, segments), (second, self.compile_second(segments))]

    @contextmanager
    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        second = _second_netns(testbed)
        self._host_of = {end: host for host in (0, 1) for end, _, _ in _ends_on_host(segments, host)}
        with testbed.session.owned("netns", second):
            testbed.host.run(["ip", "netns", "add", second])
            set_sysctls(testbed.host, second, QUIET)
            with (
                made(testbed, testbed.dut, [_cable(second)]),
                super().laid(testbed, segments),
                made(testbed, second, self.compile_second(segments), at_once=self.separated),
            ):
                yield

    def ends(self, testbed: Testbed, segments: Sequence[Segment]) -> dict[str, list[str]]:
        names = [end for segment in segments for end, _ in segment.ends()]
        hosts = enumerate((testbed.dut, _second_netns(testbed)))
        return {netns: [end for end in names if self._host_of[end] == host] for host, netns in hosts}

    def cut(self, testbed: Testbed, segments: Sequence[Segment], *, carrier: bool = False) -> None:
        """Cut links at the first host's end of the overlay or, with `carrier`, at the ports' ends on both hosts."""
        if carrier:
            self._set_ends(testbed, segments, "down")
        else:
            batch(testbed, testbed.dut, [f"link set vx-{segment.name} nomaster" for segment in segments])

    def mend(self, testbed: Testbed, segments: Sequence[Segment], *, carrier: bool = False) -> None:
        if carrier:
            self._set_ends(testbed, segments, "up")
        else:
            lines = [f"link set vx-{segment.name} master {_bridge(segment)}" for segment in segments]
            batch(testbed, testbed.dut, lines)

    def _set_ends(self, testbed: Testbed, segments: Sequence[Segment], state: str) -> None:
        ends = self.ends(testbed, segments).items()
        run_in_namespaces(testbed, {netns: [f"link set {end} {state}" for end in names] for netns, names in ends})

    @contextmanager
    def connect(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        with super().connect(testbed, segments):
            second, second_host = _second_netns(testbed), _ends_on_host(segments, 1)
            taps = [(end, bridge) for end, port, bridge in second_host if port.instance.takes_taps]
            batch(testbed, testbed.dut, [f"link set {end} netns {second}" for end, _ in taps])
            batch(testbed, second, [f"link set {end} master {bridge} up" for end, bridge in taps])
            yield

    def residuals(self, testbed: Testbed) -> dict[str, str]:
        return {"MTU below": f"{_MTU}, so that ports have 1500"}

    def counters(self, testbed: Testbed) -> dict[str, int]:
        argv = ["ip", "-n", testbed.dut, "-j", "-s", "link", "show", "dev", _UNDERLAY]
        (link,) = testbed.host.run_json(argv)
        return {f"{way} below": link["stats64"][way]["packets"] for way in ("rx", "tx")}


def _second_netns(testbed: Testbed) -> str:
    """Return the name of the network namespace that stands for the second host."""
    return f"{testbed.dut}-2"


def _cable(second: str) -> str:
    """Return the `ip` command that makes the underlay: a veth pair between the namespaces of both hosts."""
    return f"link add name {_UNDERLAY} mtu {_MTU} type veth peer name {_UNDERLAY} mtu {_MTU} netns {second}"


def _underlay(host: int) -> list[str]:
    return [f"address add {_ADDRESSES[host]}/30 dev {_UNDERLAY}", f"link set {_UNDERLAY} up"]


def _bridges_on_host(segments: Sequence[Segment], host: int) -> list[str]:
    """Return the `ip -batch` commands that make a host's bridges: one for each segment, with VXLAN and local port.

    `host` is 0 for the first host and 1 for the second. Taps of the second host are left out; see `connect`."""
    lines = []
    for number, segment in enumerate(segments, 1):
        lines += [
            f"link add name {_bridge(segment)} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            f"link set {_bridge(segment)} up",
            f"link add name vx-{segment.name} type vxlan id {number} dev {_UNDERLAY} "
            f"local {_ADDRESSES[host]} remote {_ADDRESSES[1 - host]} dstport {_PORT}",
            f"link set vx-{segment.name} master {_bridge(segment)} up",
        ]
    for end, port, bridge in _ends_on_host(segments, host):
        if host == 0 or not port.instance.takes_taps:
            lines += [dut_end(end, port), f"link set {end} master {bridge} up"]
    return lines


def _ends_on_host(segments: Sequence[Segment], host: int) -> list[tuple[str, Port, str]]:
    """Return (end, port, bridge) of each port on a host; `host` is 0 for the first host and 1 for the second.

    An instance is on the other host than the peer of its first segment: in a chain, the function is on the second."""
    host_of: dict[int, int] = {}  # by id of an instance
    ends = []
    for segment in segments:
        (a_end, a), (b_end, b) = segment.ends()
        a_host = host_of.setdefault(id(a.instance), 1 - host_of.get(id(b.instance), 1))
        host_of.setdefault(id(b.instance), 1 - a_host)
        ends.append((a_end, a, _bridge(segment)) if a_host == host else (b_end, b, _bridge(segment)))
    return ends


def _bridge(segment: Segment) -> str:
    return f"br-{segment.name}"
