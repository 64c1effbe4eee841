"""The path of a flow through a network function, and the reading of a counter on that path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class ForwardingPath:
    """The path through a function: the function's two interfaces with their addresses, and the ends of the flow.

    All addresses are of one version of IP. With several functions in a row, `source` and `sink` are the addresses of
    the functions before and after this one."""

    inside: str = "in0"
    outside: str = "out0"
    source: str = "198.18.0.10"
    inside_address: str = "198.18.0.1"
    outside_address: str = "198.18.1.1"
    sink: str = "198.18.1.10"
    # Range (lowest, highest) of the TTLs of packets that have passed exactly the functions before this one.
    ttl: tuple[int, int] | None = None
    place: int = 1  # the function's position in its instance, from 1
    chain: int = 0  # number of its chain in the trial, from 0

    @property
    def version(self) -> str:
        """The version of IP: 4 or 6."""
        return "6" if ":" in self.source else "4"

    @property
    def family(self) -> str:
        """The address family by its name in nftables."""
        return "ip6" if self.version == "6" else "ip"

    @property
    def prefix(self) -> int:
        """The prefix length of the networks on both sides: 24 for IPv4, 64 for IPv6."""
        return 64 if self.version == "6" else 24

    @property
    def host_prefix(self) -> int:
        """The prefix length of a route to a single address: 32 for IPv4, 128 for IPv6."""
        return 128 if self.version == "6" else 32

    @property
    def table(self) -> str:
        """The name of the function's nftables table; functions in one instance have different tables."""
        return "lastro" if self.place == 1 else f"lastro{self.place}"

    @property
    def priority(self) -> str:
        """The nftables priority of the function's filter chain: it rises with `place`, so functions run in order."""
        return "filter" if self.place == 1 else f"filter + {self.place - 1}"

    @property
    def ttl_match(self) -> str:
        """The nftables match for packets whose TTL is in `ttl`, with a space at its end; empty if `ttl` is None."""
        if self.ttl is None:
            return ""
        least, most = self.ttl
        return f"{'ip6 hoplimit' if self.version == '6' else 'ip ttl'} {least}-{most} "

    def through(self, n: int) -> list[ForwardingPath]:
        """Return the path through each of `n` functions in a row between this path's source and sink, in order."""
        links = range(11, 10 + n)  # the networks between two functions: the first address is of the function before
        insides = [self.inside_address, *(self._address(network, 2) for network in links)]
        outsides = [*(self._address(network, 1) for network in links), self.outside_address]
        sources, sinks = [self.source, *outsides[:-1]], [*insides[1:], self.sink]
        return [
            replace(self, source=source, inside_address=inside, outside_address=outside, sink=sink)
            for source, inside, outside, sink in zip(sources, insides, outsides, sinks, strict=True)
        ]

    def beside(self, chain: int) -> ForwardingPath:
        """Return this path with the addresses of the chain with number `chain`; chain 0 has this path itself."""
        if not chain:
            return self
        path = replace(self, chain=chain)
        source, sink = path._address(0, 10), path._address(1, 10)
        inside, outside = path._address(0, 1), path._address(1, 1)
        return replace(path, source=source, inside_address=inside, outside_address=outside, sink=sink)

    def _address(self, network: int, host: int) -> str:
        number = network + _NETWORKS * self.chain
        return f"2001:2:0:{number}::{host}" if self.version == "6" else f"198.18.{number}.{host}"


MOST_CHAINS = 8
# Numbers reserved for each chain: enough for its links, and free of networks that functions use themselves.
_NETWORKS = 24
BROKEN = "broken"  # counter of packets that cannot be read: cut off at the length of a frame, or with a wrong header
HEADER_BYTES = 14  # of Ethernet


class CounterReading(NamedTuple):
    packets: int
    bytes: int

    @classmethod
    def of_frames(cls, packets: int, frame_bytes: int) -> CounterReading:
        """Return the reading of a counter of frames, with their headers."""
        return cls(packets, frame_bytes - HEADER_BYTES * packets)


Readings = Mapping[str, CounterReading]  # by the name of the counter

# RFC 5180 reserves 2001:2::/48 for benchmarks, as RFC 2544 does 198.18.0.0/15.
PATHS = {
    "4": ForwardingPath(),
    "6": ForwardingPath("in0", "out0", "2001:2::10", "2001:2::1", "2001:2:0:1::1", "2001:2:0:1::10"),
}
