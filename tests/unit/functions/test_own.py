"""A function that a study brings, in an instance that only answers: its commands, its variables, and its ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.errors import PlatformError, TrialError, Unavailable
from lastro.functions.base import PATHS, Function
from lastro.host.base import Completed
from lastro.image.rootfs import Image
from lastro.platforms.base import InstanceSpec
from lastro.platforms.runc import Runc
from lastro.scenarios.base import make_part
from lastro.scenarios.shared.function_row import EACH, TOGETHER, in_row

from ...support.recording import FakeInstance, RecordingHost, _Idle, answer, recording_testbed

ROUTES = """[{"dst":"198.18.0.10","dev":"in0"}]
[{"dst":"198.18.1.10","gateway":"198.18.9.1","dev":"out0"}]
[{"dst":"198.18.0.10","dev":"in0","lladdr":"02:00:00:00:00:0a"},{"dst":"198.18.9.1","dev":"out0","lladdr":"02:00:00:00:00:0b"}]
"""
LINKS = [
    {"ifname": "in0", "address": "02:00:00:00:00:01", "stats64": {"rx": {"packets": 9, "bytes": 900}}},
    {"ifname": "out0", "address": "02:00:00:00:00:02", "stats64": {"tx": {"packets": 8, "bytes": 800}}},
]
MINE = make_part(Function, "mine")
PATH = PATHS["4"]


class Instance(FakeInstance):
    """One in which the function lives until `ended` has its end."""

    has_nftables = False
    ended: Completed | None = None
    not_ready = 0
    opened = ""

    def __init__(self, home: Path, **described: Any) -> None:
        image = Image("f00d" * 16, home)
        file = image.tree / "functions" / "mine.json"
        file.parent.mkdir(parents=True)
        usual = {"command": ["/bin/filter", "-x"], "sha256": "7c", "environment": {"PATH": "/bin"}}
        file.write_text(json.dumps({**usual, **described}))
        super().__init__(self._answer, testbed=SimpleNamespace(original=image))
        self.sysctls: dict[str, str] = {}
        self.spawned: list[str] = []

    def _answer(self, argv: Sequence[str]) -> Completed | None:
        if argv[0] == "sh":
            return answer(ROUTES)
        if argv[0] == "tail":
            return answer("loading\nno such table\n")
        if argv[-1] in ("/bin/ready", "/dev/shm/function.log") and self.not_ready:
            self.not_ready -= 1
            return answer(code=1, error="not yet")
        return None

    def spawn(self, argv: Sequence[str]) -> _Idle:
        self.spawned = list(argv)
        self.process = _Idle(tuple(argv), self.ended)
        return self.process

    def links(self) -> list[dict[str, Any]]:
        return LINKS

    def set_sysctls(self, values: dict[str, str]) -> None:
        self.sysctls |= values

    def run_with_rights(self, script: str) -> None:
        self.opened = script


def install(instance: Any, implementation: str = "kernel") -> Any:
    return MINE.installed(instance, PATH, implementation)


def test_the_command_runs_in_its_files_with_its_ports_in_variables(tmp_path: Path) -> None:
    instance = Instance(tmp_path, directory="/srv", ready=["/bin/ready"])
    instance.not_ready = 2
    with install(instance) as counted:
        assert counted()["crossed"] == (8, 688)
    assert "mount --rbind /proc /functions/mine/proc\n" in instance.opened
    assert instance.spawned[:6] == ["sh", "-c", 'exec "$@" >"$0" 2>&1', "/dev/shm/function.log", "/usr/bin/env", "-i"]
    at = instance.spawned.index("/usr/bin/nsenter")
    enter = ["/usr/bin/nsenter", "--root=/functions/mine", "--wd=/functions/mine//srv", "--"]
    assert instance.spawned[at:] == [*enter, "/bin/filter", "-x"]
    assert instance.spawned[6:at] == [
        "PATH=/bin",
        "LASTRO_IN=in0", "LASTRO_IN_ADDRESS=198.18.0.1/24", "LASTRO_IN_MAC=02:00:00:00:00:01",
        "LASTRO_IN_NEXT=198.18.0.10", "LASTRO_IN_NEXT_MAC=02:00:00:00:00:0a",
        "LASTRO_OUT=out0", "LASTRO_OUT_ADDRESS=198.18.1.1/24", "LASTRO_OUT_MAC=02:00:00:00:00:02",
        "LASTRO_OUT_NEXT=198.18.9.1", "LASTRO_OUT_NEXT_MAC=02:00:00:00:00:0b",
    ]  # fmt: skip
    assert sum(argv[-1] == "/bin/ready" for argv in instance.commands) == 3
    assert instance.sysctls == {} and not instance.process.alive()


def test_what_forwards_by_itself_gets_no_help_from_the_kernel(tmp_path: Path) -> None:
    instance = Instance(tmp_path, forwarding="function")
    with install(instance) as counted:
        assert counted()["crossed"].packets == 8
    assert instance.sysctls == {"net.ipv4.ip_forward": "0", "net.ipv6.conf.all.forwarding": "0"}


def test_a_function_that_ends_at_its_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    instance = Instance(tmp_path)
    instance.ended = answer(code=3)
    with (
        pytest.raises(PlatformError, match="ended at its start with exit code 3: loading; no such table") as caught,
        install(instance),
    ):
        pass
    assert "exec sleep infinity" in str(caught.value.hint)


@pytest.mark.parametrize("failing", [True, False])
def test_a_function_that_ends_during_a_trial_is_why_the_trial_failed(tmp_path: Path, failing: bool) -> None:
    instance = Instance(tmp_path)
    with pytest.raises(PlatformError, match="'mine' ended during the trial with exit code 0"), install(instance):
        instance.process.stop()
        if failing:
            raise TrialError("iperf3 found no server")


def test_another_failure_of_a_trial_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="no server"), install(Instance(tmp_path)):
        raise TrialError("iperf3 found no server")


def test_a_function_that_is_never_ready_is_one_error_with_what_both_printed(tmp_path: Path) -> None:
    instance = Instance(tmp_path, ready=["/bin/ready"], ready_s=0.3)
    instance.not_ready = 1000
    with (
        pytest.raises(PlatformError, match=r"within 0\.3 s\. Its check: not yet\. The function: loading; no"),
        install(instance),
    ):
        pass
    assert not instance.process.alive()


@pytest.mark.parametrize("by", ["click", "dpdk", "xdp"])
def test_it_has_no_other_implementation(tmp_path: Path, by: str) -> None:
    with pytest.raises(Unavailable, match=f"'mine' .* does not run in {by}"), install(Instance(tmp_path), by):
        pass


def test_it_is_not_in_an_image_without_it(tmp_path: Path) -> None:
    other = make_part(Function, "other")
    instance: Any = Instance(tmp_path / "x")
    with (
        pytest.raises(Unavailable, match="the root filesystem has no function 'other'"),
        other.installed(instance, PATH),
    ):
        pass


def test_it_needs_an_instance_for_itself_and_a_hop_of_the_ttl() -> None:
    chain = [make_part(Function, name) for name in ("firewall", "mine", "nat")]
    with pytest.raises(Unavailable, match="mine needs an instance for itself"):
        in_row(chain, PATH, TOGETHER, "kernel", n_routers=0)
    row = in_row(chain, PATH, EACH, "kernel", n_routers=0)
    assert [hop.path.ttl for hop in row.hops] == [(63, 63), (62, 62), (61, 61)]
    assert "CAP_SYS_CHROOT" in row.capabilities("function2", "kernel")
    assert "CAP_SYS_CHROOT" not in row.capabilities("function", "kernel")


def test_an_option_of_other_functions_is_none_of_it() -> None:
    with pytest.raises(Unavailable, match="function mine has no option 'rules'"):
        make_part(Function, "mine:rules=5")


def test_its_directories_are_mounted_from_outside_by_a_process_of_the_instance_itself(tmp_path: Path) -> None:
    host = RecordingHost()
    testbed = recording_testbed(host, tmp_path)
    with Runc().start(testbed, InstanceSpec("subject", "function")) as instance:
        tasks = tmp_path / "cgroup" / "memory" / instance.cgroup.strip("/") / "cgroup.procs"
        tasks.parent.mkdir(parents=True)
        tasks.write_text("41\n7\n")
        instance.run_with_rights("mount a b\n")
        instance.run_with_rights("mount c d\n", of_host=True)
    at = host.stdins.index("mount a b\n")
    of_host = host.stdins.index("mount c d\n")
    entering = 'for pid in 7 41; do [ /proc/$pid/root/ -ef / ] || exec nsenter -t $pid "$@" -r sh -e; done; exit 1'
    assert host.commands[at] == ["sh", "-c", entering, "enter", "--all"]
    assert host.commands[of_host] == ["sh", "-c", entering, "enter", "--mount", "--net", "--pid"], "but not its users"
