"""Large files lie in the state of their host, which for a remote one is not where the controller has its ledger.

In a guest, the path of that ledger is in memory."""

from __future__ import annotations

from pathlib import Path

from lastro.platforms._dockerd import Daemon
from lastro.platforms.podman import Podman
from lastro.scenarios import lifecycle

from ...support.recording import RecordingHost, answer, recording_testbed

STATE = Path("/srv/lastro")


def test_dockers_data_lie_on_the_disk_of_its_host(tmp_path: Path) -> None:
    testbed = recording_testbed(RecordingHost(), tmp_path, STATE)
    assert Daemon(testbed, "docker", storage="overlay2", runtimes={}).data_root == STATE / "docker"


def test_so_does_podmans_cache(tmp_path: Path) -> None:
    host = RecordingHost(lambda argv: answer("1024:1024") if "podman" in argv else None, programs=("runc", "crun"))
    host.files |= {"/proc/sys/kernel/pid_max": "32768\n", "/proc/sys/fs/nr_open": "1048576\n"}
    podman = Podman()
    podman._home, podman._scratch = Path("/run/lastro/p"), Path("/srv/lastro/scratch/p")
    podman._configure(recording_testbed(host, tmp_path, STATE))
    assert str(STATE / "podman") in host.files["/run/lastro/p/cache.conf"]
    assert not any(str(tmp_path) in text for text in host.files.values())


def test_the_disk_space_of_instances_is_counted_there(tmp_path: Path) -> None:
    host = RecordingHost(lambda argv: answer("4\n"))
    lifecycle._disk(recording_testbed(host, tmp_path, STATE))
    assert host.command("-cskx")[2:4] == [f"--exclude={STATE}/rootfs", str(STATE)]
