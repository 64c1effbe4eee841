"""What the apparatus does on a host while an instrument measures there.

The apparatus is everything that a session runs and that is not an instance: Lastro itself, clients, shims and daemons
of platforms, connections, captures. Whenever one of its threads wakes up, an instance may lose a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from lastro.host.cgroups import Cgroups
from lastro.host.ledger import Session
from lastro.validity import Window

_NS = 1e9


@dataclass(slots=True)
class Apparatus:
    """The windows of one testbed in which instruments measured, and the cgroups that are not its apparatus.

    `instances` are cgroups of what is measured, such as instances and the daemons of links. `daemons` are those of
    platforms, each of which is the apparatus of its own instances alone: idle, it is the same for all others."""

    instances: set[str] = field(default_factory=set)
    daemons: set[str] = field(default_factory=set)
    windows: list[Window] = field(default_factory=list)

    def taken(self) -> list[Window]:
        """Return the windows since the last call."""
        windows, self.windows = self.windows, []
        return windows


@dataclass(frozen=True, slots=True)
class ApparatusWitness:
    """Counts what the apparatus does for an instance; `daemon` is the cgroup of the platform's daemon, if it has one.

    A thread that is born inside a window counts whole; one that ends inside it does not count, since the kernel then
    forgets its time. Where the kernel kills processes of an instance that exceed its limit on memory, the daemon does
    not count: Docker's is told of each time, and wakes up thousands of times a second without a word from Lastro. That
    is the platform's own answer to such a neighbour, and a part of its cost."""

    apparatus: Apparatus
    session: Session
    groups: Cgroups
    daemon: str = ""

    def wake_ups(self, act: Callable[[], object], calm_s: float) -> int:
        """Return how often the apparatus wakes up for what `act` does, until `calm_s` after it."""
        kills, before = self._kills(), self._threads()
        act()
        time.sleep(calm_s)
        return _window(before, self._threads(self._kills() > kills), calm_s).wake_ups or 0

    @contextmanager
    def watching(self, by_messages: int = 0, idle_per_s: float = 0.0) -> Iterator[None]:
        """Add the window of the block, unless the block fails.

        The arguments are the expected wake-ups: by the messages that begin and end the block, and by timers in each
        second."""
        kills, before = self._kills(), self._threads()
        began_s = time.monotonic()
        yield
        elapsed_s = time.monotonic() - began_s
        killed = self._kills() - kills
        window = _window(before, self._threads(killed > 0), elapsed_s)
        expected = by_messages + idle_per_s * elapsed_s
        self.apparatus.windows.append(replace(window, expected=expected, killed=killed, began_s=began_s))

    def _kills(self) -> int:
        return self.groups.memory_kills(self.apparatus.instances) if self.daemon else 0

    def _threads(self, killing: bool = False) -> dict[int, tuple[int, int]]:
        apart = self.apparatus.instances | (self.apparatus.daemons - (set() if killing else {self.daemon}))
        places = [str(place) for name in apart for place in self.groups.directories(name)]
        own = map(str, self.groups.directories(self.session.cgroup))
        return self.groups.files.threads(self.session.token, [*own], places)


def _window(before: Mapping[int, tuple[int, int]], after: Mapping[int, tuple[int, int]], elapsed_s: float) -> Window:
    if not after:
        return Window(elapsed_s, None, None)
    pairs = [(now, before.get(thread, (0, 0))) for thread, now in after.items()]
    ran_ns, waits = (sum(now[place] - earlier[place] for now, earlier in pairs) for place in (0, 1))
    return Window(elapsed_s, waits, ran_ns / _NS)
