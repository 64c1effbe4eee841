"""Functions on a real Click or FastClick, where this host has one: flows pass, and it decides as the kernel does.

The packets are generated. The source sends them raw, and the sink reads them raw."""

from __future__ import annotations

import json
import random
import re
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from lastro import registry
from lastro.errors import PlatformError
from lastro.functions._click import _SOCKET
from lastro.functions.base import ForwardingPath, Function
from lastro.functions.dpi import SIGNATURE
from lastro.functions.firewall import BLOCKED_PORTS
from lastro.host.local import LocalHost
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.instruments.iperf3_udp import Iperf3Udp
from lastro.instruments.ping import Ping
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared.chain import SINK_PORT, Chain, deployed
from lastro.scenarios.shared.flow import crossings, difference
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

from ..support.products import one_of

needs_click = pytest.mark.skipif(
    LocalHost().which("click") is None, reason="no click here: `lastro setup click --source DIR` builds one"
)
pytestmark = [pytest.mark.root, needs_click]

FUNCTIONS = sorted(ChainScenario.part_names("function"))
SETTINGS = {"tcp_s": 1, "tcp_streams": 1, "udp_s": 1, "udp_rate": "10M", "ping_s": 0.5, "ping_interval_ms": 100}
SOURCES = (ForwardingPath().source, "198.18.66.5", "198.19.66.255", "198.18.67.5", "198.19.65.255")
N_PACKETS = 150
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
def chain_of(testbed: Testbed, pool: PlatformPool, function: str, implementation: str, where: str) -> Iterator[Chain]:
    platform, attachment = where.split("+")
    links = registry.get("attachment", attachment)()
    with (
        links.prepare(testbed),
        deployed(
            testbed, pool.get(platform), links, registry.get("function", function)(), implementation=implementation
        ) as chain,
    ):
        yield chain


# Flows


@pytest.mark.parametrize("where", one_of(("runc+veth-direct", "native+macvlan-bridge", "docker+veth-bridge")))
@pytest.mark.parametrize("function", FUNCTIONS)
def test_tcp_udp_and_ping_pass_and_are_counted(testbed: Testbed, pool: PlatformPool, function: str, where: str) -> None:
    with chain_of(testbed, pool, function, "click", where) as chain:
        for instrument in (Iperf3Tcp(), Iperf3Udp(), Ping()):
            before = chain.counted()
            reading = instrument.measure(chain.source, chain.sink, chain.path.sink, SETTINGS)
            assert not reading.invalid_because and reading.measurements, (instrument.name, reading)
            assert reading.measurements.get("udp_loss", 0.0) < 5, reading
            seen = difference(before, chain.counted())
            assert crossings(instrument.name, chain, seen, reading.payload_bytes) == []
            assert reading.payload_bytes > 100_000 or instrument.name == Ping.name, (instrument.name, reading)
            assert seen.get("detoured", seen["broken"]).packets == 0


def asked(chain: Chain) -> list[str]:
    """How often Click has asked for a hardware address, on each side."""
    reads = "".join(f"read arp_{side}.queries\n" for side in ("inside", "outside"))
    text = chain.instances["function"].run(["nc", "-U", _SOCKET], stdin=f"{reads}quit\n").text
    return re.findall(r"DATA \d+\r\n(\d+)", text)


@pytest.mark.slow
def test_click_does_not_ask_again_for_a_hardware_address(testbed: Testbed, pool: PlatformPool) -> None:
    """By default, it would ask when a packet comes after a minute: one frame more than a generator sent."""
    with chain_of(testbed, pool, "none", "click", "native+veth-direct") as chain:
        at_first = asked(chain)
        assert len(at_first) == 2 and "0" not in at_first
        time.sleep(61)
        chain.source.run(["ping", "-n", "-c", "2", chain.path.sink])
        assert asked(chain) == at_first


# Decisions


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


def generated(function: str, path: ForwardingPath) -> list[bytes]:
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
        if protocol == UDP and len(body) > 600 and function != "nat":  # Click's NAT drops what is not a first fragment
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


@pytest.mark.parametrize("function", FUNCTIONS)
def test_click_decides_as_nftables_does(testbed: Testbed, pool: PlatformPool, function: str) -> None:
    packets, found = generated(function, ForwardingPath()), {}
    for implementation in ("kernel", "click"):
        with chain_of(testbed, pool, function, implementation, "native+veth-direct") as chain:
            found[implementation] = decided(testbed, chain, packets)
    (by_kernel, kernel_counts), (by_click, click_counts) = found["kernel"], found["click"]
    assert by_click == by_kernel
    assert click_counts == kernel_counts
    assert all(each.checksum_right and each.hops == 1 for each in by_click)
    fewest = {"firewall": len(packets) // 5}.get(function, len(packets))
    assert fewest <= len(by_click) <= len(packets)
    if function == "firewall":
        assert 0 < click_counts["blocked"] == len(packets) - len(by_click)
    if function == "dpi":
        assert 20 < click_counts["detoured"] < len(packets) - 20
    assert ({each.source for each in by_click} == {ForwardingPath().outside_address}) is (function == "nat")


# A function that Click refuses


class Misspelt(Function):
    name = "misspelt"
    summary = "an element that no Click has"

    def click(self, path: ForwardingPath) -> str:
        return "input[0] -> Serch(x) -> [0]output; input[1] -> [1]output;"


def test_clicks_own_words_on_an_element_that_it_does_not_have(testbed: Testbed, pool: PlatformPool) -> None:
    links = registry.get("attachment", "veth-direct")()
    wanted = r"click ended at its start: .*function\.click:\d+: (unknown element class|undeclared element) 'Serch'"
    with (
        links.prepare(testbed),
        pytest.raises(PlatformError, match=wanted),
        deployed(testbed, pool.get("native"), links, Misspelt(), implementation="click"),
    ):
        pytest.fail("a chain without its function was deployed")
