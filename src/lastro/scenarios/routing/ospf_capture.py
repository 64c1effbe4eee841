"""A watch over the links and routing tables of a network, which sees events as they happen, without polling.

Sockets are opened inside the namespaces and read here by one thread: OSPF packets on packet sockets (packet(7), with a
filter for protocol 89 and one direction), changes of routes on route sockets (rtnetlink(7))."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import selectors
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lastro.errors import PlatformError
from lastro.host.ledger import NETNS_DIR

HELLO, DESCRIPTION, REQUEST, UPDATE, ACKNOWLEDGEMENT = 1, 2, 3, 4, 5
TYPES = {
    HELLO: "hello", DESCRIPTION: "database description", REQUEST: "link-state request", UPDATE: "link-state update",
    ACKNOWLEDGEMENT: "link-state acknowledgement",
}  # fmt: skip
_CLONE_NEWNET = 0x4000_0000
_ETH_P_ALL, _OUTGOING = 0x0003, 4
_SO_ATTACH_FILTER, _SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 26, 35, 33
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_ROUTE_GROUP = 1 << 6  # RTMGRP_IPV4_ROUTE
_BUFFER_BYTES = 4 << 20
_HALF_WORD, _BYTE, _EQUAL, _RETURN = 0x28, 0x30, 0x15, 0x06  # of classic BPF
_PROTOCOL, _PACKET_TYPE, _IN_HEADER = 0xFFFF_F000, 0xFFFF_F004, 9


@dataclass(frozen=True, slots=True)
class CapturePoint:
    """A namespace and the devices to watch in it, for packets that arrive at ends of links or that leave ports."""

    netns: str
    devices: frozenset[str]
    outgoing: bool


@dataclass(frozen=True, slots=True)
class Packet:
    """An OSPF packet on a link; the time is on the host's monotonic clock."""

    at_s: float
    device: str
    kind: int
    n_bytes: int


class Capture:
    """All packets and changes that have been seen so far."""

    def __init__(self) -> None:
        self.packets: list[Packet] = []
        self.last_update_s = 0.0  # the last link-state update
        self.last_route_s = 0.0  # the last change of a route
        self._dead: dict[str, tuple[float, float]] = {}  # period in which a device's packets are not counted
        self._selector = selectors.DefaultSelector()
        self._captures: list[socket.socket] = []
        self._overflows = 0
        self._failure = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def cut(self, devices: Iterable[str], at_s: float) -> None:
        """Stop counting packets at these devices: from then on, what is sent to them goes nowhere."""
        self._dead |= dict.fromkeys(devices, (at_s, math.inf))

    def mend(self, devices: Iterable[str], at_s: float) -> None:
        """Count packets at these devices again."""
        self._dead |= {device: (self._dead[device][0], at_s) for device in devices}

    def lost_packets(self) -> int:
        """Return how many packets were lost because they came faster than they were read."""
        counted = 0
        for each in self._captures:
            _, dropped = struct.unpack("II", each.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
            counted += dropped
        self._overflows += counted  # reading resets the kernel's count
        return self._overflows

    def blind_because(self) -> str:
        """Return why nothing is seen any more, so that the last times may be outdated; empty while the watch runs."""
        return "" if self._thread.is_alive() else self._failure or "the thread that reads them has ended"

    def per_second(self, from_s: float, until_s: float) -> dict[str, list[int]]:
        """Return how many packets of each type came in each second of a period."""
        seconds = max(1, int(until_s - from_s) + 1)
        found = {name: [0] * seconds for name in TYPES.values()}
        for packet in self.packets:
            if from_s <= packet.at_s <= until_s:
                found[TYPES[packet.kind]][int(packet.at_s - from_s)] += 1
        return found

    def count(self, from_s: float, until_s: float) -> Counter[int]:
        return Counter(packet.kind for packet in self.packets if from_s <= packet.at_s <= until_s)

    def _open(self, stack: ExitStack, places: Sequence[CapturePoint], tables: Sequence[str]) -> None:
        for place in places:
            made = _inside(place.netns, partial(_capture_socket, _filter(outgoing=place.outgoing)))
            capture = stack.enter_context(contextlib.closing(made))
            self._captures.append(capture)
            self._selector.register(capture, selectors.EVENT_READ, place)
        for netns in tables:
            table = stack.enter_context(contextlib.closing(_inside(netns, _route_socket)))
            self._selector.register(table, selectors.EVENT_READ, None)

    def _read(self) -> None:
        try:
            self._read_on()
        except OSError as error:
            self._failure = str(error)

    def _read_on(self) -> None:
        while not self._ended.is_set():
            for key, _ in self._selector.select(timeout=0.1):
                with contextlib.suppress(BlockingIOError):
                    while True:
                        source = key.fileobj
                        assert isinstance(source, socket.socket)
                        self._take_packet(source, key.data) if key.data else self._take_routes(source)

    def _take_routes(self, source: socket.socket) -> None:
        try:
            source.recv(65_536)
        except BlockingIOError:
            raise
        except OSError:  # ENOBUFS: there were more changes than fitted
            pass
        self.last_route_s = time.monotonic()

    def _take_packet(self, source: socket.socket, place: CapturePoint) -> None:
        data, notes, _, address = source.recvmsg(2048, 128)
        device, outgoing = str(address[0]), address[2] == _OUTGOING
        if device not in place.devices or outgoing != place.outgoing:
            return
        header = 4 * (data[0] & 15)
        kind = data[header + 1] if len(data) > header + 1 else 0
        if kind not in TYPES:
            return
        at_s = time.monotonic()
        for _, option, value in notes:
            if option == _SO_TIMESTAMPNS:  # on the wall clock: only the age is taken from it
                seconds, nanoseconds = struct.unpack("qq", value[:16])
                at_s -= min(1.0, max(0.0, time.time() - seconds - nanoseconds / 1e9))
        dead_s, mended_s = self._dead.get(device, (math.inf, math.inf))
        if dead_s <= at_s < mended_s:
            return
        self.packets.append(Packet(at_s, device, kind, len(data)))
        if kind == UPDATE:
            self.last_update_s = max(self.last_update_s, at_s)


@contextmanager
def watching(places: Sequence[CapturePoint], tables: Sequence[str]) -> Iterator[Capture]:
    """Watch packets at the places, and changes of namespaces' routing tables, for as long as the block lasts.

    Raises: PlatformError when a namespace cannot be entered."""
    found = Capture()
    with ExitStack() as stack:
        try:
            found._open(stack, places, tables)
        except OSError as error:
            raise PlatformError(
                f"the links cannot be watched: {error}", "run as root, on a kernel with packet sockets"
            ) from error
        found._thread.start()
        try:
            yield found
        finally:
            found._ended.set()
            found._thread.join()
            found._selector.close()


def _filter(*, outgoing: bool) -> tuple[tuple[int, int, int, int], ...]:
    """Return classic BPF that passes IPv4 packets of protocol 89 in the right direction, read from the network header.

    A bridge shows each packet three times, and what is dropped here takes no CPU time of the host that is measured."""
    turn = (0, 1) if outgoing else (1, 0)  # lines to skip when the packet goes out, and when not
    return (
        (_HALF_WORD, 0, 0, _PROTOCOL), (_EQUAL, 0, 5, 0x0800), (_BYTE, 0, 0, _IN_HEADER), (_EQUAL, 0, 3, 89),
        (_BYTE, 0, 0, _PACKET_TYPE), (_EQUAL, *turn, _OUTGOING),
        (_RETURN, 0, 0, 0xFFFF), (_RETURN, 0, 0, 0),
    )  # fmt: skip


def _inside(netns: str, make: type | object) -> socket.socket:
    """Make a socket inside a namespace, in a thread that enters the namespace and ends. Raises: OSError."""
    made: list[socket.socket] = []
    failed: list[OSError] = []

    def enter() -> None:
        try:
            with open(Path(NETNS_DIR) / netns, "rb") as file:
                if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
            made.append(make())  # type: ignore[operator]
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _capture_socket(lines: Sequence[tuple[int, int, int, int]]) -> socket.socket:
    found = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))
    _attach(found, lines)
    found.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    found.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    found.setblocking(False)
    with contextlib.suppress(BlockingIOError):  # drop what came before the filter was set
        while True:
            found.recv(1)
    return found


def _attach(to: socket.socket, lines: Sequence[tuple[int, int, int, int]]) -> None:
    buffer = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
    to.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(lines), ctypes.addressof(buffer)))


def _route_socket() -> socket.socket:
    found = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    found.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    found.bind((0, _ROUTE_GROUP))
    found.setblocking(False)
    return found


def totals(counted: Mapping[int, int]) -> dict[str, int]:
    """Return the numbers of packets by type name."""
    return {name: counted.get(kind, 0) for kind, name in TYPES.items()}
