"""Links between instances: they carry packets, reach nobody else, and go as they came."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import registry
from lastro.attachments.base import Attachment, Segment
from lastro.errors import CommandFailed
from lastro.platforms.base import Instance, InstanceSpec, Port
from lastro.scenarios.base import PlatformPool
from lastro.testbed import Testbed

pytestmark = pytest.mark.root

ATTACHMENTS = sorted(registry.names("attachment"))
LEFT, RIGHT, OTHER = "198.18.200.1", "198.18.200.2", "198.18.200.3"


def unstarted(netns: str, *, takes_taps: bool = False) -> Any:
    """What a topology needs to know of an instance."""
    return SimpleNamespace(netns=netns, takes_taps=takes_taps)


N1, N2, N3 = (unstarted(name) for name in ("N1", "N2", "N3"))

# Two segments as in a chain: a from N1 to N2, b from N2 to N3.
SEGMENTS = [
    Segment("a", (Port(N1, "out0", "198.18.0.10/24"), Port(N2, "in0", "198.18.0.1/24"))),
    Segment("b", (Port(N2, "out0", "198.18.1.1/24"), Port(N3, "in0", "198.18.1.10/24"))),
]
TRANSCRIPTS = {
    "veth-direct": [
        "link add name out0 netns N1 type veth peer name in0 netns N2",
        "link add name out0 netns N2 type veth peer name in0 netns N3",
    ],
    "veth-bridge": [
        "link add name hub-br type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
        "link set hub-br up",
        "link add name hub-aa type veth peer name out0 netns N1",
        "link set hub-aa master hub-br up",
        "link add name hub-ab type veth peer name in0 netns N2",
        "link set hub-ab master hub-br up",
        "link add name hub-ba type veth peer name out0 netns N2",
        "link set hub-ba master hub-br up",
        "link add name hub-bb type veth peer name in0 netns N3",
        "link set hub-bb master hub-br up",
    ],
    "macvlan-bridge": [
        "link add name hub-parent type veth peer name hub-peer",
        "link set hub-parent up",
        "link set hub-peer up",
        "link add link hub-parent name out0 netns N1 type macvlan mode bridge",
        "link add link hub-parent name in0 netns N2 type macvlan mode bridge",
        "link add link hub-parent name out0 netns N2 type macvlan mode bridge",
        "link add link hub-parent name in0 netns N3 type macvlan mode bridge",
    ],
}


@pytest.fixture(scope="module", params=["native", "runc"])
def trio(request: pytest.FixtureRequest, testbed: Testbed, pool: PlatformPool) -> Iterator[list[Instance]]:
    """Two instances to join, and a third that stays alone."""
    with ExitStack() as stack:
        platform = pool.get(request.param)
        yield [stack.enter_context(platform.start(testbed, InstanceSpec(name, name))) for name in ("aa", "bb", "cc")]


def attachment(name: str) -> Attachment:
    made: Attachment = registry.get("attachment", name)()
    return made


def segment(a: Instance, b: Instance) -> Segment:
    return Segment("s", (Port(a, "eth0", f"{LEFT}/24"), Port(b, "eth0", f"{RIGHT}/24")))


def links(testbed: Testbed, netns: str) -> list[str]:
    return [link["ifname"] for link in testbed.host.run_json(["ip", "-n", netns, "-j", "link"])]


def reaches(instance: Instance, address: str) -> bool:
    return instance.run(["ping", "-n", "-c", "1", "-W", "1", address], check=False).returncode == 0


@pytest.mark.parametrize("name", ATTACHMENTS)
def test_two_instances_reach_each_other_and_nobody_else(testbed: Testbed, trio: list[Instance], name: str) -> None:
    a, b, alone = trio
    with attachment(name).connect(testbed, [segment(a, b)]):
        assert reaches(a, RIGHT)
        assert reaches(b, LEFT)
        assert not reaches(alone, LEFT)
        assert not reaches(a, OTHER)
        for instance, address in ((a, LEFT), (b, RIGHT)):
            (link,) = [each for each in _addresses(testbed, instance) if each["ifname"] == "eth0"]
            assert link["operstate"] == "UP"
            assert [entry["local"] for entry in link["addr_info"] if entry["family"] == "inet"] == [address]
        assert _routes(testbed, a) == ["198.18.200.0/24"]  # and no way out
        assert links(testbed, alone.netns) == ["lo"]
    for netns in (a.netns, b.netns, testbed.dut):
        assert links(testbed, netns) == ["lo"]
    assert not reaches(a, RIGHT)


@pytest.mark.parametrize("name", ATTACHMENTS)
def test_the_same_links_can_be_made_again_at_once(testbed: Testbed, trio: list[Instance], name: str) -> None:
    for _ in range(3):
        with attachment(name).connect(testbed, [segment(trio[0], trio[1])]):
            assert reaches(trio[0], RIGHT)


@pytest.mark.parametrize("name", ATTACHMENTS)
def test_links_that_cannot_be_made_leave_no_others(testbed: Testbed, trio: list[Instance], name: str) -> None:
    broken = Segment(
        "x", (Port(trio[2], "eth0", "198.18.201.1/24"), Port(unstarted("no-such-netns"), "eth0", "198.18.201.2/24"))
    )
    with pytest.raises(CommandFailed), attachment(name).connect(testbed, [segment(trio[0], trio[1]), broken]):
        pytest.fail("it connected to a namespace that is not there")
    assert links(testbed, testbed.dut) == ["lo"]
    for instance in trio:
        assert links(testbed, instance.netns) == ["lo"]


@pytest.mark.parametrize("name", ATTACHMENTS)
def test_a_topology_compiles_to_one_readable_batch(name: str) -> None:
    assert attachment(name).compile(SEGMENTS) == TRANSCRIPTS[name]


@pytest.mark.parametrize("name", ATTACHMENTS)
def test_connecting_is_one_command_for_each_namespace_and_one_to_undo(
    testbed: Testbed, trio: list[Instance], name: str
) -> None:
    a, b, _ = trio
    with testbed.host.recorded() as transcript, attachment(name).connect(testbed, [segment(a, b)]):
        pass
    steps = [(record["argv"][record["argv"].index("-n") + 1], record["stdin"]) for record in transcript.records]
    removed_in = a.netns if name == "veth-direct" else testbed.dut
    assert [netns for netns, _ in steps] == [testbed.dut, a.netns, b.netns, removed_in]
    assert steps[0][1].splitlines() == attachment(name).compile([segment(a, b)])
    assert steps[1][1] == f"address add {LEFT}/24 dev eth0\nlink set eth0 up\n"


@pytest.mark.parametrize("name", ATTACHMENTS)
def test_probing_finds_it_available(testbed: Testbed, pool: PlatformPool, name: str) -> None:
    assert attachment(name).probe(testbed, pool.get("native"))
    assert links(testbed, testbed.dut) == ["lo"]


def test_a_probe_tells_why_not(testbed: Testbed, pool: PlatformPool, monkeypatch: pytest.MonkeyPatch) -> None:
    part = attachment("veth-direct")
    monkeypatch.setattr(type(part), "compile", lambda self, segments: ["link add name p0 type no-such-kind"])
    found = part.probe(testbed, pool.get("native"))
    assert not found
    assert "exited with" in str(found.reason)


def _addresses(testbed: Testbed, instance: Instance) -> list[dict[str, object]]:
    found: list[dict[str, object]] = testbed.host.run_json(["ip", "-n", instance.netns, "-j", "address"])
    return found


def _routes(testbed: Testbed, instance: Instance) -> list[str]:
    return [route["dst"] for route in json.loads(testbed.host.run(["ip", "-n", instance.netns, "-j", "route"]).text)]
