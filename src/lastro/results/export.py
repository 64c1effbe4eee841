"""Long-format rows, one value each, for R, pandas or DuckDB: as CSV text and as Parquet.

Columns: `treatment`, one for each factor, `block`, `trial`, `state` (of the trial), `attempt`, `valid` (of the
attempt), `reasons`, `metric`, `unit`, `value`, `at_least` (the value is only a lower bound: censored on the right);
for a campaign of a fleet also `testbed` (of the attempt), and for one in a guest `measured_in`: host, guest, or
emulated guest.
Every trial has a row: a trial that was never attempted has no attempt and no metric, and an unavailable one has its
reason. Analyse the rows with `valid` true; invalid attempts are included for inspection.
The rows of a suite begin with the column `suite_study`, the name of the study in its suite, and have the factors of all
its studies."""

from __future__ import annotations

import csv
import io
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lastro.errors import OutputError
from lastro.grouping import by_key
from lastro.plain import without_controls
from lastro.results.files import write_atomically
from lastro.results.provenance import Provenance
from lastro.results.read import CampaignData
from lastro.results.rows import Attempt, TreatmentRow, TrialRow

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

_STUDY = "suite_study"
_FIRST_COLUMNS = {"treatment": "VARCHAR"}
_COMMON_COLUMNS = {
    "block": "INTEGER",
    "trial": "INTEGER",
    "state": "VARCHAR",
    "attempt": "INTEGER",
    "valid": "BOOLEAN",
    "reasons": "VARCHAR",
    "metric": "VARCHAR",
    "unit": "VARCHAR",
    "value": "DOUBLE",
    "at_least": "BOOLEAN",
}
_OPTIONAL_COLUMNS = {"testbed": "VARCHAR", "measured_in": "VARCHAR"}  # the last columns, for a fleet and for a guest
HOST = "host"  # the value of `measured_in` for attempts that did not run in a guest
_GUEST = "guest"  # the factor or setting that names one of several guests
_BEGIN_A_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # the full-width ones for spreadsheets in East Asia
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

Value = str | int | float | bool | None


def columns(data: CampaignData) -> dict[str, str]:
    """Return the columns of a campaign in order, as {name: SQL type}."""
    taken = {_STUDY, *_FIRST_COLUMNS, *_COMMON_COLUMNS, *_OPTIONAL_COLUMNS}
    prefixes = {factor.name: "factor_" if factor.name in taken else "" for factor in data.study.factors}
    levels = {prefixes[factor.name] + factor.name: sql_type(factor.levels) for factor in data.study.factors}
    return _FIRST_COLUMNS | levels | _COMMON_COLUMNS | _optional_columns(data)


def _optional_columns(data: CampaignData) -> dict[str, str]:
    """Return those of `_OPTIONAL_COLUMNS` that this campaign has, as {name: SQL type}."""
    fleet = any(attempt.testbed for attempt in data.attempts)
    provenances = [data.provenance, *(member.provenance for member in data.members)]
    guest = any(measured_in(provenance) != HOST for provenance in provenances)
    return {name: kind for (name, kind), has in zip(_OPTIONAL_COLUMNS.items(), (fleet, guest), strict=True) if has}


def measured_in(provenance: Provenance, name: str = "") -> str:
    """Return the value of the column `measured_in` according to `provenance`; `name` selects one of several guests."""
    guest = provenance.guests.get(name, provenance).guest
    if not guest.title:
        return HOST
    return "emulated guest" if guest.emulated else "guest"


def sql_type(values: Iterable[Value]) -> str:
    """Return the SQL type of a column with these values; None fits into every type."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int}:
        return "BIGINT"
    return "DOUBLE" if kinds <= {int, float} else "VARCHAR"


def rows(data: CampaignData) -> Iterator[tuple[Value, ...]]:
    """Yield the rows in the order in which the trials are planned, with the columns that `columns` returns."""
    units = {metric.name: metric.unit for metric in (*data.study.all_metrics, *data.study.metrics)}
    treatments = {row.treatment.index: row for row in data.treatments}
    attempts = by_key((attempt.trial, attempt) for attempt in data.attempts)
    provenances = {block: member.provenance for member in data.members for block in member.blocks}
    guest_setting, optional = data.study.settings.get(_GUEST), _optional_columns(data)
    for trial in data.trials:
        row = treatments[trial.treatment]
        head = (row.treatment.id, *(row.treatment.levels[factor.name] for factor in data.study.factors))
        position = (trial.block, trial.number, trial.state)
        guest = str(row.treatment.levels.get(_GUEST, guest_setting))
        machine = measured_in(provenances.get(trial.block, data.provenance), guest)
        for testbed, attempt, *values in _value_rows(trial, row, attempts.get(trial.number, ()), units):
            last = {"testbed": testbed, "measured_in": None if attempt is None else machine}
            yield (*head, *position, attempt, *values, *(last[name] for name in optional))


def _value_rows(
    trial: TrialRow, row: TreatmentRow, attempts: Iterable[Attempt], units: dict[str, str]
) -> Iterator[tuple[Value, ...]]:
    """Yield (testbed, attempt, valid, reasons, metric, unit, value, at_least) for each value of one trial.

    An attempt without values yields a row without a metric. A trial that was never attempted, or is unavailable, yields
    a row without an attempt, which has the reason for the unavailability."""
    has_attempts = False
    for attempt in attempts:
        has_attempts = True
        verdict = (attempt.testbed or None, attempt.attempt, attempt.valid, "; ".join(attempt.reasons) or None)
        for metric, value in attempt.measurements.items():
            known = value if math.isfinite(value) else None
            yield (*verdict, metric, units.get(metric), known, attempt.typed_notes.only_at_least(metric))
        if not attempt.measurements:
            yield (*verdict, None, None, None, None)
    if not has_attempts or trial.state == "unavailable":
        yield (None, None, None, row.unavailable if trial.state == "unavailable" else None, None, None, None, None)


Data = CampaignData | Mapping[str, CampaignData]  # one campaign, or those of a suite by the name of their study


def _all_columns(data: Data) -> dict[str, str]:
    """Return the columns of a campaign or a suite, as {name: SQL type}.

    A suite has the column `suite_study` first, and then the columns of all its campaigns. If campaigns have different
    types for a column, its type is text."""
    if isinstance(data, CampaignData):
        return columns(data)
    all_columns = {_STUDY: "VARCHAR", **_FIRST_COLUMNS}
    used = {name for campaign in data.values() for name in _optional_columns(campaign)}
    more = {name: kind for name, kind in _OPTIONAL_COLUMNS.items() if name in used}
    for campaign in data.values():
        for name, kind in columns(campaign).items():
            if name not in _COMMON_COLUMNS | _OPTIONAL_COLUMNS:
                all_columns[name] = kind if all_columns.get(name, kind) == kind else "VARCHAR"
    return all_columns | _COMMON_COLUMNS | more


def _all_rows(data: Data) -> Iterator[tuple[Value, ...]]:
    if isinstance(data, CampaignData):
        yield from rows(data)
        return
    names = list(_all_columns(data))
    for study, campaign in data.items():
        campaign_columns = list(columns(campaign))
        for row in rows(campaign):
            values = {**dict(zip(campaign_columns, row, strict=True)), _STUDY: study}
            yield tuple(values.get(name) for name in names)


class CsvStyle(NamedTuple):
    """The style of a CSV: column separator, decimal mark, and whether it begins with a byte order mark."""

    separator: str = ","
    decimal: str = "."
    bom: bool = False


_USUAL = CsvStyle()


def to_csv(data: Data, *, raw: bool = False, style: CsvStyle = _USUAL) -> str:
    """Return the rows as CSV (RFC 4180) with a header; booleans are true and false, missing values are empty.

    In texts, control characters except the newline become spaces, and an apostrophe is put before any formula that a
    spreadsheet would execute. With `raw`, texts are not changed."""
    text = str if raw else without_formulas
    out = _Lines()
    writer = csv.writer(out, lineterminator="\r\n", delimiter=style.separator)  # CRLF: fields with a CR are quoted
    writer.writerow(map(text, _all_columns(data)))
    writer.writerows([_cell(value, text, style.decimal) for value in row] for row in _all_rows(data))
    return ("\ufeff" if style.bom else "") + out.getvalue()


class _Lines(io.StringIO):
    """A file for `csv.writer` that replaces CRLF at the end of each row by a newline."""

    def write(self, row: str) -> int:
        return super().write(row.removesuffix("\r\n") + "\n")


def _cell(value: Value, text: Callable[[str], str], decimal: str) -> str | int | float:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and decimal != ".":
        return str(value).replace(".", decimal)
    return text(value) if isinstance(value, str) else value


def without_formulas(text: str) -> str:
    """Return the text of a cell, changed so that no spreadsheet executes it: see "CSV Injection" by OWASP."""
    text = without_controls(text)
    is_formula = text.lstrip().startswith(_BEGIN_A_FORMULA) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def to_parquet(data: Data, file: Path) -> None:
    """Write the rows as Parquet with DuckDB; the file is complete or does not exist.

    Raises: OutputError when DuckDB is not installed, or the file cannot be written."""
    types = _all_columns(data)
    values = list(zip(*_all_rows(data), strict=True)) or [()] * len(types)
    with (
        duckdb_table(types, values, f"{file} cannot be written: Parquet", "write --csv") as table,
        tempfile.TemporaryDirectory() as scratch,
    ):
        import duckdb

        scratch_file = Path(scratch) / "rows.parquet"
        try:
            table.write_parquet(str(scratch_file))
        except duckdb.IOException as error:
            raise OutputError(f"{file} cannot be written: {error}", "check the disk and its permissions") from error
        write_atomically(file, scratch_file.read_bytes())


@contextmanager
def duckdb_table(
    types: Mapping[str, str], values: Iterable[Iterable[Value]], what: str, otherwise: str
) -> Iterator[DuckDBPyRelation]:
    """Yield a table in a temporary database of DuckDB.

    `types` is {column: SQL type}. `values` has the values of each column, in the same order. If DuckDB is not
    installed, the message says that `what` needs it and that the user can do `otherwise`.

    Raises: OutputError if DuckDB is not installed."""
    try:
        import duckdb
    except ImportError as error:
        hint = f"pip install 'lastro[parquet]', or {otherwise}"
        raise OutputError(f"{what} needs the package duckdb, which is not installed", hint) from error
    typed = [[_typed(value, kind) for value in column] for column, kind in zip(values, types.values(), strict=True)]
    quoted = {name: name.replace('"', '""') for name in types}
    selected = ", ".join(f'unnest(?::{kind}[]) AS "{quoted[name]}"' for name, kind in types.items())
    with duckdb.connect() as db:
        yield db.sql(f"SELECT {selected}", params=typed)


def _typed(value: Value, sql_type: str) -> Value:
    """Return a value for a column of type `sql_type`. A lone surrogate in a text becomes a question mark."""
    if value is None or sql_type not in {"VARCHAR", "DOUBLE"}:
        return value
    if sql_type == "DOUBLE":
        return float(value)
    return str(_cell(value, str, ".")).encode("utf-8", "replace").decode()
