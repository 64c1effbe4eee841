"""Forwarding by a real testpmd: flows pass and are counted, and nothing but the addresses of frames changes.

Its image has a hundred packages more than others, so this is long by nature."""

from __future__ import annotations

import pytest

from lastro.functions.base import ForwardingPath
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

from ..support.packets import chain_of, decided, differing, generated, measured_flows
from ..support.scenarios import dpdk_needs as image_needs

__all__ = ["image_needs"]  # what `testbed` builds

pytestmark = [pytest.mark.root, pytest.mark.slow]


@pytest.mark.parametrize("where", ["native+veth-direct", "runc+veth-bridge", "docker+macvlan-bridge", "lxc+routed"])
def test_tcp_udp_and_ping_pass_and_are_counted(testbed: Testbed, pool: PlatformPool, where: str) -> None:
    with chain_of(testbed, pool, "none", "dpdk", where) as chain:
        assert [name for name, _, _ in measured_flows(chain)] == ["iperf3-tcp", "iperf3-udp", "ping"]


def test_it_forwards_what_the_kernel_forwards_and_leaves_the_ttl(testbed: Testbed, pool: PlatformPool) -> None:
    packets, found = generated(ForwardingPath(), 100_000, fragments=False), {}  # the driver's sockets reassemble them
    for implementation in ("kernel", "dpdk"):
        with chain_of(testbed, pool, "none", implementation, "native+veth-direct") as chain:
            found[implementation], _ = decided(chain, packets)
    by_kernel, by_dpdk = found["kernel"], found["dpdk"]
    assert differing(by_kernel, by_dpdk)[:6] == [] and len(by_dpdk) == len(packets)
    assert all(each.checksum_right for each in by_dpdk)
    assert {each.hops for each in by_kernel} == {1} and {each.hops for each in by_dpdk} == {0}
