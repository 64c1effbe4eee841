"""The path of a flow through a network function, and what a counter on it has seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class ForwardingPath:
    """The path through a function: its two interfaces with their addresses, and the ends of the flow.

    All addresses are of one version of IP."""

    inside: str = "in0"
    outside: str = "out0"
    source: str = "198.18.0.10"
    inside_address: str = "198.18.0.1"
    outside_address: str = "198.18.1.1"
    sink: str = "198.18.1.10"

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
        """The length of the prefix of the networks inside and outside."""
        return 64 if self.version == "6" else 24

    @property
    def whole(self) -> int:
        """The length of the prefix of a single address."""
        return 128 if self.version == "6" else 32


class CounterReading(NamedTuple):
    packets: int
    bytes: int


# RFC 5180 reserves 2001:2::/48 for benchmarks, as RFC 2544 does 198.18.0.0/15.
PATHS = {
    "4": ForwardingPath(),
    "6": ForwardingPath("in0", "out0", "2001:2::10", "2001:2::1", "2001:2:0:1::1", "2001:2:0:1::10"),
}
