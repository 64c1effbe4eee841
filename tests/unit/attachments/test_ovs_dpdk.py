"""What Open vSwitch over DPDK is told, on a host that only records, and why it is unavailable where it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from lastro.attachments.base import Segment
from lastro.attachments.ovs_dpdk import OvsDpdk
from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.host.base import Completed
from lastro.platforms.base import Port
from lastro.scenarios.base import make_part
from lastro.testing.attachments import unstarted

from ...support.recording import RecordingHost, answer, recording_testbed

DEBIAN = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
TOOLS = ("ovsdb-server", "ovs-vsctl", "ovs-appctl", "ovsdb-tool")
WITH_DPDK, PLAIN = "ovs-vswitchd (Open vSwitch) 3.1.0\nDPDK 22.11.11\n", "ovs-vswitchd (Open vSwitch) 3.1.0\n"


class SwitchHost(RecordingHost):
    """A host with the programs `versions`, {program: what its `--version` prints}; its DPDK starts unless `fails`."""

    def __init__(self, versions: dict[str, str], *, fails: bool = False) -> None:
        super().__init__(self._say, programs=(*TOOLS, *versions))
        self._versions, self._fails = versions, fails

    def _say(self, argv: Sequence[str]) -> Completed | None:
        if argv[-1] == "--version":
            return answer(self._versions[argv[0]])
        return answer(code=-14, error="Alarm clock") if self._fails and "wait-until" in argv else None


def links(n: int) -> list[Segment]:
    a, b = (unstarted(name) for name in ("N1", "N2"))
    return [Segment(f"{i}", (Port(a, f"e{i}", "198.18.0.1/30"), Port(b, f"e{i}", "198.18.0.2/30"))) for i in range(n)]


def test_each_port_is_a_device_of_dpdk_in_the_chosen_vlan() -> None:
    part = make_part(OvsDpdk, "ovs-dpdk:vlan=7")
    words = part.compile_vsctl(links(1), "netdev")
    assert " ".join(words).split(" -- ")[2:] == [
        "add-port hub-br hub-0a tag=7",
        "set interface hub-0a type=dpdk options:dpdk-devargs=net_af_packet_hub-0a,iface=hub-0a",
        "add-port hub-br hub-0b tag=7",
        "set interface hub-0b type=dpdk options:dpdk-devargs=net_af_packet_hub-0b,iface=hub-0b",
    ]


def test_dpdk_is_configured_before_the_switch_starts_and_polls_on_the_last_cpu(tmp_path: Path) -> None:
    host = SwitchHost({DEBIAN: WITH_DPDK})
    part, testbed = OvsDpdk(), recording_testbed(host, tmp_path)
    with part.prepare(testbed):
        residuals = part.residuals(testbed)
    told = host.command("--no-wait")
    cpu = max(os.sched_getaffinity(0))
    assert told[-3:] == [
        "other_config:dpdk-init=true",
        "other_config:dpdk-extra=--no-huge --legacy-mem -m 128 --iova-mode=va --no-pci --no-shconf --no-telemetry",
        f"other_config:pmd-cpu-mask={1 << cpu:#x}",
    ]
    started = next(argv for argv in host.commands if DEBIAN in argv and "--version" not in argv)
    assert host.commands.index(told) < host.commands.index(started) < host.commands.index(host.command("wait-until"))
    home = testbed.run_dir / part.own_cgroups[0].rpartition("/")[2]
    assert f"RUNTIME_DIRECTORY={home}" in started, "the directory that DPDK makes belongs to the switch"
    assert residuals["polling"].startswith(f"CPU {cpu} is always busy") and "netdev" in residuals["datapath"]
    assert part.facts(testbed)["DPDK"] == "22.11.11"


@pytest.mark.parametrize(
    ("versions", "found"),
    [
        ({DEBIAN: WITH_DPDK, "ovs-vswitchd": PLAIN}, DEBIAN),
        ({"ovs-vswitchd": WITH_DPDK}, "ovs-vswitchd"),
        ({"ovs-vswitchd": PLAIN}, None),
        ({}, None),
    ],
    ids=["Debian", "its only program", "without DPDK", "none"],
)
def test_the_program_is_one_with_dpdk(versions: dict[str, str], found: str | None) -> None:
    host = SwitchHost(versions)
    if found:
        assert OvsDpdk().switch_program(host) == found
        return
    with pytest.raises(Unavailable, match="no ovs-vswitchd with DPDK") as caught:
        OvsDpdk().switch_program(host)
    needed = "openvswitch-switch-dpdk 'librte-mempool-ring*' 'librte-net-af-packet*'"
    assert caught.value.hint == f"apt-get install {needed}"


def test_a_dpdk_that_does_not_start_is_an_error_and_leaves_no_daemon(tmp_path: Path) -> None:
    part, testbed = OvsDpdk(), recording_testbed(SwitchHost({DEBIAN: WITH_DPDK}, fails=True), tmp_path)
    with pytest.raises(PlatformError, match=r"ovs-vswitchd did not start: .*Alarm clock"), part.prepare(testbed):
        pytest.fail("it was prepared")
    assert part._daemons == {}


def test_a_port_that_dpdk_has_no_driver_for_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    refused = "ovs-vsctl: Error detected while setting up 'hub-0a': Error attaching device 'net_af_packet_hub-0a'"
    host = RecordingHost(lambda argv: answer(error=refused) if "hub-0a" in argv else None)
    with pytest.raises(CommandFailed, match="attaching device") as caught:
        OvsDpdk().replug(recording_testbed(host, tmp_path), [("hub-0a", "hub-br")])
    assert "librte-net-af-packet" in str(caught.value.hint)


def test_more_ports_than_dpdk_has_are_refused_before_any_is_made(tmp_path: Path) -> None:
    host = RecordingHost()
    laid = OvsDpdk().laid(recording_testbed(host, tmp_path), links(17))
    with pytest.raises(Unavailable, match="17 links have 34 ports, and DPDK has at most 32"), laid:
        pytest.fail("it has the links")
    assert host.commands == []
