"""Bonnie++: a large file written, rewritten and read in blocks, seeks in it, and many small files.

Trindade (2018, section 7.3) measures writing, reading, and seeks by four processes of Bonnie++, with 25, 50 and 100
files. Bonnie++ starts processes only for seeks: its option for concurrency (-c) only labels the report, and -p and -y
join programs that are started separately. It counts small files in units of 1024 (-n). It reports no rate for a phase
of less than half a second; the metric is then missing. Source: bonnie++(8) and the code of version 2.00a. Its format
(1.98) is that of Debian 12 and 13; other formats are rejected."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lastro.errors import InstrumentError
from lastro.instruments.base import TIME_TOOL, bounded, positive
from lastro.instruments.disk_workload import DIRECT, NO, YES, DiskWorkload
from lastro.results.samples import TOO_SHORT, Metric, Reading, Remark
from lastro.study.model import Setting
from lastro.units import MIB, parse_size_bytes

_CSV = "1.98"
_THOUSAND = 1024  # Bonnie++ takes only multiples of it
_NO_RATE = "+++++"  # printed by Bonnie++ instead of a rate that it does not know
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,3})?", re.ASCII)
# Columns of the format 1.98. Rates of the large file are in KiB/s.
_VERSION_AT, _SIZE_AT, _SEEKS_AT, _PROCESSES_AT, _FILES_AT, _N_COLUMNS = 0, 5, 7, 8, 21, 50
_LARGE_FILE_COLUMNS = {"bonnie_write": 11, "bonnie_rewrite": 13, "bonnie_read": 17}
_SEEK_COLUMNS = {"bonnie_seeks": 19}
_SMALL_FILE_COLUMNS = {"bonnie_create": 26, "bonnie_stat": 28, "bonnie_delete": 30}
_RATE_COLUMNS = {**_LARGE_FILE_COLUMNS, **_SEEK_COLUMNS, **_SMALL_FILE_COLUMNS}
_RANDOM_ORDER_COLUMNS = (32, 34, 36)  # small files created, queried and deleted in random order
_SPEED_BPS, _SEEK_RATE, _FILE_RATE, _PAUSE_S = 8e8, 2e4, 2e4, 3.0  # of an ordinary disk; it sleeps before seeks
_FILES = Setting("files", 25, "small files, in units of `unit`; published: 25, 50, 100; 0: none", 0, 10_000)
_UNIT = Setting(
    "unit", _THOUSAND, "files per unit, multiples of 1024; fewer for short trials", 1, _THOUSAND, by_profile=True
)
_SIZE = Setting("size", "2G", "size of the large file, in whole MiB; 0: none", check=parse_size_bytes, by_profile=True)
_PROCESSES = Setting("processes", 4, "concurrent processes that seek; published: 4", 1, 256)
_SEEKS = Setting("seeks", 8192, "total seeks; one in ten writes its block back", 1, 10**7, by_profile=True)
_BLOCK = Setting("block", "8K", "block size of reads and writes: a power of two", check=parse_size_bytes)
_SYNCED = Setting("synced", NO, "every write to the large file is followed by fsync(2)", choices=(NO, YES))


class Bonnie(DiskWorkload):
    name = "bonnie"
    summary = "Bonnie++: a large file written and read in blocks, random seeks, and many small files"
    packages = ("bonnie++",)
    version_argv = ("dpkg-query", "--show", "bonnie++")
    options = (_FILES, _UNIT, _SIZE, _PROCESSES, _SEEKS, _BLOCK, DIRECT, _SYNCED)
    short = {"files": 1, "unit": _THOUSAND, "size": "8M", "seeks": 100, "synced": NO}
    metrics = (
        TIME_TOOL,
        Metric("bonnie_write", "MiB/s", "higher", "writing of a large file in blocks (Bonnie++)"),
        Metric("bonnie_rewrite", "MiB/s", "higher", "reading and rewriting of a large file in blocks (Bonnie++)"),
        Metric("bonnie_read", "MiB/s", "higher", "reading of a large file in blocks (Bonnie++)"),
        Metric("bonnie_seeks", "1/s", "higher", "seeks in a large file, each with a read, all processes (Bonnie++)"),
        Metric("bonnie_create", "1/s", "higher", "small files created in the order of their names (Bonnie++)"),
        Metric("bonnie_stat", "1/s", "higher", "small files queried by stat(2), in order (Bonnie++)"),
        Metric("bonnie_delete", "1/s", "higher", "small files deleted, in order (Bonnie++)"),
    )

    @property
    def size_mib(self) -> int:
        return parse_size_bytes(_SIZE.of(self.chosen)) // MIB

    @property
    def file_bytes(self) -> int:
        return self.size_mib * MIB

    @property
    def file_units(self) -> int:
        """The number of small files in Bonnie++'s unit of 1024 files, rounded; at least 1 unless there are none."""
        files = _FILES.of(self.chosen) * _UNIT.of(self.chosen)
        return max(1, round(files / _THOUSAND)) if files else 0

    def argv(self) -> list[str]:
        """Return the command. -f: no tests of single characters; -r 0: do not compare the file's size with memory."""
        block = parse_size_bytes(_BLOCK.of(self.chosen))
        file = f"{self.size_mib}:{block}:{_SEEKS.of(self.chosen)}:{_PROCESSES.of(self.chosen)}"
        modes = [flag for option, flag in ((DIRECT, "-D"), (_SYNCED, "-b")) if option.of(self.chosen) == YES]
        where = ["-d", self.place, "-u", "root", "-m", "lastro", "-q"]
        return ["bonnie++", *where, "-f", "-r", "0", "-s", file, "-n", str(self.file_units), *modes]

    def read(self, text: str) -> Reading:
        cells = parse_cells(text)
        reasons = self._mismatch_reasons(cells)
        values = {name: positive(name, value) for name, value in rates(cells).items()}
        too_short = sorted(name for name, column in _RATE_COLUMNS.items() if cells[column] == _NO_RATE)
        text = "Bonnie++ reports no rate for a phase of less than half a second"
        remarks = (Remark(TOO_SHORT, text, tuple(too_short)),) if too_short else ()
        if not values:
            reasons += (f"{text}: choose a larger `size`",)
            return Reading({}, invalid_because=reasons, remarks=remarks)
        measured = {name: value / 1024 if name in _LARGE_FILE_COLUMNS else value for name, value in values.items()}
        if (tool_s := self._tool_time_s(cells, values)) is not None:
            measured = {"time_tool": tool_s, **measured}
        return bounded(self.metrics, Reading(measured, invalid_because=reasons, remarks=remarks))

    def _tool_time_s(self, cells: list[str], values: Mapping[str, float]) -> float | None:
        """Return the least possible time of all phases together, computed from their rates.

        Bonnie++ cuts the fractions off all rates except that of seeks, so the true rates may be higher. Return None if
        a phase was too short for a rate, since the sum of the other phases is not the time of the whole task."""
        if _NO_RATE in (cells[column] for column in (*_RATE_COLUMNS.values(), *_RANDOM_ORDER_COLUMNS)):
            return None
        total_s = sum(self.size_mib * 1024 / (values[name] + 1) for name in _LARGE_FILE_COLUMNS if name in values)
        total_s += sum(_SEEKS.of(self.chosen) / (values[name] + 0.05) for name in _SEEK_COLUMNS if name in values)
        for column in (*_SMALL_FILE_COLUMNS.values(), *_RANDOM_ORDER_COLUMNS):
            files_per_s = rate(cells, column)
            if files_per_s is not None:
                total_s += self.file_units * _THOUSAND / (files_per_s + 1)
        return total_s

    def _mismatch_reasons(self, cells: list[str]) -> tuple[str, ...]:
        """Return reasons for invalidity if the report has other files, seeks, processes or size than asked for."""
        asked = [(_FILES_AT, "thousand files", str(self.file_units or ""))]
        if self.size_mib:
            asked.append((_SEEKS_AT, "seeks", str(_SEEKS.of(self.chosen))))
            asked.append((_PROCESSES_AT, "processes", str(_PROCESSES.of(self.chosen))))
        reasons = []
        for column, name, number in asked:
            if cells[column] != number:
                reasons.append(f"Bonnie++ reports {cells[column] or 0} {name} instead of {number or 0}")
        size = f"{self.size_mib // 1024}G" if self.size_mib % 1024 == 0 else f"{self.size_mib}M"
        if cells[_SIZE_AT] != (size if self.size_mib else ""):
            reasons.append(f"Bonnie++ reports a file of {cells[_SIZE_AT] or 0} instead of {size}")
        return tuple(reasons)

    def expected_s(self, cpus: float, slowdown: float) -> float:
        work_s = 6 * self.file_units * _THOUSAND / _FILE_RATE
        if self.size_mib:
            work_s += 3 * self.file_bytes / _SPEED_BPS + _SEEKS.of(self.chosen) / _SEEK_RATE
        slow: float = slowdown**0.75  # the disk is not the only thing that takes time
        return work_s * slow + (_PAUSE_S if self.size_mib else 0) + 0.1


def parse_cells(text: str) -> list[str]:
    """Return the cells of the only line of results. Raises: InstrumentError for several lines, or another format."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) != 1:
        raise InstrumentError(f"Bonnie++ printed {len(lines)} lines of results: …{text[-80:]!r}")
    cells = lines[0].split(",")
    if cells[_VERSION_AT] != _CSV or len(cells) != _N_COLUMNS:
        why = f"Bonnie++ printed {len(cells)} columns in format {cells[_VERSION_AT][:20]!r}"
        raise InstrumentError(why, f"Lastro reads format {_CSV}, that of Bonnie++ 2.00")
    return cells


def rates(cells: list[str]) -> dict[str, float]:
    """Return {metric: rate}, in Bonnie++'s units; a phase that was left out or too short is missing."""
    by_metric = {name: rate(cells, column) for name, column in _RATE_COLUMNS.items()}
    return {name: value for name, value in by_metric.items() if value is not None}


def rate(cells: list[str], column: int) -> float | None:
    """Return the rate in a column; None if the phase was left out or too short.

    Raises: InstrumentError if the cell is not a number."""
    cell = cells[column]
    if cell in ("", _NO_RATE):
        return None
    if not _NUMBER.fullmatch(cell):
        raise InstrumentError(f"Bonnie++ printed {cell[:40]!r} instead of a rate")
    return float(cell)
