"""Click's configurations. Debian packages no Click: these look at the text, which has not been run for real."""

from __future__ import annotations

import re

import pytest

from lastro import registry
from lastro.functions._click import configuration
from lastro.functions.base import Function, Path
from lastro.scenarios.chain import ChainScenario

SINK, SOURCE = Path().sink, Path().source
OUTSIDE = Path().outside_address

FUNCTIONS = sorted(ChainScenario.part_names("function"))
EXPECTED_BODIES = {
    "none": "input[0] -> [0]output; input[1] -> [1]output;",
    "firewall": (
        "input[0] -> IPFilter(deny src net 198.18.66.0/24 || src net 198.19.66.0/24, deny dst port 7 || dst port 9 || "
        "dst port 13 || dst port 19 || dst port 23 || dst port 135 || dst port 137 || dst port 138 || dst port 139 || "
        "dst port 445, allow all) -> [0]output; input[1] -> [1]output;"
    ),
    "dpi": (
        "input[0] -> inspect :: Search(X-Lastro-Suspect); inspect[1] -> [0]output; "
        "inspect[0] -> StripToNetworkHeader -> suspects :: Counter -> Queue -> Unqueue -> [0]output; "
        "input[1] -> [1]output;"
    ),
    "nat": (
        "flows :: IPRewriter(pattern 198.18.1.1 1024-65535 - - 0 1, drop); "
        "pings :: ICMPPingRewriter(pattern 198.18.1.1 1024-65535 - - 0 1, drop); "
        "there :: IPClassifier(tcp or udp, icmp type echo); back :: IPClassifier(tcp or udp, icmp type echo-reply); "
        "input[0] -> there; there[0] -> [0]flows; there[1] -> [0]pings; "
        "input[1] -> back; back[0] -> [1]flows; back[1] -> [1]pings; "
        "flows[0] -> [0]output; pings[0] -> [0]output; flows[1] -> [1]output; pings[1] -> [1]output;"
    ),
}


def function(name: str) -> Function:
    made: Function = registry.get("function", name)()
    return made


def statements(text: str) -> list[str]:
    """Those of a Click configuration at its top level, without comments and compound elements."""
    text = re.sub(r"//.*", "", text)
    text = re.sub(r"elementclass \w+ \{.*?\}", "", text, flags=re.DOTALL)
    return [" ".join(statement.split()) for statement in text.split(";") if statement.strip()]


def bare(statement: str) -> str:
    """Without arguments, which hold arrows and names of their own."""
    while (shorter := re.sub(r"\([^()]*\)", "", statement)) != statement:
        statement = shorter
    return statement


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_click_body_of_each_function(name: str) -> None:
    assert function(name).click(Path()) == EXPECTED_BODIES[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_element_of_a_click_configuration_is_named_and_joined(name: str) -> None:
    text = configuration(function(name).click(Path()), Path())
    declared = set(re.findall(r"(\w+) :: ", " ; ".join(bare(each) for each in statements(text))))
    joined = [bare(each) for each in statements(text) if "->" in each]
    used = {word.strip() for each in joined for word in re.split(r"->|\[\d\]|::", each)} - {""}
    classes = {word for word in used if word[0].isupper()}
    assert used - classes <= declared
    assert {re.sub(r"_(inside|outside)$", "", each) for each in declared} == {"from", "to", "kind", "arp", "function"}
    assert text.count("{") == text.count("}") == 1
    assert text.count("(") == text.count(")")
    for statement in joined:
        assert len(statement.split("->")) >= 2


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_click_configuration_serves_both_directions_and_arp(name: str) -> None:
    found = statements(configuration(function(name).click(Path()), Path()))
    for side, interface, address in (("inside", "in0", "198.18.0.1"), ("outside", "out0", OUTSIDE)):
        assert f"from_{side} :: FromDevice({interface}, SNIFFER false, PROMISC false)" in found
        assert f"to_{side} :: Queue(4096) -> ToDevice({interface})" in found
        assert f"arp_{side} :: ARPQuerier({address}, {interface}:eth)" in found
        assert f"kind_{side}[0] -> ARPResponder({address} {interface}:eth) -> to_{side}" in found
        assert f"kind_{side}[1] -> [1]arp_{side}" in found
        assert f"arp_{side} -> to_{side}" in found
    assert "kind_inside[2] -> Strip(14) -> CheckIPHeader -> DecIPTTL -> [0]function" in found
    assert f"function[0] -> SetIPAddress({SINK}) -> [0]arp_outside" in found
    assert "kind_outside[2] -> Strip(14) -> CheckIPHeader -> DecIPTTL -> [1]function" in found
    assert f"function[1] -> SetIPAddress({SOURCE}) -> [0]arp_inside" in found
