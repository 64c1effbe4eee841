"""Several functions in a row on real links: packets pass all of them in order, and a trial knows when they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, cast

import pytest

from lastro.functions.base import ForwardingPath, Function
from lastro.platforms.base import Instance
from lastro.results.samples import Outcome
from lastro.results.topology import Topology
from lastro.scenarios.base import make_parts
from lastro.scenarios.chain import ChainScenario, measuring
from lastro.scenarios.load import LoadScenario
from lastro.scenarios.load import measuring as load_measuring
from lastro.scenarios.shared.chain import Chain, deployed
from lastro.scenarios.shared.flow import crossing_reasons, difference
from lastro.scenarios.shared.on_chain import StandingChain
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.testbed import Testbed

from ..support.products import one_of
from ..support.scenarios import SHORT, attempted, configured, image_needs, on_chain

pytestmark = pytest.mark.root
__all__ = ["image_needs"]  # what `testbed` builds

PLACES = [("native", "veth-bridge"), ("runc", "veth-direct"), ("docker", "macvlan-bridge"), ("native", "nat")]
PLACES += [("runc", "routed"), ("native", "ovs"), ("native", "vxlan"), ("docker", "veth-bridge")]
SINK, PINGS = "198.18.1.10", 20
ONE_RATE = {"at": "2kpps", "one_way": "no"}  # all of it is in the contract of the scenario


@pytest.fixture(scope="module")
def running(testbed: Testbed) -> Iterator[ChainScenario]:
    with closing(ChainScenario(testbed)) as made:
        yield made


@pytest.mark.parametrize("place", one_of(PLACES), ids="+".join)
@pytest.mark.parametrize("function", ["firewall>dpi>nat", "nat>nat>firewall"])
def test_a_chain_carries_flows_over_every_link(running: ChainScenario, place: tuple[str, str], function: str) -> None:
    wanted = on_chain(place, function, ping_suspect_percent=20.0)
    found = running.availability(wanted)
    assert found, found.reason
    outcome = attempted(running, wanted)
    assert outcome.valid, outcome.invalid_because
    drawn = Topology.of(outcome.notes)
    assert drawn is not None and drawn.path("source", "sink") == [
        "source",
        "function",
        "function2",
        "function3",
        "sink",
    ]
    assert [node.does for node in drawn.nodes[1:-1]] == [f"{each} (kernel)" for each in function.split(">")]


def test_functions_in_one_instance_all_work(running: ChainScenario) -> None:
    wanted = on_chain(("runc", "veth-bridge"), "firewall>firewall:rules=10>nat", placement="together")
    assert running.availability(wanted)
    outcome = attempted(running, wanted)
    assert outcome.valid, outcome.invalid_because
    drawn = Topology.of(outcome.notes)
    assert drawn is not None and [node.role for node in drawn.nodes] == ["source", "function", "sink"]
    assert drawn.nodes[1].does == "firewall > firewall:rules=10 > nat (kernel)"


def test_each_function_runs_on_the_platform_that_it_names(running: ChainScenario) -> None:
    wanted = on_chain(("native", "veth-bridge"), "firewall@lxc>nat@runc")
    found = running.availability(wanted)
    assert found, found.reason
    outcome = attempted(running, wanted)
    assert outcome.valid, outcome.invalid_because
    drawn = Topology.of(outcome.notes)
    assert drawn is not None
    assert [(node.role, node.platform, node.does) for node in drawn.nodes] == [
        ("source", "native", ""),
        ("function", "lxc", "firewall (kernel)"),
        ("function2", "runc", "nat (kernel)"),
        ("sink", "native", ""),
    ]
    assert {"native", "lxc", "runc"} <= set(running.pool.preparations)
    assert "lxc: capabilities" in running.residuals(wanted)


def test_a_platform_that_one_hop_lacks_makes_the_chain_unavailable(running: ChainScenario) -> None:
    missing = running.availability(on_chain(("runc", "veth-bridge"), "firewall>nat@openvz"))
    assert not missing and missing == running.pool.availability("openvz")
    unconfined = running.availability(on_chain(("runc", "veth-bridge"), "nat@native>nat", isolation="seccomp"))
    assert unconfined.reason == "native cannot confine an instance by seccomp"


@pytest.mark.parametrize("length", [8])
def test_the_longest_chain_carries_ipv6(running: ChainScenario, length: int) -> None:
    wanted = on_chain(("native", "veth-bridge"), "firewall", length=length, ip="6")
    outcome = attempted(running, wanted)
    assert outcome.valid, outcome.invalid_because


def test_a_load_crosses_every_hop(testbed: Testbed) -> None:
    parts = {"platform": "native", "function": "firewall>nat", "isolation": "none", "anomaly": "none"}
    with closing(LoadScenario(testbed)) as scenario:
        wanted = configured(LoadScenario, **{**SHORT["load"], **parts, **ONE_RATE})
        outcome = attempted(scenario, wanted)
    assert outcome.valid, outcome.invalid_because
    probes: Any = outcome.notes["probes"]
    assert list(probes[0]["lost_at"]) == [
        "to the function", "in the function", "to the function2", "in the function2", "from the function2"
    ]  # fmt: skip


# Several chains side by side


def test_chains_side_by_side_carry_their_load_at_the_same_time(running: ChainScenario) -> None:
    wanted = on_chain(("native", "veth-bridge"), "firewall>nat@runc", chains=2, min_overlap_percent=20.0)
    outcome = attempted(running, wanted)
    assert outcome.valid, outcome.invalid_because
    found = outcome.measurements
    assert found["host_throughput"] == pytest.approx(2 * found["throughput"])
    assert 0 < found["worst_throughput"] <= found["throughput"]
    assert 0.5 <= found["throughput_fairness"] <= 1 and 20 <= found["chains_overlap"] <= 100
    assert found["memory_per_chain"] == pytest.approx(found["chain_memory"] / 2)
    witness: Any = outcome.notes["witness"]
    assert {"source.out0", "sink.in0", "source-2.out0", "function-2.in0", "function2-2.out0", "sink-2.in0"} <= set(
        witness["iperf3-tcp"]
    )
    drawn = Topology.of(outcome.notes)
    assert drawn is not None and drawn.path("source-2", "sink-2") == ["source-2", "function-2", "function2-2", "sink-2"]
    assert len({end.address for link in drawn.links for end in link.ends}) == 12, "no two chains share an address"
    assert [load.source for load in drawn.loads[:2]] == ["source", "source-2"]


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES, ids="+".join)
@pytest.mark.parametrize("ip", ["4", "6"])
def test_copies_of_a_chain_stand_side_by_side_on_every_link(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool, place: tuple[str, str], ip: str
) -> None:
    (platform, links), functions = place, make_parts(Function, "firewall>nat")
    if links in ("nat", "routed") and ip == "6":
        pytest.skip("the DUT routes IPv4 only")
    with deployed(testbed, pool.get(platform), attachments.get(links), *functions, ip=ip, n=3) as first:
        chains = (first, *first.copies)
        for chain in chains:
            before = [each.counted() for each in chains]
            chain.source.run(["ping", "-n", "-q", "-c", str(PINGS), "-i", "0.002", chain.path.sink])
            for each, earlier in zip(chains, before, strict=True):
                wrong = crossing_reasons("ping", each, difference(earlier, each.counted()), PINGS * 84)
                assert bool(wrong) is (each is not chain), "each flow stays in its own chain"


def loaded_chains(**chosen: Any) -> dict[str, Any]:
    parts = {"platform": "native", "function": "firewall>nat", "isolation": "none", "anomaly": "none"}
    return configured(
        LoadScenario, **{**SHORT["load"], **parts, "chains": 2, "min_overlap_percent": 0.0, **ONE_RATE, **chosen}
    )


def test_chains_share_a_load_and_each_has_its_witnesses(testbed: Testbed) -> None:
    with closing(LoadScenario(testbed)) as scenario:
        outcome = attempted(scenario, loaded_chains())
    assert outcome.valid, outcome.invalid_because
    measured, moved = outcome.measurements, cast(Any, outcome.notes["witness"])["trafgen"]
    assert measured["pdr_per_chain"] == measured["pdr"] / 2 and 0 < measured["chains_overlap"] <= 100
    assert measured["memory_per_chain"] == pytest.approx(measured["chain_memory"] / 2)
    assert measured["worst_loss"] >= 0
    sent = [moved[f"source{tail}.out0"]["tx_packets"] for tail in ("", "-2")]
    assert sent[0] == pytest.approx(sent[1], rel=0.01, abs=5), "each chain is offered the same part"
    assert moved["sink-2.in0"]["rx_packets"] == pytest.approx(sent[1], rel=0.05)
    probes: Any = outcome.notes["probes"]
    assert "in the function2-2" in probes[0]["lost_at"] and 0 <= probes[0]["overlap"] <= 1
    drawn = Topology.of(outcome.notes)
    assert drawn is not None and [load.source for load in drawn.loads] == ["source", "source-2"]


# Chains that are not what they should be


def ip(instance: Instance, *lines: str) -> None:
    """Change the addresses or routes of an instance from outside."""
    instance.testbed.host.run(["ip", "-n", instance.netns, "-batch", "-"], stdin="\n".join(lines) + "\n")


def hops(chain: Chain) -> list[tuple[Instance, ForwardingPath]]:
    """The functions of a chain, each with its path, in the order of the path."""
    instances = [chain.instances[role] for role in chain.function.roles]
    return list(zip(instances, chain.path.through(len(instances)), strict=True))


def sends_to(chain: Chain, instance: Instance, address: str) -> None:
    """Have an instance send what is for the sink to another next hop, in whose network it gets an address."""
    sink, source = chain.path.sink, chain.path.source
    route = "dev out0" if address == sink else f"via {address}"
    own = f" src {source}" if instance is chain.source else ""  # to which the sink answers, as before
    ip(instance, f"address add {address.rpartition('.')[0]}.9/24 dev out0", f"route replace {sink}/32 {route}{own}")


def bypassed(chain: Chain) -> None:
    """The second function is left out: the first sends directly to what follows."""
    (first, _), (_, second_path), *_ = hops(chain)
    sends_to(chain, first, second_path.sink)


def copy_bypassed(chain: Chain) -> None:
    """In the second of two chains, the second function is left out."""
    bypassed(chain.copies[0])


def reordered(chain: Chain) -> None:
    """Packets pass the last function before the one in front of it, through the ports of each."""
    *before, (last_but_one, earlier), (last, later) = hops(chain)
    sends_to(chain, before[-1][0] if before else chain.source, later.inside_address)
    sends_to(chain, last, earlier.inside_address)
    sends_to(chain, last_but_one, chain.path.sink)


def removed(chain: Chain) -> None:
    """The rules of the second function are gone, and it forwards all the same."""
    second = chain.instances["function2"]
    second.testbed.host.run(["ip", "netns", "exec", second.netns, "nft", "delete", "table", "ip", "lastro"])


@pytest.mark.parametrize(
    ("change", "function"),
    [
        *((change, "firewall>firewall>firewall") for change in (bypassed, reordered, removed)),
        (copy_bypassed, "firewall@runc>firewall@lxc>firewall"),
    ],
)
def test_a_chain_that_was_changed_is_never_valid(
    running: ChainScenario, monkeypatch: pytest.MonkeyPatch, change: Callable[[Chain], None], function: str
) -> None:
    """Right after its proof by a ping, and before the measurement: flows still arrive, with plausible numbers."""
    measure = measuring.measure

    def changed(testbed: Testbed, config: Any, standing: StandingChain, outcome: Outcome) -> None:
        change(standing.chain)
        measure(testbed, config, standing, outcome)

    monkeypatch.setattr("lastro.scenarios.chain.measure", changed)
    with running.attempt():
        chosen = {"chains": 2, "min_overlap_percent": 0.0} if change is copy_bypassed else {}
        outcome = running.run(on_chain(("native", "veth-bridge"), function, **chosen), {})
    assert outcome.measurements["throughput"] > 0
    reasons = [reason for reason in outcome.invalid_because if "own counter" in reason]
    for phase in ("iperf3-tcp", "iperf3-udp", "ping"):
        expected = f"{'chain 2: ' if chosen else ''}{phase}: function2's own counter"
        assert any(reason.startswith(expected) for reason in reasons), outcome.invalid_because
    assert not [reason for reason in reasons if reason.startswith("chain 1")], "the other chain is as it should be"


def test_a_loaded_chain_that_was_changed_is_never_valid(testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> None:
    measure = load_measuring.measure

    def changed(testbed: Testbed, config: Any, standing: StandingChain, *rest: Any) -> None:
        removed(standing.chains[1])
        measure(testbed, config, standing, *rest)

    monkeypatch.setattr("lastro.scenarios.load.measuring.measure", changed)
    with closing(LoadScenario(testbed)) as scenario, scenario.attempt():
        outcome = scenario.run(loaded_chains(most_fps=2_000), {})
    reasons = [reason for reason in outcome.invalid_because if "own counter" in reason]
    assert reasons and all(reason.startswith("chain 2: trafgen: function2's own counter") for reason in reasons)


@pytest.mark.slow
@pytest.mark.parametrize("row", ["none>none", "none>none>none"])
@pytest.mark.parametrize("change", [bypassed, reordered, removed], ids=lambda each: each.__name__)
def test_a_changed_chain_is_noticed_each_of_a_hundred_times(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool, change: Callable[[Chain], None], row: str
) -> None:
    """Pings still arrive, so that only the counters show it."""
    functions = make_parts(Function, row)
    for _ in range(100):
        with deployed(testbed, pool.get("native"), attachments.get("veth-bridge"), *functions) as chain:
            before = chain.counted()
            assert crossing_reasons("ping", chain, before, 0) == [], "its proof passed every function"
            change(chain)
            done = chain.source.run(["ping", "-n", "-q", "-c", str(PINGS), "-i", "0.002", SINK])
            assert f" {PINGS} received" in done.text
            assert crossing_reasons("ping", chain, difference(before, chain.counted()), PINGS * 84)
