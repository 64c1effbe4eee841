"""A neighbour that fills a connection table: that of the function that its packets cross, or else that of a peer.

An internal denial of service, in the words of Kagami and Gaspary (2017). The neighbour sends small datagrams over its
own link to many ports. Each network namespace has a connection table with its own count of entries. A packet makes
entries only in the tables of namespaces that it crosses, and only where connections are tracked. All namespaces share
one hash table (nf_conntrack_buckets), one memory, and the limit of each count (nf_conntrack_max).

So the neighbour of a function that tracks connections sends through the function, which translates its flows as it does
those of the chain. A function that tracks none has no table to fill. There the neighbour sends to a peer that tracks
connections, as a host does for its containers, and only the hash table and the memory are shared. No table overflows:
each has room for four times as many entries as the load makes.

Source: nf_conntrack-sysctl of the kernel; __nf_conntrack_alloc in its nf_conntrack_core.c; nft(8), `ct count`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from lastro.anomalies._link import BEYOND, ONWARDS_DEVICE, PEER, PEER_DEVICE, NeighbourLink, own_link
from lastro.anomalies.base import LEAST_SHARE, OVER_LIMIT, Anomaly, Demand, Dose, KernelUse, put_program
from lastro.anomalies.network import FLOOD
from lastro.errors import PlatformError, with_hint
from lastro.host.base import Host
from lastro.host.cgroups import Resources
from lastro.host.ledger import NETNS_DIR
from lastro.platforms.base import Instance
from lastro.requirements import Requirements
from lastro.study.model import Level
from lastro.testbed import IN_A_GUEST

N_CONNECTIONS = 16_000
_LEAST_PLACES = 4 * N_CONNECTIONS  # in the table: the load takes at most a quarter
_PER_S = 2000  # datagrams once all connections exist: each connection gets one in 8 seconds
_TIMEOUT_S = 30  # of a connection that nothing answers
_SYSCTLS = "/proc/sys/net/netfilter"
_TABLE, _COUNTER = "neighbour", "refused"  # beside the function's own table
_REMEDY = f"use a kernel with nftables and connection tracking, {IN_A_GUEST}"


class Conntrack(Anomaly):
    name = "conntrack"
    summary = f"keeps {N_CONNECTIONS:,} connections in a connection table, or as many as its limit allows"
    requirements = Requirements(packages=("nftables",))
    program = "perl"
    prepares = True

    def __init__(self, function: Instance | None = None, **chosen: Level) -> None:
        super().__init__(**chosen)
        self._function = function

    def through(self, function: Instance) -> Conntrack:
        return Conntrack(function)

    def argv(self, demand: Demand) -> list[str]:
        per_s = max(1, _PER_S // demand.n_workers)
        numbers = [str(demand.n_workers), str(N_CONNECTIONS), str(per_s)]
        return ["perl", FLOOD.name, BEYOND if self._function else PEER, *numbers, f"{demand.timeout_s:.0f}"]

    @contextmanager
    def prepared(self, neighbour: Instance) -> Iterator[Callable[[], KernelUse]]:
        """Set up a link to a network namespace that tracks connections, for the duration of the block.

        Yield a function that returns the connections there and the traffic. Raises: PlatformError for a small table."""
        host = neighbour.testbed.host
        with own_link(neighbour, self._function) as link:
            inside = ["nsenter", f"--net={NETNS_DIR / link.next_netns}"]
            with with_hint(_REMEDY):
                host.run([*inside, "nft", "-f", "-"], stdin=ruleset(neighbour.spec.resources.connections))
            script = f"echo {_TIMEOUT_S} > {_SYSCTLS}/nf_conntrack_udp_timeout; cat {_SYSCTLS}/nf_conntrack_max"
            most = int(host.run([*inside, "sh", "-ec", script]).text)
            if most < _LEAST_PLACES:
                raise PlatformError(
                    f"the anomaly 'conntrack' did not start: a connection table of this host holds {most} connections,"
                    f" and the load would make {N_CONNECTIONS}, more than a quarter of them",
                    f"set the sysctl net.netfilter.nf_conntrack_max to {_LEAST_PLACES} or more",
                )
            put_program(neighbour, FLOOD)
            yield lambda: _use_of_table(host, inside, link)

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        held = f"the neighbour held {dose.held} connections"
        wanted = min(N_CONNECTIONS, limits.connections or N_CONNECTIONS)
        if dose.held > OVER_LIMIT * wanted:
            return f"{held}, more than its limit of {wanted} allows: the limit is not in force"
        return f"{held}, less than half of {wanted}" if dose.held < LEAST_SHARE * wanted else None


def ruleset(most: int | None) -> str:
    """Return nftables rules that track the neighbour's connections, and drop new ones above `most` (None: no limit).

    They also translate the source address of packets forwarded to the peer, and drop ICMP errors for closed ports."""
    limit = "accept" if most is None else f"ct count over {most} counter name {_COUNTER} drop"
    return f"""table ip {_TABLE} {{
  counter {_COUNTER} {{ }}
  chain arriving {{
    type filter hook prerouting priority 0
    iifname "{PEER_DEVICE}" ct state new {limit}
  }}
  chain onwards {{
    type nat hook postrouting priority srcnat
    oifname "{ONWARDS_DEVICE}" masquerade
  }}
  chain leaving {{
    type filter hook output priority 0
    oifname "{PEER_DEVICE}" icmp type destination-unreachable drop
  }}
}}
"""


def _use_of_table(host: Host, inside: list[str], link: NeighbourLink) -> KernelUse:
    """Return the connections in the table now (`held`), the datagrams that the limit refused, and the traffic sent.

    `inside` is the command prefix that enters the network namespace of the table."""
    script = f"cat {_SYSCTLS}/nf_conntrack_count; exec nft -j list counter ip {_TABLE} {_COUNTER}"
    count, _, listed = host.run([*inside, "sh", "-ec", script]).text.partition("\n")
    (refused,) = (item["counter"]["packets"] for item in json.loads(listed)["nftables"] if "counter" in item)
    return replace(link.sent(), held=int(count), refused=int(refused))
