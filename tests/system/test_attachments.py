"""Links between instances: they carry packets, reach nobody else, and go as they came.

Instances are bare processes, containers, and machines behind taps (a network namespace and a process that copies
frames, where a virtual machine would be)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import registry
from lastro.attachments.base import Attachment, Segment
from lastro.errors import CommandFailed, Unavailable
from lastro.platforms.base import Instance, InstanceSpec, Platform, Port, Tap
from lastro.scenarios._deploy import deployed
from lastro.scenarios.base import AttachmentPool, PlatformPool
from lastro.scenarios.chain import ChainScenario
from lastro.testbed import Testbed

from ..hostlisting import live, owned_processes
from ..tapmachine import TapMachine

pytestmark = pytest.mark.root


def lacks_ipvlan() -> bool:
    script = "ip link add name p0 type veth peer name p1 && ip link add link p0 name i0 type ipvlan mode l2"
    return subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, check=False).returncode != 0


ATTACHMENTS = sorted(registry.names("attachment"))
ABSENT = ["ipvlan"] if lacks_ipvlan() else []
PRESENT = [name for name in ATTACHMENTS if name not in ABSENT]
FORWARDING = [name for name in PRESENT if name != "ipvlan"]
# Of veth pairs, taps and macvlans alone: one batch makes all of it.
PLAIN = ["macvlan-bridge", "macvtap", "veth-bridge", "veth-direct"]
LEFT, RIGHT, OTHER = "198.18.200.1", "198.18.200.2", "198.18.200.3"


def unstarted(netns: str, *, takes_taps: bool = False) -> Any:
    """What a topology needs to know of an instance."""
    return SimpleNamespace(netns=netns, takes_taps=takes_taps)


def chain_of(*, takes_taps: bool = False) -> list[Segment]:
    """Two segments as in a chain: a from N1 to N2, b from N2 to N3."""
    n1, n2, n3 = (unstarted(name, takes_taps=takes_taps) for name in ("N1", "N2", "N3"))
    return [
        Segment(
            "a",
            (
                Port(n1, "out0", "198.18.0.10/24", ("198.18.1.10/32 via 198.18.0.1",)),
                Port(n2, "in0", "198.18.0.1/24"),
            ),
        ),
        Segment(
            "b",
            (
                Port(n2, "out0", "198.18.1.1/24"),
                Port(n3, "in0", "198.18.1.10/24", ("198.18.0.10/32 via 198.18.1.1",)),
            ),
        ),
    ]


PARENT = [
    "link add name hub-parent type veth peer name hub-peer",
    "link set hub-parent up",
    "link set hub-peer up",
]
BRIDGE = "type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
PORTS = [("hub-aa", "out0", "N1"), ("hub-ab", "in0", "N2"), ("hub-ba", "out0", "N2"), ("hub-bb", "in0", "N3")]


def on_parent(kind: str) -> list[str]:
    return [*PARENT, *(f"link add link hub-parent name {port} netns {netns} type {kind}" for _, port, netns in PORTS)]


def veth(end: str, port: str, netns: str) -> str:
    return f"link add name {end} type veth peer name {port} netns {netns}"


PAIRS = [line for each in PORTS for line in (veth(*each), f"link set {each[0]} up")]
TRANSCRIPTS = {
    "veth-direct": [
        "link add name out0 netns N1 type veth peer name in0 netns N2",
        "link add name out0 netns N2 type veth peer name in0 netns N3",
    ],
    "veth-bridge": [
        f"link add name hub-br {BRIDGE}",
        "link set hub-br up",
        *(line for each in PORTS for line in (veth(*each), f"link set {each[0]} master hub-br up")),
    ],
    "macvlan-bridge": on_parent("macvlan mode bridge"),
    "macvtap": on_parent("macvtap mode bridge"),
    "ipvlan": on_parent("ipvlan mode l2"),
    "ovs": PAIRS,
    "ovs-userspace": PAIRS,
    "routed": [
        "link add name hub-aa type veth peer name out0 netns N1",
        "address add 198.18.0.254/32 dev hub-aa",
        "link set hub-aa up",
        "link add name hub-ab type veth peer name in0 netns N2",
        "address add 198.18.0.254/32 dev hub-ab",
        "link set hub-ab up",
        "link add name hub-ba type veth peer name out0 netns N2",
        "address add 198.18.1.254/32 dev hub-ba",
        "link set hub-ba up",
        "link add name hub-bb type veth peer name in0 netns N3",
        "address add 198.18.1.254/32 dev hub-bb",
        "link set hub-bb up",
        "route add 198.18.0.1/32 dev hub-ab table 1001",
        "route add 198.18.1.10/32 via 198.18.0.1 dev hub-ab onlink table 1001",
        "rule add iif hub-aa lookup 1001",
        "route add 198.18.0.10/32 dev hub-aa table 1002",
        "rule add iif hub-ab lookup 1002",
        "route add 198.18.1.10/32 dev hub-bb table 1003",
        "rule add iif hub-ba lookup 1003",
        "route add 198.18.1.1/32 dev hub-ba table 1004",
        "route add 198.18.0.10/32 via 198.18.1.1 dev hub-ba onlink table 1004",
        "rule add iif hub-bb lookup 1004",
    ],
    "nat": [
        line
        for end, (hub, port, netns) in zip(("br-aa", "br-ab", "br-ba", "br-bb"), PORTS, strict=True)
        for line in (
            f"link add name {end} {BRIDGE}",
            f"address add 198.18.{int(end[3] == 'b')}.254/32 dev {end}",
            f"link set {end} up",
            veth(hub, port, netns),
            f"link set {hub} master {end} up",
        )
    ]
    + [
        "route add 198.18.0.253/32 dev br-ab table 1001",
        "route add 198.18.1.253/32 via 198.18.0.1 dev br-ab onlink table 1001",
        "route add 198.18.0.1/32 dev br-ab table 1001",
        "route add 198.18.1.10/32 via 198.18.0.1 dev br-ab onlink table 1001",
        "rule add iif br-aa lookup 1001",
        "route add 198.18.0.253/32 dev br-aa table 1002",
        "route add 198.18.0.10/32 dev br-aa table 1002",
        "rule add iif br-ab lookup 1002",
        "route add 198.18.1.253/32 dev br-bb table 1003",
        "route add 198.18.1.10/32 dev br-bb table 1003",
        "rule add iif br-ba lookup 1003",
        "route add 198.18.1.253/32 dev br-ba table 1004",
        "route add 198.18.0.253/32 via 198.18.1.1 dev br-ba onlink table 1004",
        "route add 198.18.1.1/32 dev br-ba table 1004",
        "route add 198.18.0.10/32 via 198.18.1.1 dev br-ba onlink table 1004",
        "rule add iif br-bb lookup 1004",
    ],
    "vxlan": [
        "address add 198.19.0.1/30 dev under",
        "link set under up",
        f"link add name br-a {BRIDGE}",
        "link set br-a up",
        "link add name vx-a type vxlan id 1 dev under local 198.19.0.1 remote 198.19.0.2 dstport 4789",
        "link set vx-a master br-a up",
        f"link add name br-b {BRIDGE}",
        "link set br-b up",
        "link add name vx-b type vxlan id 2 dev under local 198.19.0.1 remote 198.19.0.2 dstport 4789",
        "link set vx-b master br-b up",
        "link add name hub-aa type veth peer name out0 netns N1",
        "link set hub-aa master br-a up",
        "link add name hub-bb type veth peer name in0 netns N3",
        "link set hub-bb master br-b up",
    ],
}
SECOND_HOST = [
    "address add 198.19.0.2/30 dev under",
    "link set under up",
    f"link add name br-a {BRIDGE}",
    "link set br-a up",
    "link add name vx-a type vxlan id 1 dev under local 198.19.0.2 remote 198.19.0.1 dstport 4789",
    "link set vx-a master br-a up",
    f"link add name br-b {BRIDGE}",
    "link set br-b up",
    "link add name vx-b type vxlan id 2 dev under local 198.19.0.2 remote 198.19.0.1 dstport 4789",
    "link set vx-b master br-b up",
    "link add name hub-ab type veth peer name in0 netns N2",
    "link set hub-ab master br-a up",
    "link add name hub-ba type veth peer name out0 netns N2",
    "link set hub-ba master br-b up",
]
RULESET = """table ip hub {
    counter translated { }
    chain translate {
        type nat hook postrouting priority srcnat; policy accept;
        oifname "br-aa" counter name translated snat to 198.18.0.253
        oifname "br-ab" counter name translated snat to 198.18.0.253
        oifname "br-ba" counter name translated snat to 198.18.1.253
        oifname "br-bb" counter name translated snat to 198.18.1.253
    }
}
"""


def platform_of(name: str, pool: PlatformPool) -> Platform:
    return TapMachine() if name == "taps" else pool.get(name)


@pytest.fixture(scope="module")
def attachments(testbed: Testbed) -> Iterator[AttachmentPool]:
    with ExitStack() as stack:
        yield AttachmentPool(testbed, stack)


@pytest.fixture(scope="module", params=["native", "runc", "taps"])
def trio(request: pytest.FixtureRequest, testbed: Testbed, pool: PlatformPool) -> Iterator[list[Instance]]:
    """Two instances to join, and a third that stays alone."""
    with ExitStack() as stack:
        platform = platform_of(request.param, pool)
        yield [stack.enter_context(platform.start(testbed, InstanceSpec(name, name))) for name in ("aa", "bb", "cc")]


def two_natives(stack: ExitStack, testbed: Testbed, pool: PlatformPool) -> list[Instance]:
    specs = [InstanceSpec(name, name) for name in ("left", "right")]
    return [stack.enter_context(pool.get("native").start(testbed, spec)) for spec in specs]


def attachment(name: str) -> Attachment:
    made: Attachment = registry.get("attachment", name)()
    return made


def segment(a: Instance, b: Instance) -> Segment:
    return Segment("s", (Port(a, "eth0", f"{LEFT}/24"), Port(b, "eth0", f"{RIGHT}/24")))


def links(testbed: Testbed, netns: str) -> list[str]:
    """Without those of a machine's guest, which go with the machine and not with its taps."""
    found = testbed.host.run_json(["ip", "-n", netns, "-j", "-d", "link"])
    return [link["ifname"] for link in found if link.get("linkinfo", {}).get("info_kind") != "tun"]


def reaches(instance: Instance, address: str, within_s: int = 5) -> bool:
    """One answer is enough: where the whole machine is busy, a first packet may be lost."""
    return instance.run(["ping", "-n", "-c", "1", "-w", str(within_s), address], check=False).returncode == 0


def contents(testbed: Testbed) -> dict[str, list[str]]:
    """Whatever the DUT's namespace may hold of an attachment, and which namespaces there are."""
    inside = ["nsenter", f"--net=/run/netns/{testbed.dut}"]
    listed = {
        "links": ["ip", "-o", "link"],
        "addresses": ["ip", "-o", "address"],
        "routes": ["ip", "route", "show", "table", "all"],
        "rules": ["ip", "rule"],
        "nft": ["nft", "list", "ruleset"],
        "sysctls": ["sh", "-c", "cd /proc/sys/net/ipv4; grep -r . ip_forward conf neigh 2>/dev/null"],
        "namespaces": ["sh", "-c", f"ls /run/netns | grep {testbed.session.token}"],
    }
    return {what: sorted(testbed.host.run([*inside, *argv]).text.splitlines()) for what, argv in listed.items()}


@pytest.mark.parametrize("name", PRESENT)
def test_two_instances_reach_each_other_and_nobody_else(
    testbed: Testbed, attachments: AttachmentPool, trio: list[Instance], name: str
) -> None:
    a, b, alone = trio
    before = contents(testbed)
    with attachments.get(name).connect(testbed, [segment(a, b)]):
        assert reaches(a, RIGHT)
        assert reaches(b, LEFT)
        assert not reaches(alone, LEFT, within_s=1)
        assert not reaches(a, OTHER, within_s=1)
        for instance, address in ((a, LEFT), (b, RIGHT)):
            (link,) = [each for each in _addresses(testbed, instance) if each["ifname"] == "eth0"]
            assert link["operstate"] in ("UP", "UNKNOWN") and link["mtu"] == 1500
            assert [entry["local"] for entry in link["addr_info"] if entry["family"] == "inet"] == [address]
        assert _routes(testbed, a) == ["198.18.200.0/24"]  # and no way out
        assert links(testbed, alone.netns) == ["lo"]
    for netns in (a.netns, b.netns):
        assert links(testbed, netns) == ["lo"]
    assert contents(testbed) == before
    assert not reaches(a, RIGHT, within_s=1)


@pytest.mark.parametrize("name", PRESENT)
def test_the_same_links_can_be_made_again_at_once(
    testbed: Testbed, attachments: AttachmentPool, trio: list[Instance], name: str
) -> None:
    for _ in range(3):
        with attachments.get(name).connect(testbed, [segment(trio[0], trio[1])]):
            assert reaches(trio[0], RIGHT)


@pytest.mark.parametrize("name", ATTACHMENTS)
def test_links_that_cannot_be_made_leave_no_others(
    testbed: Testbed, attachments: AttachmentPool, trio: list[Instance], name: str
) -> None:
    broken = Segment(
        "x", (Port(trio[2], "eth0", "198.18.201.1/24"), Port(unstarted("no-such-netns"), "eth0", "198.18.201.2/24"))
    )
    before = contents(testbed)
    good = segment(trio[0], trio[1])
    with pytest.raises(CommandFailed), attachments.get(name).connect(testbed, [good, broken]):
        pytest.fail("it connected to a namespace that is not there")
    assert contents(testbed) == before
    for instance in trio:
        assert links(testbed, instance.netns) == ["lo"]


@pytest.mark.parametrize("name", PRESENT)
def test_an_error_inside_the_block_still_removes_the_links(
    testbed: Testbed, attachments: AttachmentPool, trio: list[Instance], name: str
) -> None:
    part = attachments.get(name)  # what it prepares stays
    before = contents(testbed)
    with pytest.raises(ZeroDivisionError), part.connect(testbed, [segment(trio[0], trio[1])]):
        raise ZeroDivisionError
    assert contents(testbed) == before


# What is said to the host


@pytest.mark.parametrize("name", ATTACHMENTS)
def test_a_topology_compiles_to_one_readable_batch(name: str) -> None:
    assert attachment(name).compile(chain_of()) == TRANSCRIPTS[name]


def test_the_second_host_of_an_overlay_has_a_batch_of_its_own() -> None:
    assert registry.get("attachment", "vxlan")().compile_second(chain_of()) == SECOND_HOST


def test_translation_compiles_to_one_readable_ruleset() -> None:
    assert registry.get("attachment", "nat")().compile_nft(chain_of()) == RULESET


def test_a_switch_is_made_in_one_transaction() -> None:
    words = registry.get("attachment", "ovs")().compile_vsctl(chain_of(), "system")
    assert " ".join(words) == (
        "-- add-br hub-br -- set bridge hub-br datapath_type=system fail_mode=standalone"
        " -- add-port hub-br hub-aa -- add-port hub-br hub-ab -- add-port hub-br hub-ba -- add-port hub-br hub-bb"
    )


@pytest.mark.parametrize("name", ["nat", "routed"])
def test_a_network_without_room_for_a_router_is_refused(name: str) -> None:
    ports = [Port(unstarted(f"N{number}"), "eth0", f"198.18.0.{number}/30") for number in (1, 2)]
    narrow = Segment("a", (ports[0], ports[1]))
    with pytest.raises(Unavailable, match=r"198\.18\.0\.0/30"):
        attachment(name).compile([narrow])


@pytest.mark.parametrize("name", ATTACHMENTS)
def test_the_ports_of_a_machine_end_in_the_duts_namespace(name: str) -> None:
    lines = attachment(name).compile(chain_of(takes_taps=True))
    made = {
        "ipvlan": "link add link hub-parent name {} type ipvtap mode l2",
        "macvtap": "link add link hub-parent name {} type macvtap mode bridge",
        "macvlan-bridge": "link add link hub-parent name {} type macvtap mode bridge",
    }.get(name, "tuntap add dev {} mode tap")
    for end, _, netns in PORTS:
        assert lines.count(made.format(end)) == 1
        assert not any(netns in line for line in lines)


def test_two_taps_hand_on_to_each_other_without_a_bridge() -> None:
    tapped = chain_of(takes_taps=True)[:1]
    assert attachment("veth-direct").compile_tc(tapped) == [
        "qdisc add dev hub-aa clsact",
        "filter add dev hub-aa ingress protocol all u32 match u32 0 0 action mirred egress redirect dev hub-ab",
        "qdisc add dev hub-ab clsact",
        "filter add dev hub-ab ingress protocol all u32 match u32 0 0 action mirred egress redirect dev hub-aa",
    ]


@pytest.mark.parametrize("name", PLAIN)
def test_connecting_is_one_command_for_each_namespace_and_one_to_undo(
    testbed: Testbed, pool: PlatformPool, name: str
) -> None:
    with ExitStack() as stack:
        a, b = (
            stack.enter_context(pool.get("native").start(testbed, InstanceSpec(each, each))) for each in ("a1", "b1")
        )
        with testbed.host.recorded() as transcript, attachment(name).connect(testbed, [segment(a, b)]):
            pass
    steps = [(record["argv"][record["argv"].index("-n") + 1], record["stdin"]) for record in transcript.records]
    removed_in = a.netns if name == "veth-direct" else testbed.dut
    assert [netns for netns, _ in steps] == [testbed.dut, a.netns, b.netns, removed_in]
    assert steps[0][1].splitlines() == attachment(name).compile([segment(a, b)])
    assert steps[1][1] == f"address add {LEFT}/24 dev eth0\nlink set eth0 up\n"


# Probes


@pytest.mark.parametrize("platform", ["native", "taps"])
@pytest.mark.parametrize("name", PRESENT)
def test_probing_finds_it_available(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool, name: str, platform: str
) -> None:
    part = attachments.get(name)
    before = contents(testbed)
    assert part.probe(testbed, platform_of(platform, pool))
    assert contents(testbed) == before


@pytest.mark.parametrize("name", ABSENT)
def test_probing_tells_what_this_kernel_lacks(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool, name: str
) -> None:
    found = attachments.get(name).probe(testbed, pool.get("native"))
    assert not found
    assert "Unknown device type" in str(found.reason)
    assert f"kernel with {name}" in str(found.remedy)


def test_links_that_no_instance_can_forward_from_are_no_part_of_a_chain(testbed: Testbed) -> None:
    """Seen on links that are there: the kernel may have no ipvlan."""
    direct, ipvlan = registry.get("attachment", "veth-direct"), registry.get("attachment", "ipvlan")
    scenario = ChainScenario(testbed)
    config = {setting.name: setting.default for setting in scenario.settings} | {
        "platform": "native", "attachment": "veth-direct", "isolation": "none", "function": "none", "anomaly": "none",
    }  # fmt: skip
    try:
        assert scenario.availability(config)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(direct, "no_transit", ipvlan.no_transit)
            assert "no instance can forward" in str(scenario.availability(config).reason)
    finally:
        scenario.close()


def test_a_probe_tells_why_not(testbed: Testbed, pool: PlatformPool, monkeypatch: pytest.MonkeyPatch) -> None:
    part = attachment("veth-direct")
    monkeypatch.setattr(type(part), "compile", lambda self, segments: ["link add name p0 type no-such-kind"])
    found = part.probe(testbed, pool.get("native"))
    assert not found
    assert "exited with" in str(found.reason)


# A chain over them: the middle instance forwards from one segment to the other


HOPS = {"routed": 3, "nat": 3}  # the DUT is one more on each segment


@pytest.mark.parametrize("platform", ["native", "runc", "taps"])
@pytest.mark.parametrize("name", FORWARDING)
def test_a_chain_goes_through_the_function_and_by_the_way_that_the_links_promise(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool, name: str, platform: str
) -> None:
    part, function = attachments.get(name), registry.get("function", "nat")()
    with deployed(testbed, platform_of(platform, pool), part, function) as chain:
        counted, moved = chain.counted(), part.counters(testbed)
        # Not one ping, but one after another: each must find the counters moved, as each measurement must.
        for _ in range(2):
            done = chain.source.run(["ping", "-n", "-c", "2", "-i", "0.05", "-W", "1", chain.path.sink])
            assert f"ttl={64 - HOPS.get(name, 1)} " in done.text
            before, moved, counted_before, counted = moved, part.counters(testbed), counted, chain.counted()
            assert all(moved[each] > before[each] for each in before)
            assert counted["crossed"].packets >= counted_before["crossed"].packets + 2
            assert counted["translated"].packets > counted_before["translated"].packets
    assert set(moved) == {
        "routed": {"routed"}, "nat": {"routed", "translated"}, "vxlan": {"rx below", "tx below"},
        "ovs": {"switched"}, "ovs-userspace": {"switched"},
    }.get(name, set())  # fmt: skip


def heard(chain: Any, sink_port: int) -> str:
    """Whom the sink sees when the source connects to it."""
    listener = chain.sink.spawn(["timeout", "10", "nc", "-n", "-v", "-l", str(sink_port)])
    there = f"for n in $(seq 100); do ss -Hln sport = :{sink_port} | grep -q . && exit; sleep 0.02; done; exit 1"
    chain.sink.run(["sh", "-c", there])
    chain.source.run(["timeout", "4", "nc", "-n", "-N", chain.path.sink, str(sink_port)], stdin="hello\n")
    assert listener.wait_line("hello", 5)
    words = str(listener.stop().error_text)
    return words.split("Connection received on ")[1].split()[0]


@pytest.mark.parametrize(("name", "seen"), [("nat", "198.18.1.253"), ("routed", "198.18.0.10")])
@pytest.mark.parametrize("platform", ["native", "runc"])
def test_each_side_sees_an_address_of_the_dut_with_translation_and_its_peer_without(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool, platform: str, name: str, seen: str
) -> None:
    function = registry.get("function", "none")()
    with deployed(testbed, pool.get(platform), attachments.get(name), function) as chain:
        assert heard(chain, 5000) == seen


def test_without_the_second_host_an_overlay_carries_nothing(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool
) -> None:
    function = registry.get("function", "none")()
    with deployed(testbed, pool.get("native"), attachments.get("vxlan"), function) as chain:
        testbed.host.run(["ip", "-n", f"{testbed.dut}-2", "link", "set", "under", "down"])
        assert not reaches(chain.source, chain.path.inside_address, within_s=1)


# Open vSwitch


def directory_of(switch: Any) -> Path:
    """Of a prepared one."""
    directory: Path = switch._directory
    return directory


def test_the_switch_is_of_our_own_and_its_choice_is_recorded(testbed: Testbed, attachments: AttachmentPool) -> None:
    for name in ("ovs", "ovs-userspace"):
        part = attachments.get(name)
        pids = {int((directory_of(part) / f"{short}.pid").read_text()) for short in ("db", "vs")}
        assert part.own_cgroups == (f"{testbed.session.cgroup}/{directory_of(part).name}",)
        assert pids <= testbed.cgroups.pids(part.own_cgroups[0])
        assert pids <= owned_processes(testbed.session.token)
        assert part.residuals(testbed)["datapath"]
    for pid in pids:
        files = [str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()]
        assert not [file for file in files if "openvswitch" in file]
    userspace = attachments.get("ovs-userspace")
    assert userspace.residuals(testbed)["datapath"] == "in user space (netdev)"
    assert "checksums" in attachments.residuals("ovs-userspace")["ovs-userspace: offloads"]


def test_in_user_space_nobody_leaves_checksums_to_the_switch(
    testbed: Testbed, trio: list[Instance], attachments: AttachmentPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = trio
    given: list[Tap] = []
    monkeypatch.setattr(a, "plug", lambda ports, taps: given.extend(taps.values()) or type(a).plug(a, ports, taps))
    with attachments.get("ovs-userspace").connect(testbed, [segment(a, b)]):
        if a.takes_taps:
            assert [tap.offloads for tap in given] == [False]
        else:
            features = testbed.host.run(["nsenter", f"--net=/run/netns/{a.netns}", "ethtool", "-k", "eth0"]).text
            assert "tx-checksumming: off" in features and "generic-segmentation-offload: off" in features


def test_a_killed_switch_costs_one_trial_and_no_more(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool
) -> None:
    part = attachments.get("ovs")
    before = contents(testbed)
    with ExitStack() as stack:
        a, b = (
            stack.enter_context(pool.get("native").start(testbed, InstanceSpec(each, each))) for each in ("a1", "b1")
        )
        with part.connect(testbed, [segment(a, b)]):
            for short in ("vs", "db"):
                os.kill(int((directory_of(part) / f"{short}.pid").read_text()), signal.SIGKILL)
            assert not reaches(a, RIGHT, within_s=1)
        with part.connect(testbed, [segment(a, b)]):
            assert reaches(a, RIGHT)
    assert contents(testbed) == before


def test_a_switch_that_only_prints_its_failure_fails(testbed: Testbed, attachments: AttachmentPool) -> None:
    part: Any = attachments.get("ovs-userspace")
    with pytest.raises(CommandFailed, match="no-such-link"):
        try:
            part._vsctl(testbed, *part.compile_vsctl([], "netdev"), "--", "add-port", "hub-br", "no-such-link")
        finally:
            part._vsctl(testbed, "--if-exists", "del-br", "hub-br", check=False)


def test_what_the_switch_uses_is_accounted_to_it(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool
) -> None:
    part = attachments.get("ovs-userspace")
    with deployed(testbed, pool.get("native"), part, registry.get("function", "none")()) as chain:
        before = testbed.cgroups.usage(part.own_cgroups[0]).cpu_s
        chain.source.run(["ping", "-n", "-q", "-f", "-c", "3000", "-w", "5", chain.path.sink], check=False)
        assert testbed.cgroups.usage(part.own_cgroups[0]).cpu_s > before + 0.01


def test_with_its_preparation_a_switch_is_gone(testbed: Testbed) -> None:
    part, before = attachment("ovs"), contents(testbed)
    owned = len(testbed.session.owned_objects())
    with part.prepare(testbed):
        pids = testbed.cgroups.pids(part.own_cgroups[0])
        assert len(live(pids)) == 2
    assert not live(pids) and not directory_of(part).exists()
    assert not any(directory.exists() for directory in testbed.cgroups.directories(part.own_cgroups[0]))
    assert contents(testbed) == before and len(testbed.session.owned_objects()) == owned


def test_without_the_program_a_switch_is_honestly_unavailable(
    testbed: Testbed, attachments: AttachmentPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbed.host, "which", lambda program: None)
    part = attachment("ovs")
    with pytest.raises(Unavailable, match="no program 'ovsdb-server'") as caught, part.prepare(testbed):
        pytest.fail("it started without a program")
    assert "openvswitch-switch" in str(caught.value.hint)


# A crash


CRASH = """
    import sys, time
    from contextlib import ExitStack
    from pathlib import Path
    from lastro.host.ledger import session
    from lastro.image.rootfs import Image
    from lastro.scenarios._deploy import deployed
    from lastro.scenarios.base import AttachmentPool, PlatformPool
    from lastro import registry
    from lastro.testbed import local_testbed

    name, digest, directory = sys.argv[1:]
    with session("crash") as held, local_testbed(held, Image(digest, Path(directory))) as bed, ExitStack() as stack:
        platform, links = PlatformPool(bed, stack).get("native"), AttachmentPool(bed, stack).get(name)
        with deployed(bed, platform, links, registry.get("function", "none")()):
            print(held.token, flush=True)
            time.sleep(60)
"""


@pytest.mark.parametrize("name", FORWARDING)
def test_after_kill_9_cleaning_removes_all_of_it(testbed: Testbed, tmp_path: Path, name: str) -> None:
    env = {**os.environ, "LASTRO_STATE": str(tmp_path), "LASTRO_RUN": f"/run/lastro-{testbed.session.token}"}
    argv = [sys.executable, "-c", textwrap.dedent(CRASH), name, testbed.image.digest, str(testbed.image.directory)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        token = process.stdout.readline().strip()
        try:
            assert len(token) == 6
            assert owned_processes(token) or "ovs" not in name
            assert list(Path("/run/netns").glob(f"*{token}*"))
        finally:
            process.kill()
    done = subprocess.run(
        [sys.executable, "-m", "lastro", "clean"], capture_output=True, text=True, env=env, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert not owned_processes(token)
    assert not list(Path("/run/netns").glob(f"*{token}*"))
    assert not any(directory.exists() for directory in testbed.cgroups.directories(f"/lastro/{token}"))
    assert not list(Path(env["LASTRO_RUN"]).iterdir()) and not list((tmp_path / "scratch").iterdir())
    Path(env["LASTRO_RUN"]).rmdir()


def _addresses(testbed: Testbed, instance: Instance) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = testbed.host.run_json(["ip", "-n", instance.netns, "-j", "address"])
    return found


def _routes(testbed: Testbed, instance: Instance) -> list[str]:
    return [route["dst"] for route in json.loads(testbed.host.run(["ip", "-n", instance.netns, "-j", "route"]).text)]
