"""The bandwidth of memory by four loops over long arrays, as John McCalpin's STREAM defines and counts them.

Debian does not package STREAM, so the program is ours, by the definition at
https://www.cs.virginia.edu/stream/ref.html. An iteration of copy or scale counts as 16 bytes, one of add or triad as 24
bytes; 1 MB is 10^6 bytes. The fastest repeat counts, except the first. The arrays are checked at the end. If there are
more threads than CPUs, they share the CPUs."""

from __future__ import annotations

from statistics import fmean

from lastro.errors import InstrumentError
from lastro.host.base import Host
from lastro.image.programs import build_program
from lastro.instruments import _report_lines
from lastro.instruments._memory import MemoryWorkload
from lastro.instruments.base import TIME_TOOL, bounded, positive
from lastro.requirements import Requirements
from lastro.results.samples import Metric, Reading, Series
from lastro.study.model import Setting
from lastro.units import parse_size_bytes

PROGRAM = "lastro-stream"
BYTES = {"copy": 16, "scale": 16, "add": 24, "triad": 24}  # per iteration
_ITEM = 8
_ARRAYS = 3
_MOST_ERROR = 1e-13
_SPEED_BPS = 8e9  # of one ordinary core
_SOFT_FLOAT = 4.0  # factor by which emulation slows floating point down more than integers
# For every thread but the first. Where the kernel gives huge pages by default, as Debian's does in a guest, the usual
# stack of 8 MiB costs a page of 2 MiB as soon as it is touched: thousands of threads would fill the memory.
_STACK = "512K"
_THREADS = Setting(
    "threads", 1, "number of concurrent threads; may exceed the CPUs; 0: one on each CPU of the instance", 0, 65_536
)
_ARRAY = Setting(
    "array", "0", "size of each of three arrays; 0: four times the last-level cache of its CPUs", check=parse_size_bytes
)
_REPEATS = Setting("repeats", 10, "runs of each loop; the fastest counts, except the first", 2, 200, by_profile=True)


class Stream(MemoryWorkload):
    name = "stream"
    summary = "memory bandwidth of copy, scale, add and triad as STREAM defines them; our own program"
    version_argv = (PROGRAM, "--version")
    requirements = Requirements(packages=("gcc", "libc6-dev"))
    options = (_THREADS, _ARRAY, _REPEATS)
    short = {"array": "1M", "repeats": 2}
    metrics = (
        TIME_TOOL,
        *(
            Metric(f"stream_{name}", "MB/s", "higher", f"{name}: {n} bytes per iteration, in the fastest repeat")
            for name, n in BYTES.items()
        ),
    )

    sized_by = "array"
    pieces = "arrays"
    bandwidths = tuple(f"stream_{name}" for name in BYTES)

    @classmethod
    def programs(cls, host: Host) -> tuple[str, ...]:
        return (build_program(host, "stream", cls.requirements.install, libraries=("m",)),)

    def asked_bytes(self) -> int:
        return parse_size_bytes(_ARRAY.of(self.chosen))

    def level_of(self, piece_bytes: int) -> str:
        return str(piece_bytes)

    def least_memory_bytes(self, host: Host, cpuset: str | None) -> int:
        return _ARRAYS * self.piece_on(host, cpuset)

    def argv(self) -> list[str]:
        elements = max(1, self.piece_bytes // _ITEM)
        threads = (f"OMP_NUM_THREADS={_THREADS.of(self.chosen)}", f"OMP_STACKSIZE={_STACK}")
        return ["env", *threads, PROGRAM, str(elements), str(_REPEATS.of(self.chosen))]

    def read(self, text: str) -> Reading:
        lines = _report_lines.parse_report(text, PROGRAM)
        repeats, elements = _REPEATS.of(self.chosen), int(self.argv()[-2])
        reported = {name: _report_lines.number(lines, name) for name in ("threads", "elements", "repeats")}
        asked = {"threads": _THREADS.of(self.chosen), "elements": elements, "repeats": repeats}
        other = [key for key in asked if reported[key] != asked[key]]
        reasons = [f"{PROGRAM} had {reported[key]:g} {key} instead of {asked[key]}" for key in other]
        error = _report_lines.number(lines, "error")
        if error > _MOST_ERROR:
            reasons.append(f"the arrays differ by {error:g} from their expected values: memory or processor errors")
        total_s = positive("the total time", _report_lines.number(lines, "total"))
        values, series, loops_s = {TIME_TOOL.name: total_s}, [], 0.0
        for name, n_bytes in BYTES.items():
            times_s = [positive(f"a time of {name}", time_s) for time_s in _report_lines.numbers(lines, name)]
            if len(times_s) != repeats or repeats < 2:
                raise InstrumentError(f"{PROGRAM} printed {len(times_s)} times of {name} instead of {repeats}")
            rates = tuple(n_bytes * reported["elements"] / 1e6 / time_s for time_s in times_s)
            values[f"stream_{name}"] = positive(f"the rate of {name}", max(rates[1:]))
            series.append(Series(f"stream_{name}", "MB/s", rates))
            loops_s += len(times_s) * fmean(times_s)
        if loops_s > 1.001 * total_s + 1e-6:
            reasons.append(f"the loops took {loops_s:g} s, more than the total of {total_s:g} s")
        return bounded(self.metrics, Reading(values, tuple(series), invalid_because=tuple(reasons)))

    def expected_s(self, cpus: float, slowdown: float) -> float:
        loops = _REPEATS.of(self.chosen) * sum(BYTES.values()) / _ITEM + 6  # and filling and checking the arrays
        hindered = 1.0 if slowdown == 1 else slowdown * _SOFT_FLOAT
        return loops * self.piece_here(cpus) * hindered / _SPEED_BPS / min(cpus, _THREADS.of(self.chosen) or cpus, 4)
