"""A watch over the links and routing tables of a network: what tcpdump(8) and `ip monitor` print as it happens.

The kernel of the testbed's host stamps each packet, and `ip` each change of a route, on its wall clock; here, both are
put on its monotonic clock. So it does not matter when the lines arrive."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime

from lastro.host.base import Completed, Process
from lastro.requirements import Requirements
from lastro.scenarios.routing.host_timeline import Observers
from lastro.validity import ClockReading

HELLO, DESCRIPTION, REQUEST, UPDATE, ACKNOWLEDGEMENT = 1, 2, 3, 4, 5
TYPES = {
    HELLO: "hello", DESCRIPTION: "database description", REQUEST: "link-state request", UPDATE: "link-state update",
    ACKNOWLEDGEMENT: "link-state acknowledgement",
}  # fmt: skip
_PRINTED = {
    "Hello": HELLO, "Database Description": DESCRIPTION, "LS-Request": REQUEST, "LS-Update": UPDATE,
    "LS-Ack": ACKNOWLEDGEMENT,
}  # fmt: skip
# In immediate mode, the end of an exchange is seen immediately. A packet's type is in its first 128 bytes; the ring of
# 1 MiB has room for about 4000 packets. The direction is part of the filter, which runs in the kernel, since a bridge
# shows each packet three times. With this link type, each packet has the name of its device (libpcap 1.10 and newer).
_TCPDUMP = (
    "tcpdump -i any -y LINUX_SLL2 -n -l --immediate-mode -s 128 -B 1024 -tt --time-stamp-precision=nano"
    " '{direction} and ip proto 89'"
)
REQUIREMENTS = Requirements(packages=("tcpdump",))
_MONITOR = "env TZ=UTC0 ip -4 -ts -rcvbuf 4194304 monitor all-nsid route"
_LISTENING, _START_S = "listening on", 30.0
_PACKET = re.compile(r"(\d+\.\d+) (\S+) .* OSPFv2, ([^,]+), length ")
_CHANGE = re.compile(r"\[(\d{4}-[^]]+)\] \[nsid \d+\]")
_DROPPED = re.compile(r"(\d+) packets? dropped by kernel")
_OVERRUN = "netlink receive error"
_RATE_S = 1.0  # the least time between two readings of the clocks whose ratio is not mere jitter


@dataclass(frozen=True, slots=True)
class CapturePoint:
    """A namespace, and the devices on which to watch packets: sent ones if `outgoing`, otherwise received ones."""

    netns: str
    devices: frozenset[str]
    outgoing: bool


@dataclass(frozen=True, slots=True)
class Packet:
    """An OSPF packet on a link; the time is on the host's monotonic clock."""

    at_s: float
    device: str
    kind: int


class Capture:
    """The packets and the changes of routes that were seen so far. Times are on the host's monotonic clock.

    `links` are processes of tcpdump, each with its capture point; `routes` is a process of `ip monitor`, or None.
    `clock` reads the host's clocks."""

    def __init__(
        self,
        links: Sequence[tuple[Process, CapturePoint]],
        routes: Process | None,
        clock: Callable[[], ClockReading] = ClockReading.now,
    ) -> None:
        self._links, self._routes, self._read_clock = links, routes, clock
        self._packets: list[Packet] = []
        self._last_update_s = self._last_route_s = 0.0
        self._cut_periods: dict[str, tuple[float, float]] = {}  # in which a device's packets are not counted
        self._n_read: Counter[Process] = Counter()  # lines, by process
        self._clock = clock()

    @property
    def packets(self) -> Sequence[Packet]:
        self._read()
        return self._packets

    @property
    def last_update_s(self) -> float:
        """The time of the last link-state update; 0 before the first."""
        self._read()
        return self._last_update_s

    @property
    def last_route_s(self) -> float:
        """The time of the last change of a route; 0 before the first."""
        self._read()
        return self._last_route_s

    def cut(self, devices: Iterable[str], at_s: float) -> None:
        """Do not count packets at these devices from the time `at_s` on, since they do not arrive."""
        self._cut_periods |= dict.fromkeys(devices, (at_s, math.inf))

    def mend(self, devices: Iterable[str], at_s: float) -> None:
        """Count packets at these devices again from the time `at_s` on."""
        self._cut_periods |= {device: (self._cut_periods[device][0], at_s) for device in devices}

    def per_second(self, from_s: float, until_s: float) -> dict[str, list[int]]:
        """Return {name of a packet type: packets in each second from `from_s` to `until_s`}."""
        seconds = max(1, int(until_s - from_s) + 1)
        counts = {name: [0] * seconds for name in TYPES.values()}
        for packet in self.packets:
            if from_s <= packet.at_s <= until_s:
                counts[TYPES[packet.kind]][int(packet.at_s - from_s)] += 1
        return counts

    def count(self, from_s: float, until_s: float) -> Counter[int]:
        return Counter(packet.kind for packet in self.packets if from_s <= packet.at_s <= until_s)

    def end(self) -> list[str]:
        """End the watch; return why it may have missed packets or changes of routes, [] if it did not."""
        early, n_dropped, overrun = [], 0, False
        for process, _ in self._links:
            alive, done = process.alive(), process.stop()
            dropped = _DROPPED.search(done.text)  # which tcpdump prints when it ends normally
            n_dropped += int(dropped[1]) if dropped else 0
            early += [] if alive and dropped else [f"tcpdump {_exit_message(done)}"]
        if self._routes:
            alive, done = self._routes.alive(), self._routes.stop()
            overrun = _OVERRUN in done.text
            early += [] if alive else [f"ip monitor {_exit_message(done)}"]
        self._read()
        reasons = [f"links and routes were not watched until the end of the trial: {words}" for words in early]
        if n_dropped:
            reasons.append(f"{n_dropped} packets on the links were not counted: they came too fast")
        if overrun:
            reasons.append("some changes of routes were not seen: they came too fast")
        return reasons

    def _read(self) -> None:
        """Parse the lines that the processes have printed since the last call."""
        packets = [(point, line) for process, point in self._links for line in self._new_lines(process)]
        changes = self._new_lines(self._routes) if self._routes else []
        if not packets and not changes:
            return
        before, self._clock = self._clock, self._read_clock()  # after the lines, so that none is later than the clock
        for point, line in packets:
            if (match := _PACKET.match(line)) and match[2] in point.devices and match[3] in _PRINTED:
                at_s = _to_monotonic(float(match[1]), before, self._clock)
                self._count_unless_cut(Packet(at_s, match[2], _PRINTED[match[3]]))
        for match in filter(None, map(_CHANGE.match, changes)):
            real_s = datetime.fromisoformat(f"{match[1]}+00:00").timestamp()
            self._last_route_s = max(self._last_route_s, _to_monotonic(real_s, before, self._clock))

    def _new_lines(self, process: Process) -> list[str]:
        lines = process.lines(self._n_read[process])
        self._n_read[process] += len(lines)
        return lines

    def _count_unless_cut(self, packet: Packet) -> None:
        cut_s, mended_s = self._cut_periods.get(packet.device, (math.inf, math.inf))
        if cut_s <= packet.at_s < mended_s:
            return
        self._packets.append(packet)
        if packet.kind == UPDATE:
            self._last_update_s = max(self._last_update_s, packet.at_s)


@contextmanager
def watching(observers: Observers, points: Sequence[CapturePoint], tables: Sequence[str]) -> Iterator[Capture]:
    """Watch packets at `points`, and changes of the routing tables of the namespaces `tables`, inside the block.

    Raises: Unavailable without tcpdump; CommandFailed when it does not start."""
    observers.testbed.host.require("tcpdump", REQUIREMENTS.install)
    with ExitStack() as stack:

        def spawned(netns: str, command: str) -> Process:
            process = observers.spawn(netns, command)
            stack.callback(process.stop)
            return process

        links = [
            (spawned(point.netns, _TCPDUMP.format(direction="outbound" if point.outgoing else "inbound")), point)
            for point in points
        ]
        routes = None
        if tables:  # a change that comes before `ip` listens is lost, but never the last one of an exchange
            _assign_ids(observers, tables)
            routes = spawned(observers.testbed.dut, _MONITOR)
        for process, _ in links:
            process.wait_line(_LISTENING, _START_S)
        yield Capture(links, routes, lambda: observers.testbed.host.clock().reading)


def _assign_ids(observers: Observers, tables: Sequence[str]) -> None:
    """Give each namespace an id in the DUT's namespace, unless it has one, so that a monitor there sees its routes."""
    host, ip = observers.testbed.host, ["ip", "-n", observers.testbed.dut]
    known = {entry.get("name") for entry in host.run_json([*ip, "-j", "netns", "list-id"])}
    lines = [f"netns set {name} auto" for name in tables if name not in known]
    if lines:
        host.run([*ip, "-batch", "-"], stdin="\n".join(lines) + "\n")


def _to_monotonic(real_s: float, before: ClockReading, now: ClockReading) -> float:
    """Convert `real_s`, a recent time of a wall clock that may have been adjusted, to the monotonic clock.

    `before` and `now` are readings of both clocks. The result is never later than `now`."""
    real, monotonic = now.realtime_s - before.realtime_s, now.monotonic_s - before.monotonic_s
    rate = monotonic / real if real > _RATE_S else 1.0
    # Never in the future: if the clock was set back, the trial would wait for that time, though it is invalid anyway.
    return now.monotonic_s - max(0.0, rate * (now.realtime_s - real_s))


def _exit_message(done: Completed) -> str:
    lines = done.text.strip().splitlines()
    return f"exited with code {done.returncode}" + (f" ({lines[-1]})" if lines else "")


def totals(counted: Mapping[int, int]) -> dict[str, int]:
    """Return {name of a packet type: packets} from `counted`, {number of the type: packets}."""
    return {name: counted.get(kind, 0) for kind, name in TYPES.items()}
