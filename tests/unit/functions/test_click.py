"""Click's configurations as text, and a Click that fails. tests/system/test_click.py runs a real one where it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro import registry
from lastro.errors import PlatformError, Unavailable
from lastro.functions._click import configuration, counters_of
from lastro.functions.base import CounterReading, ForwardingPath, Function
from lastro.functions.dpi import SIGNATURE
from lastro.host.base import Completed
from lastro.platforms.base import Instance, InstanceSpec
from lastro.platforms.runc import Runc
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared.flow import crossing_reasons

from ...support.recording import RecordingHost, answer, recording_testbed

SINK, SOURCE = ForwardingPath().sink, ForwardingPath().source
OUTSIDE = ForwardingPath().outside_address

FUNCTIONS = sorted(ChainScenario.part_names("function"))
EXPECTED_BODIES = {
    "none": "input[0] -> [0]output; input[1] -> [1]output;",
    "firewall": (
        "input[0] -> rules :: IPFilter(1 src net 198.18.66.0/24 || src net 198.19.66.0/24, "
        "1 dst port 7 || dst port 9 || "
        "dst port 13 || dst port 19 || dst port 23 || dst port 135 || dst port 137 || dst port 138 || dst port 139 || "
        "dst port 445, 0 all); rules[0] -> [0]output; rules[1] -> blocked :: Counter -> Discard; input[1] -> [1]output;"
    ),
    "nat": (
        "flows :: IPRewriter(pattern 198.18.1.1 1024-65535 - - 0 1, drop); "
        "pings :: ICMPPingRewriter(pattern 198.18.1.1 1024-65535 - - 0 1, drop); "
        "there :: IPClassifier(tcp or udp, icmp type echo); errors :: ICMPRewriter(flows pings); "
        "back :: IPClassifier(tcp or udp, icmp type echo-reply, icmp); "
        "input[0] -> there; there[0] -> [0]flows; there[1] -> [0]pings; "
        "input[1] -> back; back[0] -> [1]flows; back[1] -> [1]pings; back[2] -> errors; "
        "translated :: Counter; flows[0] -> translated; pings[0] -> translated; translated -> [0]output; "
        "flows[1] -> [1]output; pings[1] -> [1]output; errors -> [1]output;"
    ),
}


def function(name: str) -> Function:
    made: Function = registry.get("function", name)()
    return made


def statements(text: str) -> list[str]:
    """Those of a Click configuration at its top level, without comments and compound elements."""
    text = re.sub(r"//.*", "", text)
    while (shorter := re.sub(r"elementclass \w+ \{[^{}]*\}", "", text)) != text:
        text = shorter
    return [" ".join(statement.split()) for statement in text.split(";") if statement.strip()]


def bare(statement: str) -> str:
    """Without arguments, which hold arrows and names of their own."""
    while (shorter := re.sub(r"\([^()]*\)", "", statement)) != statement:
        statement = shorter
    return statement


@pytest.mark.parametrize("name", EXPECTED_BODIES)
def test_the_click_body_of_each_function(name: str) -> None:
    assert function(name).click(ForwardingPath()) == EXPECTED_BODIES[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_element_of_a_click_configuration_is_named_and_joined(name: str) -> None:
    text = configuration(function(name).click(ForwardingPath()), ForwardingPath())
    declared = set(re.findall(r"(\w+) :: ", " ; ".join(bare(each) for each in statements(text))))
    joined = [bare(each) for each in statements(text) if "->" in each]
    used = {word.strip() for each in joined for word in re.split(r"->|\[\d\]|::", each)} - {""}
    classes = {word for word in used if word[0].isupper()}
    assert used - classes <= declared
    sides = {re.sub(r"_(inside|outside)$", "", each) for each in declared}
    assert sides == {"from", "to", "kind", "arp", "whole", "function", "crossed", "broken"}
    assert text.count("{") == text.count("}") == (3 if name == "dpi" else 2)
    assert text.count("(") == text.count(")")
    for statement in joined:
        assert len(statement.split("->")) >= 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_click_configuration_serves_both_directions_and_arp(name: str) -> None:
    found = statements(configuration(function(name).click(ForwardingPath()), ForwardingPath()))
    for side, interface, address in (("inside", "in0", "198.18.0.1"), ("outside", "out0", OUTSIDE)):
        assert f"from_{side} :: FromDevice({interface}, SNIFFER false, PROMISC false, METHOD LINUX)" in found
        assert f"to_{side} :: Queue(4096) -> ToDevice({interface}, METHOD LINUX)" in found
        # Zero: it keeps an address for good, and does not ask again among counted frames.
        assert f"arp_{side} :: ARPQuerier({address}, {interface}:eth, TIMEOUT 0, POLL_TIMEOUT 0)" in found
        assert f"kind_{side}[0] -> ARPResponder({address} {interface}:eth) -> to_{side}" in found
        assert f"kind_{side}[1] -> [1]arp_{side}" in found
        assert f"arp_{side} -> to_{side}" in found
        assert f"whole_{side}[1] -> broken" in found
    assert (
        "kind_inside[2] -> Strip(14) -> whole_inside :: CheckIPHeader -> DecIPTTL -> crossed :: Counter "
        "-> CompleteChecksum -> [0]function"
    ) in found
    assert f"function[0] -> SetIPAddress({SINK}) -> [0]arp_outside" in found
    assert (
        "kind_outside[2] -> Strip(14) -> whole_outside :: CheckIPHeader -> DecIPTTL -> CompleteChecksum -> [1]function"
    ) in found
    assert f"function[1] -> SetIPAddress({SOURCE}) -> [0]arp_inside" in found


def found_by_windows(body: str, packet: bytes) -> bool:
    """What the windows of the DPI's body find in a packet, by the rules that the body states."""
    (patterns,) = re.findall(r"here :: Classifier\(([^)]*), -\)", body)
    (rest,), (step,) = (re.findall(rf"{name}\((\d+)\)", body) for name in ("CheckLength", "Strip"))
    offsets = [
        (int(offset), bytes.fromhex(value)) for offset, value in (each.split("/") for each in patterns.split(", "))
    ]
    for _ in re.findall(r"window\d+\[0\] -> suspect", body):
        if any(packet[offset : offset + len(value)] == value for offset, value in offsets):
            return True
        if len(packet) <= int(rest):
            return False
        packet = packet[int(step) :]
    return False


def test_the_windows_of_the_search_leave_no_gap_and_reach_the_end() -> None:
    body, signature = function("dpi").click(ForwardingPath()), SIGNATURE.encode()
    for length in (len(signature), 64, 79, 80, 81, 143, 144, 1499, 1500):
        for offset in {*range(0, length - len(signature) + 1, 13), length - len(signature)}:
            packet = bytearray(length)
            packet[offset : offset + len(signature)] = signature
            assert found_by_windows(body, bytes(packet)), (length, offset)
        assert not found_by_windows(body, bytes(length))
    assert not found_by_windows(body, signature[:-1])


def test_the_counters_of_a_router_are_its_own_and_the_functions_named_ones() -> None:
    assert counters_of(function("firewall").click(ForwardingPath())) == {
        "crossed": "crossed", "broken": "broken", "blocked": "function/blocked",
    }  # fmt: skip
    assert set(counters_of(function("nat").click(ForwardingPath()))) == {
        "crossed",
        "broken",
        *function("nat").witnesses,
    }
    assert set(counters_of(function("dpi").click(ForwardingPath()))) == {"crossed", "broken", "detoured"}
    assert set(counters_of(function("none").click(ForwardingPath()))) == {"crossed", "broken"}


# A Click that runs, and one that does not

GREETING = "Click::ControlSocket/1.3\r\n"


def said(element: str, packets: int, octets: int) -> str:
    numbers = {"count": str(packets), "byte_count": str(octets)}
    return "".join(
        f"200 Read handler '{element}.{handler}' OK\r\nDATA {len(text)}\r\n{text}" for handler, text in numbers.items()
    )


def on_click(name: str, tmp_path: Path, answers: Any) -> tuple[RecordingHost, Any]:
    """A host, and the installation of a function on a Click that behaves as `answers` says."""
    host = RecordingHost(answers)
    spec = InstanceSpec("function", "function")
    instance = Bare(recording_testbed(host, tmp_path), spec, netns="n", cgroup="c")
    return host, function(name).installed(instance, ForwardingPath(), "click")


class Bare(Instance):
    def wrap(self, argv: Sequence[str]) -> list[str]:
        return list(argv)


def test_the_counters_of_click_are_read_through_its_socket(tmp_path: Path) -> None:
    sent = (
        GREETING
        + said("crossed", 10, 1400)
        + said("broken", 0, 0)
        + said("function/blocked", 2, 80)
        + "200 Goodbye!\r\n"
    )
    host, installed = on_click("firewall", tmp_path, lambda argv: answer(sent) if argv[0] == "nc" else None)
    with installed as counted:
        assert counted() == {
            "crossed": CounterReading(10, 1400),
            "broken": CounterReading(0, 0),
            "blocked": CounterReading(2, 80),
        }
    assert ["click", "/run/function.click"] in host.commands
    asked = host.stdins[host.commands.index(["nc", "-U", "/run/function.socket"])]
    assert isinstance(asked, str) and asked.splitlines()[-3:] == [
        "read function/blocked.count", "read function/blocked.byte_count", "quit",
    ]  # fmt: skip


def test_a_counter_that_click_does_not_have_is_left_out(tmp_path: Path) -> None:
    sent = GREETING + said("crossed", 1, 28) + "511 No element named 'broken'\r\n" + said("function/blocked", 0, 0)
    _, installed = on_click("firewall", tmp_path, lambda argv: answer(sent) if argv[0] == "nc" else None)
    with installed as counted:
        assert set(counted()) == {"crossed", "blocked"}


def test_clicks_own_error_is_reported(tmp_path: Path) -> None:
    error = (
        "/run/function.click:8: While initializing 'function/inspect :: Search':\n  unknown element class 'Search'\n"
        "Router could not be initialized!\n"
    )

    def answers(argv: Sequence[str]) -> Completed | None:
        ends = {"click": answer(code=1, error=error), "nc": answer(code=1, error="nc: unix connect failed")}
        return ends.get(argv[0])

    _, installed = on_click("dpi", tmp_path, answers)
    with pytest.raises(
        PlatformError, match=r"click ended at its start: .*:8: .*; unknown element class 'Search'; Router"
    ):
        installed.__enter__()


def test_without_click_it_says_where_lastro_looks(tmp_path: Path) -> None:
    def answers(argv: Sequence[str]) -> Completed | None:
        return answer(code=127) if argv[-1] == "command -v click" else None

    _, installed = on_click("none", tmp_path, answers)
    with pytest.raises(Unavailable, match="no `click`") as caught:
        installed.__enter__()
    assert caught.value.hint and "lastro setup click --source DIR" in caught.value.hint
    assert "not your PATH" in caught.value.hint


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ({"crossed": CounterReading(1000, 1_400_000), "broken": CounterReading(0, 0)}, None),
        ({"crossed": CounterReading(0, 0), "broken": CounterReading(0, 0)}, "saw 0 bytes of a flow of 1000000"),
        ({}, "could not be read"),
        (
            {"crossed": CounterReading(1000, 1_400_000), "broken": CounterReading(7, 7)},
            "7 packets were longer than a frame",
        ),
    ],
    ids=["counted", "nothing", "silent", "broken"],
)
def test_what_click_counted_is_a_witness(seen: dict[str, CounterReading], reason: str | None) -> None:
    reasons = crossing_reasons("iperf3-tcp", cast(Any, SimpleNamespace(function=function("none"))), seen, 1_000_000)
    assert (reason is None and reasons == []) or (reason and len(reasons) == 1 and reason in reasons[0])


def test_the_ends_of_a_flow_through_click_send_single_segments(tmp_path: Path) -> None:
    host = RecordingHost()
    with Runc().start(recording_testbed(host, tmp_path), InstanceSpec("one", "source")) as instance:
        instance.send_single_segments("out0")
    enter = ["nsenter", f"--net=/run/netns/{instance.netns}"]
    assert [*enter, "ip", "link", "set", "out0", "gso_max_segs", "1"] in host.commands
