"""Forwarding by a real testpmd: flows pass and are counted, and nothing but the addresses of frames changes.

Its image has a hundred packages more than others, so this is long by nature."""

from __future__ import annotations

import pytest

from lastro.functions.base import ForwardingPath
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.instruments.iperf3_udp import Iperf3Udp
from lastro.instruments.ping import Ping
from lastro.scenarios.shared.flow import crossings, difference
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

from ..support.packets import chain_of, decided, generated
from ..support.scenarios import dpdk_needs as image_needs

__all__ = ["image_needs"]  # what `testbed` builds

pytestmark = [pytest.mark.root, pytest.mark.slow]

SETTINGS = {"tcp_s": 1, "tcp_streams": 1, "udp_s": 1, "udp_rate": "10M", "ping_s": 0.5, "ping_interval_ms": 100}


@pytest.mark.parametrize("where", ["native+veth-direct", "runc+veth-bridge", "docker+macvlan-bridge", "lxc+routed"])
def test_tcp_udp_and_ping_pass_and_are_counted(testbed: Testbed, pool: PlatformPool, where: str) -> None:
    with chain_of(testbed, pool, "none", "dpdk", where) as chain:
        for instrument in (Iperf3Tcp(), Iperf3Udp(), Ping()):
            before = chain.counted()
            reading = instrument.measure(chain.source, chain.sink, chain.path.sink, SETTINGS)
            assert not reading.invalid_because and reading.measurements, (instrument.name, reading)
            seen = difference(before, chain.counted())
            assert crossings(instrument.name, chain, seen, reading.payload_bytes) == []


def test_it_forwards_what_the_kernel_forwards_and_leaves_the_ttl(testbed: Testbed, pool: PlatformPool) -> None:
    packets, found = generated(ForwardingPath(), fragments=False), {}  # the driver's sockets reassemble them
    for implementation in ("kernel", "dpdk"):
        with chain_of(testbed, pool, "none", implementation, "native+veth-direct") as chain:
            found[implementation], _ = decided(testbed, chain, packets)
    by_kernel, by_dpdk = found["kernel"], found["dpdk"]
    assert [(each.source, each.checksum_right) for each in by_dpdk] == [(each.source, True) for each in by_kernel]
    assert {each.hops for each in by_kernel} == {1} and {each.hops for each in by_dpdk} == {0}
