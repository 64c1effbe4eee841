"""The bandwidth of copying memory by mbw: one array to another, as programs do. It replaces RAMspeed.

To vary the size of the arrays from below to above the size of a cache, make it a factor: `"instrument.array" = [...]`;
below 1 MiB, use `block` of sysbench-memory. Results for arrays that may fit into a cache are marked."""

from __future__ import annotations

import re
from statistics import fmean

from lastro.errors import InstrumentError
from lastro.host.base import Host
from lastro.instruments._memory import MemoryWorkload
from lastro.instruments.base import bounded, positive
from lastro.results.samples import Metric, Reading, Series
from lastro.study.model import Setting

_METHODS = {"memcpy": "0", "dumb": "1", "mcblock": "2"}
_RUN = re.compile(
    r"^(\d{1,6})\tMethod: ([A-Z]+)\tElapsed: (\d{1,9}\.\d+)\tMiB: (\d{1,9}\.\d+)\tCopy: (\d{1,9}\.\d+) MiB/s$",
    re.M | re.A,
)
_SPEED_MIBPS = 6e3
_ARRAY = Setting(
    "array", 0, "size of each of two arrays in MiB; 0: four times the last-level cache of its CPUs", 0, 1_000_000
)
_METHOD = Setting("method", "memcpy", "by the C library, by a plain loop, or block by block", choices=tuple(_METHODS))
_BLOCK = Setting("block", 262_144, "size of a block in bytes, for mcblock", 64, 1 << 30)
_RUNS = Setting("runs", 10, "number of copies of the array", 1, 100_000, by_profile=True)


class Mbw(MemoryWorkload):
    name = "mbw"
    summary = "bandwidth of copying memory by mbw, over arrays of a chosen size"
    packages = ("mbw",)
    version_argv = ("dpkg-query", "--show", "mbw")
    options = (_ARRAY, _METHOD, _BLOCK, _RUNS)
    short = {"array": 1, "runs": 2}
    metrics = (
        Metric("copy_bandwidth", "MiB/s", "higher", "bytes copied per second, over all runs (mbw)"),
        Metric("copy_bandwidth_best", "MiB/s", "higher", "bytes copied per second in the fastest run (mbw)"),
    )

    sized_by, pieces, bandwidths = "array", "arrays", ("copy_bandwidth", "copy_bandwidth_best")

    def asked_bytes(self) -> int:
        return _ARRAY.of(self.chosen) << 20

    def level_of(self, piece_bytes: int) -> int:
        return -(-piece_bytes >> 20)

    @property
    def array_mib(self) -> int:
        return self.level_of(self.piece_bytes)

    def least_memory_bytes(self, host: Host, cpuset: str | None) -> int:
        return 2 * self.level_of(self.piece_on(host, cpuset)) << 20

    def argv(self) -> list[str]:
        method = ["-t" + _METHODS[_METHOD.of(self.chosen)], "-b", str(_BLOCK.of(self.chosen))]
        return ["mbw", "-q", "-a", "-n", str(_RUNS.of(self.chosen)), *method, str(self.array_mib)]

    def read(self, text: str) -> Reading:
        """Parse the output. The rates are those that mbw prints, since it rounds times to 10 us."""
        runs_done = _RUN.findall(text)
        runs, array = _RUNS.of(self.chosen), self.array_mib
        if len(runs_done) != runs or [int(number) for number, *_ in runs_done] != list(range(runs)):
            raise InstrumentError(f"mbw printed {len(runs_done)} runs instead of {runs}: …{text[-80:]!r}")
        reasons = set()
        for number, method, elapsed_s, size_mib, rate in runs_done:
            if method != _METHOD.of(self.chosen).upper() or float(size_mib) != array:
                reasons.add(f"mbw ran {method} over {size_mib} MiB instead of {_METHOD.of(self.chosen)} over {array}")
            rounding_s = 0.6e-5
            if not array / (float(elapsed_s) + rounding_s) <= 1.001 * float(rate):
                reasons.add(f"mbw's run {number} reports {rate} MiB/s, but {elapsed_s} s for {array} MiB")
        rates = tuple(positive("mbw's rate", float(rate)) for *_, rate in runs_done)
        mean = 1 / fmean(1 / rate for rate in rates)  # all runs copy the same bytes, so this is all bytes over all time
        values = {"copy_bandwidth": mean, "copy_bandwidth_best": max(rates)}
        series = (Series("copy_bandwidth", "MiB/s", rates),)
        return bounded(self.metrics, Reading(values, series, invalid_because=tuple(sorted(reasons))))

    def expected_s(self, cpus: float, slowdown: float) -> float:
        array_mib = self.level_of(self.piece_here(cpus))
        return array_mib * (_RUNS.of(self.chosen) + 2) * slowdown / _SPEED_MIBPS  # and filling both arrays
