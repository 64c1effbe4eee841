"""Functions in XDP: flows pass, they decide as the kernel does, and a program that is detached is noticed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from scapy.layers import inet
from scapy.packet import Raw

from lastro import registry
from lastro.errors import PlatformError, Unavailable
from lastro.functions.base import ForwardingPath
from lastro.functions.firewall import BLOCKED_PORTS
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.instruments.load_generator import Traffic
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.load import LoadScenario
from lastro.scenarios.load import measuring as load_measuring
from lastro.scenarios.shared.chain import deployed
from lastro.scenarios.shared.flow import crossing_reasons, difference
from lastro.scenarios.shared.on_chain import StandingChain
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

from ..support.packets import (
    UDP,
    Arrived,
    batches,
    chain_of,
    decided,
    differing,
    generated,
    measured_flows,
)
from ..support.products import one_of
from ..support.scenarios import SHORT, attempted, configured, on_chain
from ..support.scenarios import xdp_needs as image_needs

__all__ = ["image_needs"]  # what `testbed` builds

pytestmark = pytest.mark.root

SETTINGS = {"tcp_s": 1, "tcp_streams": 1, "udp_s": 1, "udp_rate": "10M", "ping_s": 0.5, "ping_interval_ms": 100}
PATH = ForwardingPath()
WHERE = "runc+veth-direct"
IN_XDP = {"implementation": "xdp"}
many = pytest.mark.parametrize("n", [1_000, pytest.param(100_000, marks=pytest.mark.slow)])


@pytest.fixture(scope="module")
def scenario(testbed: Testbed) -> Iterator[ChainScenario]:
    with closing(ChainScenario(testbed)) as made:
        yield made


@pytest.mark.parametrize(
    "where", one_of((WHERE, "native+ovs", "docker+veth-bridge", "lxc+routed", "crun+vxlan", "qemu-tcg+veth-bridge"))
)
def test_tcp_udp_and_ping_pass_and_are_counted(testbed: Testbed, pool: PlatformPool, where: str) -> None:
    with chain_of(testbed, pool, "firewall", "xdp", where) as chain:
        for _, _, seen in measured_flows(chain):
            assert seen["blocked"].packets == seen["broken"].packets == 0


@pytest.mark.parametrize(
    "where",
    one_of((WHERE, "docker+veth-bridge", "lxc+routed", "native+ovs-userspace", "crun+vxlan", "qemu-tcg+veth-bridge")),
)
def test_flows_are_forwarded_by_the_program_in_both_directions(
    testbed: Testbed, pool: PlatformPool, where: str
) -> None:
    with chain_of(testbed, pool, "none", "xdp", where) as chain:
        for name, _, seen in measured_flows(chain):
            assert seen["to_kernel"].packets < seen["crossed"].packets, (name, seen)
        sent = {link["ifname"]: link for link in chain.instances["function"].links()}
        assert all("xdp" in sent[port] for port in ("in0", "out0"))


def test_ipv6_and_a_row_of_functions_are_forwarded_and_counted_in_order(testbed: Testbed, pool: PlatformPool) -> None:
    links, functions = registry.get("attachment", "veth-direct")(), [registry.get("function", "none")() for _ in "ab"]
    with (
        links.prepare(testbed),
        deployed(testbed, pool.get("runc"), links, *functions, implementation="xdp", ip="6") as chain,
    ):
        before = chain.counted()
        reading = Iperf3Tcp().measure(chain.source, chain.sink, chain.path.sink, SETTINGS)
        seen = difference(before, chain.counted())
        assert crossing_reasons("iperf3-tcp", chain, seen, reading.payload_bytes) == []
        assert set(seen) == {"crossed", "to_kernel", "function2.crossed", "function2.to_kernel"}


@pytest.mark.parametrize("row", ["none>firewall", "firewall>none"])
def test_a_row_of_both_programs_forwards_and_filters_where_its_functions_are_joined_directly(
    testbed: Testbed, pool: PlatformPool, row: str
) -> None:
    with chain_of(testbed, pool, row, "xdp", "native+veth-direct") as chain:
        before = chain.counted()
        reading = Iperf3Tcp().measure(chain.source, chain.sink, chain.path.sink, SETTINGS)
        seen = difference(before, chain.counted())
        assert crossing_reasons("iperf3-tcp", chain, seen, reading.payload_bytes) == []
        assert {"to_kernel", "passed"} <= {name.rpartition(".")[2] for name in seen}


def odd(path: ForwardingPath) -> list[bytes]:
    """Packets that are not plain: of sources that no host has, and for the function itself."""
    sources = ("127.0.0.1", "0.1.2.3", "224.0.0.1", "240.0.0.1", "255.255.255.255", "198.18.1.10", "10.0.0.1")
    ends = [*((source, path.sink) for source in sources), (path.source, path.outside_address)]
    return [bytes(inet.IP(src=source, dst=sink) / inet.UDP(dport=40_000) / Raw(b"odd")) for source, sink in ends]


@many
def test_xdp_forwards_what_the_kernel_forwards(testbed: Testbed, pool: PlatformPool, n: int) -> None:
    packets, found = odd(PATH) + generated(PATH, n), {}
    for implementation in ("kernel", "xdp"):
        with chain_of(testbed, pool, "none", implementation, "native+veth-direct") as chain:
            found[implementation], counts = decided(chain, packets)
            last = chain.source.run(["ping", "-n", "-t", "1", "-c", "1", "-W", "2", PATH.sink], check=False)
            assert f"From {PATH.inside_address}" in last.text and "exceeded" in last.text
    assert differing(found["kernel"], found["xdp"])[:6] == []
    assert {each.hops for each in found["xdp"]} == {1}
    assert n / 2 < counts["crossed"] <= len(found["xdp"]) + batches(packets)


@pytest.mark.slow
def test_copies_of_a_chain_have_programs_of_their_own(scenario: ChainScenario) -> None:
    wanted = on_chain(("runc", "veth-direct"), "firewall", **IN_XDP, offloads="off", chains=2, min_overlap_percent=20.0)
    outcome = attempted(scenario, wanted)
    assert outcome.valid, outcome.invalid_because


def misread(each: Arrived) -> bool:
    """Whether xdp-filter takes the beginning of a later fragment for the header of UDP, and drops it."""
    port, length = struct.unpack("!2xHH", each.payload[:6].ljust(6))
    return each.fragment & 0x1FFF != 0 and (len(each.payload) < 8 or port in BLOCKED_PORTS or length < 8)


@many
def test_xdp_decides_as_nftables_does(testbed: Testbed, pool: PlatformPool, n: int) -> None:
    packets, found = generated(PATH, n), {}
    for implementation in ("kernel", "xdp"):
        with chain_of(testbed, pool, "firewall", implementation, "native+veth-direct") as chain:
            found[implementation] = decided(chain, packets)
    (by_kernel, kernel_counts), (by_xdp, xdp_counts) = found["kernel"], found["xdp"]
    assert [each for each in differing(by_kernel, by_xdp) if not misread(each)][:6] == []
    assert kernel_counts["blocked"] == len(packets) - len(by_kernel) > n / 5
    assert kernel_counts["crossed"] == len(packets) + batches(packets)
    assert xdp_counts["crossed"] == len(by_xdp) + batches(packets)  # the kernel sees what passes
    assert all(each.checksum_right and each.hops == 1 for each in by_xdp)


@pytest.mark.parametrize("implementation", ["kernel", "xdp"])
def test_xdp_alone_drops_a_later_fragment_that_is_not_like_a_header(
    testbed: Testbed, pool: PlatformPool, implementation: str
) -> None:
    later = bytes(inet.IP(src=PATH.source, dst=PATH.sink, proto=UDP, frag=60) / Raw(bytes(200)))
    with chain_of(testbed, pool, "firewall", implementation, WHERE) as chain:
        found, _ = decided(chain, [later])
        counted = chain.counted()
    assert (len(found), counted.get("broken", (0, 0))[0]) == ((1, 0) if implementation == "kernel" else (0, 1))


@pytest.mark.parametrize(
    ("function", "reason"), [("none", "counter saw 0 bytes"), ("firewall", "and the XDP program passed 0")]
)
def test_a_program_that_is_detached_is_noticed_by_its_counters_and_at_the_end(
    testbed: Testbed, pool: PlatformPool, function: str, reason: str
) -> None:
    """The kernel forwards in its place, which must not be taken for the program."""
    with (
        pytest.raises(PlatformError, match="the XDP program is not attached to in0 at the end of the trial"),
        chain_of(testbed, pool, function, "xdp", WHERE) as chain,
    ):
        before = chain.counted()
        testbed.host.run(["ip", "-n", chain.instances["function"].netns, "link", "set", "in0", "xdp", "off"])
        chain.source.run(["ping", "-n", "-c", "1", "-W", "2", PATH.sink])
        (found,) = crossing_reasons("ping", chain, difference(before, chain.counted()), 64)
        assert reason in found


def test_a_program_in_generic_mode_is_not_taken_for_a_native_one(testbed: Testbed, pool: PlatformPool) -> None:
    with (
        pytest.raises(PlatformError, match="is not in native mode"),
        chain_of(testbed, pool, "firewall", "xdp", WHERE) as chain,
    ):
        chain.instances["function"].run_with_rights("xdp-filter unload in0\nxdp-filter load --mode skb in0\n")


def test_a_port_whose_driver_has_no_xdp_makes_it_unavailable(testbed: Testbed, pool: PlatformPool) -> None:
    with (
        pytest.raises(Unavailable, match="xdp-filter cannot be attached natively to in0"),
        chain_of(testbed, pool, "firewall", "xdp", "native+macvlan-bridge"),
    ):
        pytest.fail("a program was attached to a macvlan")


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"offloads": "off"},
        {"function": "firewall:rules=100"},
        {"isolation": "user-namespace+capabilities"},
        pytest.param({"function": "none", "isolation": "user-namespace+capabilities"}, marks=pytest.mark.slow),
        pytest.param({"function": "none", "offloads": "off", "length": 2}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_whole_trial_is_valid(scenario: ChainScenario, chosen: dict[str, Any]) -> None:
    wanted = on_chain(("runc", "veth-bridge"), **{"function": "firewall", **IN_XDP, **chosen})
    found = scenario.availability(wanted)
    assert found, found.reason
    outcome = attempted(scenario, wanted)
    assert outcome.valid, outcome.invalid_because
    assert 1400 < outcome.measurements["frame_size"] <= 1514


# In the scenario load


def loaded(function: str, **chosen: Any) -> dict[str, Any]:
    parts = {"platform": "native", "function": function, "isolation": "none", "anomaly": "none"}
    return configured(LoadScenario, **{**SHORT["load"], **parts, **IN_XDP, "at": "none", **chosen})


@pytest.mark.parametrize(
    ("function", "chosen"),
    [
        ("none", {"most_fps": 4_000}),
        pytest.param("firewall:rules=100", {"attachment": "veth-bridge", "frame_size": "imix"}, marks=pytest.mark.slow),
        pytest.param("none>firewall", {"platform": "runc", "direction": "both"}, marks=pytest.mark.slow),
        pytest.param("none", {"platform": "docker", "chains": 2, "min_overlap_percent": 0.0}, marks=pytest.mark.slow),
    ],
)
def test_a_load_crosses_the_program(testbed: Testbed, function: str, chosen: dict[str, Any]) -> None:
    with closing(LoadScenario(testbed)) as scenario:
        outcome = attempted(scenario, loaded(function, **chosen))
    assert outcome.valid, outcome.invalid_because
    assert outcome.measurements["pdr"] >= 1_000
    size = Traffic.of(chosen.get("frame_size", "64")).counted_bytes
    assert outcome.measurements["frame_mean"] == pytest.approx(size, rel=0.005), "as the source sent them"
    noted: Any = outcome.notes
    assert any("poll the ports of its XDP program" in str(each) for each in noted["really"].values())


def test_a_load_that_the_kernel_forwards_in_its_place_is_never_valid(
    testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program takes its place, which passes everything to the kernel: all frames arrive."""
    measure = load_measuring.measure

    def replaced(testbed: Testbed, config: Any, standing: StandingChain, *rest: Any) -> None:
        attach = "bpftool net attach xdpdrv pinned /sys/fs/bpf/forward/xdp_pass dev in0 overwrite\n"
        standing.chain.instances["function"].run_with_rights(attach, of_host=True)
        measure(testbed, config, standing, *rest)

    monkeypatch.setattr("lastro.scenarios.load.measuring.measure", replaced)
    with closing(LoadScenario(testbed)) as scenario, scenario.attempt():
        outcome = scenario.run(loaded("none", most_fps=2_000), {})
    assert outcome.measurements["pdr"] > 0
    assert any("the function's own counter saw 0 bytes" in each for each in outcome.invalid_because)
