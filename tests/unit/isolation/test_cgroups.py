"""Limits by control groups: the least memory of a platform, the CPUs of a neighbour, and how they are verified."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import registry
from lastro.errors import Unavailable
from lastro.host.cgroups import CgroupsV2, Resources, Usage
from lastro.host.local import LocalHost
from lastro.isolation.base import NEIGHBOUR, MeasuredUse, Profile
from lastro.isolation.cgroups import CgroupLimits
from lastro.platforms.base import InstanceSpec, Platform
from lastro.platforms.hypervisor import Hypervisor
from lastro.platforms.qemu_tcg import QemuTcg
from lastro.results.samples import Outcome
from lastro.scenarios.chain import ChainScenario
from lastro.scenarios.load import LoadScenario
from lastro.shapes import from_plain

from ...support.recording import RecordingHost, recording_testbed

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


def test_a_missing_quota_is_missed_on_version_2_too(tmp_path: Path) -> None:
    """The period stands in cpu.max with and without a quota."""
    (tmp_path / "group").mkdir()
    resources = Resources(cpus=0.5, read_bps=7, write_iops=9, block_device="8:0")
    instance: Any = SimpleNamespace(
        cgroup="/group",
        spec=InstanceSpec("near", NEIGHBOUR, resources=resources),
        limits_outside=lambda: resources,
        testbed=SimpleNamespace(cgroups=CgroupsV2(tmp_path), host=LocalHost()),
    )
    (tmp_path / "group/io.max").write_text("8:0 rbps=7 wbps=max riops=max wiops=9\n")
    (tmp_path / "group/cpu.max").write_text("50000 100000\n")
    assert CgroupLimits().verify(instance) is None
    (tmp_path / "group/cpu.max").write_text("max 100000\n")
    assert "cpu.max is 'max 100000', not '50000 100000'" in str(CgroupLimits().verify(instance))
    (tmp_path / "group/cpu.max").write_text("50000 100000\n")
    (tmp_path / "group/io.max").write_text("8:0 rbps=max wbps=max riops=max wiops=9\n")
    assert "io.max" in str(CgroupLimits().verify(instance))


def cpus_of_a_neighbour(profile: Profile) -> float | None:
    return CgroupLimits().apply(InstanceSpec("near", NEIGHBOUR), profile).resources.cpus


@pytest.mark.parametrize("kind", [ChainScenario, LoadScenario])
@pytest.mark.parametrize(("allowed", "left"), [("0", 0.25), ("0-63", 63.25), ("0-7,9", 8.25)])
def test_a_neighbour_gets_what_the_chain_leaves_of_the_cpus_of_the_dut(
    kind: Any, allowed: str, left: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of those of the controller: a guest may have fewer, a remote host more."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    host = RecordingHost()
    host.remote = True  # type: ignore[misc]
    host.files["/proc/self/status"] = f"Name:\tcat\nCpus_allowed_list:\t{allowed}\nMems_allowed_list:\t0\n"
    notes = {"elapsed_s": 5.0, "usage": {"function": asdict(Usage(cpu_s=3.0))}}
    outcome = Outcome({"host_cpus": 0.95}, notes={**notes, "carrying_cpus": 0.75})  # other programs had the rest
    scenario = object.__new__(kind)
    scenario._testbed = recording_testbed(host, tmp_path)
    profile = from_plain(Profile, scenario.calibration_value("profile/native", outcome))
    assert cpus_of_a_neighbour(profile) == left


def test_a_stored_profile_without_a_number_of_cpus_has_those_of_this_machine_as_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    stored = from_plain(Profile, {"needs": {}, "chain_cpus": 0.5, "block_device": None})
    assert cpus_of_a_neighbour(stored) == 3.5


def test_a_probe_leaves_a_neighbour_half_of_the_cpus_of_the_dut(tmp_path: Path) -> None:
    host = RecordingHost()
    host.remote = True  # type: ignore[misc]
    host.files["/proc/self/status"] = "Cpus_allowed_list:\t0\n"
    assert cpus_of_a_neighbour(Profile.unmeasured(recording_testbed(host, tmp_path))) == 0.5


def test_a_need_is_a_use_per_second() -> None:
    used = Usage(cpu_s=5.0, memory_peak_bytes=7, read_bytes=100, write_bytes=200, read_ops=10, write_ops=20)
    assert MeasuredUse.of(used, 10.0) == MeasuredUse(0.5, 7, 10, 20, 1, 2)


@pytest.mark.parametrize(
    ("controllers", "lacking"), [("cpuset cpu io memory", "pids"), ("cpuset cpu io memory pids", "")]
)
def test_where_a_kernel_lacks_a_controller_the_remedy_names_the_guest(
    controllers: str, lacking: str, tmp_path: Path
) -> None:
    (tmp_path / "cgroup.controllers").write_text(f"{controllers}\n")
    groups = CgroupsV2(tmp_path)
    testbed: Any = SimpleNamespace(cgroups=groups, host=LocalHost(), usable_cpus=[0, 1], scratch_dir=tmp_path)

    class Careless:
        """A platform that ignores limits that the kernel does not have."""

        name, least_memory_bytes = "careless", 0

        def start(self, testbed: Any, spec: InstanceSpec) -> Any:
            limits = spec.resources
            return nullcontext(
                SimpleNamespace(testbed=testbed, spec=spec, cgroup="/group", limits_outside=lambda: limits)
            )

    found = CgroupLimits().probe(testbed, Careless())  # type: ignore[arg-type]
    assert "cannot be read" in str(found.reason)
    assert (f"no cgroup controller {lacking}" in str(found.reason)) is bool(lacking)
    assert ("--testbed guest" in str(found.remedy)) is bool(lacking)
    assert groups.missing_controllers() == lacking.split()
