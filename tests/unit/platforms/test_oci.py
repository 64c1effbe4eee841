"""The exact commands of container platforms, and what they say when a tool fails, on a host that only records."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from lastro.errors import CommandTimeout, PlatformError, Unavailable
from lastro.functions.base import CounterReading, ForwardingPath
from lastro.functions.dpi import Dpi
from lastro.functions.firewall import Firewall
from lastro.functions.none import Forwarding
from lastro.host.base import Completed
from lastro.platforms.base import InstanceSpec, Port
from lastro.platforms.crun import Crun
from lastro.platforms.docker import Docker
from lastro.platforms.gvisor import Gvisor
from lastro.platforms.kata import Kata
from lastro.platforms.runc import Runc

from ...support.recording import RecordingHost, answer, recording_testbed

SPEC = InstanceSpec("one", "probe")


def after_mount(script: str) -> str:
    """What a start script runs once the root filesystem is mounted."""
    words = shlex.split(script.replace("</dev/null", ""))
    return shlex.join(words[words.index("-ec") + 2 :])


# Runtimes of the OCI


@pytest.mark.parametrize("kind", [Runc, Crun])
def test_a_runtime_is_its_own_command_where_the_host_has_one_version_of_cgroups(
    tmp_path: Path, kind: type[Runc] | type[Crun]
) -> None:
    host = RecordingHost()
    testbed = recording_testbed(host, tmp_path)
    runtime, bundle = f"{kind.binary} --root {testbed.run_dir}/one/{kind.binary}", testbed.run_dir / "one"
    with kind().start(testbed, SPEC) as instance:
        assert instance.wrap(["ip", "link"]) == [*runtime.split(), "exec", "one", "ip", "link"]
    start = host.command("run --detach")
    assert after_mount(start[-1]) == f"{runtime} run --detach --pid-file {bundle}/pid --bundle {bundle} one"
    assert f"{runtime} delete one" in host.command(" delete ")[-1]
    config = json.loads(host.files[f"{bundle}/config.json"])
    assert config["linux"]["cgroupsPath"] == "/lastro/0a1b2c/one"
    assert {"type": "network", "path": "/run/netns/lastro-0a1b2c-one"} in config["linux"]["namespaces"]


def test_every_command_of_crun_is_hidden_from_controllers_of_version_2(tmp_path: Path) -> None:
    host = RecordingHost()
    testbed = recording_testbed(host, tmp_path)
    tree = testbed.cgroups.root / "unified"
    host.files[f"{tree}/cgroup.controllers"] = "hugetlb\n"
    hidden = [
        "unshare", "--mount", "--propagation", "private", "sh", "-ec", f'umount {tree}; exec "$0" "$@"',
        "crun", "--root", f"{testbed.run_dir}/one/crun",
    ]  # fmt: skip
    with Crun().start(testbed, SPEC) as instance:
        assert instance.wrap(["true"]) == [*hidden, "exec", "one", "true"]
    assert after_mount(host.command("run --detach")[-1]).startswith(shlex.join([*hidden, "run"]))
    assert shlex.join([*hidden, "delete", "one"]) in host.command(" delete ")[-1]


def test_a_tree_of_version_2_without_controllers_is_let_be(tmp_path: Path) -> None:
    host = RecordingHost()
    testbed = recording_testbed(host, tmp_path)
    host.files[f"{testbed.cgroups.root}/unified/cgroup.controllers"] = "\n"
    assert Crun().runtime_argv(testbed, SPEC)[0] == "crun"


def test_a_runtime_that_fails_is_quoted(tmp_path: Path) -> None:
    host = RecordingHost(lambda argv: answer(code=1, error="crun: no room\n") if "--detach" in argv[-1] else None)
    testbed = recording_testbed(host, tmp_path)
    with (
        pytest.raises(PlatformError, match=r"crun did not start instance one: .*crun: no room"),
        Crun().start(testbed, SPEC),
    ):
        pass
    found = Crun().probe(testbed)
    assert not found and found.reason and "crun: no room" in found.reason


def test_gvisor_starts_once_it_has_its_links(tmp_path: Path) -> None:
    host = RecordingHost(programs=("runsc",))
    testbed = recording_testbed(host, tmp_path)
    spec = InstanceSpec("one", "probe", ports=("eth0",), sysctls={"net.ipv4.ip_forward": "1"})
    runsc = [
        "runsc", "--root", f"{testbed.run_dir}/one/runsc", "--platform=ptrace",
        "--net-raw", "--gso=false", "--overlay2=none", "--oci-seccomp",
    ]  # fmt: skip
    platform = Gvisor(platform="ptrace")
    with platform.prepare(testbed), platform.start(testbed, spec) as instance:
        assert not [argv for argv in host.commands if "runsc" in argv[-1]]
        instance.plug([Port(instance, "eth0", "198.18.0.1/24", ("198.18.1.0/24 via 198.18.0.2",))], {})
        assert instance.wrap(["true"]) == [*runsc, "exec", "one", "true"]
    kinds = [
        next((word for word in ("-batch", "run --detach", " delete ") if word in " ".join(a)), "")
        for a in host.commands
    ]
    assert [kind for kind in kinds if kind] == ["-batch", "run --detach", " delete "]
    start = after_mount(host.command("run --detach")[-1])
    assert start.startswith(shlex.join([*runsc, "run", "--detach"]))
    assert host.commands[kinds.index("run --detach") + 1] == [*runsc, "exec", "one", "sh", "-e"]


def test_gvisor_without_ports_starts_at_once(tmp_path: Path) -> None:
    host = RecordingHost()
    with Gvisor().start(recording_testbed(host, tmp_path), SPEC):
        assert host.command("run --detach")


def test_without_runsc_gvisor_says_how_to_get_it(tmp_path: Path) -> None:
    testbed = recording_testbed(RecordingHost(), tmp_path)
    with pytest.raises(Unavailable, match="no program 'runsc'") as caught, Gvisor().prepare(testbed):
        pass
    assert caught.value.hint and "lastro setup gvisor" in caught.value.hint


def test_a_way_to_catch_system_calls_that_hangs_has_a_reason_and_a_remedy(tmp_path: Path) -> None:
    def hangs(argv: Sequence[str]) -> Completed | None:
        if "--detach" in argv[-1]:
            raise CommandTimeout(argv, 20)
        return None

    found = Gvisor(platform="kvm").probe(recording_testbed(RecordingHost(hangs), tmp_path))
    assert found.reason == "runsc did not start instance probe-gvisor within 20 s"
    assert found.remedy and "systrap" in found.remedy


def test_where_there_is_no_nftables_links_tell_what_crossed(tmp_path: Path) -> None:
    def counted(name: str, rx: int, tx: int) -> dict[str, object]:
        return {
            "ifname": name,
            "stats64": {way: {"packets": n, "bytes": 100 * n} for way, n in (("rx", rx), ("tx", tx))},
        }

    links = json.dumps([counted("in0", 30, 20), counted("out0", 20, 28)])
    host = RecordingHost(lambda argv: answer(links) if "link" in argv else None)
    path, spec = ForwardingPath(), InstanceSpec("one", "function")
    with Gvisor().start(recording_testbed(host, tmp_path), spec) as instance:
        with Forwarding().installed(instance, path):
            assert Forwarding().counters(instance, path) == {"crossed": CounterReading(28, 2800 - 28 * 14)}
        with pytest.raises(Unavailable, match="'firewall' needs nftables"), Firewall().installed(instance, path):
            pass
        with pytest.raises(Unavailable, match="'dpi' needs nftables"), Dpi().installed(instance, path):
            pass
    assert not [argv for argv in host.commands if "nft" in argv]


# Docker


def docker_answers(argv: Sequence[str]) -> Completed | None:
    return answer("c0ffee\n") if "run" in argv else None


def test_each_set_of_docker_options_has_a_daemon_with_places_of_its_own(tmp_path: Path) -> None:
    host = RecordingHost(docker_answers, programs=("dockerd", "docker", "crun"))
    testbed = recording_testbed(host, tmp_path)
    platform = Docker(storage="vfs", runtime="crun")
    with platform.prepare(testbed), platform.start(testbed, SPEC) as instance:
        assert instance.cgroup == "/lastro/0a1b2c/c0ffee"
        client = ["docker", "--config", f"{testbed.run_dir}/docker-vfs-crun/client", "--host"]
        assert instance.wrap(["true"])[:4] == client
        assert instance.wrap(["true"])[5:] == ["exec", "--interactive", "one", "true"]
    daemon, home = host.command("dockerd"), testbed.run_dir / "docker-vfs-crun"
    assert daemon[daemon.index("dockerd") :] == [
        "dockerd", "--config-file", f"{home}/daemon.json", "--host", f"unix://{home}/socket",
        "--group", "root", "--data-root", f"{tmp_path}/docker-vfs-crun", "--exec-root", f"{home}/exec",
        "--pidfile", f"{home}/pid",
        "--exec-opt", "native.cgroupdriver=cgroupfs", "--storage-driver", "vfs", "--bridge=none", "--iptables=false",
        "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--log-level", "warn",
    ]  # fmt: skip
    assert platform.own_cgroups == ("/lastro/0a1b2c/docker-vfs-crun-daemon",)
    assert json.loads(host.files[f"{home}/daemon.json"])["runtimes"] == {"crun": {"path": "/usr/bin/crun"}}
    run = host.command("--detach")
    assert run[run.index("--runtime") + 1] == "crun"


def test_dockers_own_network_is_that_of_a_second_daemon_for_the_time_of_a_block(tmp_path: Path) -> None:
    host = RecordingHost(docker_answers, programs=("dockerd", "docker"))
    testbed = recording_testbed(host, tmp_path)
    platform = Docker()
    published = replace(SPEC, own_network=True, published="198.19.1.1:3129:3128")
    with platform.prepare(testbed), platform.own_network(testbed, "198.18.64.1/18"):
        before = len(host.commands)
        with platform.start(testbed, published), platform.start(testbed, replace(SPEC, name="two")):
            pass
        runs = [argv for argv in host.commands[before:] if "run" in argv]
        kept = pytest.raises(Unavailable, match="no instance into a user namespace")
        with kept, platform.start(testbed, published.with_security(user_namespace=True)):
            pass
    alone, networked = (argv for argv in host.commands if "dockerd" in argv)
    assert "--bip=198.18.64.1/18" in networked and "--bip=198.18.64.1/18" not in alone
    assert not {"--bridge=none", "--iptables=false", "--ip-masq=false"} & set(networked)
    assert "DBUS_SYSTEM_BUS_ADDRESS" in " ".join(networked), "firewalld would make the rules in the host's namespace"
    assert "NO_IPTABLES_RAW" not in " ".join(networked), "a published port is reached by Docker's usual rules"
    assert networked[networked.index("--data-root") + 1] == f"{tmp_path}/docker-network"
    (one, two), home = runs, testbed.run_dir
    assert one[one.index("--network") :][:4] == ["--network", "bridge", "--publish", "198.19.1.1:3129:3128"]
    assert two[two.index("--network") + 1] == "none" and "--publish" not in two
    assert [argv[argv.index("--host") + 1] for argv in runs] == [
        f"unix://{home}/docker-network/socket", f"unix://{home}/docker/socket",
    ]  # fmt: skip


def test_a_runtime_that_starts_on_existing_links_has_no_network_of_docker(tmp_path: Path) -> None:
    testbed = recording_testbed(RecordingHost(), tmp_path)
    with pytest.raises(Unavailable, match="runsc"), Docker(runtime="runsc").own_network(testbed, "198.18.64.1/18"):
        pass


def test_default_options_keep_dockers_usual_place(tmp_path: Path) -> None:
    host = RecordingHost(docker_answers, programs=("dockerd", "docker"))
    testbed = recording_testbed(host, tmp_path)
    platform = Docker()
    with platform.prepare(testbed):
        disk = platform.residuals(testbed)["instance's disk"]
    assert disk == f"{tmp_path}/docker/overlay2"


def test_a_daemon_that_ends_at_once_is_quoted_by_its_last_line(tmp_path: Path) -> None:
    words = "level=warning msg=other\nfailed to start daemon: error initializing graphdriver: driver not supported\n"

    def answers(argv: Sequence[str]) -> Completed | None:
        return answer(code=1, error=words) if "dockerd" in argv or "version" in argv[-1] else None

    testbed = recording_testbed(RecordingHost(answers, programs=("dockerd", "docker")), tmp_path)
    refused = pytest.raises(PlatformError, match=r"btrfs: failed to start daemon: .*driver not supported")
    with refused as caught, Docker(storage="btrfs").prepare(testbed):
        pass
    assert caught.value.hint and "docker:storage=vfs" in caught.value.hint


@pytest.mark.parametrize("slow_starts", [2, 3])
def test_a_daemon_whose_containerd_was_too_slow_is_started_again_twice(tmp_path: Path, slow_starts: int) -> None:
    started: list[Sequence[str]] = []

    def answers(argv: Sequence[str]) -> Completed | None:
        started.extend([argv] if "dockerd" in argv else [])
        slow = len(started) <= slow_starts and ("dockerd" in argv or "version" in argv[-1])
        words = "failed to start containerd: timeout waiting for containerd to start"
        return answer(code=1, error=words) if slow else docker_answers(argv)

    host = RecordingHost(answers, programs=("dockerd", "docker"))
    prepared = Docker().prepare(recording_testbed(host, tmp_path))
    with nullcontext() if slow_starts == 2 else pytest.raises(PlatformError, match="timeout waiting"), prepared:
        pass
    assert len(started) == 3
    assert [argv[:2] for argv in host.commands if argv[-1].endswith("containerd.pid")] == [["rm", "-f"]] * 3


def test_drivers_that_older_papers_had_say_why_they_are_not_here(tmp_path: Path) -> None:
    host = RecordingHost(programs=("dockerd", "docker"))
    refused = pytest.raises(Unavailable, match="no devicemapper")
    with refused as caught, Docker(storage="devicemapper").prepare(recording_testbed(host, tmp_path)):
        pass
    assert caught.value.hint and "overlay2" in caught.value.hint
    assert host.commands == []


def test_a_runtime_that_is_not_installed_is_unavailable_with_its_remedy(tmp_path: Path) -> None:
    testbed = recording_testbed(RecordingHost(programs=("dockerd", "docker")), tmp_path)
    with pytest.raises(Unavailable, match="no program 'crun'") as caught, Docker(runtime="crun").prepare(testbed):
        pass
    assert caught.value.hint == "apt-get install crun"


@pytest.mark.parametrize(
    ("kind", "runtimes"),
    [
        (
            Docker(runtime="runsc"),
            {
                "runsc": {
                    "path": "/usr/bin/runsc",
                    "runtimeArgs": ["--net-raw", "--gso=false", "--overlay2=none", "--oci-seccomp"],
                }
            },
        ),
        (Kata(), {"kata": {"runtimeType": "io.containerd.kata.v2"}}),
    ],
    ids=["docker:runtime=runsc", "kata"],
)
def test_a_runtime_that_takes_links_over_starts_in_the_namespace_of_a_holder(
    kind: Docker, runtimes: dict[str, object], tmp_path: Path
) -> None:
    numbers = iter(["holder", "instance"])
    host = RecordingHost(
        lambda argv: answer(next(numbers)) if {"run", "create"} & set(argv) else None,
        programs=("dockerd", "docker", "runsc", "containerd-shim-kata-v2"),
    )
    testbed = recording_testbed(host, tmp_path)
    spec = InstanceSpec("one", "function", ports=("eth0",), sysctls={"net.ipv4.ip_forward": "1"})
    with kind.prepare(testbed), kind.start(testbed, spec) as instance:
        assert instance.cgroup == "/lastro/0a1b2c/instance"
        before = len(host.commands)
        instance.plug([Port(instance, "eth0", "198.18.0.1/24")], {})
        words = [argv[5:] for argv in host.commands[before:] if argv[0] == "docker"]
        assert words[0] == ["start", "one"]
        client = list(host.commands[-1][:5])
    home = testbed.run_dir / ("kata" if kind.name == "kata" else "docker-runsc")
    assert json.loads(host.files[f"{home}/daemon.json"])["runtimes"] == runtimes
    image = testbed.image.docker_tag
    assert [*client, "run", "--detach", "--runtime=runc", "--network=none", "--cgroup-parent", "/lastro/0a1b2c",
            "--hostname", "function", "--name", "one-network", image, "sleep", "infinity"] in host.commands  # fmt: skip
    sysctls = ["--sysctl=net.ipv4.ip_forward=1"] if kind.name == "kata" else []
    create = next(argv for argv in host.commands if "create" in argv)
    assert create[5:] == [
        "create", "--network", "container:one-network", "--runtime", kind.runtime, "--cgroup-parent", "/lastro/0a1b2c",
        *sysctls, "--security-opt=apparmor=unconfined", "--security-opt=label=disable",
        "--security-opt=seccomp=unconfined", "--name", "one", image, "sleep", "infinity",
    ]  # fmt: skip
    removed = [argv[-1] for argv in host.commands if "rm" in argv and "--force" in argv]
    assert removed == ["one", "one-network"]


def kata_answers(argv: Sequence[str]) -> Completed | None:
    return answer("c0ffee\n") if {"run", "create"} & set(argv) else None


@pytest.mark.parametrize("printed", ["", "/", "../..", "two words"])
def test_a_container_without_an_id_is_refused_since_its_cgroup_could_be_any(printed: str, tmp_path: Path) -> None:
    host = RecordingHost(lambda argv: answer(printed) if "run" in argv else None, programs=("dockerd", "docker"))
    testbed, platform = recording_testbed(host, tmp_path), Docker()
    refused = pytest.raises(PlatformError, match="returned no container ID for instance one")
    with platform.prepare(testbed), refused, platform.start(testbed, SPEC):
        pass
    assert any("rm" in argv and argv[-1] == "one" for argv in host.commands), "it is removed by its name"


def test_kata_is_a_guest_or_it_is_unavailable(tmp_path: Path) -> None:
    programs = ("dockerd", "docker", "containerd-shim-kata-v2")
    boot_id = "/proc/sys/kernel/random/boot_id"
    for inside, works in (("host\n", False), ("guest\n", True)):
        host = RecordingHost(
            lambda argv, inside=inside: answer(inside) if boot_id in argv else kata_answers(argv), programs=programs
        )
        host.files[boot_id] = "host\n"
        testbed, platform = recording_testbed(host, tmp_path / inside.strip()), Kata()
        with platform.prepare(testbed):
            found = platform.probe(testbed)
        assert bool(found) is works
        assert works or (found.reason and "no guest has started" in found.reason)


def test_without_katas_shim_it_says_what_to_install(tmp_path: Path) -> None:
    testbed = recording_testbed(RecordingHost(programs=("dockerd", "docker")), tmp_path)
    with pytest.raises(Unavailable, match="containerd-shim-kata-v2") as caught, Kata().prepare(testbed):
        pass
    assert caught.value.hint and "Docker 23" in caught.value.hint
