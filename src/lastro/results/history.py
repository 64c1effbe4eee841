"""A history: the summaries of campaigns over months, and remarks of users on changes, in one SQLite file.

It is append-only: its triggers refuse to change or to delete a row. Every row has one JSON document, which is checked
when it is read, since the file may come from anywhere. A point is the summary of a campaign, which may be deleted
afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from lastro.errors import InputError
from lastro.files import has_plain, require_own_directory
from lastro.results.connection import BoundedConnection, objects, open_bounded, read_mode, schema_difference
from lastro.results.database import DatabaseKind
from lastro.results.history_points import History, HistoryPoint, HistoryRemark
from lastro.shapes import from_plain, parse_json

_KIND = DatabaseKind(
    "history of Lastro",
    "restore it from a copy, or name another file with --file",
    "free some space: nothing of this campaign was added",
    "another Lastro is writing to it: try again",
)
_TABLE = """
CREATE TABLE {name}(id INTEGER PRIMARY KEY, once TEXT NOT NULL UNIQUE, document TEXT NOT NULL);
CREATE TRIGGER {name}_stays BEFORE UPDATE ON {name} BEGIN SELECT raise(ABORT, 'a history only grows'); END;
CREATE TRIGGER {name}_remains BEFORE DELETE ON {name} BEGIN SELECT raise(ABORT, 'a history only grows'); END;
"""
_SCHEMA = _TABLE.format(name="point") + _TABLE.format(name="remark")


def read_history(file: Path) -> History:
    """Read a history. Raises: InputError when the file does not exist; StoreError when it is not a valid history."""
    if not _exists(file):
        raise InputError(f"{file} does not exist", "`lastro history add DIR` begins a history; --file names its file")
    points: list[HistoryPoint] = []
    remarks: list[HistoryRemark] = []
    with _KIND.store_errors(file), closing(_open_database(file, read_mode(file))) as db:
        for table, kind, rows in (("point", HistoryPoint, points), ("remark", HistoryRemark, remarks)):
            for number, document in db.read(f"SELECT id, document FROM {table} ORDER BY id", ()):
                try:
                    rows.append(found := from_plain(kind, parse_json(document)))
                    if isinstance(found, HistoryPoint):
                        datetime.fromisoformat(found.measured_utc)  # raises ValueError for another text
                        known = {metric.name for metric in found.metrics}
                        if unknown := {summary.metric for summary in found.summaries} - known:
                            raise ValueError(f"it has no metric {min(unknown)!r}")
                except ValueError as error:
                    raise _KIND.damaged(file, f"table {table}, row {number}: {error}") from error
    return History(tuple(points), tuple(remarks))


def add_points(file: Path, points: Sequence[HistoryPoint]) -> int:
    """Add campaigns to a history, which is created if needed, in one transaction; return how many were new.

    A campaign is identified by the time of its first trial, its host and its study. A campaign that is already in the
    history is not changed.

    Raises: InputError when the process is root, and other users can change the directory; StoreError as
    `read_history`."""
    return _append(file, "point", {f"{point.measured_utc} {point.study} {point.host}": point for point in points})


def add_remark(file: Path, remark: HistoryRemark) -> None:
    """Add a remark of a user to an existing history. Raises: as `read_history` and `add_points`."""
    if not _exists(file):
        read_history(file)
    _append(file, "remark", {f"{remark.said_utc} {remark}": remark})


def _append(file: Path, table: str, rows: Mapping[str, HistoryPoint | HistoryRemark]) -> int:
    """Append the rows {unique key: row} that a table does not have, and return their number."""
    require_own_directory(file.parent)
    _exists(file)  # else it cannot be a history
    with _KIND.store_errors(file), closing(_open_database(file, "mode=rwc")) as db, db.watched():
        texts = [(key, json.dumps(asdict(row), sort_keys=True)) for key, row in rows.items()]
        db.execute("BEGIN IMMEDIATE")
        n = db.executemany(f"INSERT OR IGNORE INTO {table}(once, document) VALUES (?, ?)", texts).rowcount
        db.execute("COMMIT")
    return n


def _exists(file: Path) -> bool:
    try:
        return has_plain(file)
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{file} cannot be a history: {words}", "name another file with --file") from error


def _open_database(file: Path, mode: str) -> BoundedConnection:
    def check(db: BoundedConnection) -> None:
        found = objects(db)
        if not found and mode == "mode=rwc":  # a new file, or one whose first writer was killed
            db.executescript(f"PRAGMA synchronous=FULL; BEGIN IMMEDIATE; {_SCHEMA} COMMIT")
        elif reason := schema_difference(found, _SCHEMA):
            raise _KIND.damaged(file, reason)

    return open_bounded(file, mode, check)
