"""LXD by a private daemon: what becomes of the host when it is killed, of storage on a file, and of confinement."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lastro.errors import TrialError
from lastro.host.cgroups import Resources
from lastro.platforms.base import InstanceSpec, Security
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed
from lastro.testing import Subject
from lastro.testing.subject import inside, live, status

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def lxd(testbed: Testbed, pool: PlatformPool) -> Subject:
    found = pool.availability("lxd")
    assert found, found.reason
    return Subject(testbed, pool.get("lxd"))


@pytest.fixture
def users_places() -> Iterator[None]:
    """What LXD would use if it were the user's is as it was."""

    def seen() -> list[str]:
        places = [Path(place) for place in ("/run", "/run/lxc", "/var/lib/lxd", "/var/log/lxd", "/var/cache/lxd")]
        return [str(path) for place in places if place.is_dir() for path in place.iterdir() if "lx" in str(path)]

    before = seen()
    yield
    assert seen() == before
    assert "lxd" not in {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}


@pytest.mark.slow  # with Docker's daemon it is in make test
def test_a_killed_daemon_costs_one_trial_and_no_more(lxd: Subject, users_places: None) -> None:
    before = lxd.leftovers()
    (group,) = lxd.platform.own_cgroups
    with pytest.raises(TrialError), lxd.start("lost") as instance:
        pids = instance.pids() | lxd.testbed.cgroups.pids(f"{group}/monitor-lost")
        assert len(pids) >= 2
        for pid in lxd.testbed.cgroups.pids(f"{group}/daemon"):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.3)
        instance.run(["true"])
    for name in ("lost", "next"):
        with lxd.start(name) as instance:
            assert instance.run(["echo", "fine"]).text == "fine\n"
    assert not live(pids)
    assert [line for line in lxd.leftovers() if "/pivot" not in line] == before


def test_storage_on_a_file_is_gone_with_the_daemon(testbed: Testbed, users_places: None) -> None:
    def loops() -> str:
        return subprocess.run(["losetup", "--list", "--noheadings"], capture_output=True, text=True, check=True).stdout

    with ExitStack() as stack:
        pool = PlatformPool(testbed, stack)
        found = pool.availability("lxd:storage=btrfs")
        assert found, found.reason
        platform = pool.get("lxd:storage=btrfs")
        with platform.start(testbed, InstanceSpec("on-a-file", "probe")) as instance:
            assert instance.run(["stat", "--file-system", "--format=%T", "/"]).text == "btrfs\n"
            assert testbed.session.token in loops()
    assert testbed.session.token not in loops()
    assert testbed.session.token not in Path("/proc/self/mountinfo").read_text().replace(testbed.dut, "")


def test_confinement_is_in_force(lxd: Subject) -> None:
    security = Security(user_namespace=True, read_only_root=True, drop_capabilities=True)
    resources = Resources(memory_bytes=1 << 27, cpuset="0")
    with lxd.start("confined", security=security, resources=resources) as instance:
        assert int(status(instance)["CapEff"], 16) == 0
        assert int(inside(instance, "/proc/self/uid_map").split()[1]) > 0
        done = instance.run(["touch", "/file"], check=False)
        assert done.returncode != 0 and "Read-only" in done.error_text
        group = lxd.testbed.cgroups.root / "memory" / instance.cgroup.strip("/")
        if lxd.testbed.cgroups.version == 1:
            assert (group / "memory.limit_in_bytes").read_text().strip() == str(1 << 27)
