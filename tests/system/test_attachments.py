"""Links between instances: what is special about some of them. What holds for all is in tests/contract."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from lastro import registry
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared.chain import deployed
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.testbed import Testbed
from lastro.testing.attachments import segment
from lastro.testing.network import LEFT, reaches

from ..support.links import attachment, two_natives

pytestmark = pytest.mark.root


# Of veth pairs, taps and macvlans alone: one batch makes all of it.
PLAIN = ["macvlan-bridge", "macvtap", "veth-bridge", "veth-direct"]


# What is said to the host


@pytest.mark.parametrize("name", PLAIN)
def test_connecting_is_one_command_for_each_namespace_and_one_to_undo(
    testbed: Testbed, pool: PlatformPool, name: str
) -> None:
    with ExitStack() as stack:
        a, b = two_natives(stack, testbed, pool)
        with testbed.host.recorded() as transcript, attachment(name).connect(testbed, [segment(a, b)]):
            pass
    steps = [(record["argv"][record["argv"].index("-n") + 1], record["stdin"]) for record in transcript.records]
    removed_in = a.netns if name == "veth-direct" else testbed.dut
    assert [netns for netns, _ in steps] == [testbed.dut, a.netns, b.netns, removed_in]
    assert steps[0][1].splitlines() == attachment(name).compile([segment(a, b)])
    assert steps[1][1] == f"address add {LEFT}/24 dev eth0\nlink set eth0 up\n"


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
