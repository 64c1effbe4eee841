"""Count the activity of the apparatus on a host while an instrument measures there.

The apparatus is everything that a session runs except the instances: Lastro itself, clients, shims and daemons of
platforms, connections, captures. When a thread of the apparatus wakes up, an instance may lose a CPU."""

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
    """The windows in which instruments measured on a testbed, and the cgroups that are not part of its apparatus."""

    instances: set[str] = field(default_factory=set)  # what is measured: instances, and daemons of links
    # Of platforms; a daemon belongs to the apparatus only while an instance of its platform measures.
    daemons: set[str] = field(default_factory=set)
    windows: list[Window] = field(default_factory=list)

    def drain(self) -> list[Window]:
        """Return the windows recorded since the last call, and clear them."""
        windows, self.windows = self.windows, []
        return windows


@dataclass(frozen=True, slots=True)
class ApparatusWitness:
    """A counter of the wake-ups and the CPU time of the apparatus while one instance measures.

    A thread that starts inside a window counts with all its CPU time. A thread that ends inside a window does not
    count, since the kernel discards its counters. The daemon does not count if the kernel kills processes because an
    instance exceeds its memory limit: Docker's daemon gets an event for each kill, and wakes up thousands of times a
    second. This is how the platform reacts to such a neighbour, so it is a cost of the platform, not apparatus."""

    apparatus: Apparatus
    session: Session
    groups: Cgroups
    daemon: str = ""  # cgroup of the daemon of the instance's platform; empty if it has none

    def wake_ups(self, act: Callable[[], object], calm_s: float) -> int:
        """Return how often the apparatus wakes up in `act` and the `calm_s` after it; 0 if that is not counted."""
        kills, before = self._kills(), self._threads()
        act()
        time.sleep(calm_s)
        return _window(before, self._threads(self._kills() > kills), calm_s).wake_ups or 0

    @contextmanager
    def watching(self, by_messages: int = 0, idle_per_s: float = 0.0) -> Iterator[None]:
        """Record the block as a window of the apparatus, unless the block raises an exception.

        The window's expected wake-ups are `by_messages`, for the messages that begin and end the block, plus
        `idle_per_s` for each second, for the timers of daemons."""
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
        """Return {thread ID: (CPU time in ns, wake-ups)}, if these are counted; `killing` leaves out the daemon."""
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
