"""A running network of routers: instances of one platform with a routing daemon each, and a switch for each link."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from lastro import validity
from lastro.attachments.base import Segment
from lastro.attachments.separable import SeparableLinks
from lastro.errors import LastroError
from lastro.functions.ospf import NeighbourChange, Router
from lastro.platforms.base import Instance
from lastro.scenarios.routing.ospf_capture import Capture
from lastro.scenarios.shared.host_memory import proportional_bytes
from lastro.study.topology import RouterTopology
from lastro.testbed import Testbed
from lastro.validity import ClockReading, ClockSample

Table = Mapping[ipaddress.IPv4Network, frozenset[str]]
AT_ONCE = 20  # commands, the same as in `start_all`
START_S = 120.0
_SHOWN = 5  # differences and names in a message


@dataclass(slots=True)
class RouterNetwork:
    """A network of routers, numbered as in the topology. Times are on the monotonic clock of the testbed's host.

    `watch_cpu_s` is the CPU time of the host while the watch started."""

    testbed: Testbed
    topology: RouterTopology
    router: Router
    attachment: SeparableLinks
    instances: list[Instance]
    segments: list[Segment]
    watch: Capture
    watch_cpu_s: float = 0.0
    marks: dict[str, float] = field(default_factory=dict)
    clocks: list[list[ClockSample | None]] = field(default_factory=list)  # of all routers, by reading
    host_clocks: list[ClockReading] = field(default_factory=list)  # the host's own, read beside them

    @property
    def names(self) -> tuple[str, ...]:
        return self.topology.names

    def now_s(self) -> float:
        return self.testbed.host.glance().at_s

    def on_all(self, script: str) -> list[str]:
        """Run a shell script in each router; return the outputs in the routers' order, '' where it could not run."""

        def run(instance: Instance) -> str:
            try:
                return instance.run(["sh"], stdin=script, timeout_s=START_S, check=False).text
            except LastroError:
                return ""

        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(run, self.instances))

    # Routes

    def tables(self) -> list[Table]:
        """Return the table of each router: the routes through other routers in its kernel."""
        if all(instance.shares_kernel for instance in self.instances):
            lines = [f"ip -n {instance.netns} -j -4 route show; echo" for instance in self.instances]
            text = self.testbed.host.run(["sh"], stdin="\n".join(lines) + "\n", check=False).text
            texts = [line for line in text.splitlines() if line.strip()]
        else:
            texts = [text.strip() for text in self.on_all("ip -j -4 route show\n")]
        return [parse_table(text) for text in texts]

    def differences(self, expected: Sequence[Table]) -> list[str]:
        """Describe the differences between the routers' tables and the `expected` ones; return [] if there are none."""
        tables = self.tables()
        if len(tables) != len(expected):
            return [f"{len(tables)} of {len(expected)} routers reported their routes"]
        compared = zip(self.names, tables, expected, strict=True)
        return [f"{name}: {each}" for name, actual, wanted in compared for each in _differences(actual, wanted)]

    # Failures of links

    def cut(self, links: Collection[int], *, carrier: bool) -> float:
        """Cut the links with these indices simultaneously; return the time when that began.

        From then on, the watch does not count packets that are sent to these links."""
        segments = [self.segments[number] for number in links]
        with self.testbed.host.timed() as span:
            self.attachment.cut(self.testbed, segments, carrier=carrier)
        self.watch.cut(ends_in_dut(segments), span.began_s)
        return span.began_s

    def mend(self, links: Collection[int], *, carrier: bool) -> float:
        """Revert `cut` for the links with these indices; return the time when that began."""
        segments = [self.segments[number] for number in links]
        with self.testbed.host.timed() as span:
            self.attachment.mend(self.testbed, segments, carrier=carrier)
        self.watch.mend(ends_in_dut(segments), span.began_s)
        return span.began_s

    # Daemons and clocks

    def dead(self) -> list[str]:
        """Describe the routers that do not answer, or with a daemon that has ended; return [] if there are none."""
        answers = self.on_all(self.router.dead_script() + "echo answered\n")
        named = zip(self.names, map(str.split, answers), strict=True)
        dead = [(name, words) for name, words in named if words != ["answered"]]
        return [f"{name}: {' and '.join(words[:-1]) or 'no answer'}" for name, words in dead]

    def changes(self) -> list[tuple[int, NeighbourChange]]:
        """Return the neighbour changes in all routers' logs as (router's number, change).

        Their times are converted to the host's monotonic clock."""
        changes = []
        readings = self.host_clocks or [self.testbed.host.clock().reading]
        for number, log in enumerate(self.on_all(f"cat {self.router.log}")):
            samples = [sample for clocks in self.clocks if (sample := clocks[number])]
            for change in self.router.changes(log):
                changes.append((number, replace(change, at_s=_on_host(change.at_s, samples, readings))))
        return changes

    def read_clocks(self) -> None:
        """Read the clocks of the host, and of routers with clocks of their own.

        Call this before and after the times that are to be converted."""
        self.host_clocks.append(self.testbed.host.clock().reading)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            self.clocks.append(list(pool.map(lambda instance: instance.clock(), self.instances)))

    def clock_reasons(self, limit: float) -> list[str]:
        """Return reasons if a router's clock was set, or drifted by more than the fraction `limit`; else []."""
        reasons, drifts = [], {}
        for name, before, after in zip(self.names, *self.clocks, strict=True):
            if before and after:
                drifts[f"router {name}"] = validity.drift(before, after)
                reasons += validity.clock_reasons(before.reading, after.reading, f"router {name}")
        return reasons + validity.drift_reasons(drifts, limit)

    # Resource usage

    def cpu_s(self) -> float:
        return sum(instance.usage().cpu_s for instance in self.instances)

    def memory_bytes(self) -> int:
        """Return the bytes of memory that are charged to the routers' cgroups, all together."""
        return sum(instance.usage().memory_bytes for instance in self.instances)

    def proportional_bytes(self) -> int | None:
        """Return the sum of the proportional set sizes, in bytes, of the routers' processes (proc(5)).

        None if the size of a running process cannot be read, since a sum without it would be too small."""
        pids = [pid for instance in self.instances for pid in instance.pids()]
        return proportional_bytes(self.testbed.host, pids)


def wall_offset_s(instance: Instance) -> float:
    """Return the instance's wall clock minus the host's monotonic clock."""
    if clock := instance.clock():
        return clock.guest_real_s - clock.host_s
    of_host = instance.testbed.host.clock().reading
    return of_host.realtime_s - of_host.monotonic_s


def _on_host(real_s: float, samples: Sequence[ClockSample], readings: Sequence[ClockReading]) -> float:
    """Convert an instance's wall clock to the host's monotonic clock, in seconds.

    If the instance has two `samples` of its own clock, a significant drift between them is corrected. Otherwise, its
    clock is the host's, and since that may be adjusted, the nearest of `readings` is used."""
    if len(samples) == 2:
        before, drift = samples[0], validity.drift(*samples)
        rate = drift.ratio if drift.significant and drift.ratio > 0 else 1.0
        return before.host_s + (real_s - before.guest_real_s) / rate
    nearest = min(readings, key=lambda reading: abs(real_s - reading.realtime_s))
    return nearest.monotonic_s + real_s - nearest.realtime_s


def parse_table(text: str) -> Table:
    """Return {destination: its next hops} from the text of `ip -json route`; {} if it is not JSON.

    A router's own subnets, which have no gateway, and the default route are left out."""
    try:
        entries = json.loads(text or "[]")
    except ValueError:
        return {}
    routes: dict[ipaddress.IPv4Network, frozenset[str]] = {}
    for entry in entries:
        hops = frozenset(hop["gateway"] for hop in entry.get("nexthops", [entry]) if "gateway" in hop)
        if hops and entry["dst"] != "default":
            routes[ipaddress.IPv4Network(entry["dst"])] = hops
    return routes


def _differences(actual: Table, wanted: Table) -> list[str]:
    return [
        f"{subnet} goes {_over(actual.get(subnet))}, but should go {_over(wanted.get(subnet))}"
        for subnet in sorted(set(actual) | set(wanted))
        if actual.get(subnet) != wanted.get(subnet)
    ]


def _over(hops: frozenset[str] | None) -> str:
    return f"over {' and '.join(sorted(hops))}" if hops else "nowhere"


def shortened(words: Sequence[str]) -> str:
    """Join the first few words by semicolons, and append how many more there are."""
    more = f"; and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return "; ".join(words[:_SHOWN]) + more


def ends_in_dut(segments: Sequence[Segment]) -> frozenset[str]:
    return frozenset(end for segment in segments for end, _ in segment.ends())


def last_full(
    changes: Sequence[tuple[int, NeighbourChange]], from_s: float, until_s: float
) -> tuple[float | None, int]:
    """Return (time when the last adjacency became full, number of full ends at `until_s`).

    The time is None if all ends that are full at `until_s` were already full before `from_s`. An adjacency has two
    ends, one in each router. `changes` are pairs (router's number, change of a neighbour) of all routers."""
    states: dict[tuple[int, str, str], Any] = {}
    for number, change in sorted(changes, key=lambda number_and_change: number_and_change[1].at_s):
        if change.at_s <= until_s:
            states[number, change.interface, change.neighbour] = change
    full = [change.at_s for change in states.values() if change.state == "Full"]
    recent = [at_s for at_s in full if at_s >= from_s]
    return (max(recent) if recent else None), len(full)
