"""Open vSwitch, in the kernel and in user space: a private switch that is accounted for, killed, and gone."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from lastro import registry
from lastro.attachments.base import batch, made
from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.platforms.base import Instance, Tap
from lastro.scenarios.shared.chain import deployed
from lastro.scenarios.shared.pools import AttachmentPool, PlatformPool
from lastro.testbed import Testbed
from lastro.testing.attachments import contents, segment
from lastro.testing.network import RIGHT, reaches

from ..support.hostlisting import live, owned_processes
from ..support.links import attachment, two_natives

pytestmark = pytest.mark.root


def directory_of(switch: Any) -> Path:
    """Of a prepared one."""
    directory: Path = switch._directory
    return directory


def test_the_switch_is_of_our_own_and_its_choice_is_recorded(testbed: Testbed, attachments: AttachmentPool) -> None:
    for name in ("ovs", "ovs-userspace"):
        part = attachments.get(name)
        pids = {int((directory_of(part) / f"{short}.pid").read_text()) for short in ("db", "vs")}
        assert part.own_cgroups == (f"{testbed.session.cgroup}/{directory_of(part).name}",)
        assert pids <= testbed.cgroups.pids(part.own_cgroups[0])
        assert pids <= owned_processes(testbed.session.token)
        assert part.residuals(testbed)["datapath"]
    for pid in pids:
        files = [str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()]
        assert not [file for file in files if "openvswitch" in file]
    userspace = attachments.get("ovs-userspace")
    assert userspace.residuals(testbed)["datapath"] == "in user space (netdev)"
    assert "checksums" in attachments.residuals("ovs-userspace")["ovs-userspace: offloads"]


def test_in_user_space_nobody_leaves_checksums_to_the_switch(
    testbed: Testbed, trio: list[Instance], attachments: AttachmentPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, _ = trio
    given: list[Tap] = []
    monkeypatch.setattr(a, "plug", lambda ports, taps: given.extend(taps.values()) or type(a).plug(a, ports, taps))
    with attachments.get("ovs-userspace").connect(testbed, [segment(a, b)]):
        if a.takes_taps:
            assert [tap.offloads for tap in given] == [False]
        else:
            features = testbed.host.run(["nsenter", f"--net=/run/netns/{a.netns}", "ethtool", "-k", "eth0"]).text
            assert "tx-checksumming: off" in features and "generic-segmentation-offload: off" in features


def test_a_killed_switch_costs_one_trial_and_no_more(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool
) -> None:
    part = attachments.get("ovs")
    before = contents(testbed)
    with ExitStack() as stack:
        a, b = two_natives(stack, testbed, pool)
        both = "Open vSwitch: ovsdb-server exited with code 137, ovs-vswitchd exited with code 137"
        with pytest.raises(PlatformError, match=both), part.connect(testbed, [segment(a, b)]):
            for short in ("vs", "db"):
                os.kill(int((directory_of(part) / f"{short}.pid").read_text()), signal.SIGKILL)
            assert not reaches(a, RIGHT, within_s=1)
        with part.connect(testbed, [segment(a, b)]):
            assert reaches(a, RIGHT)
    assert contents(testbed) == before


def test_a_switch_that_only_prints_its_failure_fails(testbed: Testbed, attachments: AttachmentPool) -> None:
    part: Any = attachments.get("ovs-userspace")
    with pytest.raises(CommandFailed, match="no-such-link"):
        try:
            part._vsctl(testbed, *part.compile_vsctl([], "netdev"), "--", "add-port", "hub-br", "no-such-link")
        finally:
            part._vsctl(testbed, "--if-exists", "del-br", "hub-br", check=False)


def test_frames_of_a_vlan_are_tagged_inside_the_switch(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool
) -> None:
    """A port without a VLAN of its own is a trunk: it gets frames of every VLAN, with their tags."""
    part: Any = attachments.get("ovs:vlan=100")
    with ExitStack() as stack:
        a, b = two_natives(stack, testbed, pool)
        stack.enter_context(part.connect(testbed, [segment(a, b)]))
        stack.enter_context(made(testbed, testbed.dut, ["link add name trunk type veth peer name seen"]))
        batch(testbed, testbed.dut, ["link set trunk up", "link set seen up"])
        part._vsctl(testbed, "add-port", "hub-br", "trunk")
        look = "exec tcpdump -i seen -n -l --immediate-mode -c 1 'vlan 100 and arp' 2>&1"
        watch = testbed.host.spawn(["ip", "netns", "exec", testbed.dut, "sh", "-c", look])
        try:
            watch.wait_line("listening on", 10)
            assert reaches(a, RIGHT)
            assert watch.ended_within(5), "no ARP request of the members came with the tag"
        finally:
            watch.stop()
        learned = part._appctl(testbed, "fdb/show", "hub-br").text.splitlines()[1:]
        assert {line.split()[1] for line in learned} == {"100"}
        part.unplug(testbed, [end for end, _ in segment(a, b).ends()])
        assert not reaches(a, RIGHT, within_s=1)
        part.replug(testbed, [(end, "hub-br") for end, _ in segment(a, b).ends()])
        assert reaches(a, RIGHT)
        assert part._vsctl(testbed, "get", "port", "hub-sa", "tag").text == "100\n"


def test_what_the_switch_uses_is_accounted_to_it(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool
) -> None:
    part = attachments.get("ovs-userspace")
    with deployed(testbed, pool.get("native"), part, registry.get("function", "none")()) as chain:
        before = testbed.cgroups.usage(part.own_cgroups[0]).cpu_s
        chain.source.run(["ping", "-n", "-q", "-f", "-c", "3000", "-w", "5", chain.path.sink], check=False)
        assert testbed.cgroups.usage(part.own_cgroups[0]).cpu_s > before + 0.01


def test_over_dpdk_it_polls_one_cpu_while_it_has_ports(
    testbed: Testbed, pool: PlatformPool, attachments: AttachmentPool
) -> None:
    part, before = attachments.get("ovs-dpdk"), contents(testbed)

    def cpus_used(seconds: float = 0.3) -> float:
        before_s = testbed.cgroups.usage(part.own_cgroups[0]).cpu_s
        time.sleep(seconds)
        return (testbed.cgroups.usage(part.own_cgroups[0]).cpu_s - before_s) / seconds

    assert cpus_used() < 0.1
    with deployed(testbed, pool.get("native"), part, registry.get("function", "none")()) as chain:
        switched = part.counters(testbed)["switched"]
        chain.source.run(["ping", "-n", "-q", "-f", "-c", "100", "-w", "5", chain.path.sink])
        assert part.counters(testbed)["switched"] >= switched + 400, "a request and a reply on each of two links"
        assert cpus_used() > 0.2, "it polls without packets, too; others may have the same CPU"
        assert polling_on(part) == [str(testbed.usable_cpus[-1])]
    assert cpus_used() < 0.1, "between trials, the CPU is free"
    assert contents(testbed) == before
    assert "without huge pages" in part.residuals(testbed)["ports"] and part.facts(testbed)["DPDK"]


def polling_on(switch: Any) -> list[str]:
    """The CPUs on which each thread that polls may run."""
    tasks = Path("/proc", (directory_of(switch) / "vs.pid").read_text().strip(), "task").iterdir()
    texts = [(task / "status").read_text() for task in tasks]
    return [re.findall(r"Cpus_allowed_list:\t(.*)", text)[0] for text in texts if text.startswith("Name:\tpmd")]


def test_with_its_preparation_a_switch_is_gone(testbed: Testbed) -> None:
    part, before = attachment("ovs"), contents(testbed)
    owned = len(testbed.session.owned_objects())
    with part.prepare(testbed):
        pids = testbed.cgroups.pids(part.own_cgroups[0])
        assert len(live(pids)) == 2
    assert not live(pids) and not directory_of(part).exists()
    assert not any(directory.exists() for directory in testbed.cgroups.directories(part.own_cgroups[0]))
    assert contents(testbed) == before and len(testbed.session.owned_objects()) == owned


def test_without_the_program_a_switch_is_honestly_unavailable(
    testbed: Testbed, attachments: AttachmentPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbed.host, "which", lambda program: None)
    part = attachment("ovs")
    with pytest.raises(Unavailable, match="no program 'ovsdb-server'") as caught, part.prepare(testbed):
        pytest.fail("it started without a program")
    assert "openvswitch-switch" in str(caught.value.hint)
