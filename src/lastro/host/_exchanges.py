"""Measure how long a block of exchanges with a remote host takes, excluding network delays.

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
    """One request to a remote host and its answer."""

    sent_s: float  # on the controller's clock; `received_s` alike
    received_s: float
    work_began_s: float  # on the host's clock; `work_ended_s` alike
    work_ended_s: float

    @property
    def one_way_s(self) -> float:
        """The network delay in each direction, assuming that both are equal."""
        return max(0.0, self.received_s - self.sent_s - (self.work_ended_s - self.work_began_s)) / 2

    def estimate(self, sent_s: float, received_s: float) -> Exchange:
        """Return the exchange of a request sent at `sent_s` and answered at `received_s`, whose work was not timed.

        The times of the work are estimated: the network delays are assumed to equal those of this exchange."""
        offset_s = self.work_began_s - self.sent_s - self.one_way_s  # of the host's clock
        begins_s = sent_s + self.one_way_s + offset_s
        return Exchange(sent_s, received_s, begins_s, max(begins_s, received_s - self.one_way_s + offset_s))


@dataclass(slots=True, eq=False)
class _Block:
    """The exchanges of a block that is being timed."""

    exchanges: list[Exchange] = field(default_factory=list)
    process_s: float | None = None  # when the block first started a process, which runs on the host between exchanges


class Exchanges:
    """A recorder of the exchanges with one host, for the blocks that are being timed."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._latest: Exchange | None = None

    def add(self, exchange: Exchange) -> None:
        self._latest = exchange
        for block in list(self._blocks):
            block.exchanges.append(exchange)

    def add_end(self, sent_s: float) -> None:
        """Record the exchange that ended a process: requested at `sent_s`, answered now.

        The host did not report when it worked on this request, so the times are estimated."""
        if self._latest is not None:
            self.add(self._latest.estimate(sent_s, time.monotonic()))

    def start_process(self) -> None:
        """Record the start of a process that will run on the host between exchanges."""
        for block in list(self._blocks):
            block.process_s = block.process_s or time.monotonic()

    @contextmanager
    def timed(self, make_exchange: Callable[[], Exchange]) -> Iterator[TimedSpan]:
        """Yield a span whose values are set when the block ends.

        If the block had no exchange, `make_exchange` is called to get the host's clock. Network delays are subtracted
        only until the block starts a process, because the host then works during the delays."""
        span, block, began_s = TimedSpan(), _Block(), time.monotonic()
        self._blocks.append(block)
        try:
            yield span
        finally:
            ended_s = time.monotonic()
            self._blocks.remove(block)
        exchanges = block.exchanges or [make_exchange()]
        span.began_s = min(exchange.work_began_s for exchange in exchanges)
        span.ended_s = max(exchange.work_ended_s for exchange in exchanges)
        until_s = ended_s if block.process_s is None else block.process_s
        before_process = [exchange for exchange in block.exchanges if exchange.received_s <= until_s]
        span.took_s = ended_s - began_s - waited_s(before_process)


def waited_s(exchanges: Iterable[Exchange]) -> float:
    """Return for how many seconds a message was in transit while the host worked on no exchange."""
    # (time, change of the number of messages in transit, change of the number of requests that the host works on)
    steps = list[tuple[float, int, int]]()
    for exchange in exchanges:
        begins_s, ends_s = exchange.sent_s + exchange.one_way_s, exchange.received_s - exchange.one_way_s
        steps += [(exchange.sent_s, 1, 0), (begins_s, -1, 1), (ends_s, 1, -1), (exchange.received_s, -1, 0)]
    total_s, before_s, in_transit, in_work = 0.0, 0.0, 0, 0
    for at_s, transit_change, work_change in sorted(steps, key=itemgetter(0)):
        if in_transit and not in_work:
            total_s += at_s - before_s
        before_s, in_transit, in_work = at_s, in_transit + transit_change, in_work + work_change
    return total_s
