"""Bridges and address translation, as container platforms use them by default.

Every packet that leaves one bridge for another gets an address of the DUT as its source, and conntrack reverses that
for the replies. Each port has a bridge of its own, as if each instance were on a different Docker network. Unlike with
Docker, an instance may also be reached at its own address, so that a flow can be sent through a chain of segments. The
DUT's translated address is not on an interface; the DUT answers for it by proxy ARP. If the address were local, replies
that still have to cross another segment would end in the DUT.

Instances that are reached from outside share one bridge instead, and each has a published port at the DUT's address."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lastro.attachments.base import MEMBER_END, BatchLinks, Segment, dut_end, made
from lastro.attachments.hosting import GATEWAY, NETWORK, HostedInstance, HostingAttachment
from lastro.attachments.routing import (
    destinations,
    directions,
    enable_forwarding,
    forwarded_packets,
    inside,
    route_behind,
    routes,
)
from lastro.platforms.base import Platform, Port
from lastro.testbed import IN_A_GUEST, Testbed

_PREFIX = "br-"
_TABLE = "ip hub"
_HOSTING_BRIDGE = "br-hosted"
_HOSTING_TABLE = "ip published"


class NatAttachment(HostingAttachment, BatchLinks):
    name = "nat"
    summary = "a bridge for each port; the DUT routes between them and translates addresses, as for containers"
    remedy = f"install nftables, and use a kernel with policy routing and NAT, {IN_A_GUEST}"
    router_prefix = _PREFIX
    lasting = frozenset({"translated"})  # counts connections: an instance may keep one open, or answer from a cache

    def compile(self, segments: Sequence[Segment]) -> list[str]:
        pairs = directions(segments, _PREFIX)
        ends = [end for segment in segments for end, _ in segment.ends()]
        lines = []
        for (side, _), end in zip(pairs, ends, strict=True):
            lines += [
                f"link add name {side.device} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                f"address add {side.router}/32 dev {side.device}",
                f"link set {side.device} up",
                dut_end(end, side.port),
                f"link set {end} master {side.device} up",
            ]
        for arrival, departure in pairs:
            lines.append(f"route add {arrival.translated}/32 dev {departure.device} table {arrival.table}")
            if destinations(arrival, departure):  # replies translated on another segment may come back this way
                others = dict.fromkeys(side.translated for side, _ in pairs if side.segment != arrival.segment)
                lines += [route_behind(arrival, departure, f"{address}/32") for address in others]
            lines += routes(arrival, departure)
        return lines

    def compile_nft(self, segments: Sequence[Segment]) -> str:
        """Return the `nft` script that translates source addresses, to run in the DUT's namespace."""
        rules = "".join(
            f'        oifname "{side.device}" counter name translated snat to {side.translated}\n'
            for side, _ in directions(segments, _PREFIX)
        )
        return f"""table {_TABLE} {{
    counter translated {{ }}
    chain translate {{
        type nat hook postrouting priority srcnat; policy accept;
{rules}    }}
}}
"""

    def compile_member(self, segments: Sequence[Segment], port: Port) -> list[str]:
        """Return the `ip -batch` commands that put `port` on the bridge of the first segment's second port."""
        (_, second), *_ = directions(segments, _PREFIX)
        return [dut_end(MEMBER_END, port), f"link set {MEMBER_END} master {second.device} up"]

    @contextmanager
    def laid(self, testbed: Testbed, segments: Sequence[Segment]) -> Iterator[None]:
        with super().laid(testbed, segments):
            enable_forwarding(testbed, [side.device for side, _ in directions(segments, _PREFIX)])
            try:
                inside(testbed, ["nft", "-f", "-"], self.compile_nft(segments))
                yield
            finally:
                inside(testbed, ["nft", "-f", "-"], f"add table {_TABLE}\ndelete table {_TABLE}\n")

    def counters(self, testbed: Testbed) -> dict[str, int]:
        return {"routed": forwarded_packets(testbed), **_counters(testbed, _TABLE)}

    # Hosting: one bridge for all, and a rule for each published port, as in Docker's default network

    @contextmanager
    def base_network(self, testbed: Testbed, platform: Platform) -> Iterator[None]:
        bridge = [
            f"link add name {_HOSTING_BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            f"address add {GATEWAY}/{NETWORK.prefixlen} dev {_HOSTING_BRIDGE}",
            f"link set {_HOSTING_BRIDGE} up",
        ]
        with made(testbed, testbed.dut, bridge):
            try:
                inside(testbed, ["nft", "-f", "-"], _HOSTING_RULES)
                yield
            finally:
                inside(testbed, ["nft", "-f", "-"], f"add table {_HOSTING_TABLE}\ndelete table {_HOSTING_TABLE}\n")

    def compile_hosted(self, hosted: HostedInstance) -> list[str]:
        return [dut_end(hosted.end, hosted.port), f"link set {hosted.end} master {_HOSTING_BRIDGE} up"]

    def publish(self, testbed: Testbed, instances: Sequence[HostedInstance], outside: str) -> None:
        rules = [
            f"add rule {_HOSTING_TABLE} come ip daddr {outside} tcp dport {self.endpoint(hosted, outside)[1]}"
            f" counter name published dnat to {hosted.address}:{hosted.listens_at}\n"
            for hosted in instances
        ]
        inside(testbed, ["nft", "-f", "-"], "".join(rules))

    def endpoint(self, hosted: HostedInstance, outside: str) -> tuple[str, int]:
        return outside, hosted.listens_at + hosted.number

    def seen_as(self, hosted: HostedInstance, outward: str) -> str:
        return outward

    def traffic_counters(self, testbed: Testbed) -> dict[str, int]:
        return {"routed": forwarded_packets(testbed), **_counters(testbed, _HOSTING_TABLE)}


_HOSTING_RULES = f"""table {_HOSTING_TABLE} {{
    counter published {{ }}
    counter translated {{ }}
    chain come {{
        type nat hook prerouting priority dstnat; policy accept;
    }}
    chain go {{
        type nat hook postrouting priority srcnat; policy accept;
        oifname != "{_HOSTING_BRIDGE}" ip saddr {NETWORK} counter name translated masquerade
    }}
}}
"""


def _counters(testbed: Testbed, table: str) -> dict[str, int]:
    """Return {name: packets} of the named counters in an nftables table, given as 'FAMILY NAME'.

    A chain that translates addresses counts only the first packet of each connection."""
    items = json.loads(inside(testbed, ["nft", "-j", "list", "counters", "table", *table.split()]))["nftables"]
    return {item["counter"]["name"]: int(item["counter"]["packets"]) for item in items if "counter" in item}
