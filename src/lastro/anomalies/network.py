"""A neighbour that floods a link with small frames.

An internal denial of service, in the words of Kagami and Gaspary (2017): the kernel forwards for all containers, so a
flood from one container takes time from the packets of the other containers, even if they share no link. So by default,
the neighbour has its own link. With `link=chain`, it is attached to the chain's link from source to function, and
floods the port of the function, which then receives both the flood and the chain's flow from one link. In both cases,
the flood stays between network namespaces of the session. Source of the frame size: RFC 2544, section 9.1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from lastro.anomalies._link import BEYOND, MOST_BPS, NeighbourLink, limit, own_link
from lastro.anomalies.base import LEAST_SHARE, OVER_LIMIT, Anomaly, Demand, Dose, KernelUse, put_program
from lastro.errors import Unavailable
from lastro.host.cgroups import Resources
from lastro.platforms.base import Instance
from lastro.study.model import Level, Setting

FLOOD = Path(__file__).with_name("flood.pl")
LEAST_PER_S = 2000  # frames; one worker sends about 100,000 with a whole CPU
_OWN, _CHAIN = "own", "chain"
LINK = Setting("link", _OWN, "its own link, or the chain's from source to function", choices=(_OWN, _CHAIN))


class Network(Anomaly):
    name = "network"
    summary = f"floods a link with frames of 64 bytes, at most {MOST_BPS / 1e6:,.0f} Mbit/s or its limit"
    program = "perl"
    prepares = True
    options: ClassVar[tuple[Setting[Any], ...]] = (LINK,)

    def __init__(self, device: str = "", target: str = BEYOND, **chosen: Level) -> None:
        super().__init__(**chosen)
        self.on_chain = LINK.of(self.chosen) == _CHAIN
        self._device, self._target = device, target

    def over(self, device: str, target: str) -> Network:
        return type(self)(device, target, **self.chosen)

    def per_s(self, demand: Demand) -> float:
        """Return the frames per second that all workers send together; 0 if they send without pause."""
        return 0

    def argv(self, demand: Demand) -> list[str]:
        n, per_s = demand.n_workers, self.per_s(demand)
        return ["perl", FLOOD.name, self._target, str(n), "1", f"{per_s / n:g}", f"{demand.timeout_s:.0f}"]

    @contextmanager
    def prepared(self, neighbour: Instance) -> Iterator[Callable[[], KernelUse]]:
        with self._link(neighbour) as link:
            put_program(neighbour, FLOOD)
            yield link.sent

    @contextmanager
    def _link(self, neighbour: Instance) -> Iterator[NeighbourLink]:
        if not self.on_chain:
            with own_link(neighbour) as link:
                yield link
            return
        if not self._device:
            raise Unavailable("there is no link of a chain here", 'choose the anomaly "network", without an option')
        limit(neighbour, self._device)
        yield NeighbourLink(neighbour.testbed.host, neighbour.netns, self._device)

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        bps = 8 * dose.moved_bytes / dose.elapsed_s
        if limits.link_bps is None:
            least = LEAST_PER_S * dose.elapsed_s
            return f"the neighbour sent {dose.used} frames, fewer than {least:.0f}" if dose.used < least else None
        sent, limit = f"the neighbour sent {bps / 1e6:.2f} Mbit/s", f"{limits.link_bps / 1e6:.2f} Mbit/s"
        if bps > OVER_LIMIT * limits.link_bps:
            return f"{sent}, more than its limit of {limit} allows: the limit is not in force"
        return f"{sent}, less than half of {limit}" if bps < LEAST_SHARE * limits.link_bps else None
