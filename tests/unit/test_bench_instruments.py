"""What the bench of instruments reads by hand is what Lastro's instruments read, in the same unit."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from lastro.errors import TrialError, Unavailable
from lastro.scenarios.compute import ComputeScenario
from lastro.scenarios.uplink import UplinkScenario

from ..support.workload_samples import text_of

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
bench, flows = (importlib.import_module(name) for name in ("instruments", "_flows"))

# The last lines of fio's report for people, as fio(1) describes them.
FIO = """
Run status group 0 (all jobs):
  WRITE: bw=1024MiB/s (1074MB/s), 1024MiB/s-1024MiB/s (1074MB/s-1074MB/s), io=256MiB (268MB), run=250-250msec
"""

# What tools tell people, as the bench saw it.
MBW = (
    "19\tMethod: MEMCPY\tElapsed: 0.02000\tMiB: 256.00000\tCopy: 12800.000 MiB/s\n"
    "AVG\tMethod: MEMCPY\tElapsed: 0.02500\tMiB: 256.00000\tCopy: 10240.000 MiB/s\n"
)
BONNIE = """\
Version 2.00a       ------Sequential Output------ --Sequential Input- --Random-
                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
Name:Size etc        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
vm        1G:::1000            1.1g  81 +++++ +++           +++++ +++ +++++ +++
Latency                       48043us     100us                14us    2521us

1.98,2.00a,vm,1,1795342919,1G,,1000,4,,,1141349,81,+++++,+++,,,+++++,+++,+++++,+++,,,,,,,,,,,,,,,,,,,48043us,100us,,14us,2521us,,,,,,
"""
IPERF2 = """\
[  1] 0.0000-1.0001 sec  24420 KBytes  200024 Kbits/sec
[  1] Sent 17012 datagrams
[  1] Server Report:
[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams
[  1] 0.0000-1.0001 sec  24420 KBytes  200028 Kbits/sec   0.000 ms 0/17011 (0%)
"""
IPERF3_UDP = """\
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.00   sec  23.8 MBytes  199809 Kbits/sec  0.000 ms  0/16992 (0%)  sender
[  5]   0.00-1.00   sec  23.8 MBytes  199806 Kbits/sec  0.002 ms  0/16992 (0%)  receiver
"""
IPERF3_TCP = """\
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-1.00   sec  10.2 GBytes  87434283 Kbits/sec    0             sender
[  5]   0.00-1.00   sec  10.2 GBytes  87391381 Kbits/sec                  receiver
"""


def by_hand(name: str, text: str) -> float:
    return float(bench.LITERAL[bench.SHORT[name]][1](text))


@pytest.mark.parametrize(
    ("name", "metric", "file", "options"),
    [
        ("sysbench-cpu", "cpu_events", "sysbench-cpu-time.txt", "primes=2000,threads=2,time_s=1"),
        ("dbench", "dbench_throughput", "dbench.txt", "clients=2,time_s=3"),
        ("john", "john_rate", "john-bcrypt.txt", "threads=2"),
        ("sysbench-memory", "memory_bandwidth", "sysbench-memory-write.txt", "total=1G"),
        ("sysbench-oltp", "db_transactions", "sysbench-oltp-read-only.txt", "rows=20000,threads=2,time_s=1"),
    ],
)
def test_both_read_the_same_of_a_real_output(name: str, metric: str, file: str, options: str) -> None:
    found = ComputeScenario.tool({"instrument": f"{name}:{options}"}).read(text_of(file))
    assert by_hand(name, text_of(file)) == pytest.approx(found.measurements[metric], rel=0.01)


def test_bytes_over_seconds_are_mebibytes_per_second() -> None:
    assert by_hand("fio", FIO) == 1024
    assert by_hand("gzip", "\n2.000\n") == 16


def test_the_words_of_tools_for_people_are_read() -> None:
    assert by_hand("mbw", MBW) == 10240, "the mean over all runs, not a run's"
    assert by_hand("bonnie", BONNIE) == pytest.approx(1.1 * 1024, rel=0.05), "what the table for people rounds"
    assert flows.TOOLS["iperf2-udp"].mbit_s(IPERF2) == 200.028, "the server's"
    assert flows.TOOLS["iperf3-udp-load"].mbit_s(IPERF3_UDP) == 199.806, "the receiver's"
    assert flows.TOOLS["iperf3-tcp"].mbit_s(IPERF3_TCP) == 87391.381


def test_words_without_the_number_are_a_measurement_that_failed() -> None:
    for level, (_, value) in bench.LITERAL.items():
        with pytest.raises(TrialError, match="no number"):
            bench.read(value, f"{level} ended early\n")
    for tool in flows.TOOLS.values():
        with pytest.raises(TrialError, match="has 0 rates"):
            tool.mbit_s("connect failed")


def test_what_failed_here_is_told_apart_from_what_this_host_lacks() -> None:
    def lacking() -> None:
        raise Unavailable("this host has no program 'y-cruncher'")

    def failing() -> None:
        raise TrialError("the server ended:\n  mount failed")

    found = bench.Results()
    for name, measure in (("y-cruncher", lacking), ("sysbench-oltp", failing)):
        found.take(name, measure)
    lines = found.table().splitlines()
    assert "Not on this host: `y-cruncher`: this host has no program 'y-cruncher'." in lines
    assert "Failed here: `sysbench-oltp`: the server ended: mount failed." in lines


def test_every_flow_of_the_uplink_is_in_the_bench() -> None:
    assert set(flows.TOOLS) == UplinkScenario.part_names("instrument")


@pytest.mark.parametrize("level", bench.LITERAL)
def test_what_is_read_by_hand_has_the_unit_of_the_first_metric(level: str) -> None:
    """The factor in `value` is for that unit alone."""
    units = {
        "sysbench-cpu": "1/s", "sysbench-memory": "MiB/s", "sysbench-oltp": "1/s", "john": "1/s", "mbw": "MiB/s",
        "gzip": "MiB/s", "dbench": "MB/s", "fio": "MiB/s", "bonnie": "MiB/s",
    }  # fmt: skip
    kind = type(ComputeScenario.tool({"instrument": level}))
    assert next(each.unit for each in kind.metrics if not each.name.startswith("time_")) == units[kind.name]
