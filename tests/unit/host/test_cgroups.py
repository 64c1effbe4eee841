"""Control groups of both versions, on trees of plain files with what kernels write into them."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

import pytest

from lastro.errors import PlatformError, WriteFailed
from lastro.host.cgroups import Cgroups, CgroupsV1, CgroupsV2, GroupTasks, Resources, Usage, block_device_of, detect
from lastro.host.local import LocalHost

pytestmark = pytest.mark.processes

NAME = "/lastro/1a2b3c/source"
ALL = Resources(
    cpus=1.5, cpu_weight=10, cpuset="0-1", memory_bytes=1 << 27, memory_reserved_bytes=1 << 26, read_bps=4_000_000,
    write_bps=5_000_000, read_iops=100, write_iops=200, block_device="254:0", pids=300,
)  # fmt: skip

V1_TREES = ("blkio", "cpu,cpuacct", "cpuset", "freezer", "memory", "systemd", "unified")
V1_USAGE = {
    "cpuacct/cpuacct.usage": "2345678901\n",
    "cpuacct/cpuacct.stat": "user 150\nsystem 61\n",
    "memory/memory.usage_in_bytes": "8388608\n",
    "memory/memory.max_usage_in_bytes": "16777216\n",
    "blkio/blkio.throttle.io_service_bytes_recursive": (
        "254:0 Read 4096\n254:0 Write 12288\n254:0 Sync 16384\n254:0 Async 0\n254:0 Discard 0\n254:0 Total 16384\n"
        "8:16 Read 512\n8:16 Write 0\n8:16 Total 512\nTotal 16896\n"
    ),
    "blkio/blkio.throttle.io_serviced_recursive": "254:0 Read 1\n254:0 Write 3\n254:0 Total 4\n8:16 Read 1\nTotal 5\n",
}
V2_USAGE = {
    "cpu.stat": "usage_usec 2345678\nuser_usec 1500000\nsystem_usec 845678\nnr_periods 0\nnr_throttled 0\n",
    "memory.current": "8388608\n",
    "memory.peak": "16777216\n",
    "io.stat": (
        "254:0 rbytes=4096 wbytes=12288 rios=1 wios=3 dbytes=0 dios=0\n"
        "8:16 rbytes=512 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n"
    ),
}
USED = Usage(
    cpu_s=2.345678, user_s=1.5, memory_bytes=8388608, memory_peak_bytes=16777216, read_bytes=4608, write_bytes=12288,
    read_ops=2, write_ops=3,
)  # fmt: skip


@pytest.fixture
def v1(tmp_path: Path) -> CgroupsV1:
    """As on a host whose systemd mounts cpu and cpuacct together, with a link for each."""
    for tree in V1_TREES:
        (tmp_path / tree).mkdir()
    for link in ("cpu", "cpuacct"):
        (tmp_path / link).symlink_to("cpu,cpuacct")
    for file, text in (("cpuset.cpus", "0-3\n"), ("cpuset.mems", "0\n")):
        (tmp_path / "cpuset" / file).write_text(text)
    return CgroupsV1(tmp_path)


@pytest.fixture
def v2(tmp_path: Path) -> CgroupsV2:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma misc\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids\n")
    return CgroupsV2(tmp_path)


def fill(groups: Cgroups, files: dict[str, str]) -> None:
    for file, text in files.items():
        tree, _, rest = file.rpartition("/")
        path = groups.root / tree / NAME.strip("/") / rest
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_use_is_read_from_version_1(v1: CgroupsV1) -> None:
    fill(v1, V1_USAGE)
    found = v1.usage(NAME)
    assert found.cpu_s == pytest.approx(2.345678901)
    assert found == Usage(**{f.name: getattr(USED, f.name) for f in fields(Usage)} | {"cpu_s": found.cpu_s})


def test_use_is_read_from_version_2(v2: CgroupsV2) -> None:
    fill(v2, V2_USAGE)
    assert v2.usage(NAME) == USED


def test_version_2_without_peak_or_disk_uses_what_is_there(v2: CgroupsV2) -> None:
    """memory.peak came with kernel 5.19; io.stat is empty until something was read or written."""
    fill(v2, {"cpu.stat": "usage_usec 7\nuser_usec 3\nsystem_usec 4\n", "memory.current": "4096\n", "io.stat": ""})
    assert v2.usage(NAME) == Usage(cpu_s=7e-6, user_s=3e-6, memory_bytes=4096, memory_peak_bytes=4096)


def test_a_fresh_peak_is_told_by_the_file_that_was_written_to(v2: CgroupsV2) -> None:
    """As kernels from 6.12 on have it: other readers, who open the file by its name, see the whole life's."""
    fill(v2, V2_USAGE)
    peak = v2.peak_file(NAME)
    with v2.fresh_peak(NAME) as fresh:
        assert fresh
        held = peak.rename(peak.with_name("held"))
        held.write_text("9000000\n")
        peak.write_text("16777216\n")
        assert v2.usage(NAME).memory_peak_bytes == 9_000_000
        assert CgroupsV2(v2.root).usage(NAME).memory_peak_bytes == 16_777_216
    assert v2.usage(NAME).memory_peak_bytes == 16_777_216


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_peak_that_cannot_be_forgotten_is_that_of_a_whole_life(
    version: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: Cgroups = request.getfixturevalue(version)
    fill(groups, V1_USAGE if version == "v1" else V2_USAGE)

    def refused(*_: object) -> int:
        raise OSError(22, "Invalid argument")  # as kernfs says of a file that is only to be read

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        with groups.fresh_peak(NAME) as fresh:
            assert not fresh
    monkeypatch.setattr(os, "write", refused)
    with groups.fresh_peak(NAME) as fresh:
        assert not fresh and groups.usage(NAME).memory_peak_bytes == 16_777_216


def test_processes_that_were_killed_for_memory_are_counted(v1: CgroupsV1, v2: CgroupsV2) -> None:
    for groups, file in ((v1, "memory/memory.oom_control"), (v2, "memory.events")):
        assert groups.memory_kills([NAME]) == 0, "the group is gone, or the kernel does not count it"
        fill(groups, {file: "under_oom 0\noom 9\noom_kill 7\noom_group_kill 1\n"})
        assert groups.memory_kills([NAME, f"{NAME}-gone"]) == 7


def test_processes_and_refused_forks_are_counted(v1: CgroupsV1, v2: CgroupsV2) -> None:
    for groups, tree in ((v1, "pids/"), (v2, "")):
        with pytest.raises(FileNotFoundError, match=r"pids\.current"):
            groups.tasks(NAME)
        fill(groups, {f"{tree}pids.current": "41\n"})
        assert groups.tasks(NAME) == GroupTasks(41)  # a kernel that does not count what it refuses
        fill(groups, {f"{tree}pids.events": "max 7\nmax.imposed 9\n"})
        assert groups.tasks(NAME) == GroupTasks(41, 7)


def test_use_between_two_readings_differs_but_for_memory() -> None:
    earlier = Usage(1.0, 0.5, 100, 200, 10, 20, 1, 2)
    later = Usage(3.5, 1.5, 50, 300, 110, 220, 11, 22)
    assert later.since(earlier) == Usage(2.5, 1.0, 50, 300, 100, 200, 10, 20)


V1_SETTINGS = [
    ("cpuset/{name}/cpuset.cpus", "0-1"),
    ("cpu/{name}/cpu.cfs_period_us", "100000"),
    ("cpu/{name}/cpu.cfs_quota_us", "150000"),
    ("cpu/{name}/cpu.shares", "102"),
    ("memory/{name}/memory.limit_in_bytes", "134217728"),
    ("memory/{name}/memory.soft_limit_in_bytes", "67108864"),
    ("blkio/{name}/blkio.throttle.read_bps_device", "254:0 4000000"),
    ("blkio/{name}/blkio.throttle.write_bps_device", "254:0 5000000"),
    ("blkio/{name}/blkio.throttle.read_iops_device", "254:0 100"),
    ("blkio/{name}/blkio.throttle.write_iops_device", "254:0 200"),
    ("pids/{name}/pids.max", "300"),
]
V2_SETTINGS = [
    ("{name}/cpuset.cpus", "0-1"),
    ("{name}/cpu.max", "150000 100000"),
    ("{name}/cpu.weight", "10"),
    ("{name}/memory.max", "134217728"),
    ("{name}/memory.low", "67108864"),
    ("{name}/io.max", "254:0 rbps=4000000 wbps=5000000 riops=100 wiops=200"),
    ("{name}/pids.max", "300"),
]


def test_every_limit_has_its_file_and_value_on_version_1(v1: CgroupsV1) -> None:
    assert v1.settings(ALL) == V1_SETTINGS


def test_every_limit_has_its_file_and_value_on_version_2(v2: CgroupsV2) -> None:
    assert v2.settings(ALL) == V2_SETTINGS


def test_what_is_not_limited_is_not_written(v1: CgroupsV1) -> None:
    for groups in (v1, CgroupsV2(v1.root)):
        assert groups.settings(Resources()) == []
        assert groups.settings(Resources(write_bps=5)) == []  # on no device
    assert v1.settings(Resources(cpus=0.1)) == [
        ("cpu/{name}/cpu.cfs_period_us", "100000"),
        ("cpu/{name}/cpu.cfs_quota_us", "10000"),
    ]
    assert CgroupsV2(v1.root).settings(Resources(write_iops=7, block_device="8:0")) == [
        ("{name}/io.max", "8:0 wiops=7")
    ]


@pytest.mark.parametrize(("weight", "shares"), [(100, 1024), (1, 10), (10_000, 102_400), (None, None), (0, 2)])
def test_weights_are_scaled_to_shares(weight: int | None, shares: int | None) -> None:
    assert Resources(cpu_weight=weight).cpu_shares == shares


def test_resources_are_true_when_anything_is_limited() -> None:
    assert not Resources()
    assert Resources(cpus=0.0)


def test_a_new_group_of_version_1_inherits_cpus_and_memory_nodes_all_the_way(v1: CgroupsV1) -> None:
    (v1.root / "cpuset/lastro").mkdir()
    (v1.root / "cpuset/lastro/cpuset.cpus").write_text("2-3\n")  # somebody has narrowed it
    v1.make(LocalHost(), NAME, Resources(cpuset="3", memory_bytes=4096))
    for group in ("lastro", "lastro/1a2b3c"):
        assert (v1.root / "cpuset" / group / "cpuset.cpus").read_text().strip() == "2-3"
        assert (v1.root / "cpuset" / group / "cpuset.mems").read_text().strip() == "0"
    own = v1.root / "cpuset" / NAME.strip("/")
    assert ((own / "cpuset.cpus").read_text(), (own / "cpuset.mems").read_text()) == ("3", "0")
    assert (v1.root / "memory" / NAME.strip("/") / "memory.limit_in_bytes").read_text() == "4096"
    for tree in V1_TREES:
        assert (v1.root / tree / NAME.strip("/")).is_dir()


def test_limits_of_disk_rates_are_lifted_where_a_group_has_them(v1: CgroupsV1, v2: CgroupsV2) -> None:
    assert v1.unlimited_disk(NAME) == v2.unlimited_disk(NAME) == []
    group = v1.root / "blkio" / NAME.strip("/")
    group.mkdir(parents=True)
    (group / "blkio.throttle.read_bps_device").write_text("")
    (group / "blkio.throttle.write_bps_device").write_text("254:0 4194304\n8:16 1000\n")
    written = str(group / "blkio.throttle.write_bps_device")
    assert v1.unlimited_disk(NAME) == [(written, "254:0 0"), (written, "8:16 0")]
    group = v2.root / NAME.strip("/")
    group.mkdir(parents=True)
    (group / "io.max").write_text("254:0 rbps=max wbps=4194304 riops=max wiops=max\n")
    assert v2.unlimited_disk(NAME) == [(str(group / "io.max"), "254:0 rbps=max wbps=max riops=max wiops=max")]


def test_version_1_without_a_cpuset_tree_inherits_nothing(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    assert CgroupsV1(tmp_path).preparing_writes(NAME) == []


def test_a_new_group_of_version_2_has_its_controllers_switched_on_above_it(v2: CgroupsV2) -> None:
    v2.make(LocalHost(), NAME, Resources(cpus=0.5))
    wanted = "+cpuset +cpu +io +memory +pids"
    for group in ("", "lastro", "lastro/1a2b3c"):
        assert (v2.root / group / "cgroup.subtree_control").read_text() == wanted
    own = v2.root / NAME.strip("/")
    assert (own / "cpu.max").read_text() == "50000 100000"
    assert not (own / "cgroup.subtree_control").exists()  # it holds processes, so it cannot have children


def test_a_host_without_some_controllers_is_asked_for_the_others_only(v2: CgroupsV2) -> None:
    (v2.root / "cgroup.controllers").write_text("hugetlb memory\n")
    assert {text for _, text in v2.preparing_writes(NAME)} == {"+memory"}
    (v2.root / "cgroup.controllers").write_text("hugetlb\n")
    assert v2.preparing_writes(NAME) == []


def test_a_weight_is_corrected_where_runtimes_compute_it_from_shares(v1: CgroupsV1, v2: CgroupsV2) -> None:
    """runc makes a weight of 4 of the 102 shares that stand for a weight of 10."""
    weight = v2.root / NAME.strip("/") / "cpu.weight"
    weight.parent.mkdir(parents=True)
    weight.write_text("4\n")
    v2.complete(LocalHost(), NAME, Resources(cpus=1.0))
    v1.complete(LocalHost(), NAME, ALL)
    assert weight.read_text() == "4\n"
    v2.complete(LocalHost(), NAME, ALL)
    assert weight.read_text() == "10"


def test_a_reservation_is_made_in_every_group_above_too(v2: CgroupsV2) -> None:
    """The kernel grants a group no more of memory.low than its parent has; siblings' shares add up."""
    own = v2.root / NAME.strip("/")
    sibling = own.with_name("sibling")
    own.mkdir(parents=True)
    sibling.mkdir()
    (sibling / "memory.low").write_text("1000\n")
    v2.complete(LocalHost(), NAME, Resources(memory_reserved_bytes=500))
    assert (own.parent / "memory.low").read_text() == "1500"
    assert (own.parent.parent / "memory.low").read_text() == "1500"
    assert not (v2.root / "memory.low").exists()


def test_a_memory_limit_allows_no_swap_on_top(v1: CgroupsV1, v2: CgroupsV2) -> None:
    files = (
        v1.root / "memory" / NAME.strip("/") / "memory.memsw.limit_in_bytes",
        v2.root / NAME.strip("/") / "memory.swap.max",
    )
    limit = Resources(memory_bytes=4096)
    for groups, file in zip((v1, v2), files, strict=True):
        assert groups.completing_writes(NAME, limit) == []  # a kernel that does not count swap
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("max\n")
        groups.complete(LocalHost(), NAME, limit)
    assert [file.read_text() for file in files] == ["4096", "0"]


def test_what_the_kernel_refuses_is_named(v2: CgroupsV2) -> None:
    (v2.root / NAME.strip("/") / "cpu.max").mkdir(parents=True)  # cannot be written, whoever we are
    with pytest.raises(WriteFailed, match=r"could not write '50000 100000' to .*/cpu\.max"):
        v2.make(LocalHost(), NAME, Resources(cpus=0.5))


def test_processes_are_found_in_the_group_and_below_it(v1: CgroupsV1) -> None:
    own = NAME.strip("/")
    for file, text in ((f"memory/{own}/cgroup.procs", "11\n12\n"), (f"freezer/{own}/sub/cgroup.procs", "13\n")):
        (v1.root / file).parent.mkdir(parents=True)
        (v1.root / file).write_text(text)
    assert v1.pids(NAME) == {11, 12, 13}
    assert v1.pids("/lastro/nothing") == set()


def test_the_kernel_is_told_to_count_on_a_disk_by_a_limit_that_is_none(v1: CgroupsV1) -> None:
    limit = v1.root / "blkio" / NAME.strip("/") / "blkio.throttle.write_bps_device"
    v1.count_io(LocalHost(), NAME, "254:0")
    assert not limit.exists()  # a kernel without it
    limit.write_text("")
    v1.count_io(LocalHost(), NAME, "254:0")
    assert limit.read_text() == "254:0 0"


def test_removing_takes_the_innermost_first_and_forgives_what_is_gone(v2: CgroupsV2) -> None:
    (v2.root / NAME.strip("/") / "a" / "b").mkdir(parents=True)
    (v2.root / NAME.strip("/") / "c").mkdir()
    v2.remove(NAME)
    v2.remove(NAME)
    assert not (v2.root / NAME.strip("/")).exists()
    assert (v2.root / "lastro" / "1a2b3c").is_dir()


def test_a_group_that_does_not_go_is_named_in_time(v2: CgroupsV2) -> None:
    (v2.root / NAME.strip("/")).mkdir(parents=True)
    (v2.root / NAME.strip("/") / "file").write_text("a directory with a file in it cannot be removed")
    with pytest.raises(PlatformError, match=f"cgroup {v2.root}{NAME} cannot be removed"):
        v2.remove(NAME, patience_s=0.05)


def test_version_2_is_told_by_its_controllers_at_the_root(v1: CgroupsV1) -> None:
    (v1.root / "unified/cgroup.controllers").write_text("hugetlb\n")  # a hybrid host
    assert detect(v1.root).version == 1
    (v1.root / "cgroup.controllers").write_text("cpu memory\n")
    assert detect(v1.root).version == 2


def test_a_file_system_without_a_disk_has_no_block_device() -> None:
    assert block_device_of(Path("/proc")) is None
    assert block_device_of(Path("/dev/shm")) is None


def test_the_block_device_of_a_disk_is_a_whole_disk() -> None:
    found = block_device_of(Path("/"))
    if found is not None:  # the root of a container or a live system may lie on no disk at all
        node = Path(f"/sys/dev/block/{found}")
        assert node.exists()
        assert not (node / "partition").exists()
