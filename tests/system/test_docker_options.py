"""Docker with other storage drivers and runtimes: each set of options has a daemon, and several are alive at once."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from lastro.platforms.base import InstanceSpec
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed
from lastro.testing import Subject
from lastro.testing.network import LEFT, RIGHT, linked_pair, reaches

from ..conftest import needs_runsc

pytestmark = pytest.mark.root

LEVELS = ("docker", "docker:storage=vfs,runtime=crun", "docker:storage=fuse-overlayfs")


def test_daemons_with_different_options_are_alive_at_once(testbed: Testbed, pool: PlatformPool) -> None:
    with ExitStack() as stack:
        started = [
            stack.enter_context(pool.get(level).start(testbed, InstanceSpec(f"at-once-{number}", "probe")))
            for number, level in enumerate(LEVELS)
        ]
        assert len({instance.cgroup for instance in started}) == len(LEVELS)
        for level, instance in zip(LEVELS, started, strict=True):
            instance.run(["sh", "-c", f"echo {level} > /root/file"])
        for level, instance in zip(LEVELS, started, strict=True):
            assert instance.run(["cat", "/root/file"]).text.strip() == level
        disks = {pool.get(level).residuals(testbed)["instance's disk"] for level in LEVELS}
        assert len(disks) == len(LEVELS)
        assert not any(disk.startswith("/var/lib/docker") for disk in disks)


@pytest.mark.parametrize(
    ("driver", "file_system"),
    [
        ("overlay2", "overlay"),
        pytest.param("fuse-overlayfs", "fuse.fuse-overlayfs", marks=pytest.mark.slow),
        pytest.param("vfs", "/vfs/dir/", marks=pytest.mark.slow),
    ],
)
def test_a_storage_driver_is_what_the_root_is_mounted_from(
    driver: str, file_system: str, testbed: Testbed, pool: PlatformPool
) -> None:
    level = f"docker:storage={driver}"
    with pool.get(level).start(testbed, InstanceSpec("storage", "probe")) as instance:
        mounts = instance.run(["cat", "/proc/self/mountinfo"]).text.splitlines()
    (root,) = (line for line in mounts if line.split()[4] == "/")
    assert file_system in root
    assert pool.residuals(level)["root filesystem"] == driver


def test_a_driver_that_the_disk_does_not_support_is_unavailable_with_dockers_own_words(pool: PlatformPool) -> None:
    found = pool.availability("docker:storage=zfs")
    assert not found
    assert found.reason and "storage driver zfs: failed to start daemon" in found.reason
    assert found.remedy and "docker:storage=vfs" in found.remedy


@pytest.mark.parametrize(
    "runtime", [pytest.param("crun", marks=pytest.mark.slow), pytest.param("runsc", marks=needs_runsc)]
)
def test_instances_of_every_runtime_are_reached_over_their_links(
    runtime: str, testbed: Testbed, pool: PlatformPool
) -> None:
    subject = Subject(testbed, pool.get(f"docker:runtime={runtime}"))
    before = subject.leftovers()
    with linked_pair(subject, "veth-bridge") as (left, right):
        assert reaches(left, RIGHT)
        assert reaches(right, LEFT)
        kernel = left.run(["uname", "-r"]).text
        assert ("gvisor" in kernel) is (runtime == "runsc")
    assert subject.leftovers() == before
