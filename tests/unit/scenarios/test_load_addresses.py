"""Hardware addresses that stay known while frames are counted: the commands, inside of machines and from outside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.functions.base import PATHS
from lastro.host.base import Completed
from lastro.scenarios.load.addresses import keep_addresses

from ...support.recording import RecordingHost, answer


def known(version: str, *lladdrs: str) -> str:
    """What `ip neigh show` prints: a known neighbour for each address, one that is gone, and one that is permanent."""
    gone = {"dst": "198.18.0.99", "dev": "out0", "state": ["FAILED"]}
    fixed = {"dst": "198.18.2.2", "dev": "detour0", "lladdr": "02:00:c6:12:02:02", "state": ["PERMANENT"]}
    path = PATHS[version]
    found = [
        {"dst": dst, "dev": "out0", "lladdr": mac, "state": ["STALE"]}
        for dst, mac in zip((path.sink, path.source), lladdrs, strict=False)
    ]
    return json.dumps([gone, *found, fixed])


class _End:
    """An instance whose kernel knows a neighbour, inside or seen from outside."""

    def __init__(self, host: RecordingHost, netns: str, *, takes_taps: bool, shares_kernel: bool) -> None:
        self.testbed = SimpleNamespace(host=host, dut="DUT")
        self.netns, self.takes_taps, self.shares_kernel = netns, takes_taps, shares_kernel
        self.inside: list[tuple[str, str | None]] = []
        self.sysctls: dict[str, str] = {}

    def run(self, argv: Sequence[str], *, stdin: str | None = None) -> Completed:
        self.inside.append((" ".join(argv), stdin))
        return answer(known("4", "52:54:00:00:00:01") if "show" in argv else "")

    def set_sysctls(self, values: dict[str, str]) -> None:
        self.sysctls |= values


def chain_of(host: RecordingHost, version: str = "4", *, takes_taps: bool = False, shares_kernel: bool = True) -> Any:
    ends = {
        role: _End(host, role[0].upper(), takes_taps=takes_taps, shares_kernel=shares_kernel)
        for role in ("source", "function", "sink")
    }
    return SimpleNamespace(instances=ends, source=ends["source"], sink=ends["sink"], path=PATHS[version])


@pytest.mark.parametrize("version", ["4", "6"])
def test_known_neighbours_become_permanent_and_nobody_asks_for_them(version: str) -> None:
    macs: dict[str, tuple[str, ...]] = {
        "F": ("02:00:00:00:00:01", "02:00:00:00:00:02"), "S": ("02:00:00:00:00:03",), "DUT": (),
    }  # fmt: skip
    host = RecordingHost(lambda argv: answer(known(version, *macs[argv[2]])) if "show" in argv else None)
    chain, path = chain_of(host, version), PATHS[version]
    assert keep_addresses(chain, 60.0) == {}
    assert ["ip", "-n", "F", f"-{version}", "-j", "neigh", "show"] in host.commands
    assert host.stdins[host.commands.index(["ip", "-n", "F", "-batch", "-"])] == (
        f"neigh replace {path.sink} lladdr 02:00:00:00:00:01 dev out0 nud permanent\n"
        f"neigh replace {path.source} lladdr 02:00:00:00:00:02 dev out0 nud permanent\n"
    )
    assert [argv[2] for argv in host.commands if "-batch" in argv] == ["S", "F", "S"], "the DUT knows none"
    assert [argv[2] for argv in host.commands if "show" in argv] == ["S", "F", "S", "DUT"]
    asked = {"net.ipv6.conf.out0.accept_ra": "0"} if version == "6" else {}
    assert chain.source.sysctls == asked, "a host asks for routers of IPv6"


def test_a_machine_is_told_inside_and_a_stack_without_a_command_is_a_condition() -> None:
    host = RecordingHost(lambda argv: answer("[ ]\n") if "show" in argv else None)
    machines = chain_of(host, takes_taps=True, shares_kernel=False)
    assert keep_addresses(machines, 1.0) == {}
    assert machines.sink.inside == [
        ("ip -4 -j neigh show", None),
        ("ip -batch -", f"neigh replace {PATHS['4'].sink} lladdr 52:54:00:00:00:01 dev out0 nud permanent\n"),
    ]
    assert [argv[2] for argv in host.commands] == ["DUT"]
    told = keep_addresses(chain_of(host, shares_kernel=False), 1.0)
    assert told == {"hardware addresses": "asked for again by the network stack of source, function, sink"}


def test_a_probe_as_long_as_the_memory_of_a_switch_leaves_addresses_as_they_are() -> None:
    host = RecordingHost()
    assert keep_addresses(chain_of(host), 600.0).keys() == {"hardware addresses"}
    assert host.commands == []
