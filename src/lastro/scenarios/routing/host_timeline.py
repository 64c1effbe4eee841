"""The host time series: CPU time and memory in use, once a second, beginning before the first start (proc(5)).

The processes that watch a network of routers have a cgroup of their own, so that what they use can be left out."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from lastro.errors import LastroError
from lastro.host.activity import STAT, n_cpus
from lastro.host.base import Process
from lastro.host.cgroups import Usage
from lastro.platforms.base import Platform
from lastro.scenarios.shared.host_memory import MEMINFO, pss_bytes, rollup, used_bytes
from lastro.testbed import Testbed


@dataclass(frozen=True, slots=True)
class Observers:
    """The processes that watch a network, in the cgroup `group`. Their usage is neither the routers' nor foreign load.

    `platform` is the platform of the routers, or None; it reports the part of their usage that the host's /proc does
    not show. `pids` includes processes that have ended."""

    testbed: Testbed
    group: str
    platform: Platform | None = None
    pids: list[int] = field(default_factory=list)

    def spawn(self, netns: str, command: str) -> Process:
        """Start a shell command in a network namespace, in the observers' cgroup; its errors are part of its output."""
        enter = [*self.testbed.cgroups.entering(self.group), "ip", "netns", "exec", netns]
        process = self.testbed.host.spawn([*enter, "sh", "-c", f"exec {command} 2>&1"])
        self.pids.append(process.pid)
        return process

    def hidden(self) -> Usage:
        """Return the routers' usage that the host's /proc does not show."""
        return self.platform.hidden_usage(self.testbed) if self.platform else Usage()

    def cpus(self) -> int:
        if self.platform:
            return self.platform.host_cpus(self.testbed)
        return n_cpus(self.testbed.host.read_text(STAT))

    @property
    def files(self) -> list[str]:
        """The files to read for the observers' usage: first one for their CPU time, then one per process for memory."""
        return [str(self.testbed.cgroups.cpu_file(self.group)), *map(rollup, self.pids)]

    def cpu_s(self, texts: Mapping[str, str]) -> float:
        """Return the CPU seconds of the watching processes, parsed from the texts of `files`."""
        return self.testbed.cgroups.parse_cpu_s(texts[self.files[0]])

    def memory_bytes(self, texts: Mapping[str, str]) -> int:
        """Return the memory of the watching processes, parsed from the texts of `files`.

        It includes the ring buffers of captures, which the kernel charges to no cgroup."""
        return sum(pss_bytes(texts.get(rollup(pid), "")) or 0 for pid in self.pids)


@contextmanager
def observers(testbed: Testbed, platform: Platform | None = None) -> Iterator[Observers]:
    """Make a cgroup for the observers inside the block; observers that still run end with the block."""
    group = f"{testbed.session.cgroup}/{testbed.session.unique('watch')}"
    with testbed.session.owned("cgroup", group):
        testbed.cgroups.make(testbed.host, group)
        yield Observers(testbed, group, platform)


_EVERY_S = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")
# The fields idle, iowait and steal. Busy time is computed from them: the kernel measures idle time exactly, but counts
# busy time in ticks. It misses what runs between two ticks, and an emulated machine loses many ticks.
_NOT_BUSY = (3, 4, 7)


@dataclass(frozen=True, slots=True)
class HostReading:
    """A reading of the host at the time `at_s` of its monotonic clock: CPU seconds and bytes of memory in use.

    Only differences of `busy_s` have a meaning. `busy_s` and `taken_bytes` exclude the observers; `busy_s` also
    excludes Lastro itself. `commands_s` is the part of `busy_s` that was used by commands that Lastro ran and that
    have ended."""

    at_s: float
    busy_s: float
    taken_bytes: float
    commands_s: float = 0.0


class HostTimeline:
    """A time series of samples, with linear interpolation between them."""

    def __init__(self, read: Callable[[], HostReading], cpus: int) -> None:
        """Make an empty series. `read` takes one sample of the host, which has this number of CPUs."""
        self._read, self.cpus = read, cpus
        self._samples: list[HostReading] = []

    def take(self) -> HostReading:
        """Take a sample now, in addition to the one that `recorded_timeline` takes each second, and return it."""
        sample = self._read()
        self._samples.append(sample)
        return sample

    def cpu_percent(self, from_s: float, until_s: float) -> tuple[float, ...]:
        """Return the busy percentage of all CPUs in each whole second from `from_s` to `until_s`."""
        samples = self._sorted()
        busy_s = [_between(samples, at_s, "busy_s") for at_s in _seconds(from_s, until_s)]
        return tuple(100 * max(0.0, b - a) / _EVERY_S / self.cpus for a, b in pairwise(busy_s))

    def taken_bytes(self, from_s: float, until_s: float) -> tuple[float, ...]:
        """Return the bytes of memory in use at the end of each whole second from `from_s` to `until_s`."""
        samples = self._sorted()
        return tuple(_between(samples, at_s, "taken_bytes") for at_s in _seconds(from_s, until_s)[1:])

    def mean_taken_bytes(self, from_s: float, until_s: float) -> float:
        """Return the mean bytes of memory in use over a period, weighted by time, since samples are unevenly spaced."""
        samples = self._sorted()
        inside = [sample.at_s for sample in samples if from_s < sample.at_s < until_s]
        points = [(at_s, _between(samples, at_s, "taken_bytes")) for at_s in (from_s, *inside, until_s)]
        if until_s <= from_s:
            return points[0][1]
        area = sum((b_s - a_s) * (a_bytes + b_bytes) / 2 for (a_s, a_bytes), (b_s, b_bytes) in pairwise(points))
        return area / (until_s - from_s)

    def _sorted(self) -> list[HostReading]:
        return sorted(self._samples, key=lambda sample: sample.at_s)


def _between(samples: Sequence[HostReading], at_s: float, name: str) -> float:
    """Return the value of the field `name` at the time `at_s`, by linear interpolation between samples."""
    position = bisect_left(samples, at_s, key=lambda sample: sample.at_s)
    before, after = samples[max(0, position - 1)], samples[min(position, len(samples) - 1)]
    low, high = float(getattr(before, name)), float(getattr(after, name))
    if after.at_s <= before.at_s:
        return high
    return low + (high - low) * (at_s - before.at_s) / (after.at_s - before.at_s)


def _seconds(from_s: float, until_s: float) -> list[float]:
    return [from_s + second * _EVERY_S for second in range(int((until_s - from_s) / _EVERY_S) + 1)]


@contextmanager
def recorded_timeline(observers: Observers) -> Iterator[HostTimeline]:
    """Record a host time series inside the block, a sample each second. Raises: the error that ended the recording."""
    timeline = HostTimeline(lambda: _sample(observers), observers.cpus())
    ended = threading.Event()
    timeline.take()
    failed = list[LastroError]()

    def take_samples() -> None:
        next_s = time.monotonic() + _EVERY_S
        while not ended.wait(max(0.0, next_s - time.monotonic())):
            try:
                timeline.take()
            except LastroError as error:  # such as a lost connection
                failed.append(error)
                return
            next_s = max(next_s + _EVERY_S, time.monotonic())

    thread = threading.Thread(target=take_samples, daemon=True)
    thread.start()
    try:
        yield timeline
    finally:
        ended.set()
        thread.join()
    if failed:
        raise failed[0]


def _sample(observers: Observers) -> HostReading:
    hidden = observers.hidden()
    seen = observers.testbed.host.glance([STAT, MEMINFO, *observers.files])
    ticks = seen.texts[STAT].splitlines()[0].split()[1:]
    busy_s = n_cpus(seen.texts[STAT]) * seen.at_s - sum(int(ticks[field]) for field in _NOT_BUSY) / _TICKS
    busy_s += hidden.cpu_s - seen.spent.own_s - observers.cpu_s(seen.texts)
    taken = used_bytes(seen.texts[MEMINFO]) + hidden.memory_bytes - observers.memory_bytes(seen.texts)
    return HostReading(seen.at_s, busy_s, taken, seen.spent.commands_s)
