"""What every platform must do, on real instances: run things as asked, keep its limits, leave nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from lastro import registry
from lastro.errors import CommandFailed, CommandTimeout, TrialError, Unavailable
from lastro.host.cgroups import Resources
from lastro.host.ledger import NETNS_DIR
from lastro.isolation.seccomp import filter_profile
from lastro.platforms.base import Instance, InstanceSpec, Platform, Security
from lastro.scenarios.base import PlatformPool
from lastro.testbed import Testbed

from ..hostlisting import live, owned_processes

pytestmark = pytest.mark.root

MIB = 1 << 20
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SPIN = ["timeout", "2", "sh", "-c", "while :; do :; done"]


@dataclass(frozen=True)
class Subject:
    """A platform under test."""

    testbed: Testbed
    platform: Platform

    @property
    def is_container(self) -> bool:
        return self.platform.name != "native"

    def start(self, name: str = "subject", **spec: object) -> AbstractContextManager[Instance]:
        return self.platform.start(self.testbed, InstanceSpec(name=name, role="subject", **spec))  # type: ignore[arg-type]

    def leftovers(self) -> list[str]:
        """Everything of instances that the session still has."""
        token = self.testbed.session.token
        groups = [
            str(group)
            for directory in self.testbed.cgroups.directories(self.testbed.session.cgroup)
            for group in directory.glob("*/")
        ]
        bundles = [str(path) for path in self.testbed.run_dir.iterdir() if path.name not in ("docker", "runc")]
        namespaces = [str(path) for path in NETNS_DIR.glob(f"*{token}*") if path.name != self.testbed.dut]
        containers = [str(path) for path in self.testbed.run_dir.glob("runc/*")]
        owned = [f"{each.kind} {each.name}" for each in self.testbed.session.owned_objects()]
        scratch = [str(path) for path in self.testbed.scratch_dir.iterdir()]
        return sorted([*groups, *bundles, *namespaces, *containers, *owned, *scratch])


@pytest.fixture(scope="module", params=sorted(registry.names("platform")))
def subject(request: pytest.FixtureRequest, testbed: Testbed, pool: PlatformPool) -> Subject:
    found = pool.availability(request.param)
    assert found, f"this host cannot run {request.param}: {found.reason}"
    return Subject(testbed, pool.get(request.param))


@pytest.fixture(scope="module")
def instance(subject: Subject) -> Iterator[Instance]:
    """One that tests share which do not change it."""
    with subject.start("shared") as started:
        yield started


def inside(instance: Instance, file: str) -> str:
    return instance.run(["cat", file]).text.strip()


# Commands


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_codes_come_back(instance: Instance, code: int) -> None:
    assert instance.run(["sh", "-c", f"exit {code}"], check=False).returncode == code


def test_a_failed_command_raises_with_its_last_words(instance: Instance) -> None:
    with pytest.raises(CommandFailed) as caught:
        instance.run(["sh", "-c", "echo the reason >&2; exit 3"])
    assert caught.value.returncode == 3
    assert "the reason" in caught.value.message


def test_a_program_that_is_not_there_is_a_failed_command(instance: Instance) -> None:
    with pytest.raises(CommandFailed, match="no-such-program"):
        instance.run(["no-such-program"])


def test_death_by_a_signal_counts_alike_everywhere(instance: Instance) -> None:
    assert instance.run(["sh", "-c", "kill -KILL $$"], check=False).returncode == 128 + signal.SIGKILL
    assert instance.run(["sh", "-c", "kill -TERM $$"], check=False).returncode == 128 + signal.SIGTERM


def test_output_and_errors_stay_apart(instance: Instance) -> None:
    done = instance.run(["sh", "-c", "echo out; echo err >&2; echo more"])
    assert (done.text, done.error_text) == ("out\nmore\n", "err\n")


def test_a_megabyte_of_output_on_both_streams(instance: Instance) -> None:
    done = instance.run(["sh", "-c", f"head -c {MIB} /dev/zero; head -c {MIB} /dev/zero | tr '\\0' e >&2"])
    assert done.stdout == bytes(MIB)
    assert done.stderr == b"e" * MIB


@pytest.mark.parametrize("size", [0, 1, MIB + 7])
def test_binary_input_comes_back_unchanged(instance: Instance, size: int) -> None:
    data = os.urandom(size)
    assert instance.run(["cat"], stdin=data).stdout == data


def test_without_input_a_reader_sees_the_end_at_once(instance: Instance) -> None:
    assert instance.run(["cat"], timeout_s=10).stdout == b""


def test_arguments_arrive_as_they_are(instance: Instance) -> None:
    words = ["a b", "", "'", '"', "$HOME", "*", "\\", "ü\n-", "--", "-c", ";false"]
    done = instance.run(["printf", "%s\\0", *words])
    assert done.stdout.decode().split("\0")[:-1] == words


def test_environment_and_directory_are_fixed(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LASTRO_TEST_LEAK", "1")
    variables = dict(line.partition("=")[::2] for line in instance.run(["env"]).text.splitlines())
    assert variables["PATH"] == PATH
    assert "LASTRO_TEST_LEAK" not in variables
    assert instance.run(["pwd"]).text == "/\n"
    assert instance.run(["id", "-u"]).text == "0\n"


def test_a_command_that_takes_too_long_is_given_up_and_gone_with_the_instance(subject: Subject) -> None:
    with subject.start() as instance:
        started_s = time.monotonic()
        with pytest.raises(CommandTimeout):
            instance.run(["sleep", "86399"], timeout_s=0.5)
        assert time.monotonic() - started_s < 5
        assert instance.run(["echo", "still here"]).text == "still here\n"
        pids = instance.pids()
    assert not live(pids)


def test_a_background_command_is_read_line_by_line_and_ends_with_the_instance(subject: Subject) -> None:
    with subject.start() as instance:
        process = instance.spawn(["sh", "-c", "echo first; echo ready now; echo words >&2; exec sleep 86398"])
        assert process.wait_line("ready", 10) == "ready now\n"
        assert process.alive()
        with pytest.raises(CommandTimeout):
            process.wait_line("never", 0.2)
        done = process.stop()
        assert not process.alive()
        assert (done.text, done.error_text) == ("first\nready now\n", "words\n")
        assert process.stop() is done
        pids = instance.pids()
    assert not live(pids)


def test_waiting_for_a_line_of_a_command_that_has_failed_raises(instance: Instance) -> None:
    with pytest.raises(CommandFailed, match="broken"):
        instance.spawn(["sh", "-c", "echo broken >&2; exit 5"]).wait_line("ready", 10)


# Resources


def test_a_memory_hog_dies_alone(subject: Subject) -> None:
    limit = 64 * MIB
    with subject.start("victim") as victim, subject.start("hog", resources=Resources(memory_bytes=limit)) as hog:
        bystander = victim.spawn(["sleep", "86397"])
        done = hog.run(["tail", "/dev/zero"], check=False, timeout_s=60)
        assert done.returncode == 128 + signal.SIGKILL
        assert 0.5 * limit < hog.usage().memory_peak_bytes <= limit
        assert bystander.alive()
        assert hog.run(["echo", "alive"]).text == victim.run(["echo", "alive"]).text == "alive\n"


def test_limits_stand_in_the_kernels_own_files(subject: Subject) -> None:
    resources = Resources(
        cpus=0.5, cpuset="0", memory_bytes=128 * MIB, memory_reserved_bytes=64 * MIB, cpu_weight=50
    )  # fmt: skip
    groups = subject.testbed.cgroups
    with subject.start(resources=resources) as instance:
        for file, wanted in groups.settings(resources):
            found = (groups.root / file.format(name=instance.cgroup.strip("/"))).read_text().strip()
            assert found == wanted, file
        assert inside(instance, "/proc/self/status").count("Cpus_allowed_list:\t0\n") == 1
        assert subject.testbed.session.token in inside(instance, "/proc/self/cgroup") or groups.version == 2


def test_a_quota_of_a_fifth_is_kept(subject: Subject) -> None:
    with subject.start(resources=Resources(cpus=0.2)) as instance:
        before = instance.usage()
        done = instance.run(SPIN, check=False)
        used = instance.usage().since(before)
    assert done.returncode == 124
    assert 0.12 < used.cpu_s / done.duration_s < 0.28


def test_use_is_counted_and_never_falls(subject: Subject) -> None:
    with subject.start() as instance:
        readings = [instance.usage()]
        for _ in range(5):
            instance.run(["sh", "-c", "head -c 4000000 /dev/zero | md5sum"])
            readings.append(instance.usage())
        for earlier, later in pairwise(readings):
            assert later.cpu_s > earlier.cpu_s
            assert later.user_s >= earlier.user_s
            assert later.memory_peak_bytes >= earlier.memory_peak_bytes
        assert readings[-1].user_s <= readings[-1].cpu_s + 0.05
        assert readings[-1].memory_peak_bytes >= readings[-1].memory_bytes > 0


def test_written_bytes_are_counted(subject: Subject) -> None:
    with subject.start() as instance:
        before = instance.usage()
        instance.run(["dd", "if=/dev/zero", "of=/var/tmp/file", "bs=1M", "count=8", "oflag=direct"])
        used = instance.usage().since(before)
    assert 8 * MIB <= used.write_bytes < 16 * MIB
    assert used.write_ops > 0


# The world inside


def test_settings_of_the_kernel_are_seen_inside_and_only_there(subject: Subject) -> None:
    outside = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    with subject.start("router", sysctls={"net.ipv4.ip_forward": "1"}) as router, subject.start("plain") as plain:
        assert inside(router, "/proc/sys/net/ipv4/ip_forward") == "1"
        assert inside(plain, "/proc/sys/net/ipv4/ip_forward") == "0"
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == outside


def test_only_who_asks_may_change_the_network(subject: Subject) -> None:
    argv = ["ip", "link", "add", "extra0", "type", "veth", "peer", "name", "extra1"]
    with subject.start("plain") as plain:
        may = plain.run(argv, check=False).returncode == 0
        assert may is not subject.is_container
    with subject.start("admin", security=Security(capabilities=("CAP_NET_ADMIN",))) as admin:
        admin.run(argv)


def test_there_is_no_network_before_links_are_attached(instance: Instance) -> None:
    links = json.loads(instance.run(["ip", "-j", "link"]).text)
    assert [link["ifname"] for link in links] == ["lo"]
    assert "UP" in links[0]["flags"]
    assert instance.run(["ip", "route"]).text == ""
    assert instance.run(["ping", "-c", "1", "-W", "1", "198.18.0.1"], check=False).returncode != 0


def test_instances_do_not_see_each_other(subject: Subject) -> None:
    with subject.start("one") as one, subject.start("two") as two:
        one.run(["sh", "-c", "echo mine > /root/file"])
        assert two.run(["cat", "/root/file"], check=False).returncode != 0
        for each in (one, two):
            each.spawn(["sleep", "86396"])
        time.sleep(0.2)
        assert one.pids() and two.pids() and not one.pids() & two.pids()
        namespaces = {each.run(["readlink", "/proc/self/ns/net"]).text for each in (one, two)}
        assert len(namespaces | {f"{Path('/proc/self/ns/net').readlink()}\n"}) == 3
        if subject.is_container:
            assert "86396" not in two.run(["sh", "-c", "cat /proc/1/cmdline"]).text
            assert two.run(["hostname"]).text == "subject\n"


def test_the_root_filesystem_is_writable_and_fresh_every_time(subject: Subject) -> None:
    with subject.start() as first:
        first.run(["sh", "-c", "echo dirt > /usr/bin/dirt; rm /usr/bin/stress; echo dirt > /etc/hostname"])
        assert inside(first, "/usr/bin/dirt") == "dirt"
    with subject.start() as second:
        assert second.run(["ls", "/usr/bin/dirt"], check=False).returncode != 0
        assert second.run(["ls", "/usr/bin/stress"]).returncode == 0
    tree = subject.testbed.image.tree
    assert not (tree / "usr/bin/dirt").exists()
    assert (tree / "usr/bin/stress").exists()


# The end


def test_stopping_leaves_nothing(subject: Subject) -> None:
    before = subject.leftovers()
    with subject.start() as instance:
        instance.spawn(["sleep", "86395"])
        script = "sleep 86394 >/dev/null 2>&1 & mount -t tmpfs tmpfs /mnt 2>/dev/null; head -c 9000000 /dev/zero > /big"
        instance.run(["sh", "-c", script])
        pids, marked = instance.pids(), owned_processes(subject.testbed.session.token)
        assert len(pids) >= 2
        assert len(subject.leftovers()) > len(before)
    assert subject.leftovers() == before
    assert not live(pids)
    assert len(owned_processes(subject.testbed.session.token)) < len(marked)


def test_even_processes_that_keep_forking_are_ended(subject: Subject) -> None:
    """Each lives for a moment and leaves a child: whoever looks, then signals, comes too late for some."""
    hop = 'n=$1; [ "$n" -gt 0 ] || exit 0; sh -c "$0" "$0" $((n - 1)) & exit 0'
    with subject.start() as instance:
        for _ in range(4):  # in a container, nobody reaps them: not too many
            instance.run(["sh", "-c", hop, hop, "300" if subject.is_container else "3000"])
        pids = instance.pids()
        group = instance.cgroup
    assert not live(pids)
    assert not any(directory.exists() for directory in subject.testbed.cgroups.directories(group))


def test_a_name_can_be_used_again_at_once(subject: Subject) -> None:
    for _ in range(3):
        with subject.start("again") as instance:
            assert instance.run(["true"]).returncode == 0


def test_an_instance_that_cannot_start_raises_and_leaves_nothing(subject: Subject) -> None:
    if not subject.is_container:
        impossible: dict[str, object] = {"resources": Resources(cpuset="4095")}
    else:
        impossible = {"sysctls": {"net.ipv4.no_such_setting": "1"}}
    before = subject.leftovers()
    with pytest.raises(TrialError), subject.start("broken", **impossible):
        pass
    assert subject.leftovers() == before
    with subject.start("broken") as instance:
        assert instance.run(["true"]).returncode == 0


def test_an_error_inside_the_block_still_withdraws_the_instance(subject: Subject) -> None:
    before = subject.leftovers()
    with pytest.raises(ZeroDivisionError), subject.start():
        raise ZeroDivisionError
    assert subject.leftovers() == before


# Confinement


def test_a_filter_of_system_calls_is_in_force(subject: Subject) -> None:
    """A user namespace is what a container may make without any capability, and a filter can forbid."""
    security = Security(seccomp=filter_profile())
    if not subject.is_container:
        with pytest.raises(Unavailable, match="native"), subject.start(security=security):
            pass
        return
    with subject.start("free") as free:
        assert free.run(["unshare", "--user", "true"], check=False).returncode == 0
        assert "Seccomp:\t0" in inside(free, "/proc/self/status")
    with subject.start("filtered", security=security) as filtered:
        done = filtered.run(["unshare", "--user", "true"], check=False)
        assert done.returncode != 0
        assert "not permitted" in done.error_text
        assert "Seccomp:\t2" in inside(filtered, "/proc/self/status")


def test_a_container_has_dockers_usual_capabilities_and_no_more(subject: Subject, instance: Instance) -> None:
    status = dict(line.split(":\t", 1) for line in inside(instance, "/proc/self/status").splitlines())
    effective = int(status["CapEff"], 16)
    assert (effective == 0x00000000A80425FB) is subject.is_container


def test_probing_finds_it_available_and_leaves_nothing(subject: Subject) -> None:
    before = subject.leftovers()
    assert subject.platform.probe(subject.testbed)
    assert subject.leftovers() == before
    assert subject.platform.residuals(subject.testbed)["root filesystem"]


# Docker alone


@pytest.fixture
def docker(testbed: Testbed, pool: PlatformPool) -> Subject:
    return Subject(testbed, pool.get("docker"))


def test_the_users_docker_does_not_see_ours(docker: Subject) -> None:
    with docker.start("private"):
        for host in ("unix:///var/run/docker.sock", "unix:///run/docker.sock"):
            done = subprocess.run(
                ["docker", "--host", host, "ps", "--all", "--format", "{{.Names}}"],
                capture_output=True, text=True, timeout=20, check=False,
            )  # fmt: skip
            assert "private" not in done.stdout.split()
        links = subprocess.run(
            ["ip", "-n", docker.testbed.dut, "-o", "link"], capture_output=True, text=True, check=True
        )
        assert "docker0" not in links.stdout


def test_a_killed_daemon_costs_one_trial_and_no_more(docker: Subject) -> None:
    before = docker.leftovers()
    with pytest.raises(TrialError), docker.start("lost") as instance:
        pids = instance.pids()
        os.kill(int((docker.testbed.run_dir / "docker" / "pid").read_text()), signal.SIGKILL)
        time.sleep(0.3)
        instance.run(["true"])
    for name in ("lost", "next"):
        with docker.start(name) as instance:
            assert instance.run(["echo", "fine"]).text == "fine\n"
    assert not live(pids)
    assert docker.leftovers() == before


def test_the_users_containerd_is_never_spoken_to(docker: Subject) -> None:
    """dockerd takes the host's containerd where its socket answers: a listener there must see no one come.

    The daemon is killed first, so that a new one has to start while the listener is there."""
    os.kill(int((docker.testbed.run_dir / "docker" / "pid").read_text()), signal.SIGKILL)
    time.sleep(0.3)
    place = Path("/run/containerd")
    existed = place.exists()
    place.mkdir(mode=0o700, exist_ok=True)
    address = place / "containerd.sock"
    assert not address.exists(), "a containerd of this host is running: this test needs its place"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        listener.settimeout(0)
        try:
            with docker.start("alone") as instance:
                assert instance.run(["echo", "here"]).text == "here\n"
            with pytest.raises(BlockingIOError):
                listener.accept()
        finally:
            address.unlink()
            if not existed:
                place.rmdir()
