"""What sysbench's reports say, on real output of 1.0.20, and when they contradict themselves."""

from __future__ import annotations

import pytest

from lastro.errors import InstrumentError
from lastro.instruments.sysbench_cpu import SysbenchCpu
from lastro.instruments.sysbench_memory import SysbenchMemory

from ...support.workload_samples import text_of


def test_cpu_is_events_over_time() -> None:
    found = SysbenchCpu(primes=5000, events=2000).read(text_of("sysbench-cpu-events.txt"))
    assert found.measurements == {
        "time_tool": 0.1727, "cpu_events": pytest.approx(2000 / 0.1727), "cpu_event_mean": 0.09, "cpu_event_p95": 0.1
    }  # fmt: skip
    assert found.invalid_because == ()


def test_another_number_of_threads_or_of_events_than_was_asked_for_is_doubted() -> None:
    reasons = SysbenchCpu(threads=4, events=3000).read(text_of("sysbench-cpu-events.txt")).invalid_because
    assert reasons == (
        "sysbench worked with 1 threads instead of 4",
        "sysbench did 2000 events instead of 3000",
    )


def test_a_run_cut_short_is_doubted() -> None:
    reasons = SysbenchCpu(threads=2, time_s=2).read(text_of("sysbench-cpu-time.txt")).invalid_because
    assert reasons == ("sysbench ran for 1.0002 s instead of 2 s",)


def test_a_rate_that_is_not_its_events_over_its_time_is_doubted() -> None:
    text = text_of("sysbench-cpu-events.txt").replace("11543.54", "21543.54")
    (reason,) = SysbenchCpu(events=2000).read(text).invalid_because
    assert reason.startswith("sysbench counts 2000 events in 0.1727 s but reports a rate of 21543.5/s")


def test_nothing_done_is_no_measurement() -> None:
    text = text_of("sysbench-cpu-events.txt").replace("events:              2000", "events:              0")
    with pytest.raises(InstrumentError, match="number of events cannot be 0"):
        SysbenchCpu(events=2000).read(text)


def test_memory_is_blocks_over_time() -> None:
    found = SysbenchMemory(block="1K", total="1G").read(text_of("sysbench-memory-write.txt"))
    assert found.measurements == {
        "time_tool": 0.1229,
        "memory_bandwidth": pytest.approx(1024 / 0.1229),
        "memory_operations": pytest.approx(1048576 / 0.1229),
    }
    assert found.invalid_because == ()


def test_bytes_that_are_not_the_blocks_are_doubted() -> None:
    found = SysbenchMemory(block="2K", total="1G").read(text_of("sysbench-memory-write.txt"))
    assert "moved 1048576 blocks of 2048 bytes but reports 1024 MiB" in found.invalid_because[0]


def test_fewer_blocks_than_were_asked_for_are_doubted() -> None:
    found = SysbenchMemory(block="1K", total="2G").read(text_of("sysbench-memory-write.txt"))
    assert found.invalid_because == ("sysbench moved 1048576 blocks instead of 2097152",)


def test_an_operation_that_moves_nothing_is_no_bandwidth() -> None:
    with pytest.raises(InstrumentError, match="MiB transferred"):
        SysbenchMemory(block="1M").read(text_of("sysbench-memory-none.txt"))


def test_commands_say_what_was_chosen() -> None:
    assert SysbenchCpu(primes=200_000, threads=2, time_s=3).argv() == [
        "sysbench", "cpu", "--cpu-max-prime=200000", "--threads=2", "--events=0", "--time=3", "run"
    ]  # fmt: skip
    assert SysbenchCpu(events=10_000).argv()[-3:] == ["--events=10000", "--time=0", "run"]
    assert "--memory-total-size=1048576" in SysbenchMemory(total="1M").argv()
    assert "--memory-total-size=100T" in SysbenchMemory().argv()
