"""Functions in XDP: what filters and forwards, its counters, and what says that a program did not see the flow.

tests/system/test_xdp.py runs real ones."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from lastro import registry
from lastro.errors import PlatformError, Unavailable
from lastro.functions.base import IMPLEMENTATIONS, PATHS, CounterReading, ForwardingPath, Function
from lastro.functions.firewall import BLOCKED_PORTS, Firewall
from lastro.image.rootfs import ImageAdditions
from lastro.platforms.base import Instance, InstanceSpec
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.shared.flow import crossing_reasons
from lastro.scenarios.shared.function_row import EACH, TOGETHER, in_row

from ...support.recording import RecordingHost, answer, recording_testbed
from ...support.scenarios import configured

PATH = ForwardingPath()
NATIVE, GENERIC = {"xdp": {"mode": 1, "prog": {"id": 7, "name": "xdp_dispatcher"}}}, {"xdp": {"mode": 2}}


def entry(action: int, *by_cpu: tuple[int, int]) -> dict[str, Any]:
    """An entry of xdp-filter's map of counters, as bpftool 7.1 prints it: packets and bytes of each CPU, raw."""
    values = [{"cpu": at, "value": [*octets(n, 8), *octets(size, 8)]} for at, (n, size) in enumerate(by_cpu)]
    return {"key": octets(action, 4), "values": values}


def octets(number: int, n: int) -> list[str]:
    return [f"0x{each:02x}" for each in number.to_bytes(n, sys.byteorder)]


MAP = [entry(0, (0, 0), (1, 60)), entry(1, (2, 84), (3, 126)), entry(2, (10, 980), (5, 490)), entry(3, (0, 0), (0, 0))]


class Bare(Instance):
    """An instance on a host that writes down what is asked; `link` is what its port has besides a name."""

    link: dict[str, Any]

    def wrap(self, argv: Sequence[str]) -> list[str]:
        return list(argv)

    def links(self) -> list[dict[str, Any]]:
        return [{"ifname": "lo"}, {"ifname": "in0", **self.link}]

    def pids(self) -> set[int]:
        return {41}


def in_xdp(tmp_path: Path, text: str = json.dumps(MAP), link: dict[str, Any] = NATIVE, code: int = 0) -> Any:
    """A host, an instance, and the installation of a firewall there, whose scripts print `text`."""
    host = RecordingHost(lambda argv: answer(text, code=code, error="refused") if argv[0] == "sh" else None)
    instance = Bare(recording_testbed(host, tmp_path), InstanceSpec("function", "function"), netns="n", cgroup="c")
    instance.link = link
    return host, instance, Firewall(rules=1).installed(instance, PATH, "xdp")


def test_it_is_attached_natively_with_all_filters_while_the_kernel_only_forwards_and_counts(tmp_path: Path) -> None:
    host, _, installed = in_xdp(tmp_path)
    with installed:
        script, ruleset = map(str, host.stdins[:2])
    assert script.startswith(
        "setpriv --no-new-privs mount -t bpf bpf /sys/fs/bpf\n"
        "ip link set dev in0 xdpdrv off\n"
        "xdp-filter load --mode native --policy allow --features ipv4,tcp,udp in0\n"
        f"for port in {' '.join(map(str, BLOCKED_PORTS))}; do xdp-filter port $port; done\n"
    )
    added = re.findall(
        r"^map update pinned /sys/fs/bpf/xdp-filter/filter_ipv4 key ([\d ]+) value 1( 0){7}$", script, re.M
    )
    keys = {key for key, _ in added}
    assert len(added) == len(keys) == 2 * 256 + 1
    assert {"198 18 66 0", "198 19 66 255", "198 19 128 1"} <= keys
    assert '[ "$n" -eq 513 ]' in script
    assert "counter crossed" in ruleset and "drop" not in ruleset


def test_its_counters_are_the_sums_over_all_cpus(tmp_path: Path) -> None:
    _, _, installed = in_xdp(tmp_path)
    with installed as counted:
        assert counted() == {"broken": (1, 60), "blocked": (5, 210), "passed": (15, 1470)}


@pytest.mark.parametrize("text", ["", "[]", '{"error": "bpf obj get (/sys/fs/bpf/xdp-filter): No such file"}'])
def test_counters_that_cannot_be_read_are_an_error(tmp_path: Path, text: str) -> None:
    _, _, installed = in_xdp(tmp_path, text)
    with installed as counted, pytest.raises(PlatformError, match="counters of the XDP program on in0 cannot be read"):
        counted()


def test_where_it_cannot_be_attached_the_function_is_unavailable_with_its_words(tmp_path: Path) -> None:
    _, _, installed = in_xdp(tmp_path, code=1)
    with pytest.raises(Unavailable, match=r"cannot be attached natively to in0: .*refused") as caught, installed:
        pass
    assert "veth" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("link", "found"), [({}, "is not attached to in0 at its start"), (GENERIC, "is not in native mode")]
)
def test_a_program_that_is_not_attached_natively_is_an_error(tmp_path: Path, link: dict[str, Any], found: str) -> None:
    _, _, installed = in_xdp(tmp_path, link=link)
    with pytest.raises(PlatformError, match=found), installed:
        pass


def test_a_program_that_was_detached_during_the_trial_is_an_error(tmp_path: Path) -> None:
    _, instance, installed = in_xdp(tmp_path)
    with pytest.raises(PlatformError, match="is not attached to in0 at the end of the trial"), installed:
        instance.link = {}


@pytest.mark.parametrize(("passed", "reasons"), [(1_500_000, 0), (1_400_000, 0), (1_399_999, 1)])
def test_a_program_that_passed_less_than_the_kernel_forwarded_was_detached(passed: int, reasons: int) -> None:
    seen = {"crossed": CounterReading(30, 1_400_000), "passed": CounterReading(1000, passed)}
    found = crossing_reasons("iperf3-tcp", cast(Any, SimpleNamespace(function=Firewall())), seen, 1_000_000)
    assert len(found) == reasons
    assert all("forwarded 1400000 bytes, and the XDP program passed 1399999" in each for each in found)


@pytest.mark.parametrize("name", sorted(ChainScenario.part_names("function") - {"firewall", "none"}))
def test_no_other_function_runs_in_xdp(name: str) -> None:
    function: Function = registry.get("function", name)()
    with pytest.raises(Unavailable, match=f"'{name}' does not run in XDP"):
        function.xdp(PATH)


def test_what_xdp_filter_cannot_express_is_refused_with_the_reason() -> None:
    nowhere: Any = None
    assert len(Firewall(rules=9_488).xdp(PATH).sources) == 10_000
    with (
        pytest.raises(Unavailable, match="room for 10000 addresses, and this function blocks 10001") as caught,
        Firewall(rules=9_489).installed(nowhere, PATH, "xdp"),
    ):
        pass
    assert "block 1 addresses less" in str(caught.value.hint)
    with pytest.raises(Unavailable, match="network of IPv6"):
        Firewall().xdp(PATHS["6"])


def test_only_the_image_of_a_study_with_xdp_has_its_tools() -> None:
    host, kernel = RecordingHost(), configured(ChainScenario, platform="runc")
    needs = [ChainScenario.image_needs(host, [kernel, {**kernel, "implementation": each}]) for each in ("click", "xdp")]
    assert needs == [ImageAdditions(), ImageAdditions(packages=IMPLEMENTATIONS["xdp"].packages)]


# Plain forwarding


LINKS = [
    {"ifname": "lo", "ifindex": 1, "address": "00:00:00:00:00:00"},
    {"ifname": "in0", "ifindex": 2, "address": "02:00:00:00:00:0a", "link_index": 7, "link_netnsid": 3, **NATIVE},
    {"ifname": "out0", "ifindex": 258, "address": "02:00:00:00:00:0b", "link_index": 9, **NATIVE},
]


class Router(Bare):
    ports: ClassVar[list[dict[str, Any]]] = LINKS

    def links(self) -> list[dict[str, Any]]:
        return self.ports


def in_forward(tmp_path: Path, answers: Any = lambda argv: None, path: ForwardingPath = PATH) -> Any:
    """A host, an instance on it, and the installation of plain forwarding there."""

    def by_default(argv: Sequence[str]) -> Any:
        return answers(argv) or (answer('[{"nsid": 3, "name": "dut"}]') if argv[-1] == "list-id" else None)

    host = RecordingHost(by_default)
    instance = Router(recording_testbed(host, tmp_path), InstanceSpec("function", "function"), netns="n", cgroup="c")
    return host, instance, registry.get(Function, "none")().installed(instance, path, "xdp")


def test_a_program_forwards_on_both_ports_and_their_other_ends_receive(tmp_path: Path) -> None:
    host, instance, installed = in_forward(tmp_path, path=replace(PATH, ttl=(61, 62)))
    with installed:
        scripts = [str(given) for given in host.stdins if given]
    assert (
        scripts[0]
        == """setpriv --no-new-privs mount -t bpf bpf /sys/fs/bpf
for end in 198.18.0.10 198.18.1.10; do ping -n -c 1 -W 2 $end >/dev/null || :; done
bpftool prog loadall /usr/local/bin/lastro-xdp-forward /sys/fs/bpf/forward type xdp pinmaps /sys/fs/bpf/forward
bpftool map update pinned /sys/fs/bpf/forward/ports key 0 0 0 0 value 2 0 0 0 2 0 0 0 0 10 61 62
bpftool map update pinned /sys/fs/bpf/forward/ports key 1 0 0 0 value 2 1 0 0 2 0 0 0 0 11 0 255
bpftool net attach xdpdrv pinned /sys/fs/bpf/forward/xdp_inside dev in0 overwrite
bpftool net attach xdpdrv pinned /sys/fs/bpf/forward/xdp_outside dev out0 overwrite
"""
    )
    ends = [argv[1] for argv in host.commands if argv[0] == "nsenter"]
    assert ends == ["--net=/run/netns/dut", "--net=/run/netns/n"]
    for index, script in zip((7, 9), scripts[1:], strict=True):
        end, completes, receives = script.splitlines()
        assert f"s/^{index}: " in end and completes == "ethtool --offload $end tx off"
        tree = instance.testbed.image.tree
        assert receives.endswith(f" xdpdrv object {tree}/usr/local/bin/lastro-xdp-forward program xdp_pass")


def test_what_it_forwards_and_what_it_leaves_to_the_kernel_is_counted(tmp_path: Path) -> None:
    counters = [entry(0, (10, 840), (5, 420)), entry(1, (1, 84), (0, 0))]
    asked = lambda argv: answer(json.dumps(counters)) if argv[0] == "sh" and argv[-1] == "--pid" else None  # noqa: E731
    _, _, installed = in_forward(tmp_path, asked)
    with installed as counted:
        assert counted() == {"crossed": (15, 1260), "to_kernel": (1, 84)}


def test_without_the_program_in_the_image_the_compiler_is_asked_for(tmp_path: Path) -> None:
    _, _, installed = in_forward(tmp_path, lambda argv: answer(code=1) if argv[0] == "test" else None)
    with pytest.raises(Unavailable, match="host, which has no compiler for BPF") as caught, installed:
        pass
    assert caught.value.hint == "apt-get install clang libbpf-dev"


def test_another_end_that_takes_no_program_makes_it_unavailable(tmp_path: Path) -> None:
    refused = lambda argv: answer(code=2, error="no XDP here") if argv[0] == "nsenter" else None  # noqa: E731
    _, _, installed = in_forward(tmp_path, refused)
    with pytest.raises(Unavailable, match="the other end of in0 cannot receive frames"), installed:
        pass


@pytest.mark.parametrize("names", [("none", "none"), ("firewall", "none")])
def test_functions_in_a_row_have_ports_and_so_instances_of_their_own(names: tuple[str, str]) -> None:
    functions = [registry.get(Function, name)() for name in names]
    row = in_row(functions, PATH, EACH, "xdp", n_routers=0)
    assert row.crossings == ("crossed", "function2.crossed")
    with pytest.raises(Unavailable, match="a port has one XDP program"):
        in_row(functions, PATH, TOGETHER, "xdp", n_routers=0)


def test_a_program_in_a_row_that_was_detached_is_noticed() -> None:
    seen = {"function2.crossed": CounterReading(10, 1000), "function2.passed": CounterReading(9, 900)}
    (reason,) = crossing_reasons(
        "ping", cast(Any, SimpleNamespace(function=SimpleNamespace(crossings=(), witnesses=()))), seen, 1
    )
    assert "forwarded 1000 bytes, and the XDP program passed 900" in reason
