"""Side tables out of what trials noted: residual differences, resources used, doses reached, disturbances of the host.

Pure. Notes are read with suspicion, because a part from elsewhere may have written anything into them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lastro.report.language import N_
from lastro.study.design import Treatment
from lastro.study.model import Study
from lastro.units import human_bytes, human_duration, significant

if TYPE_CHECKING:
    from lastro.results.store import Attempt

ALL = N_("all trials")
_ABSENT = "—"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One property; `values` has a text for each column. `differs` is whether the columns disagree."""

    name: str
    values: tuple[str, ...]
    differs: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """A table of properties by the levels of `factor`; empty when no trial noted anything."""

    factor: str
    columns: tuple[str, ...]
    rows: tuple[LedgerRow, ...]

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclass(frozen=True, slots=True)
class Ledgers:
    """`residuals`: what still differs between platforms that run the same files; the others: mean (least – most)."""

    residuals: Ledger
    usage: Ledger
    doses: Ledger
    host: Ledger


def build_ledgers(study: Study, treatments: Sequence[Treatment], attempts: Sequence[Attempt]) -> Ledgers:
    levels = {treatment.index: treatment.levels for treatment in treatments}

    def column(factor: str, attempt: Attempt) -> str:
        return str(levels[attempt.treatment].get(factor, study.settings.get(factor, ALL)))

    def gather(note: str, factor: str) -> Gathered:
        return _gather(attempts, note, lambda attempt: column(factor, attempt))

    by = _first_varying(study, ("platform", "isolation", "function"))
    return Ledgers(
        residuals=_verbatim("platform", _column_order(study, "platform"), gather("residuals", "platform")),
        usage=_spread("" if by == ALL else by, _column_order(study, by), gather("usage", by)),
        doses=_spread("anomaly", _column_order(study, "anomaly"), gather("doses", "anomaly")),
        host=_spread("", (ALL,), gather("host", ALL)),
    )


Gathered = dict[str, dict[str, list[Any]]]  # property -> column -> what each attempt noted


def _gather(attempts: Iterable[Attempt], note: str, column: Any) -> Gathered:
    gathered: Gathered = defaultdict(lambda: defaultdict(list))
    for attempt in attempts:
        if attempt.valid or note == "residuals":
            for name, value in _flatten(attempt.notes.get(note)):
                gathered[name][column(attempt)].append(value)
    return gathered


def _flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of nested mappings with their dotted names; ('function.cpu_s', 1.2)."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flatten(item, f"{prefix}.{key}" if prefix else str(key))
    elif prefix and value is not None:
        yield prefix, value


def _first_varying(study: Study, wanted: Sequence[str]) -> str:
    varying = {factor.name for factor in study.factors if len(factor.levels) > 1}
    return next((name for name in wanted if name in varying), ALL)


def _column_order(study: Study, factor: str) -> tuple[str, ...]:
    """The levels as the study lists them; those without a trial show as absent, never vanish."""
    for known in study.factors:
        if known.name == factor:
            return tuple(str(level) for level in known.levels)
    return (str(study.settings.get(factor, ALL)),)


def _verbatim(factor: str, columns: tuple[str, ...], gathered: Gathered) -> Ledger:
    rows = []
    for name, by_column in gathered.items():
        texts = tuple(" / ".join(sorted({_text(name, v) for v in by_column.get(c, ())})) or _ABSENT for c in columns)
        rows.append(LedgerRow(name, texts, len(set(texts) - {_ABSENT}) > 1))
    return Ledger(factor, columns, tuple(rows))


def _spread(factor: str, columns: tuple[str, ...], gathered: Gathered) -> Ledger:
    rows = []
    for name, by_column in gathered.items():
        numbers = {c: [float(v) for v in by_column.get(c, ()) if _is_number(v)] for c in columns}
        if any(numbers.values()):
            texts = tuple(_mean_and_range(name, numbers[c]) for c in columns)
            rows.append(LedgerRow(name, texts, len(set(texts) - {_ABSENT}) > 1))
    return Ledger(factor, columns, tuple(rows))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _mean_and_range(name: str, numbers: Sequence[float]) -> str:
    if not numbers:
        return _ABSENT
    mean, low, high = math.fsum(numbers) / len(numbers), min(numbers), max(numbers)
    if low == high:
        return _text(name, mean)
    return f"{_text(name, mean)} ({_text(name, low)} – {_text(name, high)})"


def _text(name: str, value: Any) -> str:
    """A value as people read it; the suffix of its name tells the unit."""
    if not _is_number(value):
        return str(value)
    if name.endswith("_bytes"):
        return human_bytes(float(value))
    if name.endswith("_s"):
        return human_duration(float(value)) if value >= 60 else f"{significant(float(value), 3)} s"
    text = f"{value:,}" if isinstance(value, int) else significant(float(value), 3)
    return f"{text} %" if name.endswith("_percent") else text
