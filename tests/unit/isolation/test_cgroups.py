"""A limit of memory that follows from a calibration is never less than what the platform starts with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import registry
from lastro.errors import Unavailable
from lastro.host.cgroups import CgroupsV2, Resources
from lastro.host.local import LocalHost
from lastro.isolation.base import NEIGHBOUR, MeasuredUse, Profile
from lastro.isolation.cgroups import CgroupLimits
from lastro.platforms.base import InstanceSpec, Platform
from lastro.platforms.hypervisor import Hypervisor
from lastro.platforms.qemu_tcg import QemuTcg

MIB = 1 << 20


def platforms() -> list[type[Platform]]:
    return [info.cls for info in registry.parts("platform").values() if info.cls is not None]


def limits(role: str, platform: Platform, memory_bytes: int = 8 * MIB) -> Resources:
    needs = dict.fromkeys((role, "function"), MeasuredUse(0.1, memory_bytes, 0, 0, 0, 0))
    profile = Profile(needs, 0.5, None, 2).on(platform)
    return CgroupLimits().apply(InstanceSpec("one", role), profile).resources


@pytest.mark.parametrize("platform", platforms(), ids=lambda cls: cls.name)
def test_every_platform_gets_the_memory_that_it_starts_with(platform: type[Platform]) -> None:
    least = max(64 * MIB, platform.least_memory_bytes)
    assert limits(NEIGHBOUR, platform()).memory_bytes == least
    assert limits("source", platform()).memory_reserved_bytes == least
    assert limits(NEIGHBOUR, platform(), 300 * MIB).memory_bytes == 600 * MIB, "a need above it counts, twice"
    assert (platform.least_memory_bytes >= 128 * MIB) is issubclass(platform, Hypervisor), "a kernel of its own"


def test_a_limit_of_a_platform_that_shares_the_kernel_is_as_before() -> None:
    assert limits(NEIGHBOUR, registry.get("platform", "runc")()).memory_bytes == 64 * MIB
    assert limits(NEIGHBOUR, QemuTcg()).memory_bytes == 128 * MIB


@pytest.mark.parametrize(
    ("memory", "limit", "what", "enough"),
    [
        ("64M", None, "set `platform.qemu-tcg.memory` to 128M or more", ("128M", None)),
        ("512M", 64 * MIB, "set the limit on the memory of the instance to 128M or more", ("512M", 128 * MIB)),
    ],
)
def test_the_remedy_for_a_guest_without_memory_works(
    memory: str, limit: int | None, what: str, enough: tuple[str, int | None]
) -> None:
    def require(memory: str, limit: int | None) -> None:
        QemuTcg(memory=memory).require_memory(InstanceSpec("one", "probe", resources=Resources(memory_bytes=limit)))

    with pytest.raises(Unavailable, match="a guest of qemu-tcg with 64 MiB of memory does not boot") as caught:
        require(memory, limit)
    assert caught.value.hint == what
    require(*enough)


def test_a_machine_shows_the_limits_of_its_monitor_and_is_judged_by_them(tmp_path: Path) -> None:
    """Its memory is the size of the machine, and its processes are in a table of its own: no group limits them."""
    (tmp_path / "group").mkdir()
    (tmp_path / "group/cpu.max").write_text("50000 100000\n")
    resources = Resources(cpus=0.5, memory_bytes=128 * MIB, pids=256)
    instance: Any = SimpleNamespace(
        cgroup="/group",
        spec=InstanceSpec("near", NEIGHBOUR, resources=resources),
        limits_outside=lambda: QemuTcg().cgroup_limits(resources),
        testbed=SimpleNamespace(cgroups=CgroupsV2(tmp_path), host=LocalHost()),
    )
    assert CgroupLimits().verify(instance) is None
    (tmp_path / "group/cpu.max").write_text("max 100000\n")
    assert "cpu.max is 'max 100000', not '50000 100000'" in str(CgroupLimits().verify(instance))
    instance.limits_outside = Resources
    assert CgroupLimits().verify(instance) == "the host's kernel shows no limits on it"
