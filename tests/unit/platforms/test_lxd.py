"""The exact commands of LXD and Incus, and what they say when a tool fails, on a host that only records."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from lastro.errors import HostError, PlatformError, Unavailable
from lastro.host.base import Completed
from lastro.host.cgroups import Resources
from lastro.host.undo import Owner, undo
from lastro.isolation.seccomp import filter_profile
from lastro.platforms._lxd import LxdPlatform, daemon_name
from lastro.platforms._lxd_daemon import private_mounts_script
from lastro.platforms.base import InstanceSpec, Security
from lastro.platforms.incus import Incus
from lastro.platforms.lxd import Lxd

from ...support.recording import RecordingHost, answer, recording_testbed

SPEC = InstanceSpec("one", "probe")
KINDS = pytest.mark.parametrize("kind", [Lxd, Incus])
PROGRAMS = ("lxd", "lxc", "incusd", "incus")


def answers(argv: Sequence[str]) -> Completed | None:
    return answer('{"pid": 4711}') if "query" in argv and argv[-1].endswith("/state") else None


def launched(host: StdinHost) -> dict[str, dict[str, str]]:
    """The settings that an instance was launched with."""
    return json.loads(host.stdin["launch"])  # type: ignore[no-any-return]


class StdinHost(RecordingHost):
    """Keeps what commands were given to read, by the verb of the client."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.stdin: dict[str, str] = {}

    def run(self, argv: Sequence[str], *, stdin: str | bytes | None = None, **more: object) -> Completed:  # type: ignore[override]
        if isinstance(stdin, str) and len(argv) > 4:
            self.stdin[argv[4]] = stdin
        return super().run(argv, stdin=stdin, **more)  # type: ignore[arg-type]


@KINDS
def test_a_daemon_and_an_instance_from_start_to_end(tmp_path: Path, kind: type[LxdPlatform]) -> None:
    host = StdinHost(answers, programs=PROGRAMS)
    testbed = recording_testbed(host, tmp_path)
    platform = kind()
    home, disk = testbed.run_dir / f"{kind.name}-dir", testbed.scratch_dir / f"{kind.name}-dir"
    client = [
        "env",
        f"{kind.flavour.variable}_DIR={home}",
        f"{kind.flavour.variable}_CONF={home}/client",
        kind.flavour.client,
    ]
    with platform.prepare(testbed), platform.start(testbed, SPEC) as instance:
        daemon = host.command("--propagation")
        assert daemon[-6:] == [
            "env", f"{kind.flavour.variable}_DIR={home}", f"{kind.flavour.variable}_SECURITY_APPARMOR=false",
            f"/usr/bin/{kind.flavour.daemon}", "--group", "root",
        ]  # fmt: skip
        assert "--net=/run/netns/lastro-0a1b2c-dut" in daemon
        assert private_mounts_script(home, disk) in daemon
        assert platform.own_cgroups == (f"/lastro/0a1b2c/{kind.name}-dir",)
        assert host.command("storage") == [*client, "storage", "create", "lastro", "dir", f"source={disk}/pool"]
        assert host.command("import") == [
            *client, "image", "import", f"{home}/metadata.tar", str(testbed.image.tar), "--alias=lastro"
        ]  # fmt: skip
        assert host.command("launch") == [*client, "launch", "--quiet", "lastro", "one", "--no-profiles"]
        assert host.command("state") == [*client, "query", "/1.0/instances/one/state"]
        assert host.command("netns attach")[-1] == (
            "ip netns attach lastro-0a1b2c-one 4711; exec ip -n lastro-0a1b2c-one link set lo up"
        )
        assert instance.wrap(["ip", "link"]) == [
            *client, "exec", "one", "--mode=non-interactive", "--cwd=/",
            "--env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "--env=LC_ALL=C.UTF-8",
            "--", "ip", "link",
        ]  # fmt: skip
    assert shlex.join([*client, "delete", "--force", "one"]) in host.command("delete")[-1]
    assert testbed.session.owned_objects() == []


@KINDS
def test_an_instances_settings(tmp_path: Path, kind: type[LxdPlatform]) -> None:
    host = StdinHost(answers, programs=PROGRAMS)
    testbed = recording_testbed(host, tmp_path)
    spec = InstanceSpec(
        "one", "probe", Resources(cpuset="1", memory_bytes=1 << 26), sysctls={"net.ipv4.ip_forward": "1"}
    )
    platform = kind()
    with platform.prepare(testbed), platform.start(testbed, spec):
        pass
    config = launched(host)["config"]
    assert config[kind.flavour.guest_interface] == "false"
    assert config["security.privileged"] == "true"
    assert config["limits.cpu"] == "1-1"
    assert "raw.seccomp" not in config
    raw = config["raw.lxc"].splitlines()
    assert "lxc.init.cmd = /bin/sleep infinity" in raw
    assert "lxc.uts.name = probe" in raw
    assert "lxc.cgroup.dir.container = lastro/0a1b2c/one" in raw
    assert f"lxc.cgroup.dir.monitor = lastro/0a1b2c/{kind.name}-dir/monitor-one" in raw
    assert f"lxc.cgroup.dir.monitor.pivot = lastro/0a1b2c/{kind.name}-dir/pivot" in raw
    assert "lxc.apparmor.profile = unconfined" in raw
    assert "lxc.cgroup.memory.limit_in_bytes = 67108864" in raw
    assert launched(host)["devices"]["root"]["readonly"] == "false"
    assert host.command("--net=/run/netns/lastro-0a1b2c-one") == [
        "nsenter",
        "--net=/run/netns/lastro-0a1b2c-one",
        "sh",
        "-e",
    ]


def test_confinement(tmp_path: Path) -> None:
    host = StdinHost(answers, programs=PROGRAMS)
    testbed = recording_testbed(host, tmp_path)
    security = Security(
        "docker-default", drop_capabilities=True, seccomp=filter_profile(), user_namespace=True, read_only_root=True
    )
    platform = Lxd()
    with platform.prepare(testbed), platform.start(testbed, InstanceSpec("one", "probe", security=security)):
        pass
    config = launched(host)["config"]
    assert config["security.privileged"] == "false"
    assert "lxc.cap.keep = none" in config["raw.lxc"].splitlines()
    assert "lxc.apparmor.profile = docker-default" in config["raw.lxc"].splitlines()
    assert config["raw.seccomp"].startswith("2\ndenylist allow\n[all]\nacct errno 1\n")
    root = testbed.run_dir / "lxd-dir" / "storage-pools" / "lastro" / "containers" / "one" / "rootfs"
    assert f"lxc.mount.entry = {root}/var/tmp var/tmp none bind,rw 0 0" in config["raw.lxc"].splitlines()
    assert launched(host)["devices"]["root"]["readonly"] == "true"


@pytest.mark.parametrize(
    ("storage", "words"),
    [("btrfs", ["btrfs", "size=16GiB"]), ("zfs", ["zfs", "size=16GiB", "zfs.pool_name=lastro-0a1b2c-lxd"])],
)
def test_storage_with_a_file_system_of_its_own(tmp_path: Path, storage: str, words: list[str]) -> None:
    host = RecordingHost(answers, programs=PROGRAMS)
    testbed = recording_testbed(host, tmp_path)
    platform = Lxd(storage=storage)
    with platform.prepare(testbed):
        assert host.command("size=")[-2 - len(words) :] == ["create", "lastro", *words]
        assert "a file in" in platform.residuals(testbed)["instance's disk"]
        assert ("zpool" in {owned.kind for owned in testbed.session.owned_objects()}) is (storage == "zfs")


def test_storage_that_cannot_be_made_names_its_tool(tmp_path: Path) -> None:
    host = RecordingHost(
        lambda argv: answer(code=1, error='Error: The "zfs" tool is not enabled\n') if "storage" in argv else None,
        programs=PROGRAMS,
    )
    testbed = recording_testbed(host, tmp_path)
    with pytest.raises(Unavailable, match='"zfs" tool is not enabled') as caught, Lxd(storage="zfs").prepare(testbed):
        pass
    assert caught.value.hint and "zfsutils-linux" in caught.value.hint
    assert testbed.session.owned_objects() == []


def test_only_a_pool_of_ours_is_destroyed() -> None:
    host = RecordingHost(programs=("zpool",))
    owner = Owner(host, "0a1b2c", Path("/var/lib/lastro"))
    undo(owner, "zpool", "lastro-0a1b2c-lxd")
    assert host.commands[-1] == ["zpool", "destroy", "-f", "lastro-0a1b2c-lxd"]
    with pytest.raises(HostError, match="was not created by Lastro"):
        undo(owner, "zpool", "rpool")


# What there is none of


@KINDS
def test_without_its_program_there_is_none(tmp_path: Path, kind: type[LxdPlatform]) -> None:
    host = RecordingHost(lambda argv: answer(code=1) if argv[0] == "test" else None)
    testbed = recording_testbed(host, tmp_path)
    with pytest.raises(Unavailable, match=f"no program '{kind.flavour.daemon}'") as caught, kind().prepare(testbed):
        pass
    assert caught.value.hint == kind.flavour.remedy


def test_incusd_may_lie_outside_of_the_path(tmp_path: Path) -> None:
    host = RecordingHost(answers, programs=("incus",))
    testbed = recording_testbed(host, tmp_path)
    with Incus().prepare(testbed):
        assert "/usr/libexec/incus/incusd" in host.command("--propagation")


@pytest.mark.parametrize("installed", [True, False])
def test_a_snap_alone_will_not_do(tmp_path: Path, installed: bool) -> None:
    """Either in its own place, or as a script in the path that installs it on use, and is never run."""
    codes = {"test": 0 if installed else 1, "sh": 3}
    host = RecordingHost(
        lambda argv: answer(code=codes[argv[0]]) if argv[0] in codes else None, programs=() if installed else ("lxd",)
    )
    testbed = recording_testbed(host, tmp_path)
    with pytest.raises(Unavailable, match="only as a snap") as caught, Lxd().prepare(testbed):
        pass
    assert caught.value.hint == Lxd.flavour.remedy
    assert all(argv[0] in ("test", "sh") for argv in host.commands)


def test_a_socket_whose_path_is_too_long_is_told_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = RecordingHost(answers, programs=PROGRAMS)
    testbed = recording_testbed(host, tmp_path)
    monkeypatch.setattr(testbed.session, "run_dir", Path("/run/" + "x" * 90))
    with pytest.raises(Unavailable, match="too long") as caught, Lxd().prepare(testbed):
        pass
    assert caught.value.hint and "LASTRO_RUN" in caught.value.hint


def test_a_daemon_that_does_not_answer_is_quoted(tmp_path: Path) -> None:
    def failing(argv: Sequence[str]) -> Completed | None:
        if "--propagation" in argv:
            return answer(code=1, error="Error: Failed to start dqlite\n")
        return answer(code=1) if argv[0] == "sh" and "until" in argv[-1] else None

    testbed = recording_testbed(RecordingHost(failing, programs=PROGRAMS), tmp_path)
    with (
        pytest.raises(PlatformError, match="lxd did not answer: Error: Failed to start dqlite"),
        Lxd().prepare(testbed),
    ):
        pass
    assert testbed.session.owned_objects() == []


def test_an_instance_that_does_not_start_gives_liblxcs_reason(tmp_path: Path) -> None:
    log = "lxc one 2026 ERROR    conf - ../src/lxc/conf.c:setup:1 - No space left - Failed to write\n"

    def failing(argv: Sequence[str]) -> Completed | None:
        if "launch" in argv:
            return answer(code=1, error="Error: Failed to run: /usr/bin/lxd forkstart: exit status 1\n")
        return answer(f"Name: one\nLog:\n{log}") if "--show-log" in argv else None

    testbed = recording_testbed(RecordingHost(failing, programs=PROGRAMS), tmp_path)
    platform = Lxd()
    with (
        platform.prepare(testbed),
        pytest.raises(PlatformError, match="lxd did not start instance one: No space left - Failed to write"),
        platform.start(testbed, SPEC),
    ):
        pass


# Words of LXD's and liblxc's


def test_names() -> None:
    assert daemon_name("source-1") == "source-1"
    odd = ["A.b_c-1", "A-b-c-1.", "1a", "a-", "x" * 39 + ".", "a.b", "a_b"]
    known = [daemon_name(name) for name in odd]
    assert len(set(known)) == len(odd)
    assert all(len(name) <= 63 and name.replace("-", "").isalnum() and not name.endswith("-") for name in known)


def test_what_lies_below_run_stays_there(tmp_path: Path) -> None:
    disk = Path("/var/lib/lastro/scratch/0a1b2c/lxd-dir")
    script = private_mounts_script(Path("/run/lastro/0a1b2c/lxd-dir"), disk).splitlines()
    kept = f"{disk}/run/lastro/0a1b2c/lxd-dir"
    assert f"mkdir -p {kept}; mount --rbind /run/lastro/0a1b2c/lxd-dir {kept}" in script
    assert script.index(f"mount --rbind {disk}/run /run") > script.index(script[3])
    assert script[-1] == 'exec "$0" "$@"'
