"""The valid values of each column of a campaign's database. Every value is checked here when it is read.

A value of the wrong type or range is damage, and is reported with its table, row and column. The TypedDicts declare the
keys on which other code relies. The notes of a trial have no declared keys, since third-party parts write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypedDict

from lastro.errors import StoreError
from lastro.results.database import damaged
from lastro.results.looks import Look
from lastro.results.provenance import Provenance
from lastro.results.rows import STATES, State
from lastro.results.segments import HostSegment
from lastro.shapes import MOST_MEASURED, MisshapenData, from_plain, number, parse_json
from lastro.stats import noise_floor
from lastro.study.model import Level, Study

HISTOGRAM = b"\x1c\x84\x93\x14"  # the first bytes of HdrHistogram V2; data of zlib never begin with them
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
_MOST_SECONDS = 1e9
_MOST_CHARACTERS = 1 << 20


class _Gap(TypedDict):
    reason: str
    remedy: str | None


class _Interval(TypedDict):
    low: float
    high: float


class _MetricFloor(TypedDict, total=False):
    floor: float | None
    treatment: str
    n_pairs: int
    ratio: float | None
    interval: _Interval | None


_NO_FLOOR = {"floor": None, "treatment": "", "n_pairs": 0, "ratio": None, "interval": None}  # for missing keys


class _Between(TypedDict, total=False):
    campaigns: int
    first_utc: str | None
    last_utc: str | None
    spreads: dict[str, float]


class _NoiseFloor(TypedDict, total=False):
    blocks: int
    metrics: dict[str, _MetricFloor]
    between: _Between | None


class Record(TypedDict, total=False):
    """One step of a transcript, as `host.base.Transcript` writes it."""

    kind: Literal["run", "spawn", "stop", "write", "rmdir"]
    argv: list[str]
    stdin: str | None
    fed: bool
    stdout: str | None
    stderr: str | None
    returncode: int
    started_s: float
    duration_s: float
    path: str
    text: str
    paths: list[str]
    ssh: list[str]
    prepares: bool


_REQUIRED_KEYS = {
    "run": {"argv", "stdin", "returncode"},
    "spawn": {"argv"},
    "stop": {"argv"},
    "write": {"path", "text"},
    "rmdir": {"paths"},
}


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MOST_CHARACTERS:
        raise MisshapenData(f"is {type(value).__name__}, but must be a string of at most {_MOST_CHARACTERS} characters")
    return value


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _count(least: int, most: int = 10**9) -> Callable[[object], int]:
    def read(value: object) -> int:
        if not isinstance(value, int) or not least <= value <= most:
            raise MisshapenData(f"is {value!r:.60}, but must be a whole number from {least} to {most}")
        return value

    return read


def _utc(value: object) -> str:
    if not isinstance(value, str) or not _TIME.match(value) or len(value) > 40:
        raise MisshapenData(f"is {value!r:.60}, but must be a time in ISO 8601 format")
    return value


def _seconds(value: object) -> float:
    seconds = number(value)
    if not 0 <= seconds <= _MOST_SECONDS:
        raise MisshapenData(f"is {seconds:g}, but must be from 0 to {_MOST_SECONDS:g} seconds")
    return seconds


def _measured(value: object) -> float:
    return float("nan") if value is None else number(value)


def _json(kind: Any) -> Callable[[object], Any]:
    def read(value: object) -> Any:
        if not isinstance(value, str):
            raise MisshapenData(f"is {type(value).__name__}, but must be a string")
        return from_plain(kind, parse_json(value))

    return read


def _provenance(value: object) -> Provenance:
    return Provenance.of(_json(dict[str, Any])(value))


def _state(value: object) -> State:
    if value not in STATES:
        raise MisshapenData(f"is {value!r:.60}, but must be one of {', '.join(STATES)}")
    return value


def _process(value: object) -> list[Any]:
    """Return the process in a JSON text, as the list [PID, start time, UTC time, boot ID, name of its machine].

    Boot ID and machine are empty if an older version recorded the process."""
    process: list[Any] = _json(list[int | str | None])(value)
    process += ["", ""] if len(process) == 3 else []
    types = [type(field) for field in process]
    if types not in ([int, int, str, str, str], [int, NoneType, str, str, str]):
        raise MisshapenData(f"is {value!r:.60}, but must be a process ID, its start and a time")
    return process


def _noise_floor(value: object) -> Any:
    """Return the noise floor in a JSON text, with defaults for missing keys; None if its format is another version."""
    stored = _json(Any)(value)
    if not isinstance(stored, dict) or stored.get("format") != noise_floor.FORMAT:
        return None
    floor: dict[str, Any] = {"blocks": 0, "metrics": {}} | from_plain(_NoiseFloor, stored)
    return floor | {"metrics": {name: _NO_FLOOR | metric for name, metric in floor["metrics"].items()}}


def _unavailable(value: object) -> dict[int, tuple[str, str | None]]:
    gaps: dict[str, _Gap] = _json(dict[str, _Gap])(value)
    return {_count(0)(int(treatment)): (gap["reason"], gap["remedy"]) for treatment, gap in gaps.items()}


def is_histogram(samples: object) -> bool:
    """Return whether a value of the column `series.samples` is a histogram (`results.hdr`) rather than samples."""
    return isinstance(samples, bytes) and samples.startswith(HISTOGRAM)


def samples_of(data: bytes) -> tuple[float, ...]:
    """Return the samples of a series from its decompressed bytes. Raises: ValueError for a sample that is too large."""
    import numpy as np

    samples = np.frombuffer(data)
    if (np.abs(samples[np.isfinite(samples)]) > MOST_MEASURED).any():
        raise MisshapenData(f"has a sample that exceeds the limit of {MOST_MEASURED:g}")
    return tuple(samples.tolist())


def transcript_of(data: bytes) -> list[Record]:
    """Return the steps of an attempt from the JSON of its transcript. Raises: ValueError if it is not valid."""
    records: list[Record] = from_plain(list[Record], parse_json(data.decode()))
    for position, record in enumerate(records):
        missing = _REQUIRED_KEYS[record["kind"]] - set(record) if "kind" in record else {"kind"}
        if record.get("argv") == []:
            raise MisshapenData(f"has an empty command in its record {position}")
        if missing:
            raise MisshapenData(f"has no {', '.join(sorted(missing))} in its record {position}")
    return records


def _segments(value: object) -> tuple[HostSegment, ...]:
    segments: tuple[HostSegment, ...] = _json(tuple[HostSegment, ...])(value)
    for segment in segments:
        _count(0)(segment.after)
        _utc(segment.at_utc)
        if any(len(values) != 2 for values in segment.changes.values()):
            raise MisshapenData("has a change that is not a pair of values")
    return segments


def _looks(value: object) -> tuple[Look, ...]:
    looks: tuple[Look, ...] = _json(tuple[Look, ...])(value)
    for look in looks:
        _count(1)(look.block)
        _utc(look.at_utc)
        for candidate in look.numbers:
            _count(0)(candidate)
    return looks


META: dict[str, Callable[[Any], Any]] = {
    "format": _json(int),
    "study": lambda value: Study.from_dict(_json(dict[str, Any])(value)),
    "provenance": _provenance,
    "noise_floor": _noise_floor,
    "process": _process,
    "segments": _segments,
    "looks": _looks,
}
_COLUMNS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "treatment": {
        "idx": _count(0), "levels": _json(dict[str, Level]), "unavailable": _optional_text, "remedy": _optional_text
    },
    "trial": {"number": _count(1), "block": _count(1), "treatment": _count(0), "state": _state},
    "attempt": {
        "trial": _count(1), "attempt": _count(1), "started_utc": _utc, "duration_s": _seconds, "valid": _count(0, 1),
        "reasons": _json(list[str]), "notes": _json(dict[str, Any]),
    },
    "measurement": {"metric": _text, "value": _measured},
    "series": {"name": _text, "unit": _text},
    "calibration": {"key": _text, "value": _json(Any)},
    "testbed": {"name": _text, "provenance": _provenance, "unavailable": _unavailable},
    "place": {"block": _count(1), "after": _count(0), "testbed": _text},
    "testbed_calibration": {"testbed": _text, "key": _text, "value": _json(Any)},
    "event": {"at_utc": _text, "kind": _text, "text": _text},
}  # fmt: skip


def typed_rows(
    directory: Path, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> list[tuple[Any, ...]]:
    """Return the rows of a table with each value checked and converted as its column requires.

    `columns` are the columns of the rows. A value whose column is an SQL expression is returned unchanged.

    Raises: StoreError for a value that its column cannot have; the message identifies the row by its first value."""
    readers = [_COLUMNS[table].get(column) for column in columns]
    try:
        converted = [
            list(map(read, values)) if read else values
            for read, values in zip(readers, zip(*rows, strict=True), strict=False)
        ]
    except ValueError:
        for row in rows:
            for column, read, value in zip(columns, readers, row, strict=True):
                try:
                    if read:
                        read(value)
                except ValueError as error:
                    raise invalid_value(directory, f"{table}.{column}", row[0], error) from error
        raise
    return list(zip(*converted, strict=True))


def invalid_value(directory: Path, name: str, row: object, reason: object) -> StoreError:
    """Return the error for an invalid value in a database; `name` is its table and column, such as "trial.state".

    `row` identifies the row, and `reason` says why the value is invalid."""
    table, column = name.split(".")
    return damaged(directory, f"table {table}, row {row!r:.40}, column {column}: {reason}")
