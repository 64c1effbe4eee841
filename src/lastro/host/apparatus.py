"""Count the activity of the apparatus on a host while an instrument measures there.

The apparatus is everything that a session runs except the instances: Lastro itself, clients, shims and daemons of
platforms, connections, captures. When one of its threads wakes up, an instance may lose a CPU."""

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
    """The time windows of a testbed in which instruments measured, and the cgroups that are not its apparatus.

    `instances` are cgroups of what is measured: instances, and daemons of links. `daemons` are cgroups of platforms'
    daemons; such a daemon is part of the apparatus only when an instance of its platform measures."""

    instances: set[str] = field(default_factory=set)
    daemons: set[str] = field(default_factory=set)
    windows: list[Window] = field(default_factory=list)

    def drain(self) -> list[Window]:
        """Return the windows since the last call."""
        windows, self.windows = self.windows, []
        return windows


@dataclass(frozen=True, slots=True)
class ApparatusWitness:
    """Counts wake-ups and CPU time of the apparatus of an instance; `daemon` is the cgroup of its platform's daemon.

    A thread that starts inside a window counts with all its time. A thread that ends inside it does not count, since
    the kernel then discards its counters. If the kernel kills processes of an instance that exceed its limit on memory,
    the daemon does not count: Docker's daemon gets an event for each, and wakes up thousands of times a second. This is
    the reaction of the platform to such a neighbour, so it is part of its cost, not of the apparatus."""

    apparatus: Apparatus
    session: Session
    groups: Cgroups
    daemon: str = ""

    def wake_ups(self, act: Callable[[], object], calm_s: float) -> int:
        """Call `act`, and return how often the apparatus wakes up meanwhile and in the `calm_s` seconds after it."""
        kills, before = self._kills(), self._threads()
        act()
        time.sleep(calm_s)
        return _window(before, self._threads(self._kills() > kills), calm_s).wake_ups or 0

    @contextmanager
    def watching(self, by_messages: int = 0, idle_per_s: float = 0.0) -> Iterator[None]:
        """Add the window of the block to the apparatus, unless the block fails.

        The expected wake-ups are `by_messages`, for the messages that begin and end the block, and `idle_per_s` in each
        second, by timers."""
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
        """Return (CPU time in ns, wake-ups) of each thread of the apparatus, without the daemon if `killing`."""
        excluded = self.apparatus.instances | self.apparatus.daemons
        if not killing:
            excluded = self.apparatus.instances | (self.apparatus.daemons - {self.daemon})
        excluded_groups = [str(directory) for name in excluded for directory in self.groups.directories(name)]
        session_groups = [str(directory) for directory in self.groups.directories(self.session.cgroup)]
        return self.groups.files.threads(self.session.token, session_groups, excluded_groups)


def _window(before: Mapping[int, tuple[int, int]], after: Mapping[int, tuple[int, int]], elapsed_s: float) -> Window:
    if not after:  # the kernel does not count
        return Window(elapsed_s, None, None)
    total_ns, wake_ups = 0, 0
    for thread, (ran_ns, waits) in after.items():
        ran_before_ns, waits_before = before.get(thread, (0, 0))
        total_ns += ran_ns - ran_before_ns
        wake_ups += waits - waits_before
    return Window(elapsed_s, wake_ups, total_ns / _NS)
