"""The proxy's configuration, what its log must say, and how instances behind the DUT are reached."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import registry
from lastro.attachments.hosting import GATEWAY, HostedInstance, HostingAttachment
from lastro.errors import Unavailable
from lastro.functions.http_proxy import HttpProxy, ProxyOptions, RequestCounts, RunningProxy, judge_served
from lastro.host.base import Completed
from lastro.platforms.base import Instance, InstanceSpec
from lastro.platforms.runc import Runc
from lastro.scenarios.chain import ChainScenario

from ...support.recording import RecordingHost, answer, recording_testbed

OUTSIDE, OUTWARD = "198.19.1.1", "198.19.2.1"


def lines(wanted: ProxyOptions) -> list[str]:
    return [line for line in HttpProxy().configuration(wanted).splitlines() if line and not line.startswith("#")]


def test_the_configuration_has_the_sizes_that_were_published_and_no_disk() -> None:
    found = lines(ProxyOptions(cache=True))
    assert {"cache_mem 260 MB", "maximum_object_size_in_memory 1024 KB", "http_port 3128"} <= set(found)
    assert not any(line.startswith(("cache_dir", "cache deny")) for line in found)
    assert "cache deny all" in lines(ProxyOptions(cache=False))


def test_only_the_testbeds_own_addresses_may_ask() -> None:
    found = lines(ProxyOptions())
    assert found.index("http_access allow clients") < found.index("http_access deny all")
    assert "acl clients src 198.18.0.0/15" in found


@pytest.mark.parametrize(
    ("served", "cache", "words"),
    [
        ({"TCP_MISS/200": 10}, False, []),
        ({"TCP_MISS/200": 1, "TCP_MEM_HIT/200": 9}, True, []),
        ({"TCP_MISS/200": 9}, False, ["9 requests instead of 10"]),
        ({"TCP_MISS/200": 2, "TCP_MEM_HIT/200": 8}, True, ["8 of 10 answers came from the cache, which was on"]),
        ({"TCP_MISS/200": 9, "TCP_MEM_HIT/200": 1}, False, ["1 of 10 answers came from the cache, which was off"]),
        ({"TCP_MISS/200": 9, "TCP_MISS_ABORTED/200": 1}, False, ["did not answer all"]),
        ({"TCP_MISS/200": 9, "TCP_MISS/503": 1}, False, ["did not answer all"]),
        ({}, False, ["0 requests instead of 10"]),
    ],
)
def test_what_a_log_proves(served: dict[str, int], cache: bool, words: list[str]) -> None:
    reasons = judge_served(served, 10, cache=cache)
    assert len(reasons) == len(words)
    for reason, word in zip(reasons, words, strict=True):
        assert word in reason


def test_one_server_listens_at_several_ports_and_its_log_tells_them_apart() -> None:
    listening = lines(ProxyOptions(ports=(3128, 3129)))
    assert [line for line in listening if line.startswith("http_port")] == ["http_port 3128", "http_port 3129"]
    text = (
        b"     21 198.19.1.10 3128 TCP_MISS/200\n      1 198.19.1.10 3129 TCP_MISS/200\n"
        b"     20 198.19.1.11 3129 TCP_MISS/503\n      2 198.19.1.11 3129 TCP_MISS/200\n"
    )
    instance: Any = SimpleNamespace(run=lambda argv: Completed(tuple(argv), 0, text, b"", 0.0, 0.0))
    running = RunningProxy(instance, SimpleNamespace())  # type: ignore[arg-type]
    found = running.served()
    assert found[3128] == RequestCounts(Counter({"TCP_MISS/200": 21}), {"198.19.1.10"})
    assert found[3129] == RequestCounts(
        Counter({"TCP_MISS/200": 3, "TCP_MISS/503": 20}), {"198.19.1.10", "198.19.1.11"}
    )


def test_the_second_port_finds_in_the_cache_what_the_first_has_asked_for() -> None:
    assert judge_served({"TCP_MEM_HIT/200": 10}, 10, cache=True, first=False) == []
    assert judge_served({"TCP_MISS/200": 1, "TCP_MEM_HIT/200": 9}, 10, cache=True, first=False) != []


def test_a_proxy_forwards_no_packets_and_is_no_function_of_a_chain() -> None:
    assert "http-proxy" in registry.names("function") - ChainScenario.part_names("function")


# How instances behind the DUT are reached


def hosting(name: str) -> HostingAttachment:
    made: HostingAttachment = registry.get("attachment", name)()
    return made


def hosted(number: int, *, takes_taps: bool = False) -> HostedInstance:
    instance: Any = SimpleNamespace(netns=f"N{number}", takes_taps=takes_taps)
    return HostedInstance(number, instance, 3128)


def test_translated_instances_share_an_address_and_routed_ones_have_their_own() -> None:
    two = [hosted(0), hosted(1)]
    assert [hosting("nat").endpoint(each, OUTSIDE) for each in two] == [(OUTSIDE, 3128), (OUTSIDE, 3129)]
    assert [hosting("routed").endpoint(each, OUTSIDE) for each in two] == [
        ("198.18.64.2", 3128), ("198.18.64.3", 3128),
    ]  # fmt: skip
    assert {hosting("nat").seen_as(each, OUTWARD) for each in two} == {OUTWARD}
    assert [hosting("routed").seen_as(each, OUTWARD) for each in two] == ["198.18.64.2", "198.18.64.3"]


@pytest.mark.parametrize("name", ["nat", "routed"])
@pytest.mark.parametrize("takes_taps", [False, True])
def test_each_instance_has_one_link_whose_other_end_is_in_the_dut(name: str, takes_taps: bool) -> None:
    script = hosting(name).compile_hosted(hosted(7, takes_taps=takes_taps))
    made = "tuntap add dev hub-h7 mode tap" if takes_taps else "link add name hub-h7 type veth peer name eth0 netns N7"
    assert script[0] == made
    assert any("hub-h7" in line and line.endswith(" up") for line in script)


def test_a_port_has_the_dut_as_its_way_out() -> None:
    port = hosted(3).port
    assert port.address == "198.18.64.5/18"
    assert port.routes == (f"198.18.0.0/15 via {GATEWAY}",)
    assert isinstance(port.instance, SimpleNamespace | Instance)


def test_the_duts_own_interfaces_join_no_two_instances() -> None:
    testbed: Any = None
    with pytest.raises(Unavailable, match="not join"):
        registry.get("attachment", "host")().laid(testbed, [])


def test_docker_is_told_the_published_port_when_an_instance_starts_and_others_learn_nothing() -> None:
    spec = InstanceSpec("p-1", "proxy")
    assert hosting("docker-nat").published_spec(spec, 1, 3128, OUTSIDE).published == f"{OUTSIDE}:3129:3128"
    assert hosting("docker-nat").endpoint(hosted(1), OUTSIDE) == (OUTSIDE, 3129)
    assert hosting("nat").published_spec(spec, 1, 3128, OUTSIDE) == spec


def test_only_docker_has_its_own_network(tmp_path: Path) -> None:
    testbed = recording_testbed(RecordingHost(), tmp_path)
    with pytest.raises(Unavailable, match="runc does not start"), hosting("docker-nat").base_network(testbed, Runc()):
        pass


SAVED = """# Generated by iptables-save v1.8.9 (nf_tables) on Sat Nov 28 01:00:00 2026
*nat
:PREROUTING ACCEPT [7:420]
[5:300] -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
[2:120] -A POSTROUTING -s 198.18.64.0/18 ! -o docker0 -j MASQUERADE
[0:0] -A POSTROUTING -s 198.18.64.2/32 -d 198.18.64.2/32 -p tcp -m tcp --dport 3128 -j MASQUERADE
[0:0] -A DOCKER -i docker0 -j RETURN
[3:180] -A DOCKER -d 198.19.1.1/32 ! -i docker0 -p tcp -m tcp --dport 3128 -j DNAT --to-destination 198.18.64.2:3128
[4:240] -A DOCKER -d 198.19.1.1/32 ! -i docker0 -p tcp -m tcp --dport 3129 -j DNAT --to-destination 198.18.64.3:3128
COMMIT
"""


def test_connections_are_counted_by_dockers_own_rules(tmp_path: Path) -> None:
    snmp = "Ip: Forwarding ForwDatagrams\nIp: 1 900\n"
    host = RecordingHost(lambda argv: answer(SAVED if "iptables-save" in argv else snmp))
    found = hosting("docker-nat").traffic_counters(recording_testbed(host, tmp_path))
    assert found == {"routed": 900, "published": 7, "translated": 2}
