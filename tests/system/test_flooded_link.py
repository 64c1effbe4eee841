"""A neighbour that floods the link of a chain: whole trials, whose witnesses account for the flood and for the flow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.load import LoadScenario
from lastro.testbed import Testbed

from ..support.products import one_of
from ..support.scenarios import SHORT, attempted, configured

pytestmark = pytest.mark.root

LINKS = ("veth-bridge", "macvlan-bridge", "macvtap", "ovs", "routed", "nat", "vxlan")
LIMITED = {  # what the undisturbed chain needs, for `cgroups`
    "profile/x": {"needs": {}, "chain_cpus": 1.0, "block_device": None, "usable_cpus": 2}
}


@pytest.fixture(scope="module")
def running(testbed: Testbed) -> Iterator[ChainScenario]:
    with closing(ChainScenario(testbed)) as made:
        yield made


def config(platform: str, attachment: str, **chosen: Any) -> dict[str, Any]:
    levels = {"platform": platform, "attachment": attachment, "isolation": "none", "anomaly": "network:link=chain"}
    return configured(ChainScenario, **{**SHORT["chain"], **levels, "function": "firewall", **chosen})


@pytest.mark.parametrize("attachment", one_of(LINKS))
@pytest.mark.parametrize("isolation", ["none", "cgroups"])
def test_the_function_receives_the_flood_beside_the_flow_and_the_trial_is_valid(
    running: ChainScenario, attachment: str, isolation: str
) -> None:
    wanted = config("runc", attachment, isolation=isolation, udp_s=0, ping_s=1)
    found = running.availability(wanted)
    assert found, found
    outcome = attempted(running, wanted, LIMITED if isolation == "cgroups" else {})
    assert outcome.valid, outcome.invalid_because
    dose, moved = outcome.notes["doses"], outcome.notes["witness"]["ping"]  # type: ignore[index]
    assert isinstance(dose, dict) and dose["used"] > 0
    flood, came = moved["neighbour.load0"]["tx_packets"], moved["function.in0"]["rx_packets"]
    assert came > 0.05 * flood, "the flood did not reach the function"  # a switch in user space loses most of it
    assert flood > 20 * moved["source.out0"]["tx_packets"]
    assert moved["sink.in0"]["rx_packets"] < 0.1 * flood, "the flood went on to the sink"
    bps = 8 * dose["moved_bytes"] / dose["elapsed_s"]
    assert (bps < 2_500_000) is (isolation == "cgroups"), "the limit of the neighbour is that of its isolation"
    joins = [link for link in outcome.notes["topology"]["links"] if link["a"]["role"] == "neighbour"]  # type: ignore[index]
    assert [(link["attachment"], link["b"]["role"], link["b"]["port"]) for link in joins] == [
        (attachment, "function", "in0")
    ]


def test_where_a_neighbour_cannot_join_the_link_the_treatment_is_unavailable_with_the_reason(
    running: ChainScenario, testbed: Testbed
) -> None:
    reasons = {
        "two ends, and no place for a third": config("runc", "veth-direct"),
        "this platform takes all links when an instance starts": config("qemu-tcg", "veth-bridge"),
        '"click" forwards': config("runc", "veth-bridge", implementation="click"),
        "IPv4 only": config("runc", "veth-bridge", ip="6"),
    }
    for words, wanted in reasons.items():
        found = running.availability(wanted)
        assert words in str(found.reason) or "no `click`" in str(found.reason), found
        assert found.remedy
    with closing(LoadScenario(testbed)) as load:
        levels = {"platform": "runc", "isolation": "none", "anomaly": "network:link=chain"}
        found = load.availability(configured(LoadScenario, **{**SHORT["load"], **levels, "attachment": "veth-bridge"}))
    assert "a flood would be counted" in str(found.reason)
