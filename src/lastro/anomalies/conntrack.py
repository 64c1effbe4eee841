"""A neighbour that fills a connection table, as a gateway or a host with address translation keeps one.

An internal denial of service, by the words of Kagami and Gaspary (2017). The neighbour sends small datagrams over a
link of its own to many ports of its peer, which tracks connections, as a host does for its containers. The kernel keeps
the entries of all namespaces in one hash table (nf_conntrack_buckets), with a count and a limit for each namespace. The
peer's own table has room for many more than the load makes, so it never overflows.

Source: nf_conntrack-sysctl of the kernel; nft(8), `ct count`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from lastro.anomalies._link import PEER, NeighbourLink, own_link
from lastro.anomalies.base import OVER_LIMIT, Anomaly, Demand, Dose, KernelUse, put_program
from lastro.anomalies.network import FLOOD
from lastro.errors import PlatformError
from lastro.host.base import Host
from lastro.host.cgroups import Resources
from lastro.host.ledger import NETNS_DIR
from lastro.platforms.base import Instance
from lastro.requirements import Requirements

HELD = 16_000  # connections
LEAST_SHARE = 0.5
TABLE_SHARE = 4  # the load starts only if it takes at most this part of the table: one quarter
_PER_S = 2000  # datagrams once all connections are there: each connection gets one in 8 seconds
_TIMEOUT_S = 30  # of a connection that nothing answers
_SYSCTLS = "/proc/sys/net/netfilter"
_TABLE, _COUNTER = "lastro", "refused"


class Conntrack(Anomaly):
    name = "conntrack"
    summary = f"keeps {HELD:,} connections in a connection table, or as many as its limit allows"
    requirements = Requirements(packages=("nftables",))
    program = "perl"
    prepares = True

    def argv(self, demand: Demand) -> list[str]:
        per_s = max(1, _PER_S // demand.n_workers)
        numbers = [str(number) for number in (demand.n_workers, HELD, per_s)]
        return ["perl", FLOOD.name, PEER, *numbers, f"{demand.timeout_s:.0f}"]

    @contextmanager
    def prepared(self, neighbour: Instance) -> Iterator[Callable[[], KernelUse]]:
        """Lay the link to a peer that tracks connections. Raises: PlatformError when its table is too small."""
        host = neighbour.testbed.host
        with own_link(neighbour) as link:
            inside = ["nsenter", f"--net={NETNS_DIR / link.peer_netns}"]
            host.run([*inside, "nft", "-f", "-"], stdin=ruleset(neighbour.spec.resources.connections))
            _require_room(host, inside)
            put_program(neighbour, FLOOD)
            yield lambda: _tracked(host, inside, link)

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        held, wanted = f"the neighbour held {dose.held} connections", min(HELD, limits.connections or HELD)
        if dose.held > OVER_LIMIT * wanted:
            return f"{held}, more than its limit of {wanted} allows: the limit is not in force"
        return f"{held}, less than half of {wanted}" if dose.held < LEAST_SHARE * wanted else None


def ruleset(most: int | None) -> str:
    """Return rules that track connections, refuse new ones above `most`, and send no error for a closed port."""
    limit = "" if most is None else f"ct count over {most} counter name {_COUNTER} drop"
    return "\n".join(
        [
            f"table ip {_TABLE} {{",
            f"  counter {_COUNTER} {{ }}",
            "  chain arriving {",
            "    type filter hook prerouting priority 0",
            f"    ct state new {limit or 'accept'}",
            "  }",
            "  chain leaving {",
            "    type filter hook output priority 0",
            "    icmp type destination-unreachable drop",
            "  }",
            "}",
            "",
        ]
    )


def _require_room(host: Host, inside: list[str]) -> None:
    script = f"echo {_TIMEOUT_S} > {_SYSCTLS}/nf_conntrack_udp_timeout; cat {_SYSCTLS}/nf_conntrack_max"
    most = int(host.run([*inside, "sh", "-ec", script]).text)
    if most // TABLE_SHARE < HELD:
        raise PlatformError(
            f"the anomaly 'conntrack' did not start: a connection table of this host holds {most}, and it would make"
            f" {HELD}, more than a quarter",
            f"set the sysctl net.netfilter.nf_conntrack_max to {TABLE_SHARE * HELD} or more",
        )


def _tracked(host: Host, inside: list[str], link: NeighbourLink) -> KernelUse:
    """Return the connections of the peer's table, the datagrams that the limit refused, and what the link carried."""
    script = f"cat {_SYSCTLS}/nf_conntrack_count; exec nft -j list counter ip {_TABLE} {_COUNTER}"
    count, _, listed = host.run([*inside, "sh", "-ec", script]).text.partition("\n")
    (refused,) = (item["counter"]["packets"] for item in json.loads(listed)["nftables"] if "counter" in item)
    return replace(link.sent(), held=int(count), refused=int(refused))
