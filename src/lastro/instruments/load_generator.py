"""Generators of frames: each offers a constant rate for a time, and reports the frames that it sent.

    direction = Direction(source, sink, "198.18.1.10")
    with generator.receiving(direction):
        offered = generator.offer(direction, Traffic((64,)), rate_fps=100_000, duration_s=1.0)

A generator's own count is not the truth: scenarios compare it with the counters of interfaces. Frame sizes include the
frame check sequence of 4 bytes, as in RFC 2544, which no virtual link carries or counts."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from lastro.errors import InputError, InstrumentError
from lastro.host.base import Process
from lastro.instruments.base import UNWATCHED, Instrument, Watch, positive
from lastro.platforms.base import Instance
from lastro.results.samples import Metric, Reading
from lastro.study.model import DAY_S, Level, Setting

PORT = 11111  # of the receiver; no function blocks it
FIRST_PORT = 20_000  # of the sender, in the first of several flows
CHECK_SEQUENCE_BYTES = 4
_HEADERS_BYTES = {"4": 14 + 20 + 8, "6": 14 + 40 + 8}  # of Ethernet, IP and UDP, by the version of IP
LEAST_BYTES, MOST_BYTES = 64, 1518
IMIX = "imix"
_IMIX = (64, 64, 570, 64, 64, 570, 64, 570, 64, 64, 570, 1518)  # 7 : 4 : 1, mixed
# The socket buffer, for sockperf's option --buffer-size. A frame occupies its sender's buffer until the function's
# kernel takes it up. The default buffer holds fewer frames than the kernel's queue in front of the function. So a
# function that is too slow would block its sender, which no wire could do, and never lose a frame.
BUFFER_BYTES = 4_000_000
_PATIENCE_S = 15.0
# A socket that nothing reads: when its buffer is full, the kernel drops what arrives, without an answer to the sender.
_RECEIVER = """use Socket; my ($port, $life, $ip) = @ARGV;
socket(my $all, $ip == 6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0) or die "socket: $!";
setsockopt($all, SOL_SOCKET, SO_RCVBUF, pack("l", 2048));
my $any = $ip == 6 ? Socket::pack_sockaddr_in6($port, Socket::IN6ADDR_ANY) : pack_sockaddr_in($port, INADDR_ANY);
bind($all, $any) or die "bind: $!";
$| = 1; print "receiving\\n"; sleep $life;
"""
_LIFE_S = 7200
FRAMES_OFFERED = Metric(
    "frames_offered", "1/s", "neither", "frames that the generator sent, by its own count and clock"
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """The frames of a load: their sizes in bytes, repeated in this order, and the number of flows.

    `ip` is the version of IP, "4" or "6"."""

    sizes: tuple[int, ...]
    flows: int = 1
    ip: str = "4"

    @classmethod
    def of(cls, size: str, flows: int = 1, ip: str = "4") -> Traffic:
        """Return the traffic with a frame size as a study writes it: '64', or 'imix'. Raises: InputError."""
        return cls(sizes_of(size), flows, ip)

    @property
    def payload_bytes(self) -> tuple[int, ...]:
        """The bytes of UDP payload in each frame; negative if the frame is too small for the headers."""
        return tuple(size - _HEADERS_BYTES[self.ip] - CHECK_SEQUENCE_BYTES for size in self.sizes)

    @property
    def counted_bytes(self) -> float:
        """The mean size of a frame as interfaces count it: with the Ethernet header, without the check sequence."""
        return sum(self.sizes) / len(self.sizes) - CHECK_SEQUENCE_BYTES


def sizes_of(size: str) -> tuple[int, ...]:
    """Parse a frame size: a number of bytes, or 'imix', a sequence of frames of 64, 570 and 1518 bytes, 7 : 4 : 1.

    Raises: InputError."""
    if size == IMIX:
        return _IMIX
    if not (size.isascii() and size.isdigit() and len(size) < 6) or not LEAST_BYTES <= int(size) <= MOST_BYTES:
        raise InputError(f"'{size}' is not a frame size", f"write {LEAST_BYTES} to {MOST_BYTES} bytes, or '{IMIX}'")
    return (int(size),)


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of a load: from `sender` to the address `target` of `receiver`."""

    sender: Instance
    receiver: Instance
    target: str

    @property
    def ip(self) -> str:
        """The version of IP: "4" or "6"."""
        return "6" if ":" in self.target else "4"


@dataclass(frozen=True, slots=True)
class FirstHop:
    """The first hop of a direction: the sender's device and addresses, and the MAC address to which it sends.

    `source` and `target` are IP addresses.
    `own_mac` is the address of `device`, `next_mac` that of the next hop."""

    device: str
    source: str
    target: str
    own_mac: str
    next_mac: str

    @classmethod
    def of(cls, direction: Direction) -> FirstHop:
        """Return the first hop, as the sender's kernel routes it. Raises: InstrumentError if it has no route."""
        direction.sender.run(["ping", "-n", "-c", "1", "-w", "5", direction.target], timeout_s=20, check=False)
        try:
            (route,) = json.loads(direction.sender.run(["ip", "-j", "route", "get", direction.target]).text)
            device = str(route["dev"])
            next_address = str(route.get("gateway", direction.target))
            neighbours = direction.sender.run(["ip", "-j", "neigh", "show", next_address, "dev", device]).text
            (neighbour,) = json.loads(neighbours)
            (link,) = json.loads(direction.sender.run(["ip", "-j", "link", "show", "dev", device]).text)
            return cls(device, str(route["prefsrc"]), direction.target, str(link["address"]), str(neighbour["lladdr"]))
        except (ValueError, KeyError, TypeError):
            raise InstrumentError(f"the sender has no route and hardware address to {direction.target}") from None


@dataclass(frozen=True, slots=True)
class SentLoad:
    """A load as its generator reports it: the numbers of frames intended and sent, and the seconds of sending."""

    intended: int
    sent: int
    lasted_s: float
    # Number of frames received. None if the generator does not know it: frames do not come back to it, and it does not
    # ask the receiver.
    received: int | None = None
    waited_s: float = 0.0  # CPU time in which the generator waited by keeping a CPU busy
    kernel_s: float = 0.0  # CPU time of its thread of the host's kernel, which is in no cgroup, waiting included

    @property
    def rate_fps(self) -> float:
        """The frames sent per second."""
        return self.sent / self.lasted_s


SIZE = Setting("frame_size", "64", "bytes of each frame with its check sequence, or imix", check=sizes_of)
FLOWS = Setting("flows", 1, "number of flows, which differ by their source port", 1, 10_000)
PROBE_S = Setting("probe_s", 1.0, "length of a probe that counts; sockperf rounds up", 0.1, DAY_S)
OFFERED_FPS = Setting("offered_fps", 1000.0, "frames a second, of a measurement at one rate", 1)


class LoadGenerator(Instrument):
    """A generator of frames at a constant rate."""

    metrics = (FRAMES_OFFERED,)
    packages: ClassVar[tuple[str, ...]] = ()  # Debian packages that it needs in the image
    most_flows: ClassVar[int] = 1  # number of flows that it can send at most
    mixes: ClassVar[bool] = False  # whether it can send frames of several sizes
    least_payload_bytes: ClassVar[int] = 0  # each of its frames has at least this UDP payload
    step_s: ClassVar[float] = 0.0  # durations must be multiples of it; 0 allows any duration
    starts_s: ClassVar[float] = 0.2  # a run takes this much longer than its duration
    spins: ClassVar[bool] = False  # it waits by keeping a CPU busy, and reports this time in `SentLoad`
    in_host_kernel: ClassVar[bool] = False  # it is a thread of the host's kernel, and so needs a sender on that kernel
    # The CPU to which it binds itself, even if it may not use that CPU; None: it does not.
    bound_to: ClassVar[int | None] = None

    @abstractmethod
    def offer(
        self, direction: Direction, traffic: Traffic, rate_fps: float, duration_s: float, watch: Watch = UNWATCHED
    ) -> SentLoad:
        """Send frames at a constant rate for `duration_s`, and return the load that the generator reports.

        When this returns, the last frames may still be in a queue, from which they are sent at `rate_fps`. Only the
        generator runs within `watch`. Raises: InstrumentError if its report cannot be right; CommandFailed;
        CommandTimeout."""

    def receiving(self, direction: Direction) -> AbstractContextManager[Process]:
        """Open a socket at the receiver inside the block, so that its kernel does not refuse frames that arrive.

        Raises: InstrumentError; CommandTimeout."""
        argv = ["perl", "-e", _RECEIVER, str(PORT), str(_LIFE_S), direction.ip]
        return direction.receiver.during(argv, "receiving", _PATIENCE_S)

    def condition(self) -> dict[str, str]:
        """Return {name: text} of the conditions of the load that a report must show; empty if there are none."""
        return {}

    @classmethod
    def refusal(cls, traffic: Traffic) -> str:
        """Return the reason why this generator cannot send this traffic; empty if it can."""
        if traffic.flows > cls.most_flows:
            return f"{cls.name} sends at most {cls.most_flows} flow{'s' * (cls.most_flows > 1)}"
        if len(traffic.sizes) > 1 and not cls.mixes:
            return f"{cls.name} sends frames of one size"
        least, smallest = cls._least_size(traffic), min(traffic.sizes)
        if smallest < least:
            return f"{cls.name} needs frames of {least} B for UDP over IPv{traffic.ip}, not {smallest} B"
        return ""

    @classmethod
    def remedy(cls, traffic: Traffic) -> str:
        """Return what a user can do about traffic for which `refusal` returns a reason."""
        if traffic.flows > cls.most_flows or (len(traffic.sizes) > 1 and not cls.mixes):
            return 'use instrument = "trafgen"'
        least = cls._least_size(traffic)
        return f"use one frame size of {least} B or more" if len(traffic.sizes) > 1 else f"raise frame_size to {least}"

    @classmethod
    def _least_size(cls, traffic: Traffic) -> int:
        """Return the size in bytes of the smallest frame whose payload this generator can fill."""
        return min(traffic.sizes) - min(traffic.payload_bytes) + cls.least_payload_bytes

    def reported(self, intended: int, sent: float, lasted_s: float, duration_s: float) -> SentLoad:
        """Return the load that the generator reported. Raises: InstrumentError if its numbers are impossible.

        It was asked for `intended` frames in `duration_s`."""
        positive(f"{self.name}'s number of frames sent", sent)
        positive(f"{self.name}'s time of sending", lasted_s)
        if sent > 1.05 * intended + 100:
            raise InstrumentError(f"{self.name} reports {sent:.0f} frames sent, but was asked for {intended}")
        if lasted_s < 0.5 * duration_s:
            raise InstrumentError(f"{self.name} says that it sent for {lasted_s:.3f} s instead of {duration_s:g} s")
        return SentLoad(intended, int(sent), lasted_s)

    def measure(
        self, client: Instance, server: Instance, target: str, settings: Mapping[str, Level], watch: Watch = UNWATCHED
    ) -> Reading:
        """Offer frames by the settings `offered_fps`, `probe_s`, `frame_size` and `flows`; return the rate sent."""
        direction = Direction(client, server, target)
        traffic = Traffic.of(SIZE.of(settings), FLOWS.of(settings))
        with self.receiving(direction):
            offered = self.offer(direction, traffic, OFFERED_FPS.of(settings), PROBE_S.of(settings), watch)
        return Reading({FRAMES_OFFERED.name: offered.rate_fps})


def frames_in(rate_fps: float, duration_s: float) -> int:
    """Return the whole number of frames, at least one, that a rate has in a time."""
    return max(1, round(rate_fps * duration_s))
