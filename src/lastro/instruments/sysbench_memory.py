"""The bandwidth of memory by sysbench: blocks written or read repeatedly, in sequence or in random order.

A block that fits into a cache measures that cache; its result is marked. sysbench counts the bytes that it requests:
the bandwidth that a program sees, not that of the memory bus."""

from __future__ import annotations

from typing import Self

from lastro.host.base import Host
from lastro.instruments import _sysbench
from lastro.instruments._memory import MemoryWorkload
from lastro.instruments._sysbench import THREADS
from lastro.instruments.base import TIME_TOOL, bounded, positive
from lastro.results.samples import Metric, Reading
from lastro.study.model import DAY_S, Setting
from lastro.units import MIB, parse_size_bytes

_SPEED_BPS = 6e9  # of one ordinary core
_ENDLESS = "100T"
_BRIEF_BLOCK = "1M"
_BLOCK = Setting(
    "block", "1K", "size of a block, a power of two; 0: four times the last-level cache of its CPUs, rounded up",
    check=parse_size_bytes,
)  # fmt: skip
_TOTAL = Setting(
    "total", "0", "number of bytes to move; 0: measure for `time_s`", check=parse_size_bytes, by_profile=True
)
_OPERATION = Setting("operation", "write", "operation on a block", choices=("read", "write"))
_ACCESS = Setting("access", "seq", "order of access within a block", choices=("seq", "rnd"))
_SCOPE = Setting("scope", "global", "one block for all threads, or one for each", choices=("global", "local"))
_TIME_S = Setting("time_s", 10, "length of the measurement in whole seconds, if `total` is 0", 1, DAY_S)


class SysbenchMemory(MemoryWorkload):
    name = "sysbench-memory"
    summary = "memory bandwidth by sysbench, over blocks of a chosen size"
    packages = ("sysbench",)
    version_argv = _sysbench.VERSION_ARGV
    options = (_BLOCK, _TOTAL, _OPERATION, _ACCESS, _SCOPE, THREADS, _TIME_S)
    metrics = (
        TIME_TOOL,
        Metric("memory_bandwidth", "MiB/s", "higher", "bytes moved per second, all threads together (sysbench)"),
        Metric("memory_operations", "1/s", "higher", "blocks moved per second, all threads together (sysbench)"),
    )

    sized_by, pieces, bandwidths = "block", "blocks", ("memory_bandwidth", "memory_operations")

    def asked_bytes(self) -> int:
        return parse_size_bytes(_BLOCK.of(self.chosen))

    def level_of(self, piece_bytes: int) -> str:
        """Return the block size that the user chose, or else `piece_bytes` rounded up to a power of two, as text.

        sysbench requires a power of two."""
        return str(self.asked_bytes() or 1 << (piece_bytes - 1).bit_length())

    @property
    def block_bytes(self) -> int:
        return int(self.level_of(self.piece_bytes))

    def least_memory_bytes(self, host: Host, cpuset: str | None) -> int:
        blocks = THREADS.of(self.chosen) if _SCOPE.of(self.chosen) == "local" else 1
        return blocks * int(self.level_of(self.piece_on(host, cpuset)))

    def argv(self) -> list[str]:
        total = parse_size_bytes(_TOTAL.of(self.chosen))
        return [
            "sysbench", "memory",
            f"--memory-block-size={self.block_bytes}",
            f"--memory-total-size={total or _ENDLESS}",
            f"--memory-oper={_OPERATION.of(self.chosen)}", f"--memory-access-mode={_ACCESS.of(self.chosen)}",
            f"--memory-scope={_SCOPE.of(self.chosen)}", f"--threads={THREADS.of(self.chosen)}",
            "--events=0", f"--time={0 if total else _TIME_S.of(self.chosen)}", "run",
        ]  # fmt: skip

    def read(self, text: str) -> Reading:
        done = _sysbench.report(text)
        field = _sysbench.field(text, "operations", r"Total operations: (\d{1,15}) \(")
        operations = positive("sysbench's operations", field)
        field = _sysbench.field(text, "MiB transferred", rf"\n{_sysbench.NUMBER} MiB transferred")
        moved_mib = positive("sysbench's MiB", field)
        block = self.block_bytes
        total = parse_size_bytes(_TOTAL.of(self.chosen))
        reasons = _sysbench.threads_reasons(done, THREADS.of(self.chosen))
        if abs(moved_mib - operations * block / MIB) > 0.01 + 0.001 * moved_mib:
            reasons += (f"sysbench moved {operations:.0f} blocks of {block} bytes but reports {moved_mib:g} MiB",)
        if total and operations < total // block:
            reasons += (f"sysbench moved {operations:.0f} blocks instead of {total // block}",)
        if not total:
            reasons += _sysbench.length_reasons(done, _TIME_S.of(self.chosen))
        values = {
            "time_tool": done.total_s,
            "memory_bandwidth": operations * block / MIB / done.total_s,
            "memory_operations": operations / done.total_s,
        }
        return bounded(self.metrics, Reading(values, invalid_because=reasons))

    def expected_s(self, cpus: float, slowdown: float) -> float:
        total = parse_size_bytes(_TOTAL.of(self.chosen))
        if not total:  # the block is filled before the timed part, and a pass that has begun is finished
            return _TIME_S.of(self.chosen) + 2 * int(self.level_of(self.piece_here(cpus))) * slowdown / _SPEED_BPS
        return total * slowdown / _SPEED_BPS / min(cpus, THREADS.of(self.chosen))

    def brief(self) -> Self:
        """Return a short version with the same kind of limit: a number of bytes, or a time.

        If the size of the block depends on the cache, the short version has a small block instead."""
        block = _BLOCK.of(self.chosen) if self.asked_bytes() else _BRIEF_BLOCK
        total_bytes = min(parse_size_bytes(_TOTAL.of(self.chosen)), 64 * parse_size_bytes(block))
        return type(self)(**{**self.chosen, "block": block, "total": str(total_bytes), "time_s": 1})
