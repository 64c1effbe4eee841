"""Generated packets through a function, and which of them arrive. The source sends raw, and the sink reads raw.

Hypothesis draws what the packets are like, and Scapy writes them. Each has a number in its payload, so that of two
implementations it is known which packets they pass, and not only how many. They are sent in batches: each ends with a
packet that every function passes, and the next one is sent when it has arrived, so no queue on the path overflows."""

from __future__ import annotations

import ctypes
import random
import socket
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from scapy.layers import inet
from scapy.packet import Packet, Raw

from lastro import registry
from lastro.functions.base import CounterReading, ForwardingPath
from lastro.functions.dpi import SIGNATURE
from lastro.functions.firewall import BLOCKED_PORTS
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.instruments.iperf3_udp import Iperf3Udp
from lastro.instruments.ping import Ping
from lastro.results.samples import Reading
from lastro.scenarios.shared.chain import SINK_PORT, Chain, deployed
from lastro.scenarios.shared.flow import crossing_reasons, difference
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

SOURCES = (ForwardingPath().source, "198.18.66.5", "198.19.66.255", "198.18.67.5", "198.19.65.255")
SETTINGS = {"tcp_s": 1, "tcp_streams": 1, "udp_s": 1, "udp_rate": "10M", "ping_s": 0.5, "ping_interval_ms": 100}
COUNTED = {"crossed", "blocked", "detoured"}
TCP, UDP, ICMP = 6, 17, 1
GRE, EXPERIMENT = 47, 253
SYN, ACK = 2, 16
BATCH = 64  # packets, which fit the buffer of each socket on the path
_DRAWN_TOGETHER = 40  # packets: as many as fit what Hypothesis draws for one example
_SO_RCVBUFFORCE, _CLONE_NEWNET = 33, 0x40000000
_ENDS_S, _LATE_S = 10.0, 0.3


@contextmanager
def chain_of(testbed: Testbed, pool: PlatformPool, row: str, implementation: str, where: str) -> Iterator[Chain]:
    """A chain of a function, or of several in a row, such as "none>firewall"."""
    platform, attachment = where.split("+")
    links = registry.get("attachment", attachment)()
    functions = [registry.get("function", name)() for name in row.split(">")]
    with (
        links.prepare(testbed),
        deployed(testbed, pool.get(platform), links, *functions, implementation=implementation) as chain,
    ):
        yield chain


def measured_flows(chain: Chain) -> Iterator[tuple[str, Reading, dict[str, CounterReading]]]:
    """TCP, UDP and ping over a chain, each valid and accounted for; with what the function counted meanwhile."""
    for instrument in (Iperf3Tcp(), Iperf3Udp(), Ping()):
        before = chain.counted()
        reading = instrument.measure(chain.source, chain.sink, chain.path.sink, SETTINGS)
        assert not reading.invalid_because and reading.measurements, (instrument.name, reading)
        seen = difference(before, chain.counted())
        assert crossing_reasons(instrument.name, chain, seen, reading.payload_bytes) == []
        yield instrument.name, reading, seen


# What is sent


@dataclass(frozen=True)
class Draft:
    """What a packet is like. Its payload has `kind` at the fraction `at` of `noise` random bytes, and its number.

    Without noise and kind, the payload is empty."""

    source: str
    protocol: int
    port: int
    kind: bytes
    noise: int
    at: float
    tos: int = 0
    tcp_flags: int = SYN
    options: int = 0  # bytes of IP options, which do nothing

    def written(self, path: ForwardingPath, number: int) -> Packet:
        noise = random.Random(number).randbytes(self.noise)
        cut = round(self.at * self.noise)
        payload = noise[:cut] + self.kind + noise[cut:]
        payload += struct.pack("!I", number) if payload else b""
        head = inet.IP(
            src=self.source, dst=path.sink, id=number % 0xFFFF + 1, proto=self.protocol, tos=self.tos, ttl=64,
            options=[inet.IPOption_NOP()] * self.options,
        )  # fmt: skip
        if self.protocol == TCP:
            return head / inet.TCP(sport=40_000, dport=self.port, seq=1, flags=self.tcp_flags) / Raw(payload)
        if self.protocol == UDP:
            return head / inet.UDP(sport=40_000, dport=self.port) / Raw(payload)
        return head / (inet.ICMP(id=self.port, seq=1) / Raw(payload) if self.protocol == ICMP else Raw(payload))


def drafts(path: ForwardingPath, *, connections: bool) -> st.SearchStrategy[Draft]:
    """Packets from blocked and other sources, to blocked and other ports, with and without the signature.

    With `connections`, they are such that a function which keeps each connection takes them all for new ones."""
    suspect, blocked = SIGNATURE.encode(), st.sampled_from(BLOCKED_PORTS)
    odd = {
        "tos": st.integers(0, 255),
        "tcp_flags": st.sampled_from((SYN, ACK)) | st.integers(0, 255),
        "options": st.sampled_from((0, 0, 4)),
    }
    return st.builds(
        Draft,
        source=st.sampled_from((path.source, *SOURCES)) | st.ip_addresses(network="198.19.0.0/16").map(str),
        protocol=st.sampled_from(
            (TCP, TCP, UDP, UDP, ICMP) if connections else (TCP, TCP, UDP, UDP, ICMP, GRE, EXPERIMENT)
        ),
        port=blocked | blocked.map(lambda port: port + 1) | st.integers(1, 65_535),
        kind=st.sampled_from((b"", suspect, suspect, suspect[:-1], suspect.lower(), suspect[1:] + suspect[:4])),
        noise=st.sampled_from((0, 1)) | st.integers(0, 1380),
        at=st.sampled_from((0.0, 1.0)) | st.floats(0, 1),
        **({} if connections else odd),
    )


@cache
def drawn(path: ForwardingPath, n: int, *, connections: bool) -> list[Draft]:
    """The same `n` drafts each time."""
    found: list[Draft] = []
    enough = -(-n // _DRAWN_TOGETHER)

    @settings(max_examples=enough, phases=[Phase.generate], derandomize=True, suppress_health_check=list(HealthCheck))
    @given(
        st.lists(drafts(path, connections=connections), min_size=_DRAWN_TOGETHER, max_size=_DRAWN_TOGETHER, unique=True)
    )
    def draw(together: list[Draft]) -> None:
        found.extend(together)

    draw()
    assert len(found) >= n
    return found[:n]


@cache
def generated(path: ForwardingPath, n: int = 150, *, fragments: bool = True, connections: bool = False) -> list[bytes]:
    """Packets that are drawn (see `drafts`), of which the long ones of UDP are in fragments."""
    packets: list[bytes] = []
    for number, draft in enumerate(drawn(path, n, connections=connections), 1):
        packet = draft.written(path, number)
        cut = fragments and draft.protocol == UDP and draft.noise > 600
        packets += map(bytes, inet.fragment(packet, fragsize=480) if cut else [packet])
    return packets


# What arrives


@dataclass(frozen=True)
class Arrived:
    """A packet at the sink, without what may differ: its IP id, a source port, an id of ICMP, and the number of hops.

    The kernel forwards a packet twice if it takes the DPI's other path. `head` is what else its headers have."""

    source: str
    protocol: int
    fragment: int
    port: int | None
    head: bytes
    payload: bytes
    checksum_right: bool
    hops: int = field(compare=False, repr=False)


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def arrived(packet: bytes, path: ForwardingPath) -> Arrived:
    tos, length, cut, ttl, protocol = struct.unpack("!xBH2xHBB", packet[:10])
    begins = 4 * (packet[0] & 15)
    head, body = bytes([tos]) + packet[20:begins], packet[begins:length]
    assert socket.inet_ntoa(packet[16:20]) == path.sink and checksum(packet[:begins]) == 0
    port, right = None, True
    if not cut and protocol in (TCP, UDP, ICMP):
        pseudo = packet[12:20] + struct.pack("!BBH", 0, protocol, len(body)) if protocol != ICMP else b""
        without = protocol == UDP and body[6:8] == bytes(2)  # which a receiver accepts: RFC 768
        right = without or checksum(pseudo + body) == 0
        if protocol == ICMP:
            head, body = head + body[:2], body[8:]
        else:
            (port,) = struct.unpack("!2xH", body[:4])
            head, body = (head + body[4:6], body[8:]) if protocol == UDP else (head + body[4:16], body[20:])
    return Arrived(socket.inet_ntoa(packet[12:16]), protocol, cut, port, head, body, right, 64 - ttl)


def differing(one: Sequence[Arrived], other: Sequence[Arrived]) -> list[Arrived]:
    """The packets that arrived by one implementation, and not, or not like that, by the other."""
    return [*(Counter(one) - Counter(other)), *(Counter(other) - Counter(one))]


def decided(chain: Chain, packets: Sequence[bytes]) -> tuple[list[Arrived], dict[str, int]]:
    """What the sink gets of these packets, and what the function counted of them and of the end of each batch.

    An echo request is of these packets. Other messages of ICMP are the function's own, on answers to false sources."""
    before = chain.counted()
    received = list(_exchanged(chain, packets))
    found = [arrived(each, chain.path) for each in received if each[9] != ICMP or each[4 * (each[0] & 15)] == 8]
    counts = {name: seen.packets for name, seen in difference(before, chain.counted()).items() if name in COUNTED}
    return found, {"detoured": sum(each.hops == 2 for each in found), **counts}


def batches(packets: Sequence[bytes]) -> int:
    return -(-len(packets) // BATCH)


def _exchanged(chain: Chain, packets: Sequence[bytes]) -> Iterator[bytes]:
    """Send the packets in batches; yield those that arrive, without the end of each batch."""
    with _inside(chain.source.netns):
        source = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    with _inside(chain.sink.netns):
        sink = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    with source, sink:
        sink.bind((SINK_PORT, 0x0800))
        sink.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 24)
        for number in range(batches(packets)):
            end = b"the end of batch %8d" % number
            last = inet.IP(src=chain.path.source, dst=chain.path.sink) / inet.UDP(sport=40_000, dport=40_000) / Raw(end)
            for packet in (*packets[number * BATCH : (number + 1) * BATCH], bytes(last)):
                source.sendto(packet, (chain.path.sink, 0))
            yield from _until(sink, end)
        yield from _until(sink, None)


def _until(sink: socket.socket, end: bytes | None) -> Iterator[bytes]:
    """Yield packets that arrive, until one has the payload `end`; without one, until no more are late."""
    sink.settimeout(_LATE_S if end is None else _ENDS_S)
    while True:
        try:
            packet, sender = sink.recvfrom(65_535)
        except TimeoutError:
            assert end is None, f"{end!r} did not arrive"
            return
        if packet[28:] == end:
            return
        if sender[2] != socket.PACKET_OUTGOING:
            yield packet


@contextmanager
def _inside(netns: str) -> Iterator[None]:
    """This thread in the network namespace of that name inside the block: setns(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as own, open(f"/run/netns/{netns}") as other:
        assert libc.setns(other.fileno(), _CLONE_NEWNET) == 0, netns
        try:
            yield
        finally:
            assert libc.setns(own.fileno(), _CLONE_NEWNET) == 0
