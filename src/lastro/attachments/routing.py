"""The DUT as a router between the two ends of each segment, by policy routing with one table for each end.

An instance keeps its address and prefix length, as if its peer were on its own link: the DUT answers ARP requests for
the peer (proxy ARP), as Calico does for pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface

from lastro.attachments.base import Segment
from lastro.errors import Unavailable
from lastro.host.ledger import NETNS_DIR
from lastro.platforms.base import Port
from lastro.testbed import Testbed, set_sysctls

_FIRST_TABLE = 1001
_LONGEST_PREFIX = 29
# Set per device, so they vanish with it. Unless the delay is zero, a proxy ARP reply may take most of a second.
_ROUTER = {
    "conf.{device}.forwarding": "1",
    "conf.{device}.proxy_arp": "1",
    "conf.{device}.rp_filter": "0",
    "neigh.{device}.proxy_delay": "0",
}


@dataclass(frozen=True, slots=True)
class SegmentSide:
    """One end of a segment. `device` is the DUT's interface towards `port`; `table` routes what arrives at it."""

    device: str
    port: Port
    table: int
    segment: str

    @property
    def address(self) -> str:
        return self.port.ip

    @property
    def router(self) -> str:
        """The DUT's own address on this link: the last one of the port's network."""
        return self._of_network(-2)

    @property
    def translated(self) -> str:
        """The translated address at which the port sees its peer: the last but one of the port's network."""
        return self._of_network(-3)

    def _of_network(self, position: int) -> str:
        network = IPv4Interface(self.port.address).network
        if network.prefixlen > _LONGEST_PREFIX:
            raise Unavailable(
                f"{network} has no address for a router besides those of two ports",
                f"give the ports networks of /{_LONGEST_PREFIX} or larger",
            )
        return str(network[position])


def directions(segments: Sequence[Segment], prefix: str) -> list[tuple[SegmentSide, SegmentSide]]:
    """Return pairs (side where packets arrive, side where they leave), two for each segment: one per direction.

    A device is named like its end in `Segment.ends`, with `prefix` instead of 'hub-'. Raises: Unavailable for IPv6."""
    if any(":" in port.address for segment in segments for port in segment.ports):
        raise Unavailable("the DUT routes IPv4 only", "choose an attachment at layer 2, such as veth-bridge")
    pairs = []
    for number, segment in enumerate(segments):
        a, b = (
            SegmentSide(end.replace("hub-", prefix), port, _FIRST_TABLE + 2 * number + side, segment.name)
            for side, (end, port) in enumerate(segment.ends())
        )
        pairs += [(a, b), (b, a)]
    return pairs


def routes(arrival: SegmentSide, departure: SegmentSide) -> list[str]:
    """Return the `ip -batch` commands that route packets from `arrival` to the port of `departure`, and behind it."""
    return [
        f"route add {departure.address}/32 dev {departure.device} table {arrival.table}",
        *(route_behind(arrival, departure, destination) for destination in destinations(arrival, departure)),
        f"rule add iif {arrival.device} lookup {arrival.table}",
    ]


def destinations(arrival: SegmentSide, departure: SegmentSide) -> list[str]:
    """Return the destinations of the routes of `arrival.port` whose gateway is the port of `departure`."""
    split = (route.partition(" via ") for route in arrival.port.routes)
    return [destination for destination, _, gateway in split if gateway == departure.address]


def route_behind(arrival: SegmentSide, departure: SegmentSide, destination: str) -> str:
    """Return the `ip` command that routes packets from `arrival` to `destination` by way of the port of `departure`."""
    return f"route add {destination} via {departure.address} dev {departure.device} onlink table {arrival.table}"


def enable_forwarding(testbed: Testbed, devices: Sequence[str]) -> None:
    values = {f"net.ipv4.{key.format(device=device)}": value for device in devices for key, value in _ROUTER.items()}
    set_sysctls(testbed.host, testbed.dut, values)


def forwarded_packets(testbed: Testbed) -> int:
    """Return how many packets the DUT's namespace has routed so far. Source: RFC 4293, ipForwDatagrams."""
    text = inside(testbed, ["cat", "/proc/net/snmp"])
    names, values = (line.split() for line in text.splitlines() if line.startswith("Ip:"))
    return int(values[names.index("ForwDatagrams")])


def inside(testbed: Testbed, argv: Sequence[str], stdin: str | None = None) -> str:
    """Run a command in the DUT's namespace, and return what it prints."""
    return testbed.host.run(["nsenter", f"--net={NETNS_DIR / testbed.dut}", *argv], stdin=stdin).text
