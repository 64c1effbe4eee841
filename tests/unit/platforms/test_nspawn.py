"""The exact commands of systemd-nspawn and of what enters its instances, on a host that only records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lastro.errors import CommandFailed, PlatformError, Unavailable
from lastro.host.base import Process
from lastro.host.cgroups import CgroupsV2
from lastro.platforms.base import InstanceSpec, Security
from lastro.platforms.nspawn import Nspawn
from lastro.testbed import Testbed

from ...support.recording import RecordingHost, recording_testbed

SPEC = InstanceSpec("one", "probe")
LEADER = 4711


class Started(Process):
    """nspawn as it runs: its command says that it has started."""

    argv = ()

    def wait_line(self, needle: str, timeout_s: float) -> str:
        return needle

    def lines(self, start: int) -> list[str]:
        return []

    def send(self, line: str) -> None: ...

    def ended_within(self, timeout_s: float) -> bool:
        return not self.alive()

    def alive(self) -> bool:
        return True

    def stop(self):  # type: ignore[no-untyped-def]
        return None


class Failed(Started):
    def wait_line(self, needle: str, timeout_s: float) -> str:
        raise CommandFailed(["systemd-nspawn"], 1, "Directory /x does not look like an OS root.\n")


class NspawnHost(RecordingHost):
    def __init__(self, process: Process) -> None:
        super().__init__(programs=("systemd-nspawn",))
        self._process = process
        self.files[f"/proc/{LEADER}/status"] = f"Name:\tsleep\nNSpid:\t{LEADER}\t1\n"
        self.files["/proc/4700/status"] = "Name:\tsystemd-nspawn\nNSpid:\t4700\n"

    def spawn(self, argv: Sequence[str], *, fed: bool = False, whole: bool = False) -> Process:
        self.commands.append(list(argv))
        return self._process

    def write_text(self, path: str, text: str) -> None:
        super().write_text(path, text)
        self.files.setdefault("order", "")
        self.files["order"] += f"{Path(path).name} {text}\n"


def bed_with(host: RecordingHost, directory: Path, group: str = "one", *, tree: str = "memory") -> Testbed:
    """A testbed whose control groups hold nspawn and what it has started."""
    testbed = recording_testbed(host, directory)
    place = testbed.cgroups.root / tree / "lastro/0a1b2c" / group
    place.mkdir(parents=True)
    (place / "cgroup.procs").write_text(f"4700\n{LEADER}\n")
    return testbed


def option(argv: list[str], name: str) -> str:
    (found,) = (word.partition("=")[2] for word in argv if word.startswith(f"--{name}="))
    return found


def test_nspawn_is_told_all_that_it_must_not_do_by_itself(tmp_path: Path) -> None:
    host = NspawnHost(Started())
    testbed = bed_with(host, tmp_path)
    home = testbed.run_dir / "one"
    with Nspawn().start(testbed, SPEC):
        argv = host.command("systemd-nspawn")
    joined = testbed.cgroups.entering("/lastro/0a1b2c/one")
    assert argv[: len(joined)] == joined
    argv = argv[len(joined) :]
    assert argv[:4] == ["nsenter", f"--mount={home}/mnt", "env", "SYSTEMD_SECCOMP=0"]
    assert {"--keep-unit", "--register=no", "--settings=no", "--private-users=no", "--link-journal=no"} <= set(argv)
    assert option(argv, "directory") == f"{home}/rootfs"
    assert option(argv, "hostname") == "probe"
    assert option(argv, "network-namespace-path") == "/run/netns/lastro-0a1b2c-one"
    assert "CAP_SYS_ADMIN" in option(argv, "drop-capability").split(",")
    assert "CAP_CHOWN" not in option(argv, "drop-capability").split(",")
    assert not [word for word in argv if word.startswith("--capability=")]
    assert argv[-4:] == ["--", "sh", "-c", "echo started; exec sleep infinity"]
    assert f"mount --rbind {home}/own/run /run" in str(host.stdins[host.commands.index(["sh", "-e"])])


def test_commands_enter_all_that_confines_the_instance(tmp_path: Path) -> None:
    host = NspawnHost(Started())
    testbed = bed_with(host, tmp_path)
    with Nspawn().start(testbed, SPEC) as instance:
        assert instance.wrap(["ip", "link"]) == [
            *testbed.cgroups.entering("/lastro/0a1b2c/one"),
            "nsenter", f"--target={LEADER}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root",
            "--wd", "--", "env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL=C.UTF-8", "setpriv",
            "--bounding-set=-all,+audit_write,+chown,+dac_override,+fowner,+fsetid,+kill,+mknod,+net_bind_service,"
            "+net_raw,+setfcap,+setgid,+setpcap,+setuid,+sys_chroot",
            "--inh-caps=-all", "--", "ip", "link",
        ]  # fmt: skip


def test_capabilities_are_given_and_taken_alike_at_the_start_and_later(tmp_path: Path) -> None:
    host = NspawnHost(Started())
    security = Security(capabilities=("CAP_BPF", "CAP_NET_ADMIN"), drop_capabilities=True)
    with Nspawn().start(bed_with(host, tmp_path), InstanceSpec("one", "probe", security=security)) as instance:
        argv = host.command("systemd-nspawn")
        assert option(argv, "capability") == "CAP_BPF"
        assert "CAP_CHOWN" in option(argv, "drop-capability").split(",")
        assert "CAP_NET_ADMIN" not in option(argv, "drop-capability").split(",")
        assert "--bounding-set=-all,+bpf,+net_admin" in instance.wrap(["true"])


def test_a_read_only_root_keeps_its_places_in_memory_and_on_disk(tmp_path: Path) -> None:
    host = NspawnHost(Started())
    testbed = bed_with(host, tmp_path)
    home = testbed.run_dir / "one"
    with Nspawn().start(testbed, InstanceSpec("one", "probe", security=Security(read_only_root=True))):
        argv = host.command("systemd-nspawn")
    assert {"--read-only", "--tmpfs=/tmp:nosuid,nodev,exec,mode=1777,size=65536k"} <= set(argv)
    assert f"--bind={home}/disk:/var/tmp" in argv
    script = str(host.stdins[host.commands.index(["sh", "-e"])])
    assert f"mount --bind {home}/rootfs/var/tmp {home}/disk" in script


def test_without_any_capability_the_set_is_empty(tmp_path: Path) -> None:
    spec = InstanceSpec("one", "probe", security=Security(drop_capabilities=True))
    with Nspawn().start(bed_with(NspawnHost(Started()), tmp_path), spec) as instance:
        assert "--bounding-set=-all" in instance.wrap(["true"])


def test_devices_are_forbidden_but_for_the_usual_where_files_can_say_so(tmp_path: Path) -> None:
    host = NspawnHost(Started())
    testbed = bed_with(host, tmp_path)
    (testbed.cgroups.root / "devices").mkdir()
    with Nspawn().start(testbed, SPEC):
        order = [line for line in host.files["order"].splitlines() if line.startswith("devices.")]
    assert order[:3] == ["devices.deny a", "devices.allow c *:* m", "devices.allow b *:* m"]
    assert "devices" not in Nspawn().residuals(testbed)


def test_on_version_2_commands_join_the_part_that_nspawn_made_for_them(tmp_path: Path) -> None:
    host = NspawnHost(Started())
    testbed = bed_with(host, tmp_path, "one/payload", tree="")
    (tmp_path / "cgroup" / "cgroup.controllers").write_text("cpu memory\n")
    testbed = replace(testbed, cgroups=CgroupsV2(tmp_path / "cgroup"))
    with Nspawn().start(testbed, SPEC) as instance:
        assert instance.cgroup == "/lastro/0a1b2c/one"
        assert instance.wrap(["true"])[:4] == testbed.cgroups.entering("/lastro/0a1b2c/one/payload")
    assert Nspawn().residuals(testbed)["devices"] == "can be opened once created"


def test_what_nspawn_says_is_the_reason(tmp_path: Path) -> None:
    testbed = bed_with(NspawnHost(Failed()), tmp_path)
    with (
        pytest.raises(PlatformError, match=r"did not start instance one: .*does not look like an OS root"),
        Nspawn().start(testbed, SPEC),
    ):
        pass


def test_an_instance_whose_first_process_has_gone_has_not_started(tmp_path: Path) -> None:
    host = NspawnHost(Started())
    del host.files[f"/proc/{LEADER}/status"]
    with (
        pytest.raises(PlatformError, match=f"/proc/{LEADER}/status"),
        Nspawn().start(bed_with(host, tmp_path), SPEC),
    ):
        pass


def test_filters_of_system_calls_are_refused_since_later_commands_would_escape_them(tmp_path: Path) -> None:
    spec = InstanceSpec("one", "probe", security=Security(seccomp={"defaultAction": "SCMP_ACT_ALLOW"}))
    with (
        pytest.raises(Unavailable, match="nspawn cannot confine an instance by seccomp"),
        Nspawn().start(recording_testbed(NspawnHost(Started()), tmp_path), spec),
    ):
        pass


def test_without_nspawn_the_remedy_is_its_package(tmp_path: Path) -> None:
    found = Nspawn().probe(recording_testbed(RecordingHost(), tmp_path))
    assert found.remedy == "apt-get install systemd-container"
