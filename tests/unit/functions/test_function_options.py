"""Options of functions: how much work each packet is, and that nothing else of a treatment depends on them."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro.errors import Unavailable
from lastro.functions.base import PATHS, Function
from lastro.functions.dpi import SIGNATURE, Dpi
from lastro.functions.firewall import Firewall
from lastro.isolation.base import NEIGHBOUR
from lastro.platforms.base import InstanceSpec
from lastro.scenarios.base import make_part
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.load import LoadScenario
from lastro.scenarios.load.steering import apart

from ...support.scenarios import configured

RESERVED = {"4": ip_network("198.18.0.0/15"), "6": ip_network("2001:2::/48")}  # RFC 2544, RFC 5180


def config(scenario: Any = LoadScenario, **chosen: Any) -> dict[str, Any]:
    levels = {"platform": "native", "attachment": "veth-direct", "function": "firewall", "anomaly": "none"}
    generator = {"instrument": "sockperf"} if scenario is LoadScenario else {}
    return configured(scenario, **{**levels, "isolation": "none", **generator, **chosen})


@pytest.mark.parametrize("ip", PATHS)
def test_a_firewall_has_as_many_further_rules_as_it_is_told(ip: str) -> None:
    path = PATHS[ip]
    usual, more = Firewall().rules(path), make_part(Function, "firewall:rules=600").rules(path)
    added = set(more.splitlines()) - set(usual.splitlines())
    hosts = {ip_address(match[1]) for line in added if (match := re.search(r"saddr (\S+) counter name blocked", line))}
    assert len(more.splitlines()) == len(usual.splitlines()) + 600 and len(hosts) == 600
    ends = {ip_address(each) for each in (path.source, path.sink, path.inside_address, path.outside_address)}
    assert all(host in RESERVED[ip] for host in hosts) and not hosts & ends, "the flow passes all of them"


def test_click_s_firewall_has_the_same_addresses() -> None:
    assert "1 src host 198.19.128.1, 1 src host 198.19.128.2, 0 all" in Firewall(rules=2).click(PATHS["4"])
    assert "host" not in Firewall().click(PATHS["4"])


def test_dpi_searches_for_each_signature_and_click_for_one() -> None:
    _, inspection = Dpi(signatures=3).more_steps(PATHS["4"])
    found = re.findall(r"--string (\S+) -j MARK", str(inspection.stdin))
    assert len(set(found)) == 3 and found[0] == SIGNATURE
    assert str(Dpi().more_steps(PATHS["4"])[1].stdin).count("--string") == 1
    with pytest.raises(Unavailable, match="one signature in Click"):
        Dpi(signatures=2).click(PATHS["4"])


@pytest.mark.parametrize("scenario", [LoadScenario, ChainScenario])
@pytest.mark.parametrize("option", ["function.rules", "function.firewall.rules"])
def test_the_ceiling_is_that_of_plain_forwarding_whatever_the_options(scenario: Any, option: str) -> None:
    few, many = (scenario.calibrations(config(scenario, **{option: n})) for n in (1, 1000))
    assert few == many
    (ceiling,) = few.values()
    assert ceiling["function"] == "none" and option not in ceiling


@pytest.mark.parametrize(
    ("role", "platform", "usable", "cpuset"),
    [
        ("function", "runc", [0, 1, 2], "1-2"),
        (NEIGHBOUR, "native", [4, 6, 7], "6-7"),
        ("source", "runc", [0, 1], None),
        ("sink", "runc", [0, 1], None),
        ("function", "runc", [0], None),
        ("function", "qemu-tcg", [0, 1], None),
    ],
)
def test_the_generator_has_a_cpu_of_its_own(role: str, platform: str, usable: list[int], cpuset: str | None) -> None:
    bed = cast(Any, SimpleNamespace(usable_cpus=usable))
    assert apart(InstanceSpec("one", role), bed, config(platform=platform)).resources.cpuset == cpuset
