"""Functions in a real DPDK: flows pass and are counted, and the same packets are dropped as by the kernel.

Its image has a hundred packages more than others, so this is long by nature."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest

from lastro.errors import PlatformError
from lastro.functions.base import ForwardingPath
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

from ..support.packets import batches, chain_of, decided, differing, generated, measured_flows
from ..support.scenarios import attempted, on_chain
from ..support.scenarios import dpdk_needs as image_needs

__all__ = ["image_needs"]  # what `testbed` builds

pytestmark = [pytest.mark.root, pytest.mark.slow]


@pytest.mark.parametrize(
    ("function", "where"),
    [
        *(("none", each) for each in ("native+veth-direct", "runc+veth-bridge", "docker+macvlan-bridge", "lxc+routed")),
        *(("firewall", each) for each in ("native+veth-direct", "runc+veth-bridge", "docker+nat", "lxc+routed")),
    ],
)
def test_tcp_udp_and_ping_pass_and_are_counted(testbed: Testbed, pool: PlatformPool, function: str, where: str) -> None:
    with chain_of(testbed, pool, function, "dpdk", where) as chain:
        assert [name for name, _, _ in measured_flows(chain)] == ["iperf3-tcp", "iperf3-udp", "ping"]


@pytest.mark.parametrize("where", ["qemu-tcg+veth-bridge", "podman+vxlan", "crun+ovs-dpdk", "nspawn+veth-bridge"])
def test_a_firewall_passes_a_ping_on_other_platforms_and_links(
    testbed: Testbed, pool: PlatformPool, where: str
) -> None:
    with chain_of(testbed, pool, "firewall", "dpdk", where) as chain:
        assert chain.counted()["crossed"].packets > 0


def test_a_firewall_is_unavailable_on_links_that_leave_checksums_to_a_card(testbed: Testbed) -> None:
    with closing(ChainScenario(testbed)) as scenario:
        wanted = on_chain(("runc", "macvlan-bridge"), "firewall", implementation="dpdk")
        found = scenario.availability(wanted)
    assert "the kernel of source cannot complete checksums on out0" in str(found.reason) and "veth" in str(found.remedy)


def test_the_polling_of_its_switch_is_in_the_cost_of_the_instance(testbed: Testbed, pool: PlatformPool) -> None:
    with chain_of(testbed, pool, "firewall", "dpdk", "runc+veth-direct") as chain:
        began, began_s = chain.instances["function"].usage(), time.monotonic()
        time.sleep(2)
        used = chain.instances["function"].usage().cpu_s - began.cpu_s
        assert 0.2 < used / (time.monotonic() - began_s) < 1.5  # less than a CPU beside other work


def test_a_switch_that_ends_during_a_trial_is_noticed(testbed: Testbed, pool: PlatformPool) -> None:
    with (
        pytest.raises(PlatformError, match="ovs-vswitchd ended during the trial"),
        chain_of(testbed, pool, "firewall", "dpdk", "runc+veth-direct") as chain,
    ):
        chain.instances["function"].run(["sh", "-c", "kill -9 $(cat /run/function.ovs/switch.pid)"])
        with pytest.raises(PlatformError, match="the flows of the switch cannot be read"):
            chain.counted()


@pytest.mark.parametrize(
    "chosen",
    [
        {"ip": "6"},
        {"function": "firewall:rules=1000"},
        {"offloads": "off"},
        {"function": "none", "offloads": "off"},
        {"isolation": "user-namespace+capabilities"},
    ],
    ids=str,
)
def test_a_whole_trial_is_valid(testbed: Testbed, chosen: dict[str, Any]) -> None:
    with closing(ChainScenario(testbed)) as scenario:
        wanted = on_chain(("runc", "veth-bridge"), **{"function": "firewall", "implementation": "dpdk", **chosen})
        found = scenario.availability(wanted)
        assert found, found.reason
        outcome = attempted(scenario, wanted)
        assert outcome.valid, outcome.invalid_because


def test_the_switch_decides_as_nftables_does(testbed: Testbed, pool: PlatformPool) -> None:
    packets, found = generated(ForwardingPath(), 100_000, fragments=False), {}  # the driver's sockets reassemble them
    for implementation in ("kernel", "dpdk"):
        with chain_of(testbed, pool, "firewall", implementation, "native+veth-direct") as chain:
            found[implementation] = decided(chain, packets)
    (by_kernel, kernel_counts), (by_dpdk, dpdk_counts) = found["kernel"], found["dpdk"]
    assert differing(by_kernel, by_dpdk)[:6] == []
    assert dpdk_counts["blocked"] == kernel_counts["blocked"] == len(packets) - len(by_dpdk) > 20_000
    assert dpdk_counts["crossed"] == len(by_dpdk) + batches(packets)
    assert all(each.checksum_right and each.hops == 1 for each in by_dpdk)


def test_testpmd_forwards_what_the_kernel_forwards_and_leaves_the_ttl(testbed: Testbed, pool: PlatformPool) -> None:
    packets, found = generated(ForwardingPath(), 100_000, fragments=False), {}  # the driver's sockets reassemble them
    for implementation in ("kernel", "dpdk"):
        with chain_of(testbed, pool, "none", implementation, "native+veth-direct") as chain:
            found[implementation], _ = decided(chain, packets)
    by_kernel, by_dpdk = found["kernel"], found["dpdk"]
    assert differing(by_kernel, by_dpdk)[:6] == [] and len(by_dpdk) == len(packets)
    assert all(each.checksum_right for each in by_dpdk)
    assert {each.hops for each in by_kernel} == {1} and {each.hops for each in by_dpdk} == {0}
