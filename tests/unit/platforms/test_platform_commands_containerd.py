"""The exact commands and settings of a private containerd, on a host that only records."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from lastro.errors import PlatformError, Unavailable
from lastro.host.base import Completed
from lastro.platforms.base import InstanceSpec, Security
from lastro.platforms.containerd import ContainerdPlatform

from ...support.recording import RecordingHost, answer, recording_testbed

PROGRAMS = ("containerd", "ctr", "runc")
SPEC = InstanceSpec("one", "probe", security=Security(read_only_root=True))
HOME = Path("/run/lastro/0a1b2c/containerd")


class ContainerdHost(RecordingHost):
    """`fails` is in the command that fails; `image` is what containerd shows of the image."""

    def __init__(self, fails: str = "", image: str = "", programs: Sequence[str] = PROGRAMS) -> None:
        super().__init__(self._said, programs=programs)
        self._fails, self._image = fails, image

    def _said(self, argv: Sequence[str]) -> Completed | None:
        text = " ".join(argv)
        if self._fails and self._fails in text:
            return answer(code=1, error="no such luck\n")
        return answer(self._image) if "snapshots info" in text else None

    def scripts(self) -> list[list[str]]:
        """What ran in the mount namespace of the daemon: the last line of the script, and its words."""
        inside = [argv for argv in self.commands if argv[:2] == ["nsenter", f"--mount={HOME}/mnt"] and "sh" in argv]
        return [[argv[4].splitlines()[-1], *argv[6:]] for argv in inside]


def test_the_daemon_has_its_own_places_and_no_network(tmp_path: Path) -> None:
    host = ContainerdHost()
    testbed = recording_testbed(host, tmp_path)
    with ContainerdPlatform().prepare(testbed):
        pass
    settings = tomllib.loads(host.files[f"{HOME}/config.toml"])
    assert settings["root"] == str(testbed.session.state / "containerd")
    assert settings["state"] == f"{HOME}/state" and settings["grpc"] == {"address": f"{HOME}/socket"}
    assert "io.containerd.grpc.v1.cri" in settings["disabled_plugins"], "it would listen on a port"
    daemon = host.command("--config")
    assert daemon[-5:] == ["nsenter", f"--mount={HOME}/mnt", "containerd", "--config", f"{HOME}/config.toml"]
    assert "lastro/0a1b2c/containerd-daemon" in daemon[2]


@pytest.mark.parametrize("known", [True, False])
def test_the_image_is_copied_once(tmp_path: Path, known: bool) -> None:
    host = ContainerdHost(image='{"Kind": "Committed"}' if known else "")
    testbed = recording_testbed(host, tmp_path)
    with ContainerdPlatform().prepare(testbed):
        last = host.scripts()[-1]
    if known:
        assert last == ['ctr snapshots info "$1" 2>/dev/null || :', "lastro-f00df00df00d"]
    else:
        tree, place = str(testbed.image.tree), f"{HOME}/building"
        assert last == ['ctr snapshots commit "$1" "$1-new"', "lastro-f00df00df00d", tree, place]


def test_an_instance_is_a_task_with_a_specification_of_ours(tmp_path: Path) -> None:
    host = ContainerdHost()
    testbed, platform = recording_testbed(host, tmp_path), ContainerdPlatform()
    place = f"{HOME}/instances/one"
    with platform.prepare(testbed), platform.start(testbed, SPEC) as instance:
        assert platform.own_cgroups == ("/lastro/0a1b2c/containerd-daemon",)
        assert host.scripts()[-1] == [
            'ctr run --detach --null-io --runc-root "$4" --config "$1/config.json" "$2"',
            place, "one", "lastro-f00df00df00d", f"{HOME}/runc",
        ]  # fmt: skip
        argv = ["nsenter", f"--mount={HOME}/mnt", "runc", "--root", f"{HOME}/runc/lastro", "exec", "one", "true"]
        assert instance.wrap(["true"]) == argv
    config = json.loads(host.files[f"{place}/config.json"])
    assert config["root"] == {"path": f"{place}/rootfs", "readonly": True}
    (kept,) = (mount for mount in config["mounts"] if mount["destination"] == "/var/tmp")
    assert kept["source"] == f"{place}/rootfs/var/tmp"
    assert config["linux"]["cgroupsPath"] == "/lastro/0a1b2c/one"
    assert host.scripts()[-1] == ['ctr snapshots delete "$2"', place, "one"]


def test_what_fails_is_told_and_removed(tmp_path: Path) -> None:
    host = ContainerdHost(fails="ctr run")
    testbed, platform = recording_testbed(host, tmp_path), ContainerdPlatform()
    with (
        platform.prepare(testbed),
        pytest.raises(PlatformError, match=r"containerd did not start instance one: .*no such luck"),
        platform.start(testbed, SPEC),
    ):
        pytest.fail("it started")
    assert host.scripts()[-1][0] == 'ctr snapshots delete "$2"'
    with pytest.raises(PlatformError, match="containerd did not start: it gave no reason"):
        ContainerdPlatform().prepare(recording_testbed(ContainerdHost(fails="ctr version"), tmp_path / "b")).__enter__()


@pytest.mark.parametrize("missing", PROGRAMS)
def test_without_its_programs_it_is_unavailable_with_a_remedy(tmp_path: Path, missing: str) -> None:
    host = ContainerdHost(programs=[name for name in PROGRAMS if name != missing])
    with pytest.raises(Unavailable, match=f"no program '{missing}'") as raised:
        ContainerdPlatform().prepare(recording_testbed(host, tmp_path)).__enter__()
    assert str(raised.value.hint).startswith("apt-get install ")


def test_it_confines_by_no_user_namespace(tmp_path: Path) -> None:
    testbed, platform = recording_testbed(ContainerdHost(), tmp_path), ContainerdPlatform()
    with (
        platform.prepare(testbed),
        pytest.raises(Unavailable, match="user namespace"),
        platform.start(testbed, InstanceSpec("one", "probe", security=Security(user_namespace=True))),
    ):
        pytest.fail("it started")
