"""Isolation that is in force, seen by what it does; anomalies that reach their dose; both honest where they do not."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lastro import registry
from lastro.anomalies.base import Anomaly, Demand, Dose
from lastro.errors import CommandFailed, Unavailable
from lastro.host.cgroups import Resources, block_device_of
from lastro.host.processors import last_level_cache_bytes
from lastro.isolation.apparmor import AppArmor
from lastro.isolation.base import NEIGHBOUR, Isolation, MeasuredUse, Profile, isolate, parts_of
from lastro.isolation.cgroups import CgroupLimits
from lastro.isolation.none import NoIsolation
from lastro.isolation.seccomp import Seccomp, filter_profile
from lastro.platforms.base import AVAILABLE, Instance, InstanceSpec, Platform
from lastro.platforms.docker import Docker
from lastro.platforms.oci import oci_config
from lastro.scenarios.shared.chain import deployed
from lastro.scenarios.shared.pools import PlatformPool
from lastro.testbed import Testbed

from ..cli.conftest import until
from ..conftest import needs_runsc
from ..support.products import one_of

pytestmark = pytest.mark.root

MIB = 1 << 20
COUNT = "/proc/sys/net/netfilter/nf_conntrack_count"
PLATFORMS = ["native", "runc", "crun", "docker", "podman", "lxc", "nspawn"]  # that start at once
FILTERED = [name for name in PLATFORMS if "seccomp" in registry.get("platform", name).confines]


@pytest.fixture(params=PLATFORMS)
def platform(request: pytest.FixtureRequest, pool: PlatformPool) -> Platform:
    return pool.get(request.param)


@pytest.fixture
def profile(testbed: Testbed) -> Profile:
    """What a small function may have needed: little enough that every floor of the neighbour's limits is in force."""
    need = MeasuredUse(cpus=0.04, memory_bytes=8 * MIB, read_bps=0, write_bps=1000, read_iops=0, write_iops=1)
    needs = dict.fromkeys(("source", "function", "sink"), need)
    return Profile(needs, float(os.cpu_count() or 1), block_device_of(testbed.scratch_dir))


def neighbour(*isolations: Isolation, profile: Profile | None = None) -> InstanceSpec:
    return isolate(InstanceSpec("neighbour", NEIGHBOUR), isolations, profile)


# cgroups


def test_limits_follow_from_the_profile(profile: Profile) -> None:
    busy = MeasuredUse(cpus=0.8, memory_bytes=100 * MIB, read_bps=0, write_bps=5e6, read_iops=0, write_iops=300)
    n_cpus = os.cpu_count() or 1
    chain = Profile({"function": busy, "source": profile.needs["source"]}, n_cpus - 0.6, "254:0")
    assert neighbour(CgroupLimits(), profile=chain).resources == Resources(
        cpus=0.6, cpu_weight=10, memory_bytes=200 * MIB, read_bps=4 * MIB, write_bps=10_000_000, read_iops=100,
        write_iops=600, block_device="254:0", pids=256, open_files=256, link_bps=2_000_000, connections=256,
    )  # fmt: skip
    assert isolate(InstanceSpec("function", "function"), [CgroupLimits()], chain).resources == Resources(
        cpu_weight=round(1000 * chain.chain_cpus), memory_reserved_bytes=200 * MIB
    )
    assert isolate(InstanceSpec("source", "source"), [CgroupLimits()], chain).resources == Resources(
        cpu_weight=round(1000 * chain.chain_cpus), memory_reserved_bytes=64 * MIB
    )


def test_without_a_disk_no_rates_are_limited(profile: Profile) -> None:
    resources = neighbour(CgroupLimits(), profile=Profile(profile.needs, 1000.0, None)).resources
    assert (resources.write_bps, resources.read_iops, resources.block_device) == (None, None, None)
    assert resources.cpus == 0.1


def test_the_neighbour_is_held_to_its_limits(testbed: Testbed, platform: Platform, profile: Profile) -> None:
    """CPU 0.1, memory 64 MiB, and 4 MiB/s written: the floors."""
    with platform.start(testbed, neighbour(CgroupLimits(), profile=profile)) as instance:
        before = instance.usage()
        spun = instance.run(["timeout", "1.5", "sh", "-c", "while :; do :; done"], check=False)
        assert instance.usage().since(before).cpu_s / spun.duration_s < 0.17
        written = instance.run(["dd", "if=/dev/zero", "of=/var/tmp/file", "bs=512K", "count=16", "oflag=direct"])
        if profile.block_device:
            assert 8 * MIB / written.duration_s < 1.3 * 4 * MIB
        eaten = instance.run(["tail", "/dev/zero"], check=False, timeout_s=60)
        assert eaten.returncode == 137
        assert instance.usage().memory_peak_bytes <= 64 * MIB


def test_each_limit_that_is_not_there_is_missed(testbed: Testbed, pool: PlatformPool) -> None:
    with pool.get("runc").start(testbed, InstanceSpec("free", NEIGHBOUR)) as instance:
        for resources in (
            Resources(cpus=0.3),
            Resources(cpu_weight=10),
            Resources(memory_bytes=64 * MIB),
            Resources(memory_reserved_bytes=64 * MIB),
            Resources(pids=256),
        ):
            instance.spec = InstanceSpec("free", NEIGHBOUR, resources=resources)
            assert " is " in str(CgroupLimits().verify(instance))


# Other isolations


def test_the_profile_of_apparmor_is_handed_to_each_runtime(testbed: Testbed) -> None:
    spec = neighbour(AppArmor())
    assert oci_config(spec, "netns", "/lastro/group")["process"]["apparmorProfile"] == "docker-default"
    argv = Docker()._run_argv(testbed, spec, "none")
    assert "--security-opt=apparmor=docker-default" in argv
    assert "--security-opt=seccomp=unconfined" in argv
    with pytest.raises(Unavailable, match="native"), registry.get("platform", "native")().start(testbed, spec):
        pass


def test_a_runtime_is_told_nothing_that_was_not_asked_for(testbed: Testbed) -> None:
    config = oci_config(neighbour(NoIsolation()), "netns", "/lastro/group")
    assert "apparmorProfile" not in config["process"]
    assert "seccomp" not in config["linux"]
    assert config["linux"]["resources"].keys() == {"devices"}
    argv = Docker()._run_argv(testbed, neighbour(NoIsolation()), "none")
    assert "--security-opt=apparmor=unconfined" in argv
    assert not [word for word in argv if word.startswith(("--cpu", "--memory", "--device", "--cap"))]


def test_a_combination_is_the_sum_of_its_parts(testbed: Testbed, profile: Profile) -> None:
    assert parts_of("cgroups+apparmor+seccomp") == ["cgroups", "apparmor", "seccomp"]
    parts = [registry.get("isolation", name)() for name in parts_of("cgroups+apparmor+seccomp")]
    spec = neighbour(*parts, profile=profile)
    config = oci_config(spec, "netns", "/lastro/group")
    assert config["process"]["apparmorProfile"] == "docker-default"
    assert config["linux"]["seccomp"] == filter_profile()
    assert config["linux"]["resources"]["cpu"] == {"quota": 10_000, "period": 100_000, "shares": 102}
    assert config["linux"]["resources"]["memory"] == {"limit": 64 * MIB}
    major, minor = map(int, str(profile.block_device or "0:0").split(":"))
    if profile.block_device:
        assert config["linux"]["resources"]["blockIO"]["throttleWriteBpsDevice"] == [
            {"major": major, "minor": minor, "rate": 4 * MIB}
        ]
    argv = Docker()._run_argv(testbed, spec, "none")
    assert {"--cpus=0.100", "--cpu-shares=102", f"--memory={64 * MIB}"} <= set(argv)
    (file,) = (word.partition("--security-opt=seccomp=")[2] for word in argv if "=seccomp=" in word)
    assert json.loads(Path(file).read_text()) == filter_profile()
    assert isolate(InstanceSpec("near", NEIGHBOUR), reversed(parts), profile) == isolate(
        InstanceSpec("near", NEIGHBOUR), parts, profile
    )


@pytest.mark.parametrize("name", one_of(FILTERED))
def test_a_combination_is_in_force(testbed: Testbed, pool: PlatformPool, profile: Profile, name: str) -> None:
    with pool.get(name).start(testbed, neighbour(CgroupLimits(), Seccomp(), profile=profile)) as instance:
        assert CgroupLimits().verify(instance) is None
        assert Seccomp().verify(instance) is None


# Anomalies


def demand_of(tool: str, **changes: Any) -> Demand:
    values: dict[str, Any] = {"tool": tool, "workers": 2, "memory_bytes": 32 * MIB, "timeout_s": 20.0}
    return Demand(**values | changes)


def anomaly(name: str) -> Anomaly:
    made: Anomaly = registry.get("anomaly", name)()
    return made


def test_a_load_that_cannot_start_is_told_in_its_own_words(testbed: Testbed, pool: PlatformPool) -> None:
    with pool.get("runc").start(testbed, neighbour()) as instance:
        instance.run(["rm", "/usr/bin/stress-ng"])
        with anomaly("cpu").at_work(instance, demand_of("stress-ng")) as load:
            time.sleep(0.5)
            with pytest.raises(CommandFailed, match="stress-ng"):
                load.require_alive()


@pytest.mark.measures
def test_a_neighbour_under_limits_still_reaches_what_these_allow(
    testbed: Testbed, pool: PlatformPool, profile: Profile
) -> None:
    part, demand = anomaly("cpu"), demand_of("stress-ng")
    with pool.get("runc").start(testbed, neighbour()) as instance:  # a cold program comes with 100 reads a second below
        instance.run([*part.argv(replace(demand, timeout_s=1.0))])
    with pool.get("runc").start(testbed, neighbour(CgroupLimits(), profile=profile)) as instance:
        with part.at_work(instance, demand) as load:
            time.sleep(0.8)
            before = load.reading()
            time.sleep(1.0)
            dose = load.dose_since(before)
        assert dose.cpus < 0.2
        assert part.unmet(dose, demand, instance.spec.resources) is None
        assert part.unmet(dose, demand, Resources()) is not None


def dosed(part: Anomaly, demand: Demand, instance: Instance, elapsed_s: float = 1.0) -> Dose:
    """Run the load, and return what it did in a second after it began."""
    with part.at_work(instance, demand) as load:
        load.require_alive()
        before = load.reading()
        time.sleep(elapsed_s)
        return load.dose_since(before)


@pytest.mark.measures
@pytest.mark.parametrize("name", ["network", "files", "sockets", "conntrack"])
def test_limits_hold_a_neighbour_that_exhausts_the_kernel(
    testbed: Testbed, pool: PlatformPool, profile: Profile, name: str
) -> None:
    """The kernel's own counters show the limit: 2 Mbit/s, 256 files of each worker, 256 connections."""
    part, demand = anomaly(name), demand_of("stress-ng")
    mark = testbed.session.mark()
    with pool.get("runc").start(testbed, neighbour(CgroupLimits(), profile=profile)) as instance:
        assert CgroupLimits().verify(instance) is None
        dose, limits = dosed(part, demand, instance), instance.spec.resources
    assert testbed.session.mark() == mark, "its link or its peer is left"
    assert part.unmet(dose, demand, limits) is None
    if name == "network":
        bps = 8 * dose.moved_bytes / dose.elapsed_s
        assert bps < 2_500_000 and dose.refused, "the limit delayed no frame"
        lower = replace(limits, link_bps=round(bps / 2))
    elif name == "conntrack":
        assert 250 <= dose.held <= 260 and dose.refused, "the limit refused no connection"
        lower = replace(limits, connections=100)
    else:
        assert 470 < dose.held < 540
        lower = replace(limits, open_files=100)
    assert "the limit is not in force" in str(part.unmet(dose, demand, lower))


@pytest.mark.parametrize(
    "name",
    [
        *one_of(PLATFORMS, "docker"),
        pytest.param("gvisor", marks=needs_runsc),
        pytest.param("qemu-tcg", marks=pytest.mark.slow),
    ],
)
def test_the_memory_that_a_neighbour_moves_is_counted_on_every_platform(
    testbed: Testbed, pool: PlatformPool, profile: Profile, name: str
) -> None:
    """Without limits and within those of its profile; a kernel of its own would hardly answer with a tenth of a CPU."""
    part, demand = (
        anomaly("membw"),
        demand_of("stress-ng", bandwidth_bps=200 * MIB, timeout_s=300.0),
    )  # memory is slow in an emulator
    for isolations in ((), (CgroupLimits(),)) if name in PLATFORMS else ((),):
        spec = neighbour(*isolations, profile=profile)
        with pool.get(name).start(testbed, spec) as instance:
            dose = dosed(part, demand, instance, 2.0)
        assert part.unmet(dose, demand, spec.resources) is None
        assert dose.moved_bytes / dose.elapsed_s < 1.5 * demand.bandwidth_bps
        cache_bytes = last_level_cache_bytes(testbed.host, None)  # of which it has a multiple
        most_bytes = spec.resources.memory_bytes or 5 * cache_bytes + (1 << 29)
        assert dose.memory_peak_bytes < most_bytes, "the kernel may end it there"


@pytest.mark.parametrize("name", [pytest.param("gvisor", marks=needs_runsc), "qemu-tcg"])
def test_a_profile_lets_an_instance_start(testbed: Testbed, pool: PlatformPool, name: str) -> None:
    assert CgroupLimits().probe(testbed, pool.get(name)) == AVAILABLE


def test_a_worker_that_the_kernel_kills_at_its_memory_limit_is_started_again(
    testbed: Testbed, pool: PlatformPool, profile: Profile
) -> None:
    part, demand = anomaly("memory"), demand_of("stress", memory_bytes=64 * MIB)  # of each worker; the limit of all
    with pool.get("runc").start(testbed, neighbour(CgroupLimits(), profile=profile)) as instance:
        at_rest = instance.pids()
        dose = dosed(part, demand, instance)
        assert part.unmet(dose, demand, instance.spec.resources) is None
        deadline_s = time.monotonic() + 5
        while instance.pids() != at_rest and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert instance.pids() == at_rest, "the load goes on after its end"


@pytest.mark.parametrize("limited", [False, True])
def test_a_neighbour_fills_the_table_of_the_function_that_its_packets_cross(
    testbed: Testbed, pool: PlatformPool, profile: Profile, limited: bool
) -> None:
    runc, links, nat = pool.get("runc"), registry.get("attachment", "veth-direct")(), registry.get("function", "nat")()
    spec, demand = neighbour(*([CgroupLimits()] if limited else ()), profile=profile), demand_of("stress-ng")
    mark = testbed.session.mark()
    with links.prepare(testbed), deployed(testbed, runc, links, nat) as chain, runc.start(testbed, spec) as instance:
        function = chain.instances["function"]

        def tracked() -> int:
            return int(testbed.host.run(["ip", "netns", "exec", function.netns, "cat", COUNT]).text)

        before, undisturbed = chain.counted(), tracked()
        part = anomaly("conntrack").through(function)
        assert part is not None
        with part.at_work(instance, demand) as load:
            load.require_alive()
            at_first = load.reading()
            held = tracked() - undisturbed
            dose = load.dose_since(at_first)
            assert chain.counted()["crossed"] == before["crossed"], "the load entered the path of the chain"
            assert chain.source.run(["ping", "-c", "1", "-w", "5", chain.path.sink]).returncode == 0
        assert part.unmet(dose, demand, instance.spec.resources) is None
        assert held == pytest.approx(256 if limited else dose.held, rel=0.02)
        assert bool(at_first.taken.refused) is limited
        until(lambda: tracked() < held / 2, "the end of the entries, which the kernel removes later", 20)
    assert testbed.session.mark() == mark, "its links or its peer are left"


@pytest.mark.parametrize("name", ["files", "sockets"])
def test_the_host_counts_what_a_neighbour_holds(testbed: Testbed, pool: PlatformPool, name: str) -> None:
    """What the processes hold is what the kernel of the whole host has allocated meanwhile."""

    def allocated() -> int:
        return int(testbed.host.read_text("/proc/sys/fs/file-nr").split()[0])

    with pool.get("runc").start(testbed, neighbour()) as instance:
        before = allocated()
        with anomaly(name).at_work(instance, demand_of("stress-ng")) as load:
            load.require_alive()
            assert 0.8 < (allocated() - before) / load.reading().taken.held < 1.2


def test_open_files_without_their_limit_are_noticed(testbed: Testbed, pool: PlatformPool, profile: Profile) -> None:
    spec = neighbour(CgroupLimits(), profile=profile)
    with pool.get("runc").start(testbed, spec) as instance:
        instance.wrap = partial(_unlimited, instance.wrap)  # type: ignore[method-assign]
        assert "files, not 256" in str(CgroupLimits().verify(instance))


def _unlimited(wrap: Callable[[Sequence[str]], list[str]], argv: Sequence[str]) -> list[str]:
    return wrap([word for word in argv if word != "prlimit" and not word.startswith("--nofile=")])
