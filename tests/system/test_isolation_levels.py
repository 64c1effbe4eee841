"""Levels of isolation on real instances: what each does, and several together. The contract is in tests/contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastro import registry
from lastro.errors import Unavailable
from lastro.host.state_dirs import FIRST_ID
from lastro.isolation.base import NEIGHBOUR, Isolation, Profile, isolate, parts_of
from lastro.isolation.landlock import Landlock
from lastro.isolation.user_namespace import UserNamespace
from lastro.platforms.base import InstanceSpec, Platform, Security
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed
from lastro.testing.isolations import works_in_a_chain

from ..support.products import combinations

pytestmark = pytest.mark.root

COMBINATIONS = (
    "capabilities+read-only-root+seccomp+cgroups",
    "landlock+user-namespace+read-only-root+capabilities+seccomp",
)
LIMITLESS = Profile({}, 1.0, None)


def parts(level: str) -> list[Isolation]:
    return [registry.get("isolation", name)() for name in parts_of(level)]


def isolated(level: str, role: str = "probe", **security: tuple[str, ...]) -> InstanceSpec:
    return isolate(InstanceSpec("isolated", role, security=Security(**security)), parts(level), LIMITLESS)


@pytest.fixture(params=["native", "runc", "crun", "docker", "podman", "lxc", "nspawn"])
def platform(request: pytest.FixtureRequest, pool: PlatformPool) -> Platform:
    return pool.get(request.param)


@pytest.mark.parametrize(("name", "level"), combinations(["runc", "docker"], COMBINATIONS))
def test_a_chain_works_under_several(testbed: Testbed, pool: PlatformPool, name: str, level: str) -> None:
    works_in_a_chain(testbed, pool.get(name), parts(level))


# Capabilities


def test_only_what_the_role_works_with_stays(testbed: Testbed, platform: Platform) -> None:
    with platform.start(testbed, isolated("capabilities", capabilities=("CAP_NET_ADMIN",))) as instance:
        instance.run(["ip", "link", "add", "one", "type", "veth", "peer", "name", "two"])
        instance.run(["ping", "-c", "1", "-W", "2", "127.0.0.1"])
        for argv in (["chown", "1", "/etc/hostname"], ["chroot", "/", "true"], ["mknod", "/tmp/node", "c", "1", "3"]):
            assert "not permitted" in instance.run(argv, check=False).error_text, argv
    with platform.start(testbed, isolated("capabilities")) as instance:
        done = instance.run(["ip", "link", "add", "one", "type", "veth", "peer", "name", "two"], check=False)
        assert "not permitted" in done.error_text


# A read-only root


@pytest.mark.parametrize("name", ["runc", "crun", "docker", "podman", "lxc", "nspawn"])
def test_var_tmp_stays_on_the_disk(testbed: Testbed, pool: PlatformPool, name: str) -> None:
    """In memory, the disk anomaly would load another resource than its name says."""
    with pool.get(name).start(testbed, isolated("read-only-root")) as instance:
        kinds = instance.run(["stat", "--file-system", "--format=%T", "/tmp", "/run", "/var/tmp"]).text.split()
        assert kinds[:2] == ["tmpfs", "tmpfs"]
        assert kinds[2] != "tmpfs"
        instance.run(["dd", "if=/dev/zero", "of=/var/tmp/file", "bs=1M", "count=1", "oflag=direct"])
        instance.run(["sh", "-c", "cp /bin/true /tmp/program && /tmp/program"])


# A user namespace


@pytest.mark.parametrize("name", ["runc", "crun", "docker"])
def test_root_inside_is_nobody_outside(testbed: Testbed, pool: PlatformPool, name: str) -> None:
    with pool.get(name).start(testbed, isolated("user-namespace", capabilities=("CAP_NET_ADMIN",))) as instance:
        owners = {Path(f"/proc/{pid}").stat().st_uid for pid in instance.pids()}
        assert owners == {FIRST_ID}
        instance.run(["sh", "-c", "echo 1 > /run/file; chown 42:42 /run/file"])
        (pid,) = instance.pids()
        assert Path(f"/proc/{pid}/root/run/file").stat().st_uid == FIRST_ID + 42
        instance.run(["nft", "add", "table", "ip", "mine"])
        assert instance.run(["stat", "--format=%u", "/", "/etc/passwd", "/usr/bin/env"]).text.split() == ["0"] * 3


def test_the_tree_of_a_user_namespace_is_the_image(testbed: Testbed, pool: PlatformPool) -> None:
    listing = "cd /; find bin/ etc/ sbin/ usr/ -xdev -printf '%p %m %u %g %s\\n' | sort | sha256sum"
    found = []
    for level in ("none", "user-namespace"):
        with pool.get("runc").start(testbed, isolated(level)) as instance:
            found.append(instance.run(["sh", "-c", listing]).text)
    assert found[0] == found[1]


def test_native_has_no_user_namespace_to_give(testbed: Testbed, pool: PlatformPool) -> None:
    with (
        pytest.raises(Unavailable, match="native cannot confine an instance by user namespace"),
        pool.get("native").start(testbed, isolated("user-namespace")),
    ):
        pass
    assert UserNamespace().apply(InstanceSpec("some", NEIGHBOUR), None).security.user_namespace


# Landlock


def test_a_command_is_confined_and_else_as_it_was(testbed: Testbed, pool: PlatformPool) -> None:
    with pool.get("runc").start(testbed, isolated("landlock")) as instance:
        denied = instance.run(["sh", "-c", "echo 1 > /etc/file"], check=False)
        assert "Permission denied" in denied.error_text
        instance.run(["sh", "-c", "echo 1 > /tmp/a && mv /tmp/a /tmp/b && echo 2 >> /tmp/b && : > /tmp/b && rm /tmp/b"])
        assert instance.run(["cat"], stdin=b"\0binary\xff").stdout == b"\0binary\xff"
        assert instance.run(["sh", "-c", "exit 3"], check=False).returncode == 3
        missing = instance.run(["no-such-program"], check=False)
        assert missing.returncode == 127
        assert "no-such-program: No such file or directory" in missing.error_text
        assert instance.run(["/etc/passwd"], check=False).returncode == 126
        assert instance.run(["printf", "%s", "a b", "$HOME", "'"]).text == "a b$HOME'"
        assert instance.run(["sed", "-n", "s/^NoNewPrivs:\t//p", "/proc/self/status"]).text.strip() == "1"


def test_a_read_only_root_alone_is_not_taken_for_landlock(testbed: Testbed, pool: PlatformPool) -> None:
    with pool.get("runc").start(testbed, isolated("read-only-root")) as instance:
        assert "making a device node in /tmp" in str(Landlock().verify(instance))
        assert instance.run(["ls", "-A", "/tmp"]).text == ""
