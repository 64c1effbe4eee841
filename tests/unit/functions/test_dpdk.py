"""Forwarding by testpmd and filtering by Open vSwitch: their commands, and what is said where they cannot run.

tests/system/test_dpdk.py runs a real one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lastro.errors import PlatformError, Unavailable
from lastro.functions._dpdk import flows_of
from lastro.functions.base import PATHS, Function
from lastro.functions.firewall import Firewall
from lastro.host.base import Completed
from lastro.platforms.base import Instance, InstanceSpec
from lastro.scenarios.base import make_part
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared.function_row import EACH, in_row

from ...support.recording import RecordingHost, answer, recording_testbed

MAC = {"198.18.0.10": "02:00:00:00:00:0a", "198.18.9.9": "02:00:00:00:00:09"}


class Bare(Instance):
    """An instance on a host that writes down what is asked; the sink is behind a router."""

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return list(argv)

    def links(self) -> list[dict[str, Any]]:
        counts = {"in0": (7, 700, 3, 300), "out0": (2, 200, 5, 500)}
        return [
            {
                "ifname": name,
                "address": f"02:00:00:00:01:0{a}",
                "stats64": {"rx": {"packets": a, "bytes": b}, "tx": {"packets": c, "bytes": d}},
            }
            for name, (a, b, c, d) in counts.items()
        ]


class Started(RecordingHost):
    """Its testpmd prints what is awaited."""

    def spawn(self, argv: Sequence[str], **more: Any) -> Any:
        process = super().spawn(argv, **more)
        process.wait_line = lambda needle, timeout_s: needle  # type: ignore[method-assign]
        return process


def answers(argv: Sequence[str]) -> Completed | None:
    if "dump-flows" in argv[-1]:
        return answer(
            " cookie=0x2, duration=9s, table=1, n_packets=3, n_bytes=180, priority=2,tcp,tp_dst=7 actions=drop\n"
            " cookie=0x2, duration=9s, table=1, n_packets=1, n_bytes=60, priority=2,ip actions=drop\n"
            " cookie=0x1, duration=9s, table=1, n_packets=5, n_bytes=700, priority=1,in_port=in0 actions=output:out0\n"
            " cookie=0x0, duration=9s, table=1, n_packets=4, n_bytes=600, priority=1,in_port=out0 actions=output:in0\n"
        )
    if argv[0] == "sed":
        return answer("0,4-5\n")
    if argv[:4] == ["ip", "-j", "route", "get"]:
        hop = {"gateway": "198.18.9.9", "dev": "out0"} if argv[4] == PATHS["4"].sink else {"dev": "in0"}
        return answer(json.dumps([hop]))
    if argv[:4] == ["ip", "-j", "neigh", "show"]:
        return answer(json.dumps([{"dst": argv[4]}, {"lladdr": MAC[argv[4]]}]))
    return None


def forwarding(tmp_path: Path, host: RecordingHost, function: str = "none") -> Any:
    instance = Bare(recording_testbed(host, tmp_path), InstanceSpec("function", "function"), netns="n", cgroup="c")
    made = make_part(Function, function)
    return made.installed(instance, PATHS["4"], "dpdk")


def test_testpmd_polls_both_ports_and_sends_to_the_next_hops_while_the_kernel_forwards_nothing(tmp_path: Path) -> None:
    host = Started(answers)
    with forwarding(tmp_path, host) as counted:
        assert counted() == {"crossed": (5, 430)}
    argv = host.command("--forward-mode=csum")
    assert 'dpdk-testpmd --lcores="(0,1)@($cpus)" "$@"' in argv[-18] and argv[-16:] == [
        "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf", "--iova-mode=va", "-m", "64",
        "--vdev=net_af_packet0,iface=in0", "--vdev=net_af_packet1,iface=out0", "--",
        "--forward-mode=csum", "--nb-cores=1", "--total-num-mbufs=8192", "--no-mlockall",
        "--eth-peer=0,02:00:00:00:00:0a", "--eth-peer=1,02:00:00:00:00:09",
    ]  # fmt: skip
    (settings,) = (str(given) for argv, given in zip(host.commands, host.stdins, strict=True) if argv[0] == "nsenter")
    assert "net/ipv4/ip_forward" in settings and "echo 0" in settings, settings


FLOWS_4 = """\
priority=2,ip,nw_dst=198.18.0.1,actions=drop
priority=2,ip,nw_dst=198.18.1.1,actions=drop
table=1,priority=2,cookie=2,tcp,tp_dst=7,actions=drop
table=1,priority=2,cookie=2,udp,tp_dst=445,actions=drop
table=1,priority=2,cookie=2,ip,nw_src=198.18.66.0/24,actions=drop
table=1,priority=2,cookie=2,ip,nw_src=198.19.128.2,actions=drop
priority=1,in_port=1,dl_dst=02:00:00:00:01:07,ip,actions=resubmit(,1)
table=1,priority=1,cookie=1,in_port=1,actions=dec_ttl,mod_dl_src:02:00:00:00:01:02,mod_dl_dst:02:00:00:00:00:09,output:2
priority=1,in_port=2,dl_dst=02:00:00:00:01:02,ip,actions=resubmit(,1)
table=1,priority=1,cookie=0,in_port=2,actions=dec_ttl,mod_dl_src:02:00:00:00:01:07,mod_dl_dst:02:00:00:00:00:0a,output:1
"""


def test_a_switch_drops_what_the_firewall_drops_and_routes_the_rest(tmp_path: Path) -> None:
    host = Started(answers)
    with forwarding(tmp_path, host, "firewall:rules=2") as counted:
        assert counted() == {"crossed": (5, 630), "blocked": (4, 184)}
    assert host.command("--enable-dummy")[-1] == "0x20"  # the last of the CPUs that it may use
    connect = host.command("add-flows")
    assert connect[-2:] == ["in0", "out0"]
    flows = str(host.stdins[host.commands.index(connect)]).splitlines()
    assert set(FLOWS_4.splitlines()) <= set(flows) and len(flows) == 2 + 20 + 2 + 2 + 4
    assert "kill" in host.commands[-1][-1]


def test_flows_of_ipv6_leave_its_own_addresses_to_the_kernel(tmp_path: Path) -> None:
    matches = list(Firewall().openflow(PATHS["6"]))
    assert {"tcp6,tp_dst=7", "udp6,tp_dst=445", "ipv6,ipv6_src=2001:2:0:66::/64"} <= set(matches)
    macs = {"lladdr": MAC["198.18.0.10"]}
    host = Started(lambda argv: answer(json.dumps([{"dev": "in0", **macs}])) if "-j" in argv else None)
    bare = Bare(recording_testbed(host, tmp_path), InstanceSpec("function", "function"), netns="n", cgroup="c")
    flows = list(flows_of(bare, PATHS["6"], matches))
    assert "priority=2,ipv6,ipv6_dst=2001:2:0:1::1,actions=drop" in flows
    assert "priority=2,ipv6,ipv6_dst=fe80::/10,actions=drop" in flows


def test_a_switch_that_does_not_take_a_port_is_an_error_with_its_words(tmp_path: Path) -> None:
    words = "ovs-vsctl: Error detected while setting up 'in0': could not open network device in0"
    host = Started(lambda argv: answer(error=words) if "add-flows" in " ".join(argv) else answers(argv))
    with pytest.raises(PlatformError, match=r"cannot use the ports: .*network device in0"):
        forwarding(tmp_path, host, "firewall").__enter__()
    assert "kill" in host.commands[-1][-1]


def test_a_switch_that_ends_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    ended = answer(code=1, error="dpdk|EMER|Cannot init EAL (Cannot allocate memory)\n")
    failed = {"--enable-dummy": ended, "add-flows": answer(code=1)}
    host = Started(lambda argv: next((done for each, done in failed.items() if each in " ".join(argv)), answers(argv)))
    with pytest.raises(PlatformError, match=r"ovs-vswitchd ended at its start: .*Cannot init EAL"):
        forwarding(tmp_path, host, "firewall").__enter__()


def test_without_the_switch_the_firewall_is_unavailable(tmp_path: Path) -> None:
    host = Started(lambda argv: answer(code=1) if argv[:2] == ["test", "-x"] else answers(argv))
    with pytest.raises(Unavailable, match=r"has no .*ovs-vswitchd-dpdk") as caught:
        forwarding(tmp_path, host, "firewall").__enter__()
    assert "openvswitch-switch-dpdk" in str(caught.value.hint)


def test_ends_that_cannot_complete_checksums_make_it_unavailable(tmp_path: Path) -> None:
    host = Started(lambda argv: answer(code=1, error="Cannot change tx-checksumming") if "tx off" in argv[-3] else None)
    bare = Bare(recording_testbed(host, tmp_path), InstanceSpec("source", "source"), netns="n", cgroup="c")
    with pytest.raises(Unavailable, match="kernel of source cannot complete checksums on out0") as caught:
        bare.complete_checksums("out0")
    assert "veth" in str(caught.value.hint)


@pytest.mark.parametrize("name", sorted(ChainScenario.part_names("function") - {"none", "firewall"}))
def test_no_other_function_runs_in_dpdk(tmp_path: Path, name: str) -> None:
    with pytest.raises(Unavailable, match=f"'{name}' does not run in DPDK"), forwarding(tmp_path, Started(), name):
        pass


def test_without_testpmd_the_function_is_unavailable(tmp_path: Path) -> None:
    host = Started(lambda argv: answer(code=1) if "command -v" in argv[-1] else answers(argv))
    with pytest.raises(Unavailable, match="has no `dpdk-testpmd`") as caught, forwarding(tmp_path, host):
        pass
    assert "dpdk-dev" in str(caught.value.hint)


def test_an_end_of_the_flow_that_does_not_answer_is_named(tmp_path: Path) -> None:
    host = Started(lambda argv: answer("[]") if "neigh" in argv else answers(argv))
    with pytest.raises(PlatformError, match="no hardware address answers for 198"), forwarding(tmp_path, host):
        pass


def test_a_testpmd_that_ends_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    ended = answer(code=1, error="EAL: Detected CPU lcores: 2\nEAL: Cannot init memory\n")
    host = Started(lambda argv: ended if "--forward-mode=csum" in argv else answers(argv))
    with pytest.raises(PlatformError, match=r"ended at its start: .*; EAL: Cannot init"), forwarding(tmp_path, host):
        pass


def test_an_instance_may_open_packet_sockets_where_it_keeps_few_capabilities() -> None:
    row = in_row([Firewall()], PATHS["4"], EACH, "dpdk", n_routers=0)
    assert row.capabilities("function", "dpdk") == ("CAP_NET_ADMIN", "CAP_NET_RAW")
    assert row.capabilities("function", "kernel") == ("CAP_NET_ADMIN",) and row.capabilities("sink", "dpdk") == ()
