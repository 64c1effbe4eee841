"""A neighbour that floods a link of its own with small frames.

An internal denial of service, by the words of Kagami and Gaspary (2017): the kernel forwards for all containers, so a
flood of one takes time from the packets of the others, although they share no link. The flood stays between two
network namespaces of the session. Source of the frame size: RFC 2544, section 9.1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lastro.anomalies._link import BEYOND, MOST_BPS, own_link
from lastro.anomalies.base import OVER_LIMIT, Anomaly, Demand, Dose, KernelUse, put_program
from lastro.host.cgroups import Resources
from lastro.platforms.base import Instance

FLOOD = Path(__file__).with_name("flood.pl")
LEAST_PER_S = 2000  # frames; one worker sends about 100,000 with a whole CPU
LEAST_SHARE = 0.5  # of the rate that its limit allows


class Network(Anomaly):
    name = "network"
    summary = f"floods a link of its own with frames of 64 bytes, at most {MOST_BPS / 1e6:,.0f} Mbit/s or its limit"
    program = "perl"
    prepares = True

    def argv(self, demand: Demand) -> list[str]:
        return ["perl", FLOOD.name, BEYOND, str(demand.n_workers), "1", "0", f"{demand.timeout_s:.0f}"]

    @contextmanager
    def prepared(self, neighbour: Instance) -> Iterator[Callable[[], KernelUse]]:
        with own_link(neighbour) as link:
            put_program(neighbour, FLOOD)
            yield link.sent

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        bps = 8 * dose.moved_bytes / dose.elapsed_s
        if limits.link_bps is None:
            least = LEAST_PER_S * dose.elapsed_s
            return f"the neighbour sent {dose.used} frames, fewer than {least:.0f}" if dose.used < least else None
        sent, limit = f"the neighbour sent {bps / 1e6:.2f} Mbit/s", f"{limits.link_bps / 1e6:.2f} Mbit/s"
        if bps > OVER_LIMIT * limits.link_bps:
            return f"{sent}, more than its limit of {limit} allows: the limit is not in force"
        return f"{sent}, less than half of {limit}" if bps < LEAST_SHARE * limits.link_bps else None
