"""Side tables from the notes of trials: residual differences, resource usage, host disturbances.

Pure. Notes are untrusted input: a part from a third party may have written anything into them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from lastro.results.rows import Attempt
from lastro.results.samples import REALLY
from lastro.results.trial_notes import is_number
from lastro.stats.notes import N_
from lastro.study.design import Treatment
from lastro.study.levels import part_level
from lastro.study.model import Level, Study
from lastro.units import human_bytes, human_duration, significant

ALL = N_("all trials")
ABSENT = "—"


@dataclass(frozen=True, slots=True)
class PropertyRow:
    """One property; `values` has a text for each column. `differs` is True if texts differ; `ABSENT` does not count."""

    name: str
    values: tuple[str, ...]
    differs: bool


@dataclass(frozen=True, slots=True)
class PropertyTable:
    """A table of properties, with a column for each level of `factor`; false if no trial noted any property."""

    factor: str
    columns: tuple[str, ...]
    rows: tuple[PropertyRow, ...]

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclass(frozen=True, slots=True)
class PropertyTables:
    """The side tables of a report.

    `residuals` has the differences that remain between platforms although they run the same files. `really` says how
    each platform was measured, such as on which file system. `usage` (of resources) and `host` (disturbances) have
    numbers: mean (minimum – maximum)."""

    residuals: PropertyTable
    usage: PropertyTable
    host: PropertyTable
    really: PropertyTable


def build_properties(study: Study, treatments: Sequence[Treatment], attempts: Sequence[Attempt]) -> PropertyTables:
    """Build the side tables from the notes of attempts, such as their use of CPU and memory."""
    levels = {treatment.index: treatment.levels for treatment in treatments}

    @cache
    def column(factor: str, treatment: int) -> str:
        return column_of(study, levels[treatment], factor)

    def columns(factor: str) -> tuple[str, ...]:
        """Return the columns in the order of the study, also for treatments without trials."""
        return tuple(dict.fromkeys(column(factor, treatment.index) for treatment in treatments))

    def gather(note: str, factor: str) -> Gathered:
        """Return the properties that valid attempts noted under the key `note`."""
        gathered: Gathered = defaultdict(lambda: defaultdict(list))
        for attempt in attempts:
            if attempt.valid or note == "residuals":  # residuals are collected once per platform, outside trials
                for name, value in _flatten(attempt.notes.get(note)):
                    gathered[name][column(factor, attempt.treatment)].append(value)
        return gathered

    varying = {factor.name for factor in study.factors if len(factor.levels) > 1}
    by = next((name for name in ("platform", "isolation", "function") if name in varying), ALL)
    return PropertyTables(
        residuals=_verbatim(columns("platform"), gather("residuals", "platform")),
        usage=_spread("" if by == ALL else by, columns(by), gather("usage", by)),
        host=_spread("", (ALL,), gather("host", ALL)),
        really=_verbatim(columns("platform"), gather(REALLY, "platform")),
    )


def column_of(study: Study, levels: Mapping[str, Level], kind: str) -> str:
    """Return the part of this kind in a treatment, with options: 'docker:storage=vfs'; `ALL` without such a part."""
    config = study.config(levels)
    return part_level(config, kind) if kind in config else ALL


Gathered = dict[str, dict[str, list[Any]]]  # {property: {column: the value that each attempt noted}}


def _flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested mappings with their dotted names: ('function.cpu_s', 1.2)."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flatten(item, f"{prefix}.{key}" if prefix else str(key))
    elif prefix and value is not None:
        yield prefix, value


def _verbatim(columns: tuple[str, ...], gathered: Gathered) -> PropertyTable:
    """Return a table by platform; each cell has all distinct values that attempts noted: 'ext4 / xfs'."""
    rows = []
    for name, by_column in gathered.items():
        values = [sorted({_text(name, value) for value in by_column.get(column, ())}) for column in columns]
        texts = tuple(" / ".join(of_column) or ABSENT for of_column in values)
        rows.append(PropertyRow(name, texts, len(set(texts) - {ABSENT}) > 1))
    return PropertyTable("platform", columns, tuple(rows))


def _spread(factor: str, columns: tuple[str, ...], gathered: Gathered) -> PropertyTable:
    """Return a table by the levels of a factor; each cell has the mean and range of a numeric property."""
    rows = []
    for name, by_column in gathered.items():
        numbers = {c: [float(v) for v in by_column.get(c, ()) if is_number(v)] for c in columns}
        if any(numbers.values()):
            texts = tuple(_mean_and_range(name, numbers[c]) for c in columns)
            rows.append(PropertyRow(name, texts, len(set(texts) - {ABSENT}) > 1))
    return PropertyTable(factor, columns, tuple(rows))


def _mean_and_range(name: str, numbers: Sequence[float]) -> str:
    if not numbers:
        return ABSENT
    mean, low, high = math.fsum(numbers) / len(numbers), min(numbers), max(numbers)
    if low == high:
        return _text(name, mean)
    return f"{_text(name, mean)} ({_text(name, low)} – {_text(name, high)})"


def _text(name: str, value: Any) -> str:
    """Return the value of a property as text; the suffix of the property's `name` determines the unit."""
    if not is_number(value):
        return str(value)
    if name.endswith("_bytes"):
        return human_bytes(float(value))
    if name.endswith("_s"):
        return human_duration(float(value)) if value >= 60 else f"{significant(float(value), 3)} s"
    text = f"{value:,}" if isinstance(value, int) else significant(float(value), 3)
    return f"{text} %" if name.endswith("_percent") else text
