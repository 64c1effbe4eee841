"""Hardware addresses that stay known, so that no ARP and no neighbour discovery of IPv6 is among counted frames.

A kernel asks again for the address of a neighbour every half minute or so (RFC 4861, section 7.3). An interface counts
such a request like a frame of the load. So a request can look like a lost frame, or hide one, where a goal allows none.
The ping through the chain has made all neighbours known; here, their entries become permanent.

An end that only receives then sends nothing at all. A switch forgets the address of such an end after five minutes, and
from then on sends frames for it to every port. So a `Prober` pings now and then between two probes. If one probe may
last nearly five minutes, entries are not made permanent."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from lastro.host.base import Completed
from lastro.scenarios.shared.chain import SINK_PORT, SOURCE_PORT, Chain

LONGEST_S = 200.0  # of a probe
_CONDITION = "hardware addresses"
_UNCHANGED = frozenset({"FAILED", "INCOMPLETE", "NOARP", "PERMANENT"})  # unknown addresses, or never asked for again


def keep_addresses(chain: Chain, longest_s: float) -> dict[str, str]:
    """Make the neighbour entries of the chain's instances and of the DUT permanent.

    Return the condition to record if some entries are not permanent; {} if all are. No entry is made permanent if
    `longest_s`, the time of the longest probe, is above `LONGEST_S`. On gVisor, an instance's entries stay as they
    are, since its network stack has no command that makes them permanent."""
    if longest_s > LONGEST_S:
        return {_CONDITION: f"asked for again, since a probe may last longer than {LONGEST_S:g} s"}
    bed, version = chain.source.testbed, chain.path.version
    asking = [role for role, each in chain.instances.items() if not (each.shares_kernel or each.takes_taps)]
    for role, instance in chain.instances.items():
        if role not in asking:
            if instance.takes_taps:  # the neighbours are those of the machine's kernel
                _make_permanent(instance.run, ["ip"], version)
            else:
                _make_permanent(bed.host.run, ["ip", "-n", instance.netns], version)
    _make_permanent(bed.host.run, ["ip", "-n", bed.dut], version)
    if version == "6":  # hosts of IPv6 ask for routers, too, as long as none answers
        for end, port in ((chain.source, SOURCE_PORT), (chain.sink, SINK_PORT)):
            end.set_sysctls({f"net.ipv6.conf.{port}.accept_ra": "0"})
    return {_CONDITION: f"asked for again by the network stack of {', '.join(asking)}"} if asking else {}


def _make_permanent(run: Callable[..., Completed], ip: Sequence[str], version: str) -> None:
    neighbours = json.loads(run([*ip, f"-{version}", "-j", "neigh", "show"]).text or "[]")
    lines = [
        f"neigh replace {entry['dst']} lladdr {entry['lladdr']} dev {entry['dev']} nud permanent\n"
        for entry in neighbours
        if "lladdr" in entry and _UNCHANGED.isdisjoint(entry["state"])
    ]
    if lines:
        run([*ip, "-batch", "-"], stdin="".join(lines))
