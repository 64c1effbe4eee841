"""Open the database of a campaign or of a history, which may come from anywhere; all code opens databases here.

Nothing is read before the schema has been verified, so no foreign view, trigger or generated column runs. Signals end a
running statement, and the size of the file limits the amount of data that is read or unpacked.
Source: "Defense Against The Dark Arts", https://www.sqlite.org/security.html"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
import zlib
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from lastro.errors import InputError, StoreError
from lastro.files import has_plain
from lastro.results.columns import META, invalid_value
from lastro.results.database import DB_NAME, FLEET_SCHEMA, IN_BUNDLE, SCHEMA, damaged, store_errors

FORMAT = 3  # 2: a study may stop sequentially, and then grows by blocks; 3: a series may be a histogram
FLEET_FORMAT = 4  # of a campaign with several testbeds, which has more tables
LONGEST_S = 60.0  # time limit of a query; a query of the largest campaign takes a few seconds
_STEPS = 10_000  # of SQLite's virtual machine between two checks of signals and the clock: about a millisecond
_SUFFIXES_BESIDE = ("-journal", "-wal", "-shm")  # of the files that SQLite uses next to the database
_SIZED = (str, bytes)
_ROW_BYTES = 4  # no row takes less space in the file
_SPARE_BYTES = 32 << 20  # limit of unpacked data, in addition to _RATIO times the size of the file
_SPARE_VALUES = 500_000  # limit of unpacked values, in addition to one per byte of the file: four times the usual
_RATIO = 32
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 256 << 20,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 20,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 3,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 25_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 8,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 50,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
}


class BoundedConnection(sqlite3.Connection):
    """A connection that signals can interrupt, and whose queries yield no more data than the file can contain."""

    _caught: BaseException | None = None
    _until = float("inf")

    def guard(self, file: Path) -> None:
        self._file = file
        self._unpacked = 0
        self._values: dict[Hashable, int] = {}
        self._n_values = 0
        watch = self._watch()
        next(watch)
        self.set_progress_handler(watch.__next__, _STEPS)

    def _watch(self) -> Generator[bool, None, None]:
        """Yield, again and again, whether SQLite must abort its statement: after a signal, or when its time is over.

        This is a generator because Python runs signal handlers when a generator continues, inside the `try`. In a
        function, a handler would run before the `try`, and SQLite would ignore its exception."""
        stop = False
        while True:
            try:
                while True:
                    yield stop
                    stop = time.monotonic() > self._until
                    if stop:
                        self._caught = sqlite3.DatabaseError(f"one query took longer than {LONGEST_S:g} s")
            except GeneratorExit:
                raise
            except BaseException as error:
                self._caught, stop = error, True

    @contextmanager
    def watched(self, longest_s: float = float("inf")) -> Iterator[None]:
        """Abort a statement inside the block at a signal, or `longest_s` seconds after the block began.

        Raises: the exception of the signal handler, such as KeyboardInterrupt; sqlite3.DatabaseError when the time is
        over."""
        self._until = time.monotonic() + longest_s
        try:
            yield
        except sqlite3.OperationalError:
            cause, self._caught = self._caught, None
            if cause is not None:
                raise cause from None
            raise

    def read(self, sql: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Return all rows of a query.

        Raises: sqlite3.Error, also if the rows have more data than the file, which happens when its pages form a
        loop."""
        rows, bytes_left = [], self._file_bytes()
        with self.watched(LONGEST_S):
            for row in self.execute(sql, args):
                bytes_left -= _ROW_BYTES
                for value in row:
                    if value.__class__ in _SIZED:
                        bytes_left -= len(value)
                if bytes_left < 0:
                    raise sqlite3.DatabaseError("its tables yield more data than the file holds")
                rows.append(row)
        return rows

    def unpack(self, packed: object) -> bytes:
        """Return the decompressed bytes of data that `database.pack` compressed.

        Raises: ValueError for other data, or when this connection has decompressed too much for the size of the
        file."""
        if not isinstance(packed, bytes):
            raise ValueError("is not compressed data")
        most = _SPARE_BYTES + _RATIO * self._file_bytes() - self._unpacked
        engine = zlib.decompressobj()
        try:
            data = engine.decompress(packed, max(1, most))
        except zlib.error as error:
            raise ValueError(f"cannot be decompressed: {error}") from error
        if not engine.eof and len(data) >= most:
            raise ValueError("unpacks to more data than a campaign of this size can hold")
        if not engine.eof or engine.unused_data:
            raise ValueError("is compressed data that is cut off, or has extra data after its end")
        self._unpacked += len(data)
        return data

    def count_values(self, place: Hashable, n: int) -> None:
        """Add `n` to the number of values that were read from decompressed data, and limit the total.

        The limit on bytes is not enough, since values need much more memory than their text. `place` identifies the
        data, so that values that are read again are not counted again. Raises: ValueError when the total is too
        large for the size of the file."""
        self._n_values += n - self._values.get(place, 0)
        self._values[place] = n
        if self._n_values > _SPARE_VALUES + self._file_bytes():
            raise ValueError("holds more values than a campaign of this size can")

    def _file_bytes(self) -> int:
        """Return the total size of the database file and its log, in bytes."""
        return sum(place.stat().st_size for place in (self._file, _log_of(self._file)) if place.exists())


def connect(directory: Path, *, readonly: bool) -> BoundedConnection:
    """Connect to the database of the campaign in a directory.

    Raises: InputError when there is no campaign; StoreError when the database is damaged, or is not that of a
    campaign."""
    file = directory / DB_NAME
    _require_file(file)

    def check(db: BoundedConnection) -> None:
        schema = objects(db)
        if schema.get(_META) == _expected_objects(SCHEMA)[_META]:
            rows = db.read("SELECT value FROM meta WHERE key = 'format'", ())
            try:
                written_by = META["format"](rows[0][0]) if rows else 1
            except ValueError as error:
                raise invalid_value(directory, "meta.value", "format", error) from error
            if written_by > FLEET_FORMAT:
                formats = f"format {written_by}, this one knows {FLEET_FORMAT}"
                raise StoreError(f"{file} was written by a newer Lastro ({formats})", "update Lastro")
        if reason := schema_difference(schema, SCHEMA + FLEET_SCHEMA if _FLEET in schema else SCHEMA):
            raise damaged(directory, reason)
        if not readonly:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")

    with store_errors(directory):
        return open_bounded(file, read_mode(file) if readonly else "mode=rw", check)


def open_bounded(file: Path, mode: str, check: Callable[[BoundedConnection], None]) -> BoundedConnection:
    """Connect to the database in `file`. `check` verifies its schema before anything else is read.

    `mode` is the query of SQLite's URI, such as "mode=ro". Raises: StoreError when a file that SQLite uses next to
    the database, such as its log, is not a regular file; sqlite3.Error; what `check` raises."""
    for suffix in _SUFFIXES_BESIDE:
        place = file.with_name(file.name + suffix)
        try:
            has_plain(place)
        except OSError as error:
            hint = "remove it: it is not from Lastro, whose files are plain"
            raise StoreError(f"{place} cannot be used: {error.strerror}", hint) from error
    uri = f"{file.resolve().as_uri()}?{mode}"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10, factory=BoundedConnection)
    try:
        db.guard(file)
        with db.watched(LONGEST_S):
            for limit, value in _LIMITS.items():
                db.setlimit(limit, value)
            for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0"):
                db.execute(f"PRAGMA {pragma}")
            check(db)
    except BaseException:
        db.close()
        raise
    return db


def _require_file(file: Path) -> None:
    try:
        status = file.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        why = "is missing"
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}", "check its name and permissions") from error
    else:
        if stat.S_ISREG(status.st_mode):
            return
        why = "is a symbolic link" if stat.S_ISLNK(status.st_mode) else "is not a regular file"
    hint, bundled = "give the directory that `lastro run` named", file.parent / IN_BUNDLE
    if file.parent.is_file():
        hint = f"it is a file: of a bundle, unpack it and give its directory {IN_BUNDLE}"
    elif os.path.lexists(bundled / DB_NAME):
        hint = f"of this bundle, give {bundled}"
    raise InputError(f"{file.parent} holds no campaign ({DB_NAME} {why})", hint)


def read_mode(file: Path) -> str:
    """Return the query of SQLite's URI with which to read a database, even in a directory that is not writable.

    To read a WAL database, SQLite creates an index file next to it. If the process may not create files there, and
    there is no log, the database file is complete by itself, and is read as immutable, which needs no index file."""
    writable = os.access(file.parent, os.W_OK)
    return "mode=ro" if writable or _log_of(file).exists() else "mode=ro&immutable=1"


def _log_of(file: Path) -> Path:
    return file.with_name(file.name + "-wal")


def objects(db: BoundedConnection) -> dict[str, str]:
    """Return the objects in the schema of a database: {"KIND NAME": "SQL that created it ON its table"}."""
    return dict(db.read(_OBJECTS, ()))


def schema_difference(found: Mapping[str, str], schema: str) -> str:
    """Return how the objects `found` (by `objects`) first differ from those that the SQL `schema` creates.

    Empty if they are equal."""
    expected = _expected_objects(schema)
    for name, made_by in found.items():
        if name not in expected:
            return f"it has an unexpected {name}"
        if made_by != expected[name]:
            return f"its {name} has an unexpected definition"
    return next((f"it has no {name}" for name in expected if name not in found), "")


_META, _FLEET = "table meta", "table testbed"
_OBJECTS = "SELECT type || ' ' || name, ifnull(sql, '') || ' ON ' || tbl_name FROM sqlite_master"


@cache
def _expected_objects(schema: str) -> dict[str, str]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema)
        return dict(db.execute(_OBJECTS))
