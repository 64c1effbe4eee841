"""Links between instances: they carry packets, reach nobody else, and go as they came.

Instances are bare processes, containers, and machines behind taps (a network namespace and a process that copies
frames, where a virtual machine would be)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lastro import registry
from lastro.attachments.base import Segment
from lastro.errors import CommandFailed
from lastro.platforms.base import Instance, Port
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.chain.deploy import deployed
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.testbed import Testbed

from ..hostlisting import owned_processes
from ..links import (
    LEFT,
    OTHER,
    RIGHT,
    attachment,
    contents,
    links,
    platform_of,
    reaches,
    segment,
    two_natives,
    unstarted,
)
from ..products import combinations

pytestmark = pytest.mark.root


def lacks_ipvlan() -> bool:
    script = "ip link add name p0 type veth peer name p1 && ip link add link p0 name i0 type ipvlan mode l2"
    return subprocess.run(["unshare", "--net", "sh", "-c", script], capture_output=True, check=False).returncode != 0


ATTACHMENTS = sorted(registry.names("attachment") - {"host"})  # which joins no two instances
ABSENT = ["ipvlan"] if lacks_ipvlan() else []
PRESENT = [name for name in ATTACHMENTS if name not in ABSENT]
FORWARDING = [name for name in PRESENT if name != "ipvlan"]
# Of veth pairs, taps and macvlans alone: one batch makes all of it.
PLAIN = ["macvlan-bridge", "macvtap", "veth-bridge", "veth-direct"]


@pytest.mark.parametrize("name", PRESENT)
def test_two_instances_reach_each_other_and_nobody_else(
    testbed: Testbed, attachments: AttachmentPool, trio: list[Instance], name: str
) -> None:
    a, b, alone = trio
    before = contents(testbed)
    with attachments.get(name).connect(testbed, [segment(a, b)]):
        assert reaches(a, RIGHT)
        assert reaches(b, LEFT)
        assert not reaches(alone, LEFT, within_s=1)
        assert not reaches(a, OTHER, within_s=1)
        for instance, address in ((a, LEFT), (b, RIGHT)):
            (link,) = [each for each in _addresses(testbed, instance) if each["ifname"] == "eth0"]
            assert link["operstate"] in ("UP", "UNKNOWN") and link["mtu"] == 1500
            assert [entry["local"] for entry in link["addr_info"] if entry["family"] == "inet"] == [address]
        assert _routes(testbed, a) == ["198.18.200.0/24"]  # and no way out
        assert links(testbed, alone.netns) == ["lo"]
    for netns in (a.netns, b.netns):
        assert links(testbed, netns) == ["lo"]
    assert contents(testbed) == before
    assert not reaches(a, RIGHT, within_s=1)


@pytest.mark.parametrize("name", PRESENT)
def test_the_same_links_can_be_made_again_at_once(
    testbed: Testbed, attachments: AttachmentPool, trio: list[Instance], name: str
) -> None:
    for _ in range(3):
        with attachments.get(name).connect(testbed, [segment(trio[0], trio[1])]):
            assert reaches(trio[0], RIGHT)


@pytest.mark.parametrize("name", ATTACHMENTS)
def test_links_that_cannot_be_made_leave_no_others(
    testbed: Testbed, attachments: AttachmentPool, trio: list[Instance], name: str
) -> None:
    broken = Segment(
        "x", (Port(trio[2], "eth0", "198.18.201.1/24"), Port(unstarted("no-such-netns"), "eth0", "198.18.201.2/24"))
    )
    before = contents(testbed)
    good = segment(trio[0], trio[1])
    with pytest.raises(CommandFailed), attachments.get(name).connect(testbed, [good, broken]):
        pytest.fail("it connected to a namespace that is not there")
    assert contents(testbed) == before
    for instance in trio:
        assert links(testbed, instance.netns) == ["lo"]


@pytest.mark.parametrize("name", PRESENT)
def test_an_error_inside_the_block_still_removes_the_links(
    testbed: Testbed, attachments: AttachmentPool, trio: list[Instance], name: str
) -> None:
    part = attachments.get(name)  # what it prepares stays
    before = contents(testbed)
    with pytest.raises(ZeroDivisionError), part.connect(testbed, [segment(trio[0], trio[1])]):
        raise ZeroDivisionError
    assert contents(testbed) == before


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


# Probes


@pytest.mark.parametrize("platform", ["native", "taps"])
@pytest.mark.parametrize("name", PRESENT)
def test_probing_finds_it_available(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool, name: str, platform: str
) -> None:
    part = attachments.get(name)
    before = contents(testbed)
    assert part.probe(testbed, platform_of(platform, pool))
    assert contents(testbed) == before


@pytest.mark.parametrize("name", ABSENT)
def test_probing_tells_what_this_kernel_lacks(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool, name: str
) -> None:
    found = attachments.get(name).probe(testbed, pool.get("native"))
    assert not found
    assert "Unknown device type" in str(found.reason)
    assert f"kernel with {name}" in str(found.remedy)


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


# A chain over them: the middle instance forwards from one segment to the other


HOPS = {"routed": 3, "nat": 3}  # the DUT is one more on each segment


@pytest.mark.parametrize(("platform", "name"), combinations(["native", "runc", "taps"], FORWARDING))
def test_a_chain_goes_through_the_function_and_by_the_way_that_the_links_promise(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool, name: str, platform: str
) -> None:
    part, function = attachments.get(name), registry.get("function", "nat")()
    with deployed(testbed, platform_of(platform, pool), part, function) as chain:
        counted, moved = chain.counted(), part.counters(testbed)
        # Not one ping, but one after another: each must find the counters moved, as each measurement must.
        for _ in range(2):
            done = chain.source.run(["ping", "-n", "-c", "2", "-i", "0.05", "-W", "1", chain.path.sink])
            assert f"ttl={64 - HOPS.get(name, 1)} " in done.text
            before, moved, counted_before, counted = moved, part.counters(testbed), counted, chain.counted()
            assert all(moved[each] > before[each] for each in before)
            assert counted["crossed"].packets >= counted_before["crossed"].packets + 2
            assert counted["translated"].packets > counted_before["translated"].packets
    assert set(moved) == {
        "routed": {"routed"}, "nat": {"routed", "translated"}, "vxlan": {"rx below", "tx below"},
        "ovs": {"switched"}, "ovs-userspace": {"switched"},
    }.get(name, set())  # fmt: skip


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


# A crash


CRASH = """
    import sys, time
    from contextlib import ExitStack
    from pathlib import Path
    from lastro.host.ledger import session
    from lastro.image.rootfs import Image
    from lastro.scenarios.chain.deploy import deployed
    from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
    from lastro import registry
    from lastro.testbed import local_testbed

    name, digest, directory = sys.argv[1:]
    with session("crash") as held, local_testbed(held, Image(digest, Path(directory))) as bed, ExitStack() as stack:
        platform, links = PlatformPool(bed, stack).get("native"), AttachmentPool(bed, stack).get(name)
        with deployed(bed, platform, links, registry.get("function", "none")()):
            print(held.token, flush=True)
            time.sleep(60)
"""


@pytest.mark.parametrize("name", FORWARDING)
def test_after_kill_9_cleaning_removes_all_of_it(testbed: Testbed, tmp_path: Path, name: str) -> None:
    env = {**os.environ, "LASTRO_STATE": str(tmp_path), "LASTRO_RUN": f"/run/lastro-{testbed.session.token}"}
    argv = [sys.executable, "-c", textwrap.dedent(CRASH), name, testbed.image.digest, str(testbed.image.directory)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        token = process.stdout.readline().strip()
        try:
            assert len(token) == 6
            assert owned_processes(token) or "ovs" not in name
            assert list(Path("/run/netns").glob(f"*{token}*"))
        finally:
            process.kill()
    done = subprocess.run(
        [sys.executable, "-m", "lastro", "clean"], capture_output=True, text=True, env=env, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert not owned_processes(token)
    assert not list(Path("/run/netns").glob(f"*{token}*"))
    assert not any(directory.exists() for directory in testbed.cgroups.directories(f"/lastro/{token}"))
    assert not list(Path(env["LASTRO_RUN"]).iterdir()) and not list((tmp_path / "scratch").iterdir())
    Path(env["LASTRO_RUN"]).rmdir()


def _addresses(testbed: Testbed, instance: Instance) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = testbed.host.run_json(["ip", "-n", instance.netns, "-j", "address"])
    return found


def _routes(testbed: Testbed, instance: Instance) -> list[str]:
    return [route["dst"] for route in json.loads(testbed.host.run(["ip", "-n", instance.netns, "-j", "route"]).text)]
