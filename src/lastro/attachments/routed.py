"""The DUT routes between the two ends of a segment.

Each port has its own link to the DUT, as with Calico: no bridge, no translation, and one more hop in each segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lastro.attachments.base import MEMBER_END, BatchLinks, Segment, dut_end
from lastro.attachments.hosting import GATEWAY, HostedInstance, HostingAttachment
from lastro.attachments.routing import directions, enable_forwarding, forwarded_packets, routes
from lastro.platforms.base import Port
from lastro.testbed import IN_A_GUEST, Testbed

_PREFIX = "hub-"


class Routed(HostingAttachment, BatchLinks):
    name = "routed"
    summary = "a veth pair (a tap, for a virtual machine) for each port, between which the DUT routes at layer 3"
    remedy = f"use a kernel with policy routing, {IN_A_GUEST}"
    router_prefix = _PREFIX

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        pairs = directions(segments, _PREFIX)
        lines = []
        for side, _ in pairs:
            lines += [
                dut_end(side.device, side.port),
                f"address add {side.router}/32 dev {side.device}",
                f"link set {side.device} up",
            ]
        return lines + [line for pair in pairs for line in routes(*pair)]

    @contextmanager
    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        with super().laid(testbed, segments):
            enable_forwarding(testbed, [side.device for side, _ in directions(segments, _PREFIX)])
            yield

    def compile_member(self, segments: Sequence[Segment], port: Port) -> list[str]:
        """Return the `ip -batch` commands that link `port` to the DUT, and add its routes.

        The DUT routes packets from `port` like those from the first segment's first port, and replies back to it."""
        (first, second), *_ = directions(segments, _PREFIX)
        return [
            dut_end(MEMBER_END, port),
            f"address add {first.router}/32 dev {MEMBER_END}",
            f"link set {MEMBER_END} up",
            f"route add {port.ip}/32 dev {MEMBER_END} table {second.table}",
            f"rule add iif {MEMBER_END} lookup {first.table}",
        ]

    @contextmanager
    def member(self, testbed: Testbed, segments: Sequence[Segment], port: Port) -> Iterator[None]:
        with super().member(testbed, segments, port):
            enable_forwarding(testbed, [MEMBER_END])
            yield

    def counters(self, testbed: Testbed) -> dict[str, int]:
        return {"routed": forwarded_packets(testbed)}

    # Hosting: a link and a route for each instance, which is reached at its own address

    def compile_hosted(self, hosted: HostedInstance) -> list[str]:
        return [
            dut_end(hosted.end, hosted.port),
            f"address add {GATEWAY}/32 dev {hosted.end}",
            f"link set {hosted.end} up",
            f"route add {hosted.address}/32 dev {hosted.end}",
        ]

    def publish(self, testbed: Testbed, instances: Sequence[HostedInstance], outside: str) -> None:
        """Let the DUT forward packets of the instances, and answer their ARP requests; translate no address."""
        enable_forwarding(testbed, [hosted.end for hosted in instances])

    def traffic_counters(self, testbed: Testbed) -> dict[str, int]:
        return {"routed": forwarded_packets(testbed)}
