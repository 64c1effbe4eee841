"""Long-format rows, one value each, for R, pandas or DuckDB: as CSV text and as Parquet.

Columns: `treatment`, one for each factor, `block`, `trial`, `state` (of the trial), `attempt`, `valid` (of the
attempt), `reasons`, `metric`, `unit`, `value`. Every trial has a row: one that was never attempted has no attempt and
no metric, and an unavailable one has its reason. Use the rows with `valid` true: invalid attempts are here to be looked
at."""

from __future__ import annotations

import csv
import io
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lastro.errors import StoreError
from lastro.results.read import CampaignData
from lastro.results.store import Attempt, TreatmentRow, TrialRow
from lastro.study.model import Factor

_BEFORE = {"treatment": "VARCHAR"}
_AFTER = {
    "block": "INTEGER",
    "trial": "INTEGER",
    "state": "VARCHAR",
    "attempt": "INTEGER",
    "valid": "BOOLEAN",
    "reasons": "VARCHAR",
    "metric": "VARCHAR",
    "unit": "VARCHAR",
    "value": "DOUBLE",
}
_NULL = "\\N"  # in the file between us and DuckDB, where an empty text and no text must differ

Value = str | int | float | bool | None


def columns(data: CampaignData) -> dict[str, str]:
    """Names of the columns in order, with their SQL types."""
    return _BEFORE | {_column(factor): _sql_type(factor) for factor in data.study.factors} | _AFTER


def _column(factor: Factor) -> str:
    return f"factor_{factor.name}" if factor.name in _BEFORE | _AFTER else factor.name


def _sql_type(factor: Factor) -> str:
    kinds = {type(level) for level in factor.levels}
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int}:
        return "BIGINT"
    return "DOUBLE" if kinds <= {int, float} else "VARCHAR"


def rows(data: CampaignData) -> Iterator[tuple[Value, ...]]:
    """The rows in running order, as `columns` names them."""
    units = {metric.name: metric.unit for metric in (*data.study.all_metrics, *data.study.metrics)}
    treatments = {row.treatment.index: row for row in data.treatments}
    attempts: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in data.attempts:
        attempts[attempt.trial].append(attempt)
    for trial in data.trials:
        row = treatments[trial.treatment]
        head = (row.treatment.id, *(row.treatment.levels[factor.name] for factor in data.study.factors))
        place = (trial.block, trial.number, trial.state)
        for tail in _tails(trial, row, attempts[trial.number], units):
            yield (*head, *place, *tail)


def _tails(
    trial: TrialRow, row: TreatmentRow, attempts: Iterable[Attempt], units: dict[str, str]
) -> Iterator[tuple[Value, ...]]:
    """(attempt, valid, reasons, metric, unit, value) of everything that one trial yielded."""
    silent = True
    for attempt in attempts:
        silent = False
        verdict = (attempt.attempt, attempt.valid, "; ".join(attempt.reasons) or None)
        for metric, value in attempt.measurements.items():
            yield (*verdict, metric, units.get(metric), value if math.isfinite(value) else None)
        if not attempt.measurements:
            yield (*verdict, None, None, None)
    if silent or trial.state == "unavailable":
        yield (None, None, row.unavailable if trial.state == "unavailable" else None, None, None, None)


def to_csv(data: CampaignData) -> str:
    """RFC 4180 text with a header; booleans as true and false, what is absent as nothing."""
    return _csv(data, null="")


def _csv(data: CampaignData, null: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns(data))
    writer.writerows([_plain(value, null) for value in row] for row in rows(data))
    return out.getvalue()


def _plain(value: Value, null: str) -> str | int | float:
    if value is None:
        return null
    return str(value).lower() if isinstance(value, bool) else value


def to_parquet(data: CampaignData, file: Path) -> None:
    """The rows as Parquet, written by DuckDB; the file appears whole or not at all.

    Raises: StoreError when it cannot be written."""
    import duckdb

    with _replacing(file) as new, tempfile.TemporaryDirectory() as scratch:
        between = Path(scratch) / "rows.csv"
        between.write_bytes(_csv(data, _NULL).encode("utf-8", "replace"))
        types = ", ".join(f"{_quoted(name)}: {_quoted(kind)}" for name, kind in columns(data).items())
        source = (
            f"read_csv({_quoted(str(between))}, header = true, delim = ',', quote = '\"', escape = '\"', "
            f"nullstr = {_quoted(_NULL)}, auto_detect = false, parallel = false, columns = {{{types}}})"
        )
        try:
            with duckdb.connect() as db:
                db.execute(f"COPY (SELECT * FROM {source}) TO {_quoted(str(new))} (FORMAT parquet)")
        except duckdb.IOException as error:
            raise StoreError(f"{file} cannot be written: {error}", "check the disk and its permissions") from error


def _quoted(text: str) -> str:
    """As a SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def write_atomically(file: Path, content: str | bytes) -> None:
    """Write a file so that it appears whole or not at all.

    Raises: StoreError when it cannot be written."""
    with _replacing(file) as new:
        new.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))


@contextmanager
def _replacing(file: Path) -> Iterator[Path]:
    """A name beside `file` to write to, that takes its place at the end."""
    new = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        yield new
        new.replace(file)
    except OSError as error:
        raise StoreError(
            f"{file} cannot be written: {error.strerror or error}", "name another file, or make room and permission"
        ) from error
    finally:
        _forget(new)


def _forget(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError:
        return  # what could not be written cannot be removed either; the first error is the one to tell
