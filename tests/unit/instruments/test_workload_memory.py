"""STREAM after its definition, and mbw: rates from times, and what casts doubt on them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.errors import InstrumentError
from lastro.host.cgroups import parse_cpus
from lastro.host.processors import last_level_cache_bytes
from lastro.instruments._memory import MemoryWorkload
from lastro.instruments.mbw import Mbw
from lastro.instruments.stream import BYTES, Stream
from lastro.instruments.sysbench_memory import SysbenchMemory
from lastro.results.samples import Remark

from ...support.recording import FakeInstance, answer
from ...support.workload_samples import text_of

ONE: dict[str, Any] = {"array": "1M", "repeats": 3}


def test_bytes_of_an_iteration_are_those_that_were_published() -> None:
    assert BYTES == {"copy": 16, "scale": 16, "add": 24, "triad": 24}


def test_the_best_repeat_counts_without_the_first() -> None:
    text = text_of("stream-1.txt")
    copy = next(line for line in text.splitlines() if line.startswith("copy "))
    found = Stream(**ONE).read(text.replace(copy, "copy 0.000001 0.002 0.001"))
    assert found.measurements["stream_copy"] == pytest.approx(16 * 131_072 / 1e6 / 0.001)
    (series,) = [each for each in found.series if each.name == "stream_copy"]
    assert len(series.values) == 3 and max(series.values) == pytest.approx(16 * 131_072 / 1e6 / 1e-6)


def test_wrong_results_are_no_measurement() -> None:
    (reason,) = Stream(**ONE).read(text_of("stream-1.txt").replace("error 0.000e+00", "error 3.0e-2")).invalid_because
    assert "the arrays differ by 0.03 from" in reason
    with pytest.raises(InstrumentError):
        Stream(**ONE).read(text_of("stream-1.txt").replace("error 0.000e+00", "error inf"))


def test_fewer_threads_or_a_shorter_array_are_doubted() -> None:
    reasons = Stream(**ONE | {"threads": 2, "array": "2M"}).read(text_of("stream-1.txt")).invalid_because
    assert reasons == (
        "lastro-stream had 1 threads instead of 2",
        "lastro-stream had 131072 elements instead of 262144",
    )


def test_thousands_of_threads_are_a_matter_of_asking() -> None:
    assert Stream(threads=2000, array="128M").argv() == [
        "env", "OMP_NUM_THREADS=2000", "OMP_STACKSIZE=512K", "lastro-stream", str(2**24), "10"
    ]  # fmt: skip


def ran(tool: MemoryWorkload, cache: str | None, printed: str = "stream-1.txt") -> tuple[Remark, ...]:
    """What it remarks in an instance of a host with this last-level cache; None: of which its kernel tells nothing."""
    cpu = "/sys/devices/system/cpu/cpu0/cache/index0"
    host = _Files({} if cache is None else {f"{cpu}/level": "3", f"{cpu}/size": cache})

    spec = SimpleNamespace(resources=SimpleNamespace(cpuset="0", memory_bytes=None))
    testbed = SimpleNamespace(host=host)
    instance: Any = FakeInstance(lambda argv: answer(text_of(printed)), took_s=1.0, testbed=testbed, spec=spec)
    tool.prepare(instance)
    return tool.run(instance, 60).remarks


def test_a_bandwidth_that_may_be_a_caches_bears_a_mark() -> None:
    assert ran(Stream(**ONE), "256K") == ()
    assert [(each.kind, len(each.metrics)) for each in ran(Stream(**ONE), "32M")] == [("through a cache", 4)]
    (unknown,) = ran(Stream(**ONE), None)
    assert (unknown.kind, len(unknown.metrics)) == ("through a cache", 4)
    assert unknown.text == "the size of the last-level cache is unknown: it may hold arrays of 1.0 MiB"


@pytest.mark.parametrize("cache", ["2M", "3M"])
def test_a_sweep_over_sizes_says_where_it_is_in_the_cache(cache: str) -> None:
    """A level may be meant to be in a cache: its number is the cache's all the same."""
    (small,) = ran(SysbenchMemory(block="1K", total="1G"), cache, "sysbench-memory-write.txt")
    assert (small.kind, small.metrics) == ("through a cache", ("memory_bandwidth", "memory_operations"))
    assert "blocks of 1.0 KiB against" in small.text
    found = ran(Mbw(array=8, runs=3), cache, "mbw-memcpy.txt")
    assert [each.metrics for each in found] == ([] if cache == "2M" else [("copy_bandwidth", "copy_bandwidth_best")])


def test_a_size_of_zero_is_one_that_no_cache_holds() -> None:
    mbw, sysbench, stream = Mbw(array=0, runs=3), SysbenchMemory(block="0", total="1G"), Stream(array="0", repeats=3)
    assert ran(mbw, "2M", "mbw-memcpy.txt") == () and mbw.argv()[-1] == "8"
    assert mbw.chosen["array"] == 8, "what was chosen is told with the trial"
    assert ran(sysbench, "3M", "sysbench-memory-write.txt") == ()
    assert "--memory-block-size=16777216" in sysbench.argv(), "the next power of two: sysbench takes nothing else"
    assert ran(stream, "256K") == () and stream.chosen["array"] == "1048576"
    assert sysbench.brief().chosen["block"] == "16777216"
    assert SysbenchMemory(block="0").brief().chosen["block"] == "1M"


# The size of caches


class _Files:
    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def read_text(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file", path)
        return self.files[path]


def machine(*shared: str) -> Any:
    """CPUs with a second-level cache of their own, and the third shared by those of a list."""
    cpus = Path("/sys/devices/system/cpu")
    files = {str(cpus / "online"): f"0-{len(shared) - 1}\n"}
    for cpu, sharing in enumerate(shared):
        for index, (level, size, who) in enumerate(
            [("1", "32K", str(cpu)), ("2", "1M", str(cpu)), ("3", "32M", sharing)]
        ):
            place = cpus / f"cpu{cpu}" / "cache" / f"index{index}"
            files |= {str(place / "level"): level, str(place / "size"): size, str(place / "shared_cpu_list"): who}
    return _Files(files)


def test_every_last_level_cache_in_use_counts_once() -> None:
    host = machine("0-1", "0-1", "2-3", "2-3")
    assert last_level_cache_bytes(host, None) == 64 << 20
    assert last_level_cache_bytes(host, "0-1") == 32 << 20
    assert last_level_cache_bytes(host, "1,2") == 64 << 20
    assert last_level_cache_bytes(_Files({}), "0") == last_level_cache_bytes(_Files({}), None) == 0  # type: ignore[arg-type]


def test_lists_of_cpus() -> None:
    assert parse_cpus("0-2,5") == {0, 1, 2, 5}
    assert parse_cpus("3\n") == {3}
    assert parse_cpus("") == parse_cpus("a-b") == frozenset()


# mbw


def test_copies_are_all_bytes_over_all_time() -> None:
    found = Mbw(array=8, runs=4, method="mcblock").read(text_of("mbw-mcblock.txt"))
    rates = (14414.414, 26058.632, 38834.951, 941.730)
    assert found.series[0].values == rates
    assert found.measurements["copy_bandwidth_best"] == max(rates)
    assert found.measurements["copy_bandwidth"] == pytest.approx(4 / sum(1 / rate for rate in rates))
    assert found.invalid_because == ()


def test_another_method_size_or_rate_than_its_own_is_doubted() -> None:
    assert (
        "mbw ran MEMCPY over 8.00000 MiB instead of dumb over 8"
        in Mbw(array=8, runs=3, method="dumb").read(text_of("mbw-memcpy.txt")).invalid_because
    )
    slow = text_of("mbw-mcblock.txt").replace("Copy: 941.730", "Copy: 100.000")
    assert (
        "mbw's run 3 reports 100.000 MiB/s, but 0.00850 s for 8 MiB"
        in Mbw(array=8, runs=4, method="mcblock").read(slow).invalid_because
    )
    with pytest.raises(InstrumentError, match="4 runs instead of 5"):
        Mbw(array=8, runs=5, method="mcblock").read(text_of("mbw-mcblock.txt"))
