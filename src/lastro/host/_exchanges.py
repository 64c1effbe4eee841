"""Exchanges with a remote host, and the time of a block of them without the ways.

A request goes there, is worked on there, and its answer comes back. The two ways belong to the apparatus, so no time
that is measured may contain them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter

from lastro.host.moments import TimedSpan


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange: `sent_s` and `received_s` are on the controller's clock, begin and end of the work on the host's."""

    sent_s: float
    received_s: float
    work_began_s: float
    work_ended_s: float

    @property
    def way_s(self) -> float:
        """The time of each of the two ways, which are taken to be equal."""
        return max(0.0, self.received_s - self.sent_s - (self.work_ended_s - self.work_began_s)) / 2

    def another(self, sent_s: float, received_s: float) -> Exchange:
        """Return an exchange whose work was not timed: its ways are taken to be as long as those of this one."""
        ahead_s = self.work_began_s - self.sent_s - self.way_s  # of the host's clock
        begins_s = sent_s + self.way_s + ahead_s
        return Exchange(sent_s, received_s, begins_s, max(begins_s, received_s - self.way_s + ahead_s))


@dataclass(slots=True, eq=False)
class _Block:
    """The exchanges of a block. From `alone_s` on, the host works on without them: a process was started there."""

    exchanges: list[Exchange] = field(default_factory=list)
    alone_s: float | None = None


class Exchanges:
    """The exchanges with one host, kept for the blocks that are being timed."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._latest: Exchange | None = None

    def add(self, exchange: Exchange) -> None:
        self._latest = exchange
        for block in list(self._blocks):
            block.exchanges.append(exchange)

    def add_end(self, sent_s: float) -> None:
        """Record the end of a process that was told at `sent_s` to end. The host itself did not time it."""
        if self._latest is not None:
            self.add(self._latest.another(sent_s, time.monotonic()))

    def start_process(self) -> None:
        for block in list(self._blocks):
            block.alone_s = block.alone_s or time.monotonic()

    @contextmanager
    def timed(self, exchange: Callable[[], Exchange]) -> Iterator[TimedSpan]:
        """Time a block. `exchange` makes one, for a block that had none."""
        span, block, began_s = TimedSpan(), _Block(), time.monotonic()
        self._blocks.append(block)
        try:
            yield span
        finally:
            ended_s = time.monotonic()
            self._blocks.remove(block)
        found = block.exchanges or [exchange()]
        until_s = ended_s if block.alone_s is None else block.alone_s
        span.began_s = min(each.work_began_s for each in found)
        span.ended_s = max(each.work_ended_s for each in found)
        span.took_s = ended_s - began_s - waited_s(each for each in block.exchanges if each.received_s <= until_s)


def waited_s(exchanges: Iterable[Exchange]) -> float:
    """Return the time in which an exchange was on its way while the host worked on none."""
    steps = list[tuple[float, int, int]]()  # time, change in the number on their way, and in that of those worked on
    for each in exchanges:
        begins_s, ends_s = each.sent_s + each.way_s, each.received_s - each.way_s
        steps += [(each.sent_s, 1, 0), (begins_s, -1, 1), (ends_s, 1, -1), (each.received_s, -1, 0)]
    total_s, before_s, on_the_way, worked_on = 0.0, 0.0, 0, 0
    for at_s, way, work in sorted(steps, key=itemgetter(0)):
        if on_the_way and not worked_on:
            total_s += at_s - before_s
        before_s, on_the_way, worked_on = at_s, on_the_way + way, worked_on + work
    return total_s
