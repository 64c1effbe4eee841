"""What an attachment says to the host: its whole topology as one readable batch, and what it says of itself."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import registry
from lastro.attachments.base import Segment
from lastro.attachments.veth_direct import VethDirect
from lastro.errors import InputError, Unavailable
from lastro.platforms.base import Port
from lastro.testing.attachments import unstarted

from ...support.links import attachment
from ...support.recording import RecordingHost, answer

# Three join no two instances, plug-ins make the links of `cni`, and cards exist.
ATTACHMENTS = sorted(registry.names("attachment") - {"card", "cni", "docker-nat", "host", "podman-nat"})


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
    "ovs-dpdk": PAIRS,
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


def test_a_vlan_is_that_of_every_port() -> None:
    lines = attachment("veth-bridge:vlan=100").compile(chain_of())
    more = "vlan_filtering 1 vlan_default_pvid 100 vlan_stats_enabled 1"
    assert lines == [line.replace(BRIDGE, f"{BRIDGE} {more}") for line in TRANSCRIPTS["veth-bridge"]]
    switch = attachment("ovs:vlan=7")
    words = " ".join(switch.compile_vsctl(chain_of(), "system"))  # type: ignore[attr-defined]
    assert words.count(" tag=7") == 4 and words.endswith("add-port hub-br hub-bb tag=7")


def test_packets_in_a_vlan_are_counted_and_without_one_nothing_is_asked() -> None:
    shown = [{"ifname": "hub-br", "vlans": [{"vlan": 1, "rx_packets": 9}, {"vlan": 100, "rx_packets": 5}]}]
    host = RecordingHost(lambda argv: answer(json.dumps(shown)))
    testbed: Any = SimpleNamespace(host=host, dut="dut")
    assert attachment("veth-bridge").counters(testbed) == {} and host.commands == []
    assert attachment("veth-bridge:vlan=100").counters(testbed) == {"in the VLAN": 5}


def test_a_level_has_the_options_that_were_chosen() -> None:
    assert [attachment(name).level for name in ("ovs", "ovs:vlan=0", "ovs:vlan=9")] == ["ovs", "ovs", "ovs:vlan=9"]
    assert "VLAN filtering" in str(attachment("veth-bridge:vlan=9").remedy)
    assert attachment("veth-bridge").remedy is None
    with pytest.raises(InputError, match="at most 4094"):
        attachment("ovs:vlan=4095")
    with pytest.raises(Unavailable, match="no option 'vlan'"):
        attachment("veth-direct:vlan=100")


@pytest.mark.parametrize("name", ["nat", "routed"])
def test_a_network_without_room_for_a_router_is_refused(name: str) -> None:
    ports = [Port(unstarted(f"N{number}"), "eth0", f"198.18.0.{number}/30") for number in (1, 2)]
    narrow = Segment("a", (ports[0], ports[1]))
    with pytest.raises(Unavailable, match=r"198\.18\.0\.0/30"):
        attachment(name).compile([narrow])


MEMBER = veth("hub-member", "load0", "N4")
MEMBERS = {
    "veth-bridge": [MEMBER, "link set hub-member master hub-br up"],
    "macvlan-bridge": ["link add name load0 netns N4 link hub-parent type macvlan mode bridge"],
    "macvtap": ["link add name load0 netns N4 link hub-parent type macvtap mode bridge"],
    "ipvlan": ["link add name load0 netns N4 link hub-parent type ipvlan mode l2"],
    "ovs": [MEMBER, "link set hub-member up"],
    "ovs-dpdk": [MEMBER, "link set hub-member up"],
    "ovs-userspace": [MEMBER, "link set hub-member up"],
    "vxlan": [MEMBER, "link set hub-member master br-a up"],
    "nat": [MEMBER, "link set hub-member master br-ab up"],
    "routed": [
        MEMBER,
        "address add 198.18.0.254/32 dev hub-member",
        "link set hub-member up",
        "route add 198.18.0.20/32 dev hub-member table 1002",
        "rule add iif hub-member lookup 1001",
    ],
}


@pytest.mark.parametrize("name", sorted(MEMBERS))
def test_a_third_port_is_put_on_the_link_to_the_function(name: str) -> None:
    port = Port(unstarted("N4"), "load0", "198.18.0.20/24")
    assert attachment(name).compile_member(chain_of(), port) == MEMBERS[name]


def test_a_pair_has_no_place_for_a_third_port() -> None:
    assert set(ATTACHMENTS) - set(MEMBERS) == {"veth-direct"}
    with pytest.raises(Unavailable, match="two ends, and no place for a third"):
        attachment("veth-direct").compile_member(chain_of(), Port(unstarted("N4"), "load0", "198.18.0.20/24"))


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
    direct = attachment("veth-direct")
    assert isinstance(direct, VethDirect)
    assert direct.compile_tc(tapped) == [
        "qdisc add dev hub-aa clsact",
        "filter add dev hub-aa ingress protocol all u32 match u32 0 0 action mirred egress redirect dev hub-ab",
        "qdisc add dev hub-ab clsact",
        "filter add dev hub-ab ingress protocol all u32 match u32 0 0 action mirred egress redirect dev hub-aa",
    ]
