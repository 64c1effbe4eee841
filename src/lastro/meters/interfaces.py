"""Interface counters of every instance, which show the path of the packets. Source: ip-link(8), -statistics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lastro.meters.base import Meter
from lastro.platforms.base import Instance

_COUNTERS = [(way, what) for way in ("rx", "tx") for what in ("bytes", "packets", "dropped")]
Counters = dict[str, dict[str, int]]  # "role.interface" -> rx_bytes, rx_packets, rx_dropped, tx_bytes, …


def moved(before: Counters, after: Counters) -> Counters:
    """Return how much each counter grew between two readings, for the interfaces that are in both."""
    return {
        port: {key: after[port][key] - value for key, value in counters.items()}
        for port, counters in before.items()
        if port in after
    }


class InterfaceMeter(Meter):
    """A meter of interfaces. Instances are read in order at the start, and in reverse order at the end.

    So the counters of an instance never show more received packets than an earlier instance has sent, even if that
    instance sends all the time."""

    name = "interfaces"
    summary = "bytes and packets over every interface of every instance"

    mtu: dict[str, int]  # by port, as in `moved`
    in_xdp: set[str]  # ports of the host's kernel with an XDP program: veths, since others are unavailable

    def start(self) -> None:
        self._before = self.now()

    def stop(self) -> None:
        self.moved: Counters = moved(self._before, self._read(reversed([*self.instances.items()])))

    def read(self) -> dict[str, float]:
        return {}

    def now(self) -> Counters:
        """Return the counters of all interfaces; each counts since its interface was created."""
        return self._read(self.instances.items())

    def _read(self, instances: Iterable[tuple[str, Instance]]) -> Counters:
        counters: Counters = {}
        self.mtu, self.in_xdp = {}, set()
        for role, instance in instances:
            for link in instance.links():
                stats, port = link["stats64"], f"{role}.{link['ifname']}"
                self.mtu[port] = link["mtu"]
                if "xdp" in link and instance.shares_kernel:
                    self.in_xdp.add(port)
                counters[port] = {f"{way}_{what}": stats[way][what] for way, what in _COUNTERS}
        return counters

    def notes(self) -> dict[str, Any]:
        return {"witness": self.moved}
