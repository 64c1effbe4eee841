"""Functions on a real Click or FastClick, where this host has one: flows pass, and it decides as the kernel does."""

from __future__ import annotations

import re
import time

import pytest

from lastro import registry
from lastro.errors import PlatformError
from lastro.functions._click import _SOCKET
from lastro.functions.base import ForwardingPath, Function
from lastro.host.local import LocalHost
from lastro.instruments.ping import Ping
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared.chain import Chain, deployed
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

from ..support.packets import chain_of, decided, differing, generated, measured_flows
from ..support.products import one_of

needs_click = pytest.mark.skipif(
    LocalHost().which("click") is None, reason="no click here: `lastro setup click --source DIR` builds one"
)
pytestmark = [pytest.mark.root, needs_click]

FUNCTIONS = sorted(ChainScenario.part_names("function"))


# Flows


@pytest.mark.parametrize("where", one_of(("runc+veth-direct", "native+macvlan-bridge", "docker+veth-bridge")))
@pytest.mark.parametrize("function", FUNCTIONS)
def test_tcp_udp_and_ping_pass_and_are_counted(testbed: Testbed, pool: PlatformPool, function: str, where: str) -> None:
    with chain_of(testbed, pool, function, "click", where) as chain:
        for name, reading, seen in measured_flows(chain):
            assert reading.measurements.get("udp_loss", 0.0) < 5, reading
            assert reading.payload_bytes > 100_000 or name == Ping.name, (name, reading)
            assert seen.get("detoured", seen["broken"]).packets == 0


def asked(chain: Chain) -> list[str]:
    """How often Click has asked for a hardware address, on each side."""
    reads = "".join(f"read arp_{side}.queries\n" for side in ("inside", "outside"))
    text = chain.instances["function"].run(["nc", "-U", _SOCKET], stdin=f"{reads}quit\n").text
    return re.findall(r"DATA \d+\r\n(\d+)", text)


@pytest.mark.slow
def test_click_does_not_ask_again_for_a_hardware_address(testbed: Testbed, pool: PlatformPool) -> None:
    """By default, it would ask when a packet comes after a minute: one frame more than a generator sent."""
    with chain_of(testbed, pool, "none", "click", "native+veth-direct") as chain:
        at_first = asked(chain)
        assert len(at_first) == 2 and "0" not in at_first
        time.sleep(61)
        chain.source.run(["ping", "-n", "-c", "2", chain.path.sink])
        assert asked(chain) == at_first


# Decisions


@pytest.mark.parametrize("n", [1_000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_click_decides_as_nftables_does(testbed: Testbed, pool: PlatformPool, function: str, n: int) -> None:
    # Its NAT drops what is not a first fragment.
    packets, found = generated(ForwardingPath(), n, fragments=function != "nat", connections=function == "nat"), {}
    for implementation in ("kernel", "click"):
        with chain_of(testbed, pool, function, implementation, "native+veth-direct") as chain:
            found[implementation] = decided(chain, packets)
    (by_kernel, kernel_counts), (by_click, click_counts) = found["kernel"], found["click"]
    assert differing(by_kernel, by_click)[:6] == []
    assert click_counts == kernel_counts
    assert all(each.checksum_right and each.hops == 1 for each in by_click)
    fewest = {"firewall": len(packets) // 5}.get(function, len(packets))
    assert fewest <= len(by_click) <= len(packets)
    if function == "firewall":
        assert 0 < click_counts["blocked"] == len(packets) - len(by_click)
    if function == "dpi":
        assert n / 10 < click_counts["detoured"] < len(packets) - n / 10
    assert ({each.source for each in by_click} == {ForwardingPath().outside_address}) is (function == "nat")


# A function that Click refuses


class Misspelt(Function):
    name = "misspelt"
    summary = "an element that no Click has"

    def click(self, path: ForwardingPath) -> str:
        return "input[0] -> Serch(x) -> [0]output; input[1] -> [1]output;"


def test_clicks_own_words_on_an_element_that_it_does_not_have(testbed: Testbed, pool: PlatformPool) -> None:
    links = registry.get("attachment", "veth-direct")()
    wanted = r"click ended at its start: .*function\.click:\d+: (unknown element class|undeclared element) 'Serch'"
    with (
        links.prepare(testbed),
        pytest.raises(PlatformError, match=wanted),
        deployed(testbed, pool.get("native"), links, Misspelt(), implementation="click"),
    ):
        pytest.fail("a chain without its function was deployed")
