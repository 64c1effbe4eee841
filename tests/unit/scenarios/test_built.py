"""What a trial was built of, noted from its instances and segments, and from what the kernel showed of its links."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro.anomalies.base import Demand
from lastro.anomalies.cpu import Cpu
from lastro.attachments.base import Segment
from lastro.attachments.hosting import HostedInstance
from lastro.attachments.veth_bridge import VethBridge
from lastro.functions.base import ForwardingPath, Function
from lastro.host.base import Completed
from lastro.meters.host import HostMeter
from lastro.meters.interfaces import InterfaceMeter
from lastro.platforms.base import Port
from lastro.results.samples import Outcome
from lastro.results.topology import Device, Topology
from lastro.scenarios.base import make_parts
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.lifecycle import LifecycleScenario
from lastro.scenarios.proxy.three_node import RoleNode, ThreeNodeTestbed
from lastro.scenarios.proxy.topology import note_topology as note_proxies
from lastro.scenarios.routing.boot import note_network, segments_of
from lastro.scenarios.shared.chain import ROLES, Chain, _segments
from lastro.scenarios.shared.disturbance import Disturbance
from lastro.scenarios.shared.function_row import EACH, FunctionRow, in_row
from lastro.scenarios.shared.point_to_point import JoinedPair
from lastro.scenarios.shared.topology import BuiltTopology, PluggedPort, note_load, note_meter
from lastro.scenarios.uplink.ends import FlowEnd
from lastro.scenarios.uplink.ends import note_topology as note_joined
from lastro.study.topology import grid
from lastro.testbed import Testbed
from lastro.words.topology import topology_lines

from ...support.recording import RecordingHost, answer, recording_testbed


def link(name: str, index: int, kind: str, **more: Any) -> dict[str, Any]:
    """As `ip -json -details address` of iproute2 6.1 shows it, without what is not read."""
    return {"ifname": name, "ifindex": index, "linkinfo": {"info_kind": kind}, "addr_info": [], **more}


def on(*addresses: str) -> list[dict[str, Any]]:
    return [{"local": a.partition("/")[0], "prefixlen": int(a.partition("/")[2])} for a in addresses]


BRIDGED = {
    "dut": [
        {"ifname": "lo", "ifindex": 1, "addr_info": []},
        link("hub-br", 2, "bridge"),
        link("hub-aa", 3, "veth", master="hub-br"),
        link("hub-ab", 4, "veth", master="hub-br"),
    ],
    "left": [link("out0", 2, "veth", link_index=3)],
    "right": [link("in0", 2, "veth", link_index=4)],
}
ROUTED = {
    "dut": [
        link("br-aa", 2, "bridge", addr_info=on("198.18.0.254/32")),
        link("hub-aa", 3, "veth", master="br-aa"),
        link("br-ab", 4, "bridge", addr_info=on("198.18.0.253/32")),
        link("hub-ab", 5, "veth", master="br-ab"),
    ],
}
MACVLAN = {
    "dut": [link("hub-parent", 6, "veth", link="hub-peer"), link("hub-peer", 5, "veth", link="hub-parent")],
    "left": [link("out0", 2, "macvlan", link_index=6)],
    "right": [link("in0", 2, "macvlan", link_index=6)],
}
MACHINES = {
    "dut": [
        link("hub-br", 2, "bridge"),
        {**link("hub-aa", 3, "tun", master="hub-br"), "linkinfo": {"info_kind": "tun", "info_data": {"type": "tap"}}},
        {**link("hub-ab", 4, "tun", master="hub-br"), "linkinfo": {"info_kind": "tun", "info_data": {"type": "tap"}}},
    ],
}
OVERLAY = {
    "dut": [
        link("under", 2, "veth", addr_info=on("198.19.0.1/30")),
        link("br-a", 3, "bridge"),
        link("vx-a", 4, "vxlan", master="br-a"),
        link("hub-aa", 5, "veth", master="br-a"),
        link("vx-other", 6, "vxlan"),
    ],
}


def built(directory: Path, shown: dict[str, Any], *, taps: bool = False) -> tuple[Outcome, RecordingHost, Testbed]:
    """A segment between two instances, noted where the kernel shows this."""

    def answers(argv: Any) -> Completed | None:
        lines = [f"{names[name]} {json.dumps(links)}\n" for name, links in shown.items()]
        done = answer("".join(lines))
        host.transcript.add_run(done)
        return done if list(argv) == ["sh"] else None

    host = RecordingHost(answers)
    testbed = recording_testbed(host, directory)
    names = {"dut": testbed.dut, "left": "left", "right": "right"}
    left, right = (
        SimpleNamespace(testbed=testbed, netns=testbed.dut if taps else name, takes_taps=taps)
        for name in ("left", "right")
    )
    found: Any = BuiltTopology(testbed)
    found.add("source", left, "runc", isolation="cgroups")
    found.add("sink", right, "runc")
    ends: Any = (Port(left, "out0", "198.18.0.10/24"), Port(right, "in0", "198.18.0.1/24"))  # type: ignore[arg-type]
    found.join("an attachment", [Segment("a", ends)])
    outcome = Outcome()
    found.note(outcome)
    return outcome, host, testbed


def noted(outcome: Outcome) -> Topology:
    found = Topology.of(json.loads(json.dumps(outcome.notes)))
    assert found is not None
    return found


def test_instances_and_ports_are_those_of_the_trial(tmp_path: Path) -> None:
    outcome, host, testbed = built(tmp_path, BRIDGED)
    found = noted(outcome)
    assert [(node.role, node.platform, node.isolation) for node in found.nodes] == [
        ("source", "runc", "cgroups"), ("sink", "runc", ""),
    ]  # fmt: skip
    (only,) = found.links
    assert [(end.role, end.port, end.address, end.kind) for end in only.ends] == [
        ("source", "out0", "198.18.0.10/24", "veth"), ("sink", "in0", "198.18.0.1/24", "veth"),
    ]  # fmt: skip
    (script,) = host.stdins
    assert [line.split()[1] for line in str(script).splitlines()] == [f"'{n}" for n in (testbed.dut, "left", "right")]


@pytest.mark.parametrize(
    ("shown", "way"),
    [
        (BRIDGED, ["hub-aa veth", "hub-br bridge", "hub-ab veth"]),
        (ROUTED, ["hub-aa veth", "br-aa bridge 198.18.0.254/32", "br-ab bridge 198.18.0.253/32", "hub-ab veth"]),
        (MACVLAN, ["hub-parent veth"]),
        (OVERLAY, ["hub-aa veth", "br-a bridge", "vx-a vxlan"]),
        ({"dut": [link("hub-aa", 2, "veth"), link("vx-other", 3, "vxlan")]}, ["hub-aa veth"]),
        ({}, []),
    ],
    ids=["bridge", "routed", "macvlan", "overlay", "a switch in user space", "nothing shown"],
)
def test_what_lies_between_is_what_the_kernel_shows(shown: dict[str, Any], way: list[str], tmp_path: Path) -> None:
    assert told(noted(built(tmp_path, shown)[0]).links[0].way) == way


def told(way: tuple[Device, ...]) -> list[str]:
    return [" ".join(filter(None, (each.name, each.kind, each.address))) for each in way]


def test_a_machine_has_a_tap_and_nobody_looks_inside(tmp_path: Path) -> None:
    (only,) = noted(built(tmp_path, MACHINES, taps=True)[0]).links
    assert told(only.way) == ["hub-aa tap", "hub-br bridge", "hub-ab tap"]
    assert [end.kind for end in only.ends] == ["", ""]


def test_to_look_is_no_step_of_the_trial(tmp_path: Path) -> None:
    _, host, _ = built(tmp_path, BRIDGED)
    assert len(host.commands) == 1 and host.transcript.records == []


def test_what_prints_nonsense_hides_the_devices_and_spoils_nothing(tmp_path: Path) -> None:
    assert told(noted(built(tmp_path, {"dut": "no interfaces", "left": [3]})[0]).links[0].way) == []


def test_loads_and_witnesses_are_noted_once_and_only_beside_a_topology(tmp_path: Path) -> None:
    outcome, _, testbed = built(tmp_path, BRIDGED)
    nobody: Any = None
    meters = (InterfaceMeter(testbed, {"source": nobody, "sink": nobody}), HostMeter(testbed, {"source": nobody}))
    for each in (outcome, outcome, alone := Outcome()):
        note_load(each, "ping", "source", "sink")
        for meter in meters:
            note_meter(each, meter)
    found = noted(outcome)
    assert [(load.instrument, load.source, load.target) for load in found.loads] == [("ping", "source", "sink")]
    assert [(each.name, each.at) for each in found.witnesses] == [("interfaces", ("source", "sink")), ("host", ())]
    assert alone.notes == {}


# Each scenario notes what it stands on


def stood(testbed: Testbed, role: str, **more: Any) -> Any:
    """An instance as far as a topology knows it."""
    spec = SimpleNamespace(role=role, netns=None, published="")
    return SimpleNamespace(testbed=testbed, netns=role, takes_taps=False, spec=spec, **more)


def shape(outcome: Outcome) -> tuple[dict[str, str], list[str]]:
    """What each role is, and the links between roles."""
    found = noted(outcome)
    nodes = {node.role: " ".join(filter(None, (node.platform, node.anomaly, node.does))) for node in found.nodes}
    return nodes, [f"{link.a.role} {link.attachment} {link.b.role}" for link in found.links]


def row(level: str) -> FunctionRow:
    return in_row(make_parts(Function, level), ForwardingPath(), EACH, "kernel", n_routers=0)


@pytest.fixture
def testbed(tmp_path: Path) -> Testbed:
    return recording_testbed(RecordingHost(), tmp_path)


def test_a_chain_has_its_neighbour_beside_it(testbed: Testbed) -> None:
    instances = {role: stood(testbed, role) for role in ROLES}
    path = ForwardingPath()
    chain = Chain(instances, VethBridge(), row("firewall"), path, _segments(instances, path), dict)
    load = cast(Any, SimpleNamespace(instance=stood(testbed, "neighbour"), demand=Demand("stress", 2, 0, 60)))
    config = {"platform": "runc", "isolation": "none", "function": "firewall", "implementation": "kernel"}
    scenario, outcome = object.__new__(ChainScenario), Outcome()
    scenario._testbed = testbed
    scenario._note_topology(config, chain, Disturbance(load, Cpu()), outcome)
    nodes, links = shape(outcome)
    assert nodes == {
        "source": "runc", "function": "runc firewall (kernel)", "sink": "runc",
        "neighbour": "runc cpu stress --cpu 2 --timeout 60",
    }  # fmt: skip
    assert links == ["source veth-bridge function", "function veth-bridge sink"]
    assert noted(outcome).path("source", "sink") == ["source", "function", "sink"]


def test_functions_in_a_row_are_drawn_in_a_row(testbed: Testbed) -> None:
    instances = {role: stood(testbed, role) for role in ("source", "function", "function2", "sink")}
    level, path = "firewall:rules=9>nat@docker", ForwardingPath()
    chain = Chain(instances, VethBridge(), row(level), path, _segments(instances, path), dict)
    config = {"platform": "runc", "isolation": "none", "function": level, "implementation": "kernel"}
    scenario, outcome = object.__new__(ChainScenario), Outcome()
    scenario._testbed = testbed
    scenario._note_topology(config, chain, None, outcome)
    nodes, links = shape(outcome)
    assert nodes == {
        "source": "runc", "function": "runc firewall:rules=9 (kernel)", "function2": "docker nat (kernel)",
        "sink": "runc",
    }  # fmt: skip
    assert links == ["source veth-bridge function", "function veth-bridge function2", "function2 veth-bridge sink"]
    drawn = [line.strip("│ ") for line in topology_lines(noted(outcome), {}, 80)]
    assert [line for line in drawn if line in instances] == [*instances]
    assert "docker · nat (kernel)" in drawn


def test_a_flow_to_the_host_ends_at_the_routers_own_device(testbed: Testbed) -> None:
    instance, peer = stood(testbed, "instance"), stood(testbed, "peer")
    ports = (Port(peer, "eth0", "198.18.1.1/24"), Port(instance, "eth0", "198.18.1.10/24"))
    pair = JoinedPair(instance, peer, Segment("u", ports))
    end = FlowEnd("host", stood(testbed, "host"), "198.18.1.254", "br-ub")
    outcome = Outcome()
    note_joined(pair.built(testbed, "nat", "docker", isolation="none"), pair, end, "nat", outcome)
    nodes, links = shape(outcome)
    assert nodes == {"instance": "docker", "peer": "native", "host": "native"}
    assert links == ["peer nat instance", "instance nat host"]
    assert noted(outcome).links[1].b.port == "br-ub"


def test_proxies_hang_at_the_dut_of_a_line(testbed: Testbed) -> None:
    there = {"client": {"dut": "to-dut"}, "dut": {"client": "to-client", "server": "to-server"}}
    places = (RoleNode(role, testbed, there.get(role, {"dut": "to-dut"})) for role in ("client", "dut", "server"))
    bare = {role: stood(testbed, role) for role in ("client", "server")}
    hosted = [HostedInstance(number, stood(testbed, "proxy"), 3128) for number in range(3)]
    outcome = Outcome()
    note_proxies(outcome, ThreeNodeTestbed(*places), bare, hosted, ("docker", "routed", "seccomp"), None)
    nodes, links = shape(outcome)
    assert nodes == {"client": "native", "dut": "forwards", "server": "native", "proxy": "docker http-proxy"}
    assert links == ["client veth dut", "dut veth server", "proxy routed dut"]
    found = noted(outcome)
    assert (found.nodes[-1].count, found.nodes[-1].isolation) == (3, "seccomp")
    assert found.links[2].a.address == "198.18.64.2/18"
    assert [end.address for end in found.links[0].ends] == ["198.19.1.10/24", "198.19.1.1/24"]


def test_a_link_that_the_platform_made_is_read_from_the_kernel(tmp_path: Path) -> None:
    """Docker names the other end as it likes, and gives the instance the next free address."""
    shown = {
        "dut": [
            link("docker0", 7, "bridge", addr_info=on("198.18.64.1/18")),
            link("veth5a", 9, "veth", master="docker0"),
        ],
        "proxy": [link("eth0", 8, "veth", link_index=9, addr_info=on("198.18.64.3/18"))],
    }
    names = {"proxy": "proxy"}
    look = lambda argv: answer("".join(f"{names[name]} {json.dumps(links)}\n" for name, links in shown.items()))  # noqa: E731
    bed = recording_testbed(RecordingHost(look), tmp_path)
    names["dut"] = bed.dut
    found: Any = BuiltTopology(bed)
    found.link("docker-nat", PluggedPort("proxy", bed, "proxy", "eth0", ""), PluggedPort("dut", bed, "", "", ""))
    outcome = Outcome()
    found.note(outcome)
    (made,) = noted(outcome).links
    assert made.a.address == "198.18.64.3/18"
    assert told(made.way) == ["veth5a veth", "docker0 bridge 198.18.64.1/18"]


def test_one_instance_stands_for_all_that_are_alike(testbed: Testbed) -> None:
    peer, first = stood(testbed, "peer"), stood(testbed, "instance")
    segment = Segment("0", (Port(peer, "to0", "198.18.0.1/29"), Port(first, "eth0", "198.18.0.2/29")))
    place = cast(Any, SimpleNamespace(peer=peer, first=(testbed, segment)))
    scenario, outcome = object.__new__(LifecycleScenario), Outcome()
    scenario._testbed = testbed
    scenario._note_topology({"platform": "crun", "attachment": "ovs", "instances": 4}, place, outcome)
    assert shape(outcome) == ({"peer": "native", "instance": "crun"}, ["peer ovs instance"])
    assert noted(outcome).nodes[1].count == 4


def test_a_large_network_is_not_looked_at(testbed: Testbed) -> None:
    """To look at hundreds of routers would take time from them; their links are known without."""
    topology = grid(5, 5)
    instances = [stood(testbed, name) for name in topology.names]
    network = SimpleNamespace(
        names=topology.names, instances=instances, segments=segments_of(topology, instances),
        router=SimpleNamespace(name="frr"), attachment=VethBridge(),
    )  # fmt: skip
    outcome = Outcome()
    note_network(testbed, cast(Any, network), "runc", outcome)
    nodes, links = shape(outcome)
    assert len(nodes) == 25 and len(links) == 40 and nodes["r0-0"] == "runc frr"
    assert cast(RecordingHost, testbed.host).commands == []
