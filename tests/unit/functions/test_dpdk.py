"""Forwarding by testpmd: its command, and what is said where it cannot run.

tests/system/test_dpdk.py runs a real one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lastro import registry
from lastro.errors import PlatformError, Unavailable
from lastro.functions.base import PATHS, Function
from lastro.host.base import Completed
from lastro.platforms.base import Instance, InstanceSpec
from lastro.scenarios.chain import ChainScenario

from ...support.recording import RecordingHost, answer, recording_testbed

MAC = {"198.18.0.10": "02:00:00:00:00:0a", "198.18.9.9": "02:00:00:00:00:09"}


class Bare(Instance):
    """An instance on a host that writes down what is asked; the sink is behind a router."""

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return list(argv)

    def links(self) -> list[dict[str, Any]]:
        counts = {"in0": (7, 700, 3, 300), "out0": (2, 200, 5, 500)}
        return [
            {"ifname": name, "stats64": {"rx": {"packets": a, "bytes": b}, "tx": {"packets": c, "bytes": d}}}
            for name, (a, b, c, d) in counts.items()
        ]


class Started(RecordingHost):
    """Its testpmd prints what is awaited."""

    def spawn(self, argv: Sequence[str], **more: Any) -> Any:
        process = super().spawn(argv, **more)
        process.wait_line = lambda needle, timeout_s: needle  # type: ignore[method-assign]
        return process


def answers(argv: Sequence[str], missing: str = "") -> Completed | None:
    if missing and missing in argv[-1]:
        return answer("[]", code=1)
    if argv[:4] == ["ip", "-j", "route", "get"]:
        hop = {"gateway": "198.18.9.9", "dev": "out0"} if argv[4] == PATHS["4"].sink else {"dev": "in0"}
        return answer(json.dumps([hop]))
    if argv[:4] == ["ip", "-j", "neigh", "show"]:
        return answer(json.dumps([{"dst": argv[4]}, {"lladdr": MAC[argv[4]]}]))
    return None


def forwarding(tmp_path: Path, host: RecordingHost, function: str = "none") -> Any:
    instance = Bare(recording_testbed(host, tmp_path), InstanceSpec("function", "function"), netns="n", cgroup="c")
    made: Function = registry.get("function", function)()
    return made.installed(instance, PATHS["4"], "dpdk")


def test_testpmd_polls_both_ports_and_sends_to_the_next_hops_while_the_kernel_forwards_nothing(tmp_path: Path) -> None:
    host = Started(answers)
    with forwarding(tmp_path, host) as counted:
        assert counted() == {"crossed": (5, 500)}
    argv = host.command("--forward-mode=csum")
    assert 'dpdk-testpmd --lcores="(0,1)@($cpus)" "$@"' in argv[-18] and argv[-16:] == [
        "--no-huge", "-m", "64", "--no-pci", "--no-telemetry", "--no-shconf", "--iova-mode=va",
        "--vdev=net_af_packet0,iface=in0", "--vdev=net_af_packet1,iface=out0", "--",
        "--forward-mode=csum", "--nb-cores=1", "--total-num-mbufs=8192", "--no-mlockall",
        "--eth-peer=0,02:00:00:00:00:0a", "--eth-peer=1,02:00:00:00:00:09",
    ]  # fmt: skip
    (settings,) = (str(given) for argv, given in zip(host.commands, host.stdins, strict=True) if argv[0] == "nsenter")
    assert "net/ipv4/ip_forward" in settings and "echo 0" in settings, settings


@pytest.mark.parametrize("name", sorted(ChainScenario.part_names("function") - {"none"}))
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
