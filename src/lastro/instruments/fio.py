"""fio, the modern counterpart of Bonnie++: a file written and read in sequence, then read at random by several threads.

Writing ends when the data has reached the disk (`end_fsync`). Before each phase, fio drops the file from the cache of
the instance's kernel (`invalidate`, on by default). Without `direct`, data that is read twice, or that the host of a
virtual machine has cached, is still read from memory. The jobs are threads, not processes: if one of several processes
were killed, the others would wait for ever. Source: fio(1), version 3.33."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

from lastro.errors import InstrumentError
from lastro.instruments._report_lines import number_at
from lastro.instruments.base import TIME_TOOL, bounded, positive
from lastro.instruments.disk_workload import DIRECT, DiskWorkload
from lastro.results.samples import Metric, Reading
from lastro.study.model import Setting
from lastro.units import MIB, parse_size_bytes

_SPEED_BPS = 4e8  # of an ordinary disk
number = partial(number_at, tool="fio")
_WRITE, _READ, _RANDOM = PHASES = ("write", "read", "random-read")
_SIZE = Setting("size", "2G", "size of the file", check=parse_size_bytes, by_profile=True)
_BLOCK = Setting("block", "1M", "block size of sequential writes and reads", check=parse_size_bytes)
_RANDOM_BLOCK = Setting("random_block", "4K", "block size of random reads", check=parse_size_bytes)
_THREADS = Setting("threads", 4, "number of concurrent threads of random reads", 1, 256)
_TIME_S = Setting("time_s", 10, "length of the random reads, in whole seconds", 1, 86_400)


class Fio(DiskWorkload):
    name = "fio"
    summary = "fio: a file written and read sequentially, and read at random by several threads"
    packages = ("fio",)
    version_argv = ("fio", "--version")
    options = (_SIZE, _BLOCK, _RANDOM_BLOCK, _THREADS, _TIME_S, DIRECT)
    metrics = (
        TIME_TOOL,
        Metric("fio_write", "MiB/s", "higher", "sequential write of a file, until it is on disk (fio)"),
        Metric("fio_read", "MiB/s", "higher", "sequential read of a file (fio)"),
        Metric("fio_random_reads", "1/s", "higher", "random reads of a file, all threads (fio)"),
        Metric("fio_random_read_mean", "ms", "lower", "mean time of a random read (fio)"),
        Metric("fio_random_read_p99", "ms", "lower", "99th percentile of the time of a random read (fio)"),
    )

    @property
    def file_bytes(self) -> int:
        return parse_size_bytes(_SIZE.of(self.chosen))

    def argv(self) -> list[str]:
        block, random_block = (parse_size_bytes(option.of(self.chosen)) for option in (_BLOCK, _RANDOM_BLOCK))
        return [
            "fio", "--output-format=json", f"--directory={self.place}", "--filename=file", f"--size={self.file_bytes}",
            "--ioengine=psync", f"--direct={int(self.direct)}", "--group_reporting", "--thread",
            f"--name={_WRITE}", "--rw=write", f"--bs={block}", "--end_fsync=1",
            f"--name={_READ}", "--stonewall", "--rw=read", f"--bs={block}",
            f"--name={_RANDOM}", "--stonewall", "--rw=randread", f"--bs={random_block}",
            f"--numjobs={_THREADS.of(self.chosen)}", "--time_based", f"--runtime={_TIME_S.of(self.chosen)}",
        ]  # fmt: skip

    def read(self, text: str) -> Reading:
        by_phase = phases(text)
        write, read, random = (by_phase[name] for name in PHASES)
        reasons = []
        whole_blocks = self.file_bytes // self._block * self._block
        for name in (_WRITE, _READ):
            moved = number(by_phase[name], "io_bytes")
            if moved != whole_blocks:
                reasons.append(f"fio moved {moved:.0f} bytes of {self.file_bytes} in its phase '{name}'")
        for phase in by_phase.values():
            reasons += rate_reasons(phase)
        random_s = number(random, "runtime") / 1e3
        if random_s < 0.95 * _TIME_S.of(self.chosen):
            reasons.append(f"fio read at random for {random_s:g} s instead of {_TIME_S.of(self.chosen)} s")
        values = {
            "time_tool": sum(number(phase, "runtime") for phase in (write, read, random)) / 1e3,
            "fio_write": number(write, "bw_bytes") / MIB,
            "fio_read": number(read, "bw_bytes") / MIB,
            "fio_random_reads": number(random, "iops"),
            "fio_random_read_mean": number(random, "clat_ns", "mean") / 1e6,
            "fio_random_read_p99": number(random, "clat_ns", "percentile", "99.000000") / 1e6,
        }
        measured = {name: positive(name, value) for name, value in values.items()}
        return bounded(self.metrics, Reading(measured, invalid_because=tuple(reasons)))

    @property
    def _block(self) -> int:
        return parse_size_bytes(_BLOCK.of(self.chosen)) or 1

    def expected_s(self, cpus: float, slowdown: float) -> float:
        return 2 * self.file_bytes * math.sqrt(slowdown) / _SPEED_BPS + _TIME_S.of(self.chosen) + 0.5 * slowdown

    def brief(self) -> Self:
        return type(self)(**{**self.chosen, "size": str(8 * self._block), "time_s": 1})


def phases(text: str) -> dict[str, Mapping[str, Any]]:
    """Return {name: results} of each phase in PHASES, as fio's JSON report has them. Raises: InstrumentError.

    Lines before the JSON are fio's remarks, and are skipped."""
    try:
        report = json.loads(text[text.index("{\n") :])
        jobs = {job["jobname"]: job for job in report["jobs"]}
        failed = [f"{name} ({job['error']})" for name, job in jobs.items() if job["error"] != 0]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InstrumentError(f"fio printed no report: …{text[-80:]!r}") from None
    if failed:
        raise InstrumentError(f"fio failed in {', '.join(failed)[:200]}")
    if set(jobs) != set(PHASES) or len(report["jobs"]) != len(PHASES):
        raise InstrumentError(f"fio reports {', '.join(map(str, jobs))[:200] or 'nothing'}, not {', '.join(PHASES)}")
    by_phase = {name: jobs[name].get("write" if name == _WRITE else "read") for name in PHASES}
    for name, phase in by_phase.items():
        if not isinstance(phase, dict):
            raise InstrumentError(f"fio reports nothing on its phase '{name}'")
    return by_phase


def rate_reasons(phase: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a reason for invalidity if the rate of a phase contradicts its bytes and its time.

    fio reports the time in whole milliseconds."""
    reported, moved, runtime_ms = (number(phase, key) for key in ("bw_bytes", "io_bytes", "runtime"))
    lowest, highest = moved * 1e3 / (runtime_ms + 2), moved * 1e3 / max(runtime_ms - 2, 0.5)
    if 0.99 * lowest <= reported <= 1.01 * highest:
        return ()
    return (f"fio reports {reported:g} bytes/s for {moved:g} bytes in {runtime_ms:g} ms",)
