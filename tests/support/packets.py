"""Generated packets through a function, and which of them arrive. The source sends raw, and the sink reads raw."""

from __future__ import annotations

import json
import random
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lastro import registry
from lastro.functions.base import CounterReading, ForwardingPath
from lastro.functions.dpi import SIGNATURE
from lastro.functions.firewall import BLOCKED_PORTS
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.instruments.iperf3_udp import Iperf3Udp
from lastro.instruments.ping import Ping
from lastro.results.samples import Reading
from lastro.scenarios.shared.chain import SINK_PORT, Chain, deployed
from lastro.scenarios.shared.flow import crossings, difference
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

SOURCES = (ForwardingPath().source, "198.18.66.5", "198.19.66.255", "198.18.67.5", "198.19.65.255")
N_PACKETS = 150
SETTINGS = {"tcp_s": 1, "tcp_streams": 1, "udp_s": 1, "udp_rate": "10M", "ping_s": 0.5, "ping_interval_ms": 100}
COUNTED = {"crossed", "blocked", "detoured"}
TCP, UDP, ICMP = 6, 17, 1

SEND = """
import json, socket, sys, time
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for packet in json.load(sys.stdin):
    raw.sendto(bytes.fromhex(packet), (sys.argv[1], 0))
    time.sleep(0.001)  # what Click's socket cannot hold would be lost
"""
RECEIVE = """
import socket, sys, time
raw = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
raw.bind((sys.argv[1], 0x0800))
raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
print("ready", flush=True)
ends_s = time.monotonic() + 20
while (left_s := ends_s - time.monotonic()) > 0:
    raw.settimeout(left_s)
    try:
        packet, sender = raw.recvfrom(65535)
    except TimeoutError:
        break
    if sender[2] != socket.PACKET_OUTGOING:
        print(packet.hex(), flush=True)
    if packet.endswith(b"the end"):
        ends_s = time.monotonic() + 0.3
print("done", flush=True)
"""


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
        assert crossings(instrument.name, chain, seen, reading.payload_bytes) == []
        yield instrument.name, reading, seen


@dataclass(frozen=True)
class Arrived:
    """A packet at the sink, without what may differ: its IP id, a source port, and the number of hops.

    The kernel forwards a packet twice if it takes the DPI's other path."""

    source: str
    protocol: int
    fragment: int
    port: int | None
    payload: bytes
    checksum_right: bool
    hops: int = field(compare=False, repr=False)


def checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def segment(source: str, sink: str, protocol: int, port: int, payload: bytes) -> bytes:
    """What IP carries, with its checksum."""
    pseudo = b""
    if protocol == ICMP:
        whole, at = struct.pack("!BBHHH", 8, 0, 0, port, 1) + payload, 2
    elif protocol == UDP:
        whole, at = struct.pack("!HHHH", 40_000, port, 8 + len(payload), 0) + payload, 6
    else:
        whole, at = struct.pack("!HHIIBBHHH", 40_000, port, 1, 0, 5 << 4, 2, 1024, 0, 0) + payload, 16
    if protocol != ICMP:
        pseudo = socket.inet_aton(source) + socket.inet_aton(sink) + struct.pack("!BBH", 0, protocol, len(whole))
    return whole[:at] + struct.pack("!H", checksum(pseudo + whole)) + whole[at + 2 :]


def datagram(source: str, sink: str, protocol: int, body: bytes, ident: int, fragment: int = 0) -> bytes:
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), ident, fragment, 64, protocol, 0)
    return head + socket.inet_aton(source) + socket.inet_aton(sink) + body


def generated(path: ForwardingPath, *, fragments: bool = True) -> list[bytes]:
    """Packets from blocked and other sources, to blocked and other ports, with and without the signature."""
    draw = random.Random(2017)
    packets, suspect = [], SIGNATURE.encode()
    for ident in range(1, N_PACKETS + 1):
        source = draw.choice((path.source, *SOURCES))
        port = draw.choice((*BLOCKED_PORTS, *(port + 1 for port in BLOCKED_PORTS), draw.randrange(1, 65536)))
        noise = draw.randbytes(draw.choice((0, 1, draw.randrange(1400))))
        kind = draw.choice((b"", suspect, suspect, suspect[:-1], suspect.lower(), suspect[1:] + suspect[:4]))
        cut = draw.choice((0, len(noise), draw.randrange(len(noise) + 1)))
        protocol = draw.choice((TCP, TCP, UDP, UDP, ICMP))
        body = segment(source, path.sink, protocol, port, noise[:cut] + kind + noise[cut:])
        if protocol == UDP and len(body) > 600 and fragments:
            packets.append(datagram(source, path.sink, protocol, body[:480], ident, 0x2000))
            packets.append(datagram(source, path.sink, protocol, body[480:], ident, 480 // 8))
        else:
            packets.append(datagram(source, path.sink, protocol, body, ident))
    end = segment(path.source, path.sink, UDP, 40_000, b"the end")
    return [*packets, datagram(path.source, path.sink, UDP, end, N_PACKETS + 1)]


def arrived(packet: bytes, path: ForwardingPath) -> Arrived:
    length, fragment, ttl, protocol = struct.unpack("!2xH2xHBB", packet[:10])
    source, sink = socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20])
    body = packet[20:length]
    if fragment:
        return Arrived(source, protocol, fragment, None, body, True, 64 - ttl)
    port, start = (None, 8) if protocol == ICMP else (struct.unpack("!2xH", body[:4])[0], 8 if protocol == UDP else 20)
    pseudo = packet[12:20] + struct.pack("!BBH", 0, protocol, len(body)) if protocol != ICMP else b""
    assert sink == path.sink
    return Arrived(source, protocol, fragment, port, body[start:], checksum(pseudo + body) == 0, 64 - ttl)


def decided(testbed: Testbed, chain: Chain, packets: list[bytes]) -> tuple[list[Arrived], dict[str, int]]:
    """What the sink gets of these packets, and what the function counted of them.

    An echo request is of these packets. Other messages of ICMP are the function's own, on answers to false sources."""
    inside = [["nsenter", f"--net=/run/netns/{one.netns}", sys.executable, "-c"] for one in (chain.source, chain.sink)]
    before = chain.counted()
    sniffer = testbed.host.spawn([*inside[1], RECEIVE, SINK_PORT])
    sniffer.wait_line("ready", 10)
    testbed.host.run([*inside[0], SEND, chain.path.sink], stdin=json.dumps([each.hex() for each in packets]))
    sniffer.wait_line("done", 30)
    received = [bytes.fromhex(line) for line in sniffer.stop().text.split() if line[:1] == "4"]
    found = sorted((arrived(each, chain.path) for each in received if each[9] != ICMP or each[20] == 8), key=repr)
    counts = {name: seen.packets for name, seen in difference(before, chain.counted()).items() if name in COUNTED}
    return found, {"detoured": sum(each.hops == 2 for each in found), **counts}
