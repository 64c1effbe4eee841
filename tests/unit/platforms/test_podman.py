"""The exact commands and configuration of Podman, and what it says when it fails, on a host that only records."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from lastro.errors import PlatformError, Unavailable
from lastro.host.base import Completed
from lastro.host.cgroups import Resources
from lastro.isolation.seccomp import filter_profile
from lastro.platforms.base import InstanceSpec, Security
from lastro.platforms.podman import Podman
from lastro.testbed import Testbed

from ...support.recording import RecordingHost, answer, recording_testbed

SPEC = InstanceSpec("one", "probe")
ID = "ab12" * 16
LIMITS = "NOFILE   1024 524288\nNPROC unlimited unlimited\n"


def answers(argv: Sequence[str]) -> Completed | None:
    if argv[0] == "prlimit":
        return answer(LIMITS)
    return answer(f"{ID}\n") if "run" in argv else None


def podman_host(say: object = answers, *programs: str) -> RecordingHost:
    host = RecordingHost(say, programs=programs or ("podman", "runc", "crun"))  # type: ignore[arg-type]
    host.files["/proc/sys/kernel/pid_max"] = "32768\n"
    return host


def begin(testbed: Testbed, storage: str = "storage.conf", directory: str = "podman") -> list[str]:
    home = testbed.run_dir / directory
    return [
        "nsenter", f"--mount={home}/mnt", "env", f"CONTAINERS_CONF={home}/containers.conf",
        f"CONTAINERS_STORAGE_CONF={home}/{storage}", f"TMPDIR={testbed.scratch_dir}/{directory}/tmp", "podman",
    ]  # fmt: skip


def mounts(host: RecordingHost) -> list[str]:
    return str(host.stdins[host.commands.index(["sh", "-e"])]).splitlines()


def test_all_that_podman_reads_and_writes_is_in_places_of_its_own(tmp_path: Path) -> None:
    host = podman_host()
    testbed = recording_testbed(host, tmp_path)
    home, platform = testbed.run_dir / "podman", Podman()
    with platform.prepare(testbed):
        assert platform.own_cgroups == ("/lastro/0a1b2c/conmon",)
    containers = tomllib.loads(host.files[f"{home}/containers.conf"])
    assert containers["containers"]["pids_limit"] == 0
    assert containers["containers"]["default_ulimits"] == ["nofile=1024:524288", "nproc=32768:32768"]
    assert containers["engine"]["cgroup_manager"] == "cgroupfs"
    assert containers["engine"]["runtimes"] == {"runc": ["/usr/bin/runc"]}
    storage = tomllib.loads(host.files[f"{home}/storage.conf"])["storage"]
    assert storage["graphroot"] == f"{testbed.scratch_dir}/podman/store"
    assert storage["options"]["additionalimagestores"] == [f"{tmp_path}/podman"]
    assert tomllib.loads(host.files[f"{home}/cache.conf"])["storage"]["graphroot"] == f"{tmp_path}/podman"
    wanted = [
        f"kept {home} slave sh -e <<'INSIDE'",
        f"mount --rbind {tmp_path} {home}/covers/state",
        f"mount -t overlay overlay -o lowerdir=/var,upperdir={home}/covers/var,workdir={home}/covers/var.work /var",
        f"mount --rbind {home}/covers/state {tmp_path}",
        "mount -t tmpfs tmpfs /etc/containers",
        "mount -t tmpfs tmpfs /dev/shm",
        f"mount --rbind {home}/own/run /run",
    ]
    assert [line for line in mounts(host) if line in wanted] == wanted


def test_the_image_is_imported_once_into_a_store_that_is_kept(tmp_path: Path) -> None:
    missing = answer(code=1)
    host = podman_host(lambda argv: missing if "exists" in argv else answers(argv))
    testbed = recording_testbed(host, tmp_path)
    with Podman().prepare(testbed):
        cache = [*begin(testbed, "cache.conf"), "--tmpdir", "/run/cache"]
        tag = "localhost/lastro:f00df00df00d"
        shell, options, script, *words = host.commands[-1]
        assert host.commands[-2] == [*cache, "image", "exists", tag]
        assert [shell, options, *words] == ["sh", "-ec", f"{tmp_path}/rootfs/f00d/rootfs.tar", tag, *cache]
    printed = subprocess.run([shell, options, script, "/tar", tag, "echo"], capture_output=True, text=True, check=True)
    assert printed.stdout.split() == ["import", "--quiet", "/tar", tag]
    again = podman_host()
    with Podman().prepare(recording_testbed(again, tmp_path / "again")):
        assert not [argv for argv in again.commands if "import" in argv]


def test_a_container_is_run_entered_and_removed(tmp_path: Path) -> None:
    host = podman_host()
    testbed = recording_testbed(host, tmp_path)
    platform = Podman()
    sysctls = {"net.ipv4.ip_forward": "1"}
    resources = Resources(cpus=0.5, cpuset="0", memory_bytes=1 << 26, pids=256)
    with (
        platform.prepare(testbed),
        platform.start(testbed, InstanceSpec("one", "probe", resources, sysctls=sysctls)) as i,
    ):
        assert host.command("--detach")[:-1] == [
            *begin(testbed), "run", "--detach", "--name", "one", "--hostname", "probe",
            "--network=ns:/run/netns/lastro-0a1b2c-one", "--cgroup-parent", "/lastro/0a1b2c",
            "--pull=never", "--log-driver=none", "--no-hosts", "--dns=none",
            "--env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "--env=LC_ALL=C.UTF-8",
            "--sysctl=net.ipv4.ip_forward=1", "--security-opt=seccomp=unconfined", "--cap-drop=all",
            *(f"--cap-add=CAP_{name}" for name in (
                "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
                "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
            )),
            "--security-opt=apparmor=unconfined", "--security-opt=label=disable",
            "--cpus=0.500", "--cpuset-cpus=0", "--memory=67108864", "--pids-limit=256",
            "localhost/lastro:f00df00df00d", "sleep",
        ]  # fmt: skip
        assert i.cgroup == f"/lastro/0a1b2c/libpod-{ID}"
        assert i.wrap(["ip", "link"]) == [
            "nsenter", f"--mount={testbed.run_dir}/podman/mnt", "runc", "exec", ID, "ip", "link",
        ]  # fmt: skip
    assert [*begin(testbed), "rm", "--force", "--time", "0", "--volumes", "one"] in host.commands


def test_confinement_is_podmans_own(tmp_path: Path) -> None:
    host = podman_host()
    testbed = recording_testbed(host, tmp_path)
    security = Security(
        apparmor="docker-default",
        seccomp=filter_profile(),
        capabilities=("CAP_NET_ADMIN",),
        drop_capabilities=True,
        read_only_root=True,
    )
    platform = Podman()
    with platform.prepare(testbed), platform.start(testbed, InstanceSpec("one", "probe", security=security)):
        argv = host.command("--detach")
    (file,) = (name for name in host.files if name.startswith(f"{testbed.run_dir}/podman/seccomp-"))
    assert [word for word in argv if word.startswith("--cap")] == ["--cap-drop=all", "--cap-add=CAP_NET_ADMIN"]
    assert {"--security-opt=apparmor=docker-default", f"--security-opt=seccomp={file}"} <= set(argv)
    assert {"--read-only", "--read-only-tmpfs=false", "--volume=/var/tmp"} <= set(argv)
    assert json.loads(host.files[file]) == filter_profile()


def test_crun_has_a_place_of_its_own_that_hides_what_it_refuses(tmp_path: Path) -> None:
    host = podman_host()
    testbed = recording_testbed(host, tmp_path)
    tree = testbed.cgroups.root / "unified"
    host.files[f"{tree}/cgroup.controllers"] = "hugetlb\n"
    platform = Podman(runtime="crun")
    with platform.prepare(testbed), platform.start(testbed, SPEC) as instance:
        assert host.command("--detach")[:7] == begin(testbed, directory="podman-crun")
        assert instance.wrap(["true"])[1:4] == [f"--mount={testbed.run_dir}/podman-crun/mnt", "crun", "exec"]
    assert f"umount {tree}" in mounts(host)
    assert 'runtime = "crun"' in host.files[f"{testbed.run_dir}/podman-crun/containers.conf"]


def test_podmans_last_line_is_the_reason(tmp_path: Path) -> None:
    failed = answer(code=125, error="time=now level=warning\nError: requested CPUs are not available\n")
    host = podman_host(lambda argv: failed if "run" in argv else answers(argv))
    platform, testbed = Podman(), recording_testbed(host, tmp_path)
    with (
        platform.prepare(testbed),
        pytest.raises(PlatformError, match=r"^podman did not start instance one: requested CPUs are not available$"),
        platform.start(testbed, SPEC),
    ):
        pass
    assert host.command("--volumes")[-1] == "one"


@pytest.mark.parametrize(("present", "missing"), [("runc", "podman"), ("podman", "runc")])
def test_a_missing_program_is_named_with_its_package(tmp_path: Path, present: str, missing: str) -> None:
    testbed = recording_testbed(podman_host(answers, present), tmp_path)
    with pytest.raises(Unavailable, match=f"no program '{missing}'") as caught, Podman().prepare(testbed):
        pass
    assert caught.value.hint == f"apt-get install {missing}"


def test_on_its_own_network_podman_publishes_a_port_in_the_namespace_of_the_dut(tmp_path: Path) -> None:
    host = podman_host(lambda argv: answer("4711\n") if "inspect" in argv else answers(argv))
    testbed, platform = recording_testbed(host, tmp_path), Podman()
    spec = InstanceSpec("one", "proxy", own_network=True, published="198.19.1.1:3128:3128")
    own = [begin(testbed)[0], begin(testbed)[1], "--net=/run/netns/lastro-0a1b2c-dut", *begin(testbed)[2:]]
    with platform.prepare(testbed), platform.own_network(testbed, "198.18.64.1/18"):
        with platform.start(testbed, spec) as instance:
            assert instance.netns == "lastro-0a1b2c-one"
        run = host.command("--publish")
        with platform.start(testbed, InstanceSpec("two", "neighbour")):
            plain = next(argv for argv in reversed(host.commands) if "--detach" in argv)
    assert "--network=ns:/run/names/lastro-0a1b2c-two" in plain, "the host's names are there meanwhile"
    hidden, shown = (argv for argv in host.commands if "/run/names" in argv[-1])
    assert hidden[-1].endswith("mount -t tmpfs tmpfs /run/netns") and "umount --lazy /run/netns" in shown[-1]
    networks = [argv for argv in host.commands if "network" in argv]
    subnet = ["--disable-dns", "--subnet=198.18.64.0/18", "--gateway=198.18.64.1", "lastro"]
    assert networks == [[*own, "network", "create", *subnet], [*own, "network", "rm", "--force", "lastro"]]
    assert run[: len(own)] == own and {"--network=lastro", "--publish=198.19.1.1:3128:3128"} <= set(run)
    assert "ip netns attach lastro-0a1b2c-one $(" in host.command("ip netns attach")[2]


@pytest.mark.parametrize(
    ("chosen", "found", "configured"),
    [("default", True, "netavark"), ("default", False, None), ("cni", True, "cni"), ("netavark", False, "netavark")],
)
def test_networks_are_made_by_what_podman_chooses_on_a_new_host(
    tmp_path: Path, chosen: str, found: bool, configured: str | None
) -> None:
    programs = ["podman", "runc", *(["/usr/lib/podman/netavark"] if found else [])]
    host = podman_host(answers, *programs)
    testbed, platform = recording_testbed(host, tmp_path), Podman(network_backend=chosen)
    with platform.prepare(testbed):
        (text,) = (text for file, text in host.files.items() if file.endswith("/containers.conf"))
    assert tomllib.loads(text).get("network", {}).get("network_backend") == configured


def test_its_networks_say_what_made_them_and_a_missing_program_is_said(tmp_path: Path) -> None:
    def said(argv: Sequence[str]) -> Completed | None:
        return answer("netavark\n") if "{{.Host.NetworkBackend}}" in argv else answers(argv)

    def refused(argv: Sequence[str]) -> Completed | None:
        failed = answer(code=125, error='Error: could not find "netavark" in one of [/usr/lib/podman]\n')
        return failed if "create" in argv else answers(argv)

    testbed, platform = recording_testbed(podman_host(said), tmp_path), Podman()
    with platform.prepare(testbed), platform.own_network(testbed, "198.19.255.1/24") as networks:
        assert (networks.made_by, networks.options) == ("netavark", ("--disable-dns",))
    testbed, platform = recording_testbed(podman_host(refused), tmp_path / "b"), Podman(network_backend="netavark")
    with (
        platform.prepare(testbed),
        pytest.raises(Unavailable, match=r"podman makes no network: could not find .netavark.") as caught,
        platform.own_network(testbed, "198.19.255.1/24"),
    ):
        pytest.fail("it has a network")
    assert str(caught.value.hint).startswith("apt-get install netavark")
