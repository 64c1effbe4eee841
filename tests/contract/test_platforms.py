"""What every platform must do, on real instances: the contract that is shipped, and what is Docker's alone."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastro import registry
from lastro.errors import TrialError
from lastro.host.cgroups import Resources
from lastro.platforms._daemons import DaemonEnded
from lastro.platforms.base import Instance, Security
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed
from lastro.testing import PlatformContract, Subject
from lastro.testing.commands import Commands
from lastro.testing.ending import Ending
from lastro.testing.limits import Limits
from lastro.testing.network import NAMES, Network, are_apart, linked_pair, reach_each_other_and_nothing_else, reaches
from lastro.testing.platforms import OnPlatform
from lastro.testing.subject import live, status
from lastro.testing.world import DOCKERS_CAPABILITIES, World
from lastro.units import MIB

from ..conftest import needs_crictl, needs_runsc
from ..support.products import one_of

pytestmark = pytest.mark.root


class TestNative(PlatformContract):
    platform = "native"
    contained = False


class TestRunc(PlatformContract):
    platform = "runc"


class TestCrun(PlatformContract):
    platform = "crun"


@needs_runsc
class TestGvisor(PlatformContract):
    """Its kernel is a process of the host's: what differs by that is said here, test by test."""

    platform = "gvisor"
    shares_kernel = False
    own_nftables = False
    many = 6  # each is a kernel that takes CPU to start

    def test_there_is_no_network_before_links_are_attached(self, instance: Instance) -> None:
        """Its routes of the loopback are in the main table."""
        assert [link["ifname"] for link in json.loads(instance.run(["ip", "-j", "link"]).text)] == ["lo"]
        routes = instance.run(["ip", "route"]).text.splitlines()
        assert [route for route in routes if " dev lo " not in route] == []
        assert not reaches(instance, "198.18.0.1", within_s=2)

    def test_a_container_has_dockers_usual_capabilities_and_no_more(self, instance: Instance) -> None:
        assert int(status(instance)["CapEff"], 16) == DOCKERS_CAPABILITIES

    def test_a_setuid_program_of_the_image_has_its_rights(self, instance: Instance) -> None:
        """Its kernel runs such programs without (runsc has --allow-suid for that)."""
        with pytest.raises(AssertionError):
            World.test_a_setuid_program_of_the_image_has_its_rights(self, instance)

    def test_a_memory_hog_dies_alone(self, subject: Subject, instance: Instance) -> None:
        """To the host all of its memory is one kernel's: the whole instance is ended, and no other."""
        with subject.start("hog", resources=Resources(memory_bytes=64 * MIB)) as hog:
            bystander = instance.spawn(["sleep", "86397"])
            assert hog.run(["tail", "/dev/zero"], check=False, timeout_s=60).returncode != 0
            assert hog.run(["true"], check=False).returncode != 0
            assert bystander.alive()
            assert instance.run(["echo", "alive"]).text == "alive\n"

    def test_written_bytes_are_counted(self, subject: Subject) -> None:
        """It writes through the host's page cache whatever it is asked: the counters of a disk come too late."""
        with subject.start() as instance:
            before = instance.written_bytes()
            instance.run(["dd", "if=/dev/zero", "of=/var/tmp/file", "bs=1M", "count=8", "oflag=direct"])
            assert 8 * MIB <= instance.written_bytes() - before < 24 * MIB


class TestDocker(PlatformContract):
    platform = "docker"
    many = 8  # each takes the daemon and its shims half a second of CPU


class TestLxc(PlatformContract):
    platform = "lxc"


class TestNspawn(PlatformContract):
    platform = "nspawn"


class Machine(OnPlatform):
    """A guest has a kernel of its own; smaller than this, that kernel does not boot."""

    shares_kernel = False
    small_memory_bytes = 160 * MIB
    many = 3

    # A tap, and a macvtap; flows to machines go through taps in tests/system.
    @pytest.mark.parametrize("attachment", one_of(["veth-bridge", "macvlan-bridge"], "macvlan-bridge"))
    def test_two_reach_each_other_over_the_link_and_nothing_else(self, subject: Subject, attachment: str) -> None:
        """They are those, too, that start in parallel and do not see each other: each boots for seconds."""
        before = subject.leftovers()
        with linked_pair(subject, attachment, NAMES) as pair:
            assert tuple(instance.spec.name for instance in pair) == NAMES
            reach_each_other_and_nothing_else(*pair)
            are_apart(subject, pair, shares_kernel=False)
        assert subject.leftovers() == before

    @pytest.mark.slow
    def test_many_start_in_parallel_and_do_not_see_each_other(self, subject: Subject) -> None:
        Network.test_many_start_in_parallel_and_do_not_see_each_other(self, subject)  # type: ignore[arg-type]


class TestQemuTcg(Machine, PlatformContract):
    """What takes several boots is long by nature here; all other platforms have it in each run."""

    platform = "qemu-tcg"

    @pytest.mark.slow
    def test_a_memory_hog_dies_alone(self, subject: Subject, instance: Instance) -> None:
        Limits.test_a_memory_hog_dies_alone(self, subject, instance)

    @pytest.mark.slow
    def test_stopping_leaves_nothing_and_ends_even_what_keeps_forking(self, subject: Subject) -> None:
        Ending.test_stopping_leaves_nothing_and_ends_even_what_keeps_forking(self, subject)

    @pytest.mark.slow
    def test_after_a_start_that_failed_and_an_error_nothing_is_left_and_the_name_is_free(
        self, subject: Subject
    ) -> None:
        Ending.test_after_a_start_that_failed_and_an_error_nothing_is_left_and_the_name_is_free(self, subject)

    @pytest.mark.slow
    def test_limits_are_in_force_and_bind_no_other(self, subject: Subject, instance: Instance) -> None:
        Limits.test_limits_are_in_force_and_bind_no_other(self, subject, instance)

    @pytest.mark.slow
    def test_probing_finds_it_available_and_leaves_nothing(self, subject: Subject) -> None:
        """The fixture of all tests here probes it, too, and the module leaves nothing."""
        Ending.test_probing_finds_it_available_and_leaves_nothing(self, subject)


@pytest.mark.slow
class TestQemuTcgEmulated(Machine, Commands, World, Network):
    """Other devices of the same machine: its limits and its end, which know of none, are as above."""

    platform = "qemu-tcg:disk=ahci,nic=e1000"
    test_written_bytes_are_counted = Limits.test_written_bytes_are_counted
    test_after_a_start_that_failed_and_an_error_nothing_is_left_and_the_name_is_free = (
        Ending.test_after_a_start_that_failed_and_an_error_nothing_is_left_and_the_name_is_free
    )
    test_probing_finds_it_available_and_leaves_nothing = Ending.test_probing_finds_it_available_and_leaves_nothing


@pytest.mark.slow
def test_machines_with_emulated_devices_reach_each_other(testbed: Testbed, pool: PlatformPool) -> None:
    subject = Subject(testbed, pool.get(TestQemuTcgEmulated.platform))
    Network().test_two_reach_each_other_over_the_link_and_nothing_else(subject, "veth-bridge")


def _contracts(base: type[PlatformContract]) -> Iterator[type[PlatformContract]]:
    for cls in base.__subclasses__():
        yield from _contracts(cls)
        if hasattr(cls, "platform"):
            yield cls


class TestPodman(PlatformContract):
    platform = "podman"
    many = 8  # each is a process of Podman's for a third of a second


class TestContainerd(PlatformContract):
    """Its commands are run by runc, so what takes long of them is in each run as that of `runc`."""

    platform = "containerd"
    many = 8  # each takes a shim

    @pytest.mark.slow
    def test_a_command_that_streams_is_seen(self, instance: Instance) -> None:
        Commands.test_a_command_that_streams_is_seen(self, instance)

    @pytest.mark.slow
    def test_a_measuring_command_keeps_its_output_inside_until_it_has_ended(self, instance: Instance) -> None:
        Commands.test_a_measuring_command_keeps_its_output_inside_until_it_has_ended(self, instance)

    @pytest.mark.slow
    def test_a_known_load_is_counted(self, instance: Instance) -> None:
        Limits.test_a_known_load_is_counted(self, instance)

    @pytest.mark.parametrize("attachment", one_of(["veth-bridge", "veth-direct", "macvlan-bridge"]))
    def test_two_reach_each_other_over_the_link_and_nothing_else(self, subject: Subject, attachment: str) -> None:
        Network.test_two_reach_each_other_over_the_link_and_nothing_else(self, subject, attachment)


@needs_crictl
class TestPod(TestContainerd):
    """Besides its own, a pod has the process that holds its namespaces."""

    platform = "pod"


class TestLxd(PlatformContract):
    """On a file with a file system that clones the image."""

    platform = "lxd:storage=btrfs"
    many = 8


@pytest.mark.slow
class TestLxdDirectory(PlatformContract):
    """Each instance unpacks the image anew, which takes seconds."""

    platform = "lxd"
    many = 3

    @pytest.mark.parametrize("attachment", one_of(["veth-bridge", "veth-direct", "macvlan-bridge"]))
    def test_two_reach_each_other_over_the_link_and_nothing_else(self, subject: Subject, attachment: str) -> None:
        Network.test_two_reach_each_other_over_the_link_and_nothing_else(self, subject, attachment)


def _tested() -> set[str]:
    return {cls.platform.partition(":")[0] for cls in _contracts(PlatformContract)}


def test_what_cannot_run_here_says_so_with_a_remedy(pool: PlatformPool) -> None:
    """A platform that works on this host and passes no contract is one that somebody forgot above."""
    for name in sorted(registry.names("platform") - _tested()):
        found = pool.availability(name)
        assert not found, f"{name} works here: give it a class of tests"
        assert found.reason and found.remedy, name


# The two platforms of containerd alone

OF_CONTAINERD = ["containerd", pytest.param("pod", marks=needs_crictl)]


@pytest.mark.parametrize("platform", OF_CONTAINERD)
def test_a_killed_containerd_costs_one_trial_and_no_more(testbed: Testbed, pool: PlatformPool, platform: str) -> None:
    subject = Subject(testbed, pool.get(platform))
    before = subject.leftovers()
    with pytest.raises(DaemonEnded, match="containerd ended"), subject.start("lost") as instance:
        pids = instance.pids()
        daemon = testbed.cgroups.pids(f"{testbed.session.cgroup}/{platform}-daemon")
        (pid,) = (pid for pid in daemon if Path(f"/proc/{pid}/comm").read_text() == "containerd\n")
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.3)
    for name in ("lost", "next"):
        with subject.start(name) as instance:
            assert instance.run(["echo", "fine"]).text == "fine\n"
    assert not live(pids)
    assert subject.leftovers() == before


@pytest.mark.parametrize("platform", OF_CONTAINERD)
def test_under_a_read_only_root_of_containerd_var_tmp_stays_on_the_disk(
    testbed: Testbed, pool: PlatformPool, platform: str
) -> None:
    subject = Subject(testbed, pool.get(platform))
    with subject.start("readonly", security=Security(read_only_root=True)) as instance:
        kinds = instance.run(["stat", "--file-system", "--format=%T", "/tmp", "/run", "/var/tmp"]).text.split()
        assert kinds[:2] == ["tmpfs", "tmpfs"] and kinds[2] != "tmpfs"
        assert "Read-only" in instance.run(["touch", "/file"], check=False).error_text
        instance.run(["dd", "if=/dev/zero", "of=/var/tmp/file", "bs=1M", "count=1", "oflag=direct"])


@needs_crictl
def test_a_pod_on_the_network_of_its_host_shares_its_namespace(testbed: Testbed, pool: PlatformPool) -> None:
    network = ["readlink", "/proc/self/ns/net"]
    with Subject(testbed, pool.get("pod")).start("of-node", netns=testbed.dut) as instance:
        of_host = testbed.host.run(["ip", "netns", "exec", testbed.dut, *network]).text
        assert instance.run(network).text == of_host


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
