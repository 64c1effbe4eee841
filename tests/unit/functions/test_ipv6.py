"""IPv6 in a chain: the addresses, rules and settings of its kernel, and what says that it cannot."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.attachments.base import Segment
from lastro.errors import Unavailable
from lastro.functions.base import PATHS, ForwardingPath
from lastro.functions.dpi import Dpi
from lastro.functions.firewall import BLOCKED_SOURCES_6, Firewall
from lastro.functions.nat import NatFunction
from lastro.platforms.base import Port, configuration
from lastro.platforms.gvisor import GvisorInstance
from lastro.platforms.oci import OciInstance
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared.chain import ROLES, _segments
from lastro.scenarios.shared.instance_spec import instance_spec
from lastro.testbed import QUIET
from lastro.testing.attachments import unstarted

from ...support.links import attachment
from ...support.recording import RecordingHost, recording_testbed

SIX = PATHS["6"]
RESERVED = {"4": ip_network("198.18.0.0/15"), "6": ip_network("2001:2::/48")}  # RFC 2544, RFC 5180


def segments(path: ForwardingPath = SIX) -> list[Segment]:
    return _segments({role: unstarted(role) for role in ROLES}, path)


@pytest.mark.parametrize("version", PATHS)
def test_all_addresses_are_of_one_version_and_reserved_for_benchmarks(version: str) -> None:
    path = PATHS[version]
    for address in (path.source, path.inside_address, path.outside_address, path.sink):
        assert ip_address(address) in RESERVED[version]
    assert (path.version, path.family) == (version, {"4": "ip", "6": "ip6"}[version])
    assert all(ip_network(each).subnet_of(RESERVED["6"]) for each in BLOCKED_SOURCES_6)  # type: ignore[arg-type]
    (offered,) = (setting for setting in ChainScenario.settings if setting.name == "ip")
    assert (offered.default, offered.choices) == ("4", ("4", "6"))


def test_ports_get_addresses_that_are_usable_immediately_and_routes_through_the_function() -> None:
    lines = [configuration(port) for segment in segments() for port in segment.ports]
    assert lines == [
        [
            "address add 2001:2::10/64 dev out0 nodad",
            "link set out0 up",
            "route add 2001:2:0:1::10/128 via 2001:2::1 dev out0",
        ],
        ["address add 2001:2::1/64 dev in0 nodad", "link set in0 up"],
        ["address add 2001:2:0:1::1/64 dev out0 nodad", "link set out0 up"],
        [
            "address add 2001:2:0:1::10/64 dev in0 nodad",
            "link set in0 up",
            "route add 2001:2::10/128 via 2001:2:0:1::1 dev in0",
        ],
    ]
    assert configuration(segments(PATHS["4"])[0].ports[1]) == ["address add 198.18.0.1/24 dev in0", "link set in0 up"]


def test_rules_are_in_a_table_of_the_family() -> None:
    assert NatFunction().ruleset(SIX).startswith("table ip6 lastro {")
    assert 'oifname "out0" counter name translated snat to 2001:2:0:1::1' in NatFunction().rules(SIX)
    assert NatFunction().ruleset(PATHS["4"]).startswith("table ip lastro {")
    rules = Firewall().rules(SIX)
    assert "type ipv6_addr; flags interval; elements = { 2001:2:0:66::/64, 2001:2:0:166::/64 }" in rules
    assert "ip6 saddr @sources counter name blocked drop" in rules


def test_the_detour_of_suspects_is_of_the_family() -> None:
    links, inspection = Dpi().more_steps(SIX)
    assert links.argv == ("ip", "-6", "-batch", "-") and inspection.argv == ("ip6tables-nft-restore",)
    assert (links.stdin or "").splitlines() == [
        "link add name detour0 type veth peer name detour1 address 02:00:c6:12:02:02",
        "address add 2001:2:0:2::1/64 dev detour0 nodad",
        "link set detour0 up",
        "link set detour1 up",
        "neigh add 2001:2:0:2::2 lladdr 02:00:c6:12:02:02 dev detour0 nud permanent",
        "route add default via 2001:2:0:2::2 dev detour0 table 100",
        "rule add iif in0 fwmark 1 lookup 100",
    ]
    assert [step.argv[0] for step in Dpi().more_steps(PATHS["4"])] == ["ip", "iptables-nft-restore"]


def test_counters_are_read_from_the_table_of_the_family() -> None:
    asked: list[list[str]] = []

    def run(argv: list[str], check: bool) -> Any:
        asked.append(argv)
        return SimpleNamespace(text="")

    instance: Any = SimpleNamespace(has_nftables=True, run=run)
    assert Firewall().counters(instance, SIX) == {}
    assert asked == [["nft", "-j", "list", "counters", "table", "ip6", "lastro"]]


class _Bed:
    """What a specification needs to know of a testbed."""

    session = SimpleNamespace(unique=lambda name: name)

    def __init__(self, has_ipv6: bool) -> None:
        self.has_ipv6 = has_ipv6

    def on_own_cpus(self, resources: Any) -> Any:
        return resources


def sysctls(role: str, ip: str, *, has_ipv6: bool = True) -> dict[str, str]:
    bed: Any = _Bed(has_ipv6)
    found = instance_spec(bed, role, ip=ip).sysctls
    return {key.removeprefix("net.ipv6.conf."): value for key, value in found.items() if "ipv6" in key}


def test_the_kernel_of_an_instance_has_ipv6_only_where_the_flow_does() -> None:
    on = {"all.disable_ipv6": "0", "default.disable_ipv6": "0"}
    quick = {"all.accept_dad": "0", "default.accept_dad": "0"}
    assert sysctls("source", "6") == {**on, **quick}
    assert sysctls("function", "6") == {**on, **quick, "all.forwarding": "1", "default.forwarding": "1"}
    assert sysctls("function", "4") == dict.fromkeys(on, "1")
    assert sysctls("function", "4", has_ipv6=False) == {}
    with pytest.raises(Unavailable, match="no IPv6"):
        sysctls("source", "6", has_ipv6=False)


@pytest.mark.parametrize("name", ["routed", "nat"])
def test_where_the_dut_routes_it_says_that_it_cannot(name: str) -> None:
    with pytest.raises(Unavailable, match="the DUT routes IPv4 only"):
        attachment(name).compile(segments())


@pytest.mark.parametrize("name", ["veth-direct", "veth-bridge", "macvlan-bridge", "vxlan"])
def test_links_at_layer_2_are_made_as_for_ipv4(name: str) -> None:
    assert attachment(name).compile(segments()) == attachment(name).compile(segments(PATHS["4"]))


def test_gvisor_and_click_say_that_they_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OciInstance, "plug", lambda *given: pytest.fail("it was plugged"))
    instance: Any = object.__new__(GvisorInstance)
    instance.testbed, instance.netns = recording_testbed(RecordingHost(), tmp_path), "N1"
    with pytest.raises(Unavailable, match="IPv4 only"):
        instance.plug([Port(instance, "in0", "2001:2::1/64")], {})
    nowhere: Any = None
    with pytest.raises(Unavailable, match="IPv4 only"), Firewall().installed(nowhere, SIX, "click"):
        pass


def test_no_family_passes_netfilter_on_a_bridge() -> None:
    """Where br_netfilter is loaded, the kernel has a switch for each family of tables."""
    calls = {name.rpartition("-")[2]: value for name, value in QUIET.items() if "bridge-nf-call" in name}
    assert calls == dict.fromkeys(("iptables", "ip6tables", "arptables"), "0")
