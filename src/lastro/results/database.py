"""The tables of a campaign's database, and the translation of SQLite's errors into messages with a remedy."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lastro.errors import StoreError
from lastro.plain import plain
from lastro.study.design import Treatment, Trial

DB_NAME = "campaign.db"
IN_BUNDLE = "campaign"  # the directory of the campaign in a bundle
_LONGEST = 400  # characters of a reason
_CHECK_DISK = "check the disk and its permissions"

SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE treatment(idx INTEGER PRIMARY KEY, levels TEXT NOT NULL, unavailable TEXT, remedy TEXT);
CREATE TABLE trial(number INTEGER PRIMARY KEY, block INTEGER NOT NULL, treatment INTEGER NOT NULL REFERENCES treatment,
                   state TEXT NOT NULL DEFAULT 'pending');
CREATE INDEX trial_todo ON trial(number) WHERE state IN ('pending', 'running');
CREATE INDEX trial_by_treatment ON trial(treatment);
CREATE TABLE attempt(id INTEGER PRIMARY KEY, trial INTEGER NOT NULL REFERENCES trial, attempt INTEGER NOT NULL,
                     started_utc TEXT NOT NULL, duration_s REAL NOT NULL, valid INTEGER NOT NULL,
                     reasons TEXT NOT NULL, notes TEXT NOT NULL, transcript BLOB NOT NULL, UNIQUE(trial, attempt));
CREATE TABLE measurement(attempt INTEGER NOT NULL REFERENCES attempt, metric TEXT NOT NULL, value REAL,
                         PRIMARY KEY(attempt, metric)) WITHOUT ROWID;
CREATE TABLE series(attempt INTEGER NOT NULL REFERENCES attempt, name TEXT NOT NULL, unit TEXT NOT NULL,
                    samples BLOB NOT NULL, PRIMARY KEY(attempt, name)) WITHOUT ROWID;
CREATE TABLE calibration(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE event(id INTEGER PRIMARY KEY, at_utc TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL);
"""

# Only the campaigns of a fleet have these tables. An attempt ran on the testbed of the last place of its block with an
# `after` below the attempt's id; `unavailable` is {treatment: {reason, remedy}}.
FLEET_SCHEMA = """
CREATE TABLE testbed(name TEXT PRIMARY KEY, provenance TEXT NOT NULL, unavailable TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE place(block INTEGER NOT NULL, after INTEGER NOT NULL, testbed TEXT NOT NULL REFERENCES testbed,
                   PRIMARY KEY(block, after)) WITHOUT ROWID;
CREATE TABLE testbed_calibration(testbed TEXT NOT NULL REFERENCES testbed, key TEXT NOT NULL, value TEXT NOT NULL,
                                 PRIMARY KEY(testbed, key)) WITHOUT ROWID;
"""


def new_campaign(
    meta: dict[str, Any], treatments: Iterable[Treatment], trials: Iterable[Trial], *, fleet: bool = False
) -> bytes:
    """Return the bytes of the database file of a campaign in which nothing has run."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("BEGIN")
        for statement in (SCHEMA + FLEET_SCHEMA if fleet else SCHEMA).split(";"):
            db.execute(statement)
        db.executemany("INSERT INTO meta VALUES (?, ?)", ((key, json.dumps(value)) for key, value in meta.items()))
        db.executemany(
            "INSERT INTO treatment(idx, levels) VALUES (?, ?)",
            ((treatment.index, json.dumps(dict(treatment.levels))) for treatment in treatments),
        )
        db.executemany(
            "INSERT INTO trial(number, block, treatment) VALUES (?, ?, ?)",
            ((trial.number, trial.block, trial.treatment) for trial in trials),
        )
        db.execute("COMMIT")
        data = db.serialize()
    # WAL mode, by an edit of the header. SQLite itself would need a rollback journal to change the mode, and after a
    # power cut at that moment, a process that may only read could not open the file. Source:
    # https://www.sqlite.org/fileformat2.html, "The Database Header".
    return data[:18] + b"\x02\x02" + data[20:]


def pack(value: Any) -> bytes:
    return zlib.compress(json.dumps(value).encode())


def holds_campaign(directory: Path) -> bool:
    """Return whether a directory contains a campaign. Raises: OSError for a path that no file can have."""
    return (directory / DB_NAME).exists()


def damaged(directory: Path, reason: object) -> StoreError:
    """Return the error for a campaign whose database cannot be read."""
    return CAMPAIGN.damaged(directory / DB_NAME, reason)


def store_errors(directory: Path) -> AbstractContextManager[None]:
    """Return a context manager that turns SQLite's errors on a campaign's database into StoreErrors with a remedy."""
    return CAMPAIGN.store_errors(directory / DB_NAME)


@dataclass(frozen=True, slots=True)
class DatabaseKind:
    """A kind of database: its name, and remedies for a file that is damaged, full, or locked by another process."""

    what: str
    if_damaged: str
    if_full: str
    if_locked: str

    def damaged(self, file: Path, reason: object) -> StoreError:
        """Return the error for a file that cannot be read; SQLite's `reason` may quote any of its contents."""
        return StoreError(f"{file} is not a readable {self.what}: {plain(str(reason))[:_LONGEST]}", self.if_damaged)

    @contextmanager
    def store_errors(self, file: Path) -> Iterator[None]:
        """Turn SQLite's errors on a file inside the block into StoreErrors with a remedy."""
        try:
            yield
        except sqlite3.OperationalError as error:
            # No such table or column: a database of another kind. Text that is not UTF-8 is not from Lastro.
            if any(words in str(error) for words in ("no such", "Could not decode")):
                raise self.damaged(file, error) from error
            hints = {"full": self.if_full, "locked": self.if_locked, "readonly": "make the directory writable"}
            hint = next((text for word, text in hints.items() if word in str(error)), _CHECK_DISK)
            raise StoreError(f"{file}: {error}", hint) from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite may quote bytes in an error
            raise self.damaged(file, error) from error


CAMPAIGN = DatabaseKind(
    "campaign",
    "restore it from a copy, or run the study again",
    "free some space; the trials written so far are safe, and `lastro resume` continues",
    "another Lastro is writing to this campaign: wait for it to end",
)
