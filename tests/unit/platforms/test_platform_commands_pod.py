"""The exact calls, settings and files of pods by the CRI, on a host that only records."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from lastro.errors import PlatformError, Unavailable
from lastro.host.base import Completed
from lastro.host.cgroups import Resources
from lastro.platforms._cri import image_archive
from lastro.platforms.base import InstanceSpec, Security
from lastro.platforms.pod import Pod

from ...support.recording import RecordingHost, answer, recording_testbed

PROGRAMS = ("containerd", "ctr", "runc", "crictl")
HOME = Path("/run/lastro/0a1b2c/pod")
PLACE = HOME / "instances" / "one"
CGROUP = "/lastro/0a1b2c/one"
SPEC = InstanceSpec("one", "probe")
LOGGED = """E1129 17:58:06.800060     213 log.go:32] "RunPodSandbox from runtime service failed" err="no such luck"
time="2026-11-29T17:58:06Z" level=fatal msg="run pod sandbox: no such luck"
"""
SAID = {"runp": "5a", "create": "c0", "inspectp": "4711"}  # by the call


class PodHost(RecordingHost):
    """`fails` is the call of crictl that fails; `images` are those that containerd has."""

    def __init__(self, fails: str = "", images: str = "", programs: Sequence[str] = PROGRAMS) -> None:
        super().__init__(self._said, programs=programs)
        self._fails, self._images = fails, images

    def _said(self, argv: Sequence[str]) -> Completed | None:
        if "ctr images list --quiet" in " ".join(argv):
            return answer(self._images)
        call = _call(argv)
        if self._fails and call[:1] == [self._fails]:
            return answer(code=1, error=LOGGED)
        return answer(f"{SAID[call[0]]}\n") if call and call[0] in SAID else None

    def calls(self) -> list[list[str]]:
        return [call for argv in self.commands if (call := _call(argv))]

    def last_script(self) -> list[str]:
        argv = [argv for argv in self.commands if argv[2:4] == ["sh", "-ec"]][-1]
        return [*argv[4].splitlines()[-2:], *argv[6:]]


def _call(argv: Sequence[str]) -> list[str]:
    """The words of a call of crictl, if it is one."""
    inside = argv[:2] == ["nsenter", f"--mount={HOME}/mnt"] and argv[2:4] == ["sh", "-ec"]
    return [*argv[6:]] if inside and argv[4].endswith('\ncrictl "$@"') else []


def _started(tmp_path: Path, spec: InstanceSpec) -> tuple[PodHost, dict[str, Any], dict[str, Any]]:
    """The host, the sandbox and the container of an instance that started."""
    host, platform = PodHost(), Pod()
    testbed = recording_testbed(host, tmp_path)
    with platform.prepare(testbed), platform.start(testbed, spec):
        pass
    return host, *(json.loads(host.files[f"{PLACE}/{name}.json"]) for name in ("pod", "container"))


def test_the_daemon_answers_the_cri_in_the_namespace_of_the_dut(tmp_path: Path) -> None:
    host = PodHost()
    testbed = recording_testbed(host, tmp_path)
    with Pod().prepare(testbed):
        pass
    settings = tomllib.loads(host.files[f"{HOME}/config.toml"])
    assert settings["root"] == str(testbed.session.state / "pod")
    assert not any("cri" in name for name in settings["disabled_plugins"])
    cri = settings["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["sandbox_image"] == "localhost/lastro:f00df00df00d", "no registry has to have it"
    assert cri["cni"] == {"bin_dir": f"{HOME}/cni", "conf_dir": f"{HOME}/cni"}
    assert cri["containerd"]["runtimes"]["runc"]["options"] == {"Root": f"{HOME}/runc"}
    daemon = host.command("config.toml")
    assert daemon[:2] == ["nsenter", f"--net=/run/netns/{testbed.dut}"]
    assert daemon[-5:] == ["nsenter", f"--mount={HOME}/mnt", "containerd", "--config", f"{HOME}/config.toml"]
    waits = host.command("until crictl pods --quiet")
    assert f"crictl --config /dev/null --runtime-endpoint unix://{HOME}/socket" in waits[4]


@pytest.mark.parametrize("known", [True, False])
def test_the_image_is_named_once(tmp_path: Path, known: bool) -> None:
    host = PodHost(images="localhost/lastro:f00df00df00d\n" if known else "")
    testbed = recording_testbed(host, tmp_path)
    with Pod().prepare(testbed):
        given = [stdin for stdin in host.stdins if isinstance(stdin, bytes)]
    assert given == ([] if known else [image_archive(testbed.image.digest, "localhost/lastro:f00df00df00d")])


def test_the_image_consists_of_the_blobs_that_its_index_names() -> None:
    with tarfile.open(fileobj=io.BytesIO(image_archive("ab" * 32, "localhost/lastro:1"))) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]

    def blob(descriptor: dict[str, Any]) -> bytes:
        algorithm, _, digest = descriptor["digest"].partition(":")
        data = files[f"blobs/{algorithm}/{digest}"]
        assert (sha256(data).hexdigest(), len(data)) == (digest, descriptor["size"])
        return data

    (index,) = json.loads(files["index.json"])["manifests"]
    assert index["annotations"] == {"io.containerd.image.name": "localhost/lastro:1"}
    manifest = json.loads(blob(index))
    assert json.loads(blob(manifest["config"]))["rootfs"]["diff_ids"] == [f"sha256:{'ab' * 32}"]
    with tarfile.open(fileobj=io.BytesIO(blob(*manifest["layers"]))) as layer:
        assert layer.getmembers() == []


def test_a_pod_is_a_sandbox_and_a_container_in_it(tmp_path: Path) -> None:
    host, platform = PodHost(), Pod()
    testbed = recording_testbed(host, tmp_path)
    with platform.prepare(testbed), platform.start(testbed, SPEC) as instance:
        assert platform.own_cgroups == ("/lastro/0a1b2c/pod-daemon",)
        assert host.calls() == [
            ["runp", f"{PLACE}/pod.json"],
            ["create", "5a", f"{PLACE}/container.json", f"{PLACE}/pod.json"],
            ["start", "c0"],
            ["inspectp", "--output", "go-template", "--template", "{{.info.pid}}", "5a"],
        ]
        assert host.command("attach") == ["ip", "netns", "attach", instance.netns, "4711"]
        argv = ["nsenter", f"--mount={HOME}/mnt", "runc", "--root", f"{HOME}/runc/k8s.io", "exec", "c0", "true"]
        assert instance.wrap(["true"]) == argv
        assert instance.cgroup == f"{CGROUP}/c0"
    stop = 'crictl rmp --force $(crictl pods --quiet --label "instance=$1") >/dev/null 2>&1 || :'
    assert [host.last_script()[0], *host.last_script()[-2:]] == [stop, "one", str(PLACE)]


def test_a_pod_has_what_its_specification_says(tmp_path: Path) -> None:
    security = Security(capabilities=("CAP_NET_ADMIN",), drop_capabilities=True, seccomp={"defaultAction": "allow"})
    spec = replace(SPEC, security=security, resources=Resources(pids=7), sysctls={"net.ipv4.ip_forward": "1"})
    host, sandbox, container = _started(tmp_path, spec)
    assert sandbox["metadata"]["name"] == "one" and sandbox["labels"] == {"instance": "one"}
    assert sandbox["hostname"] == "probe"
    assert sandbox["linux"]["cgroup_parent"] == CGROUP
    limited = {file.partition("/pids")[2] for file, text in host.files.items() if text == "7"}
    assert limited == {f"{CGROUP}/pids.max", f"{CGROUP}/c0/pids.max"}
    assert sandbox["linux"]["sysctls"] == {"net.ipv4.ip_forward": "1"}
    assert sandbox["linux"]["security_context"]["namespace_options"]["network"] == 0
    assert container["command"] == ["sleep", "infinity"]
    granted = container["linux"]["security_context"]
    assert granted["capabilities"] == {"add_capabilities": ["NET_ADMIN"], "drop_capabilities": ["ALL"]}
    assert granted["seccomp"]["profile_type"] == 2
    assert json.loads(host.files[granted["seccomp"]["localhost_ref"]]) == {"defaultAction": "allow"}
    assert granted["apparmor"] == {"profile_type": 1}
    assert not granted["readonly_rootfs"] and "mounts" not in container


def test_a_read_only_root_has_volumes(tmp_path: Path) -> None:
    host, _, container = _started(tmp_path, replace(SPEC, security=Security(read_only_root=True)))
    assert container["linux"]["security_context"]["readonly_rootfs"]
    places = {each["container_path"]: each["host_path"] for each in container["mounts"]}
    assert places["/tmp"] == f"{PLACE}/volumes/tmp"
    assert any(f"tmpfs {PLACE}/volumes/tmp" in " ".join(argv) for argv in host.commands)
    assert places["/var/tmp"].endswith("/scratch/0a1b2c/one")


def test_a_pod_shares_the_network_of_its_host_and_no_other(tmp_path: Path) -> None:
    host, platform = PodHost(), Pod()
    testbed = recording_testbed(host, tmp_path)
    with platform.prepare(testbed):
        with platform.start(testbed, replace(SPEC, netns=testbed.dut)) as instance:
            assert instance.netns == testbed.dut
            assert [call[0] for call in host.calls()] == ["runp", "create", "start"]
        sandbox = json.loads(host.files[f"{PLACE}/pod.json"])
        assert sandbox["linux"]["security_context"]["namespace_options"]["network"] == 2
        assert sandbox["hostname"] == "", "runc refuses to change that of the host"
        with (
            pytest.raises(Unavailable, match="not that of another instance"),
            platform.start(testbed, replace(SPEC, netns="lastro-0a1b2c-other")),
        ):
            pytest.fail("it started")


@pytest.mark.parametrize("call", ["runp", "create", "start", "inspectp"])
def test_the_call_that_failed_is_named_and_the_pod_removed(tmp_path: Path, call: str) -> None:
    host, platform = PodHost(fails=call), Pod()
    testbed = recording_testbed(host, tmp_path)
    with platform.prepare(testbed):
        with pytest.raises(PlatformError, match=rf"^`crictl {call}` failed: run pod sandbox: no such luck$"):
            platform.start(testbed, SPEC).__enter__()
        assert host.last_script()[0].startswith("crictl rmp --force")
        found = platform.probe(testbed)
    assert f"`crictl {call}` failed" in str(found.reason)


def test_without_crictl_it_is_unavailable_and_says_where_crictl_is_from(tmp_path: Path) -> None:
    host = PodHost(programs=PROGRAMS[:-1])
    with pytest.raises(Unavailable, match="no program 'crictl'") as raised:
        Pod().prepare(recording_testbed(host, tmp_path)).__enter__()
    assert "releases of github.com/kubernetes-sigs/cri-tools" in str(raised.value.hint)
    assert not any("containerd" in argv for argv in host.commands), "nothing was started"


def test_the_plug_in_answers_with_an_address_and_makes_no_link(tmp_path: Path) -> None:
    host = PodHost()
    with Pod().prepare(recording_testbed(host, tmp_path)):
        pass
    (network,) = json.loads(host.files[f"{HOME}/cni/lastro.conflist"])["plugins"]
    plug_in = tmp_path / "plug-in"
    plug_in.write_text(host.files[f"{HOME}/cni/{network['type']}"])
    plug_in.chmod(0o700)
    entered = tmp_path / "nsenter"  # the only program that it calls
    entered.write_text(f'#!/bin/sh\necho "$*" >{tmp_path}/entered\n')
    entered.chmod(0o700)
    environment = {"PATH": f"{tmp_path}:{os.defpath}", "CNI_NETNS": "/run/netns/cni-1", "CNI_IFNAME": "eth0"}

    def said(command: str) -> str:
        return subprocess.run(
            [plug_in], env={**environment, "CNI_COMMAND": command}, text=True, check=True, capture_output=True
        ).stdout

    result = json.loads(said("ADD"))
    assert result["interfaces"] == [{"name": "eth0", "sandbox": "/run/netns/cni-1"}]
    assert result["ips"] == [{"version": "4", "interface": 0, "address": "127.0.0.1/8"}]
    assert (tmp_path / "entered").read_text() == "--net=/run/netns/cni-1 ip link set lo up\n"
    assert said("DEL") == ""
