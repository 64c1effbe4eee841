"""Anomalies that move memory: how much they take, and how what they moved is read."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro import registry
from lastro.anomalies import _memory_mover
from lastro.anomalies.base import Anomaly, Demand, KernelUse
from lastro.host.cgroups import Resources

MIB = 1 << 20
CACHE = {
    "/sys/devices/system/cpu/online": "0-1\n",
    "/sys/devices/system/cpu/cpu0/cache/index0/level": "3\n",
    "/sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list": "0-1\n",
    "/sys/devices/system/cpu/cpu0/cache/index0/size": "24576K\n",
}  # fmt: skip
CACHE |= {path.replace("cpu0", "cpu1"): text for path, text in CACHE.items() if "cpu0" in path}


def part(name: str) -> Anomaly:
    made: Anomaly = registry.get("anomaly", name)()
    return made


def neighbour(
    files: dict[str, str], limit: int | None = None, *, shares_kernel: bool = True, said: str = "", pids: Any = ()
) -> Any:
    def read_text(path: str) -> str:
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    def names(directory: str) -> list[str]:
        return sorted(path.rpartition("/")[2] for path in files if path.rpartition("/")[0] == directory)

    view = SimpleNamespace(names=names, read=lambda paths: {path: files[path] for path in paths})
    testbed = SimpleNamespace(
        host=SimpleNamespace(read_text=read_text, view=view), on_own_cpus=lambda resources: resources
    )
    return SimpleNamespace(
        shares_kernel=shares_kernel,
        spec=SimpleNamespace(resources=Resources(memory_bytes=limit)),
        testbed=testbed,
        pids=lambda: set(pids),
        run=lambda argv, check=True: SimpleNamespace(text=said),
    )


@pytest.mark.parametrize(
    ("name", "files", "limit", "memory_mib"),
    [
        ("membw", CACHE, None, 96),  # four times the cache, as STREAM asks for
        ("cache", CACHE, None, 24),
        ("membw", CACHE, 64 * MIB, 32),  # above its limit, the kernel would end it
        ("cache", CACHE, 64 * MIB, 24),
        ("membw", {}, None, 128),  # the kernel does not report the cache
        ("cache", {}, 40 * MIB, 20),
    ],
)
@pytest.mark.parametrize("shares_kernel", [True, False])
def test_the_memory_is_that_of_the_cache_or_half_of_what_there_is(
    name: str, files: dict[str, str], limit: int | None, memory_mib: int, shares_kernel: bool
) -> None:
    demand = Demand("stress", 2, 1, 20.0)
    for available_mib, wanted_mib in ((900, memory_mib), (30, min(memory_mib, 15))):
        meminfo = f"MemTotal: 9 kB\nMemAvailable:  {available_mib << 10} kB\n"
        here = {**files, "/proc/meminfo": meminfo if shares_kernel else ""}
        instance = neighbour(here, limit, shares_kernel=shares_kernel, said=meminfo)
        assert part(name).fitted(demand, instance).memory_bytes == wanted_mib * MIB


def test_what_was_moved_is_read_through_a_process_of_the_neighbour() -> None:
    """A process that has ended has no files; what is not a count is none."""
    counts = {"/proc/7/root/run/moved.0": "300\n", "/proc/7/root/run/moved.1": "45\n", "/proc/7/root/run/moved": "9\n"}
    assert part("membw").taken(neighbour(counts, pids=(7, 9))) == KernelUse(moved_bytes=345)
    assert part("membw").taken(neighbour(counts, pids=())) == KernelUse()
    assert part("cache").taken(neighbour({}, shares_kernel=False, said="300\n45\n")) == KernelUse(moved_bytes=345)


@pytest.mark.processes
@pytest.mark.parametrize(("operation", "per_s"), [("copy", 50 * MIB), ("compare", 0), ("write", 4 * MIB)])
def test_the_program_counts_what_it_moves(operation: str, per_s: int, tmp_path: Path) -> None:
    program = Path(_memory_mover.__file__).with_name("move.pl")
    argv = ["perl", str(program), operation, "2", str(2 * MIB), str(per_s), "1", str(tmp_path / "moved")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    counts = [int(path.read_text()) for path in sorted(tmp_path.glob("moved.*"))]
    assert len(counts) == 2 and all(counts)
    assert not list(tmp_path.glob("load*")), "a file stays"
    if per_s:
        assert sum(counts) <= 2 * 1.2 * per_s, "it makes up for what it missed"
