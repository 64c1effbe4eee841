"""Time a block of exchanges with a remote host, without the time that messages need over the network.

In an exchange, a request goes to the host, the host works on it, and the answer comes back. The two network delays
belong to the apparatus, so measured times must not include them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter

from lastro.host.moments import TimedSpan


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange: `sent_s` and `received_s` are by the controller's clock, begin and end of the work by the host's."""

    sent_s: float
    received_s: float
    work_began_s: float
    work_ended_s: float

    @property
    def one_way_s(self) -> float:
        """The network delay in each direction, assuming that both are equal."""
        return max(0.0, self.received_s - self.sent_s - (self.work_ended_s - self.work_began_s)) / 2

    def estimate(self, sent_s: float, received_s: float) -> Exchange:
        """Return another exchange whose work the host did not time, assuming the network delays of this exchange."""
        offset_s = self.work_began_s - self.sent_s - self.one_way_s  # of the host's clock
        begins_s = sent_s + self.one_way_s + offset_s
        return Exchange(sent_s, received_s, begins_s, max(begins_s, received_s - self.one_way_s + offset_s))


@dataclass(slots=True, eq=False)
class _Block:
    """The exchanges of a block. `process_s` is when a process was started, so that the host works between exchanges."""

    exchanges: list[Exchange] = field(default_factory=list)
    process_s: float | None = None


class Exchanges:
    """The exchanges with one host, recorded for the blocks that are being timed."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._latest: Exchange | None = None

    def add(self, exchange: Exchange) -> None:
        self._latest = exchange
        for block in list(self._blocks):
            block.exchanges.append(exchange)

    def add_end(self, sent_s: float) -> None:
        """Record that a process has ended now, after a request at `sent_s`. The host itself did not time this."""
        if self._latest is not None:
            self.add(self._latest.estimate(sent_s, time.monotonic()))

    def start_process(self) -> None:
        """Record that a process is started, which works between exchanges."""
        for block in list(self._blocks):
            block.process_s = block.process_s or time.monotonic()

    @contextmanager
    def timed(self, exchange: Callable[[], Exchange]) -> Iterator[TimedSpan]:
        """Time a block, and set the span at its end. If the block had no exchange, `exchange` is called to make one.

        Network delays are subtracted only until a process is started, since the host then works during them."""
        span, block, began_s = TimedSpan(), _Block(), time.monotonic()
        self._blocks.append(block)
        try:
            yield span
        finally:
            ended_s = time.monotonic()
            self._blocks.remove(block)
        exchanges = block.exchanges or [exchange()]
        span.began_s = min(each.work_began_s for each in exchanges)
        span.ended_s = max(each.work_ended_s for each in exchanges)
        until_s = ended_s if block.process_s is None else block.process_s
        span.took_s = ended_s - began_s - waited_s(each for each in block.exchanges if each.received_s <= until_s)


def waited_s(exchanges: Iterable[Exchange]) -> float:
    """Return the time in which some message was in transit and the host worked on no exchange."""
    steps = list[tuple[float, int, int]]()  # time, change in the number of messages in transit, and of those worked on
    for exchange in exchanges:
        begins_s, ends_s = exchange.sent_s + exchange.one_way_s, exchange.received_s - exchange.one_way_s
        steps += [(exchange.sent_s, 1, 0), (begins_s, -1, 1), (ends_s, 1, -1), (exchange.received_s, -1, 0)]
    total_s, before_s, in_transit, in_work = 0.0, 0.0, 0, 0
    for at_s, transit_change, work_change in sorted(steps, key=itemgetter(0)):
        if in_transit and not in_work:
            total_s += at_s - before_s
        before_s, in_transit, in_work = at_s, in_transit + transit_change, in_work + work_change
    return total_s
