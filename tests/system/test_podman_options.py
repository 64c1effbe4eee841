"""Podman with another runtime, beside the first and beside the user's own."""

from __future__ import annotations

import os
from contextlib import ExitStack

import pytest

from lastro.host.cgroups import Resources
from lastro.platforms.base import InstanceSpec
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

pytestmark = pytest.mark.root

LEVELS = ("podman", "podman:runtime=crun")
# What Podman writes to unless it is kept from it: state, locks, caches.
PLACES = ("/run/libpod", "/run/containers", "/run/runc", "/run/crun", "/var/lib/containers", "/var/cache/containers")


def found(*places: str) -> set[str]:
    return {f"{top}/{name}" for place in places for top, _, names in os.walk(place) for name in names}


def test_both_runtimes_run_at_once_and_hold_their_limits(testbed: Testbed, pool: PlatformPool) -> None:
    resources = Resources(cpuset="0", memory_bytes=64 << 20)
    with ExitStack() as stack:
        for number, level in enumerate(LEVELS):
            spec = InstanceSpec(f"at-once-{number}", "probe", resources)
            instance = stack.enter_context(pool.get(level).start(testbed, spec))
            assert instance.run(["nproc"]).text == "1\n"
            for file, wanted in testbed.cgroups.settings(resources):
                group = instance.cgroup.strip("/")
                assert (testbed.cgroups.root / file.format(name=group)).read_text().strip() == wanted
        disks = {pool.get(level).residuals(testbed)["instance's disk"] for level in LEVELS}
        assert len(disks) == len(LEVELS)


def test_the_users_podman_is_neither_read_nor_written(testbed: Testbed, pool: PlatformPool) -> None:
    before = found(*PLACES, "/etc/cni", "/etc/containers", "/dev/shm")
    with pool.get("podman").start(testbed, InstanceSpec("apart", "probe")):
        assert found(*PLACES, "/etc/cni", "/etc/containers", "/dev/shm") == before
        inside = ["nsenter", f"--mount={testbed.run_dir}/podman/mnt"]
        assert testbed.host.run([*inside, "ls", "/etc/containers"]).text == "policy.json\n"
        assert testbed.host.run([*inside, "ls", "/dev/shm"]).text == "libpod_lock\n"
        assert "containers" in testbed.host.run([*inside, "ls", "/run"]).text.split()
