"""A network of routers, without one: configurations, logs, tables, links that are apart, what a study may say."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro import registry
from lastro.attachments.base import Segment
from lastro.errors import InputError, StudyError
from lastro.functions.ospf import Interface, NeighbourChange, OspfSettings, router_id
from lastro.functions.ospf_router import ROUTERS, OspfRouter
from lastro.image.rootfs import ImageAdditions
from lastro.platforms.base import Port
from lastro.scenarios.base import schemas
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.routing import RoutingScenario
from lastro.scenarios.routing.flow import count_lost
from lastro.scenarios.routing.network import _differences, last_full, parse_table, shortened
from lastro.scenarios.routing.topology_file import read_topology
from lastro.study.load import parse

from ...support.recording import RecordingHost

PORTS = [Interface("eth0", 10), Interface("eth1", 3)]
FRR, BIRD, QUAGGA = ROUTERS["frr"], ROUTERS["bird"], ROUTERS["quagga"]

FRR_LOG = """\
2026/11/21 22:40:47.408755 OSPF: [Y05P2-YJVXY] AdjChg: Nbr 0.0.0.3, NbrIP 198.18.0.6 (default) on eth1:198.18.0.5: \
Down -> Init (HelloReceived)
2026/11/21 22:40:48.172959 OSPF: [Y05P2-YJVXY] AdjChg: Nbr 0.0.0.3, NbrIP 198.18.0.6 (default) on eth1:198.18.0.5: \
Init -> 2-Way (2-WayReceived)
2026/11/21 22:40:51.379079 OSPF: AdjChg: Nbr 0.0.0.2(default) on eth0:198.18.0.1: Loading -> Full (LoadingDone)
"""
BIRD_LOG = """\
2026-11-21 22:41:01.657350 <TRACE> lab: State changed to up
2026-11-21 22:41:06.657351 <TRACE> lab: Neighbor 0.0.0.2 on eth0 changed state from 2-Way to ExStart
2026-11-21 22:41:06.757351 <TRACE> lab: Neighbor 0.0.0.2 on eth0 changed state from Loading to Full
"""


def test_frr_is_told_every_timer_and_cost() -> None:
    files = FRR.configuration("r0-0", 0, PORTS, OspfSettings(5, 20))
    assert files["zebra.conf"] == "hostname r0-0\n!\n"
    assert files["ospfd.conf"] == (
        "hostname r0-0\nlog file /run/frr/ospf.log notifications\nlog timestamp precision 6\n!\n"
        "interface eth0\n ip ospf area 0.0.0.0\n ip ospf network broadcast\n ip ospf hello-interval 5\n"
        " ip ospf dead-interval 20\n ip ospf cost 10\n!\n"
        "interface eth1\n ip ospf area 0.0.0.0\n ip ospf network broadcast\n ip ospf hello-interval 5\n"
        " ip ospf dead-interval 20\n ip ospf cost 3\n!\n"
        "router ospf\n ospf router-id 0.0.0.1\n log-adjacency-changes detail\n maximum-paths 64\n!\n"
    )
    fast = FRR.configuration("r0-0", 0, PORTS, OspfSettings(timers="fast"))["ospfd.conf"]
    assert " timers throttle lsa all 100\n" in fast and " ip ospf retransmit-interval 1\n" in fast


def test_bird_is_told_the_same() -> None:
    text = BIRD.configuration("r0-0", 299, PORTS, OspfSettings(10, 40, "point-to-point"))["bird.conf"]
    assert 'interface "eth1" { type ptp; hello 10; dead 40; cost 3; };' in text
    assert "router id 0.0.1.44;" in text and text.count("interface") == 2


@pytest.mark.parametrize("timers", ["standard", "fast"])
def test_quagga_takes_the_files_of_frr_but_for_what_it_does_not_know(timers: str) -> None:
    ours = FRR.configuration("r0-0", 0, PORTS, OspfSettings(timers=timers))
    theirs = QUAGGA.configuration("r0-0", 0, PORTS, OspfSettings(timers=timers))
    assert theirs["zebra.conf"] == ours["zebra.conf"]
    lines = [line for line in ours["ospfd.conf"].splitlines() if not re.match(r" (maximum-paths|timers .*lsa) ", line)]
    assert theirs["ospfd.conf"].splitlines() == [line.replace("/run/frr/", "/run/quagga/") for line in lines]


def test_quagga_is_started_from_where_the_user_s_own_programs_are_and_asked_at_its_terminals() -> None:
    script = QUAGGA.start_script({"zebra.conf": "a\n", "ospfd.conf": "b\n"})
    ospfd = (
        "/usr/local/bin/ospfd -d -z /run/quagga/zserv.api -A 127.0.0.1 -P 2604 -f /run/quagga/ospfd.conf"
        " -i /run/quagga/ospfd.pid\n"
    )
    assert script.index("/usr/local/bin/zebra -d") < script.index(ospfd) < script.index("127.0.0.1 2601")
    assert "nc -d -w 2 127.0.0.1 2604" in script, "-d, or it would read the rest of the script"
    assert "chown" not in script and "--vty_socket" not in script
    assert "/run/quagga/ospfd.pid" in QUAGGA.dead_script() and QUAGGA.log == "/run/quagga/ospf.log"
    log = "2026/11/21 22:40:51.379079 OSPF: AdjChg: Nbr 0.0.0.2 on eth0:198.18.0.1: Loading -> Full (LoadingDone)\n"
    assert [(each.interface, each.neighbour, each.state) for each in QUAGGA.changes(log)] == [
        ("eth0", "0.0.0.2", "Full")
    ]


@pytest.mark.parametrize("programs", [(), ("zebra",)])
def test_quagga_is_unavailable_where_the_user_has_not_got_all_of_it(programs: tuple[str, ...]) -> None:
    scenario: Any = object.__new__(RoutingScenario)
    host = RecordingHost(programs=programs)
    scenario._testbed = SimpleNamespace(host=host)
    timing = {"timers": "standard", "hello_s": 1, "quiet_s": 8.0, "failure": "silent"}
    parts = {"platform": "runc", "attachment": "veth-bridge", "implementation": "quagga", "topology": "3x3"}
    found = scenario.availability({**parts, **timing})
    missing = "ospfd" if programs else "zebra"
    assert not found and found.reason == f"this host has no program '{missing}' of Quagga"
    assert "build Quagga 1.x with --enable-user=root" in str(found.remedy)
    assert RoutingScenario.image_needs(host, [{"implementation": "quagga"}]) == ImageAdditions(("bird2", "frr"))


def test_the_image_gets_what_the_study_s_implementations_need() -> None:
    host = RecordingHost(programs=("zebra", "ospfd"))
    assert QUAGGA.availability(host) and FRR.availability(RecordingHost())
    configs = [{"implementation": name} for name in ("quagga", "frr", "quagga")]
    assert RoutingScenario.image_needs(host, configs).files == ("/usr/bin/zebra", "/usr/bin/ospfd")
    assert RoutingScenario.image_needs(host, configs[1:2]) == ImageAdditions(("bird2", "frr"))


def test_the_router_is_a_function_that_tells_its_implementations() -> None:
    assert registry.get("function", "ospf-router") is OspfRouter
    assert all(
        f"({name})" in OspfRouter.summary and router.title in OspfRouter.summary for name, router in ROUTERS.items()
    )
    assert "ospf-router" not in ChainScenario.part_names("function"), "it forwards no flow of a chain"


@given(st.lists(st.integers(0, 2000), unique=True, max_size=40))
def test_router_ids_are_unique_and_none_is_zero(numbers: list[int]) -> None:
    ids = {ipaddress.IPv4Address(router_id(number)) for number in numbers}
    assert len(ids) == len(numbers) and all(int(each) for each in ids)


def test_the_start_writes_the_files_and_waits_for_an_answer() -> None:
    script = FRR.start_script({"zebra.conf": "a\n", "ospfd.conf": "b\n"})
    assert "cat > /run/frr/ospfd.conf <<'END'\nb\nEND\n" in script
    assert script.index("/usr/lib/frr/zebra -d") < script.index("/usr/lib/frr/ospfd -d") < script.index("show version")


def test_logs_tell_when_which_neighbour_took_which_state() -> None:
    changes = list(FRR.changes(FRR_LOG))
    assert [(each.interface, each.neighbour, each.state) for each in changes] == [
        ("eth1", "0.0.0.3", "Init"), ("eth1", "0.0.0.3", "2-Way"), ("eth0", "0.0.0.2", "Full"),
    ]  # fmt: skip
    assert changes[1].at_s - changes[0].at_s == pytest.approx(0.764204)
    assert [each.state for each in BIRD.changes(BIRD_LOG)] == ["ExStart", "Full"]
    assert next(BIRD.changes(BIRD_LOG)).at_s - changes[0].at_s == pytest.approx(19.248596)


def test_adjacencies_are_those_that_are_full_at_the_end() -> None:
    def change(number: int, at_s: float, state: str) -> tuple[int, NeighbourChange]:
        return number, NeighbourChange(at_s, "eth0", "0.0.0.9", state)

    changes = [change(0, 1, "Full"), change(1, 2, "Full"), change(1, 5, "Down"), change(1, 8, "Full")]
    assert last_full(changes, 0, 3) == (2, 2)
    assert last_full(changes, 0, 6) == (1, 1)
    assert last_full(changes, 4, 9) == (8, 2)
    assert last_full(changes, 8.5, 9) == (None, 2)
    assert last_full([], 0, 9) == (None, 0)


def test_tables_are_read_with_all_next_hops_and_without_own_subnets() -> None:
    text = json.dumps(
        [
            {"dst": "198.18.0.0/30", "dev": "eth0", "protocol": "kernel"},
            {"dst": "198.18.0.4/30", "nhid": 8, "gateway": "198.18.0.2", "dev": "eth0", "protocol": "ospf"},
            {"dst": "198.18.0.8/30", "nexthops": [{"gateway": "198.18.0.2"}, {"gateway": "198.18.0.6"}]},
            {"dst": "default", "gateway": "198.18.0.2"},
        ]
    )
    near, far = ipaddress.IPv4Network("198.18.0.4/30"), ipaddress.IPv4Network("198.18.0.8/30")
    assert parse_table(text) == {near: {"198.18.0.2"}, far: {"198.18.0.2", "198.18.0.6"}}
    assert parse_table("") == parse_table("no JSON") == {}
    assert _differences(parse_table(text), {near: frozenset({"198.18.0.2"})}) == [
        "198.18.0.8/30 goes over 198.18.0.2 and 198.18.0.6, but should go nowhere"
    ]
    assert _differences({}, {near: frozenset({"198.18.0.2"})}) == [
        "198.18.0.4/30 goes nowhere, but should go over 198.18.0.2"
    ]


def test_a_message_names_a_few_and_counts_the_rest() -> None:
    assert shortened(["a", "b"]) == "a; b"
    assert shortened([str(n) for n in range(8)]) == "0; 1; 2; 3; 4; and 3 more"


@given(st.sets(st.integers(1, 500), min_size=2))
def test_what_is_lost_lies_between_the_first_and_the_last_answer(answered: set[int]) -> None:
    whole = set(range(min(answered), max(answered) + 1))
    assert count_lost(sorted(answered)) == len(whole - answered)


# Links


def segments() -> list[Segment]:
    def port(number: int, name: str) -> Port:
        instance: Any = SimpleNamespace(netns=f"n{number}", takes_taps=False)
        return Port(instance, name, "198.18.0.1/30")

    return [Segment("0", (port(0, "eth0"), port(1, "eth0"))), Segment("1", (port(1, "eth1"), port(2, "eth0")))]


def links(name: str) -> Any:
    found = registry.get("attachment", name)()
    found.separated = True
    return found


def test_each_link_has_a_bridge_of_its_own() -> None:
    lines = links("veth-bridge").compile(segments())
    assert [line.split()[3] for line in lines if "type bridge" in line] == ["br-0", "br-1"]
    assert "link set hub-1b master br-1 up" in lines and "link set hub-0a master br-0 up" in lines


def test_each_link_has_a_switch_of_its_own_in_one_transaction() -> None:
    words = " ".join(links("ovs").compile_vsctl(segments(), "netdev"))
    assert words.count("add-br") == 2 and "add-port br-1 hub-1a" in words


def test_all_cuts_are_one_command_and_so_are_their_ends() -> None:
    host = RecordingHost()
    testbed: Any = SimpleNamespace(host=host, dut="dut")
    bridge, direct = links("veth-bridge"), links("veth-direct")
    bridge.cut(testbed, segments())
    bridge.mend(testbed, segments())
    bridge.cut(testbed, segments()[:1], carrier=True)
    direct.cut(testbed, segments()[:1])
    texts: Sequence[Any] = host.stdins
    assert texts[0].splitlines() == [f"link set hub-{end} nomaster" for end in ("0a", "0b", "1a", "1b")]
    assert texts[1].splitlines()[2:] == ["link set hub-1a master br-1", "link set hub-1b master br-1"]
    assert texts[2].splitlines() == ["link set hub-0a down", "link set hub-0b down"]
    assert texts[3].count("qdisc add dev eth0 root tbf") == 2 and len(host.commands) == 4


def test_a_link_of_an_overlay_is_cut_on_the_host_where_it_was_made() -> None:
    """Of the second segment alone, the other host would be the first one of its ports."""
    host = RecordingHost()
    session = SimpleNamespace(owned=lambda kind, name: nullcontext())
    testbed: Any = SimpleNamespace(host=host, dut="dut", session=session)
    one, two, three = (SimpleNamespace(netns=f"n{number}", takes_taps=False) for number in range(3))
    address, overlay = "198.18.0.1/30", links("vxlan")
    first = Segment("0", (Port(cast(Any, one), "eth0", address), Port(cast(Any, two), "eth0", address)))
    second = Segment("1", (Port(cast(Any, two), "eth1", address), Port(cast(Any, three), "eth0", address)))
    with overlay.laid(testbed, [first, second]):
        assert overlay.ends(testbed, [first, second]) == {"dut": ["hub-0a", "hub-1b"], "dut-2": ["hub-0b", "hub-1a"]}
        host.stdins.clear()
        overlay.cut(testbed, [second])
        overlay.mend(testbed, [second])
        overlay.cut(testbed, [second], carrier=True)
    texts: Sequence[Any] = host.stdins
    assert texts[:2] == ["link set vx-1 nomaster\n", "link set vx-1 master br-1\n"]
    assert texts[2].splitlines() == [
        "ip -n dut -batch - <<'END'", "link set hub-1b down", "END",
        "ip -n dut-2 -batch - <<'END'", "link set hub-1a down", "END",
    ]  # fmt: skip


def test_links_that_are_apart_are_removed_together() -> None:
    host = RecordingHost()
    testbed: Any = SimpleNamespace(host=host, dut="dut")
    with links("veth-bridge").laid(testbed, segments()):
        made = host.stdins[0]
    assert isinstance(made, str) and "link add name br-0 group 198 type bridge" in made
    assert host.stdins[1:] == ["link del group 198\n"]


# What a study may say

STUDY = (
    '[study]\nname = "x"\nscenario = "routing"\n[factors]\ntopology = [{topology}]\n[settings]\nplatform = "native"\n'
)


def test_attachments_are_those_that_can_be_apart() -> None:
    others = {"veth-bridge", "veth-direct", "vxlan"}
    assert RoutingScenario.part_names("attachment") == {*others, "ovs", "ovs-dpdk", "ovs-userspace"}


def test_a_topology_that_cannot_be_is_found_before_anything_runs(tmp_path: Path) -> None:
    file = tmp_path / "gap.txt"
    file.write_text("a b\nc d\n")
    for level, message in (
        (str(file), "is not connected"),
        ("3x", "is neither a grid nor a readable file"),
        ("90x90", "8100 routers"),
    ):
        with pytest.raises(StudyError, match=message):
            parse(STUDY.format(topology=f'"{level}"') + 'attachment = "ovs"\n', "x.toml", schemas())
    sound = parse(STUDY.format(topology='"3x3", "4x4"') + 'attachment = "ovs"\n', "x.toml", schemas())
    assert sound.factors[0].levels == ("3x3", "4x4")


def test_a_topology_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "ring.txt"
    file.write_text("a b\nb c\nc a\n")
    assert len(read_topology(str(file)).links) == 3
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_topology(str(file))
    with pytest.raises(InputError, match="neither a grid nor a readable file") as caught:
        read_topology(str(tmp_path / "rings.txt"))
    assert "ring.txt" in str(caught.value.hint)
