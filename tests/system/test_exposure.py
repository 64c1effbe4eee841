"""The exposure meter on real instances: numbers differ as they must, and nothing is altered by looking."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest

from lastro import registry
from lastro.errors import PlatformError
from lastro.host import capabilities
from lastro.isolation.base import isolate, parts_of
from lastro.isolation.seccomp import DENIED
from lastro.meters import _syscalls
from lastro.meters.exposure import ExposureMeter
from lastro.platforms.base import Instance, InstanceSpec
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

pytestmark = pytest.mark.root


def looked_at(testbed: Testbed, instance: Instance) -> tuple[dict[str, float], dict[str, Any]]:
    meter = ExposureMeter(testbed, {"function": instance})
    meter.start()
    meter.stop()
    return {name.removeprefix("exposure_"): value for name, value in meter.read().items()}, meter.notes()["exposure"]


def exposure(
    testbed: Testbed, pool: PlatformPool, name: str, level: str = "none"
) -> tuple[dict[str, float], dict[str, Any]]:
    parts = [registry.get("isolation", part)() for part in parts_of(level)]
    with pool.get(name).start(testbed, isolate(InstanceSpec("exposed", "function"), parts, None)) as instance:
        return looked_at(testbed, instance)


def test_native_is_the_host_itself(testbed: Testbed, pool: PlatformPool) -> None:
    values, notes = exposure(testbed, pool, "native")
    status = capabilities.status_fields(Path("/proc/self/status").read_text())
    assert values["capabilities"] == len(capabilities.names(int(status["CapBnd"], 16)))
    assert set(notes["namespaces shared"]) >= {"pid", "ipc", "uts", "user"}
    assert not {"mnt", "net"} & set(notes["namespaces shared"])
    assert notes["kernel"]["host's"] and notes["host name"]["host's"]
    assert values["host_kernel"] == 1
    assert values["writable_proc_sys"] > 100
    assert notes["system calls"]["SIGSYS"] == []
    assert notes["search cut short at"] is None


def test_a_container_reaches_less_than_native_and_less_still_when_isolated(
    testbed: Testbed, pool: PlatformPool
) -> None:
    native, _ = exposure(testbed, pool, "native")
    runc, _ = exposure(testbed, pool, "runc")
    for name in ("capabilities", "writable_proc_sys", "devices", "shared_namespaces", "syscalls"):
        assert runc[name] < native[name], name
    assert runc["host_kernel"] == 1
    assert runc["capabilities"] == 14

    filtered, notes = exposure(testbed, pool, "runc", "seccomp")
    assert notes["seccomp"] == "filter"
    tried = set(_syscalls.table(platform.machine()).values()) - set(_syscalls.NOT_TRIED)
    assert notes["system calls"]["tried"] == len(tried)
    assert set(DENIED) & tried <= {*notes["system calls"]["EPERM"], *notes["system calls"]["ENOSYS"]}
    assert filtered["syscalls"] < runc["syscalls"] - 20
    assert {name: filtered[name] for name in ("capabilities", "devices", "writable_proc_sys")} == {
        name: runc[name] for name in ("capabilities", "devices", "writable_proc_sys")
    }

    bare, notes = exposure(testbed, pool, "runc", "capabilities")
    assert bare["capabilities"] == 0
    assert notes["capabilities"] == {"effective": [], "bounding": []}

    shifted, notes = exposure(testbed, pool, "runc", "user-namespace")
    assert shifted["capabilities"] == 0
    assert len(notes["capabilities"]["effective"]) == 14
    assert shifted["shared_namespaces"] == runc["shared_namespaces"] - 1

    landlocked, notes = exposure(testbed, pool, "native", "landlock")
    assert landlocked["writable_proc_sys"] == 0
    assert notes["no_new_privs"]


@pytest.mark.measures  # some settings of the kernel are not of a namespace, and another worker may change them
def test_looking_alters_nothing(testbed: Testbed, pool: PlatformPool) -> None:
    """Neither files, nor settings, nor processes, nor what System V left; and a second look sees the same."""
    everything = (
        "find / -xdev -printf '%p %m %T@ %s\\n' | sort | sha256sum; ps ax 2>/dev/null; ls /proc | grep -c '^[0-9]'; "
        "cat /proc/sysvipc/* /proc/sys/kernel/hostname /proc/swaps; grep -r . /proc/sys/net 2>/dev/null | "
        "grep -v 'tcp_fastopen_key\\|nf_conntrack_count\\|inet_peer' | sha256sum"
    )
    with pool.get("runc").start(testbed, InstanceSpec("exposed", "function")) as instance:
        before = instance.run(["sh", "-c", everything]).text
        first = looked_at(testbed, instance)
        assert instance.run(["sh", "-c", everything]).text == before
        assert len(instance.pids()) == 1
        assert looked_at(testbed, instance)[0] == first[0]


def test_native_leaves_the_host_as_it_was(testbed: Testbed, pool: PlatformPool) -> None:
    def settings() -> list[str]:
        files = ("sys/kernel/hostname", "sys/kernel/domainname", "swaps", "sysvipc/msg", "sysvipc/sem", "sysvipc/shm")
        return [Path("/proc", file).read_text() for file in files]

    before = settings()
    exposure(testbed, pool, "native")
    assert settings() == before


@pytest.mark.parametrize("name", ["runc", "docker", "native"])
def test_an_instance_without_perl_is_told(testbed: Testbed, pool: PlatformPool, name: str) -> None:
    with pool.get(name).start(testbed, InstanceSpec("bare", "function")) as instance:
        instance.run(["rm", "/usr/bin/perl"])
        with pytest.raises(PlatformError, match="found no perl in instance bare") as caught:
            looked_at(testbed, instance)
    assert "perl-base" in str(caught.value.hint)
