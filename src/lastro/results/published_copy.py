"""Copy a campaign's database into one file, for publication.

The copy has no log file, no deleted rows in free pages, and no record of a running process. With the same version of
SQLite, copies of the same campaign have the same bytes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path, PurePath
from typing import Any

from lastro.results.database import pack
from lastro.results.provenance import Provenance
from lastro.results.rows import TestbedRow
from lastro.results.store import Store, unavailable_json

Clean = Callable[[str], str]

_TEXTS = (("event", "id", "text"), ("treatment", "idx", "unavailable"), ("treatment", "idx", "remedy"))
_JSON = (("attempt", "id", "reasons"), ("attempt", "id", "notes"), ("calibration", "key", "value"))
_CLEANED_META = ("provenance", "noise_floor", "segments")


def copy_store(
    store: Store, file: Path, clean: Clean, provenance: Provenance, testbeds: Mapping[str, TestbedRow]
) -> None:
    """Copy an open campaign to a new file, with the given provenance, and with `clean` applied to most other texts.

    `testbeds` maps the present name of each testbed of a fleet to its new row. Of the study, only the path is changed,
    to the file name alone: the author of the study wrote its text. Series and measurements are not changed.

    Raises: sqlite3.OperationalError when the file cannot be written; StoreError when the campaign is damaged."""
    with closing(sqlite3.connect(file, isolation_level=None)) as copy:
        store.backup(copy)
        for pragma in ("journal_mode=DELETE", "synchronous=OFF"):
            copy.execute(f"PRAGMA {pragma}")
        copy.execute("BEGIN")
        copy.execute("DELETE FROM meta WHERE key = 'process'")
        _change(copy, ("meta", "key", "value"), {"provenance": json.dumps(provenance.chapters)})
        _change(copy, ("meta", "key", "value"), dict(_cleaned_meta(copy, clean)))
        for place in _TEXTS:
            _change(copy, place, {row: clean(text) for row, text in _values(copy, place)})
        for place in _JSON:
            _change(copy, place, {row: _in_json(text, clean) for row, text in _values(copy, place)})
        if testbeds:
            _change_testbeds(copy, testbeds, clean)
        for attempt in store.attempts():
            steps = with_clean_texts(store.transcript(attempt.trial, attempt.attempt), clean)
            where = (pack(steps), attempt.trial, attempt.attempt)
            copy.execute("UPDATE attempt SET transcript = ? WHERE trial = ? AND attempt = ?", where)
        copy.execute("COMMIT")
        copy.execute("VACUUM")  # free pages would still contain the replaced texts


def _change_testbeds(copy: sqlite3.Connection, testbeds: Mapping[str, TestbedRow], clean: Clean) -> None:
    for testbed, key, text in copy.execute("SELECT testbed, key, value FROM testbed_calibration").fetchall():
        sql = "UPDATE testbed_calibration SET value = ? WHERE testbed = ? AND key = ?"
        copy.execute(sql, (_in_json(text, clean), testbed, key))
    for name, row in testbeds.items():
        unused = f"~{row.name}"  # another testbed may have that name
        values = (unused, json.dumps(row.provenance.chapters), unavailable_json(row), name)
        copy.execute("UPDATE testbed SET name = ?, provenance = ?, unavailable = ? WHERE name = ?", values)
        for table in ("place", "testbed_calibration"):
            copy.execute(f"UPDATE {table} SET testbed = ? WHERE testbed = ?", (unused, name))
    for table, column in (("testbed", "name"), ("place", "testbed"), ("testbed_calibration", "testbed")):
        copy.execute(f"UPDATE {table} SET {column} = substr({column}, 2)")


def _cleaned_meta(copy: sqlite3.Connection, clean: Clean) -> Iterator[tuple[str, str]]:
    for key, text in _values(copy, ("meta", "key", "value")):
        if key == "study":
            study = json.loads(text)
            yield key, json.dumps(study | {"file": PurePath(study.get("file", "")).name})
        elif key in _CLEANED_META:
            yield key, _in_json(text, clean)


def _values(copy: sqlite3.Connection, place: tuple[str, str, str]) -> list[tuple[Any, str]]:
    table, key, column = place
    return copy.execute(f"SELECT {key}, {column} FROM {table} WHERE {column} IS NOT NULL").fetchall()


def _change(copy: sqlite3.Connection, place: tuple[str, str, str], values: dict[Any, str]) -> None:
    table, key, column = place
    copy.executemany(
        f"UPDATE {table} SET {column} = ? WHERE {key} = ?", ((value, row) for row, value in values.items())
    )


def _in_json(text: str, clean: Clean) -> str:
    return json.dumps(with_clean_texts(json.loads(text), clean))


def with_clean_texts(value: Any, clean: Clean) -> Any:
    """Return data that JSON can represent, with `clean` applied to every text in it except keys."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {key: with_clean_texts(member, clean) for key, member in value.items()}
    if isinstance(value, list):
        return [with_clean_texts(element, clean) for element in value]
    return value
