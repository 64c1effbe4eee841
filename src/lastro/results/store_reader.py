"""Read a campaign's database: the study, its treatments and trials, and the results of the trials."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from lastro.errors import InputError, StoreError
from lastro.grouping import by_key
from lastro.host.files import boot_id, start_time
from lastro.results.columns import META, Record, invalid_value, is_histogram, samples_of, transcript_of, typed_rows
from lastro.results.connection import BoundedConnection
from lastro.results.database import DB_NAME, damaged, store_errors
from lastro.results.provenance import Provenance
from lastro.results.rows import STATES, Attempt, BlockPlace, Runner, State, TestbedRow, TreatmentRow, TrialRow
from lastro.results.samples import Series
from lastro.results.segments import HostSegment
from lastro.shapes import n_values
from lastro.study.design import Treatment
from lastro.study.model import Study

if TYPE_CHECKING:
    from lastro.results.hdr import NamedHistogram
    from lastro.results.looks import Look

_ATTEMPT = ("id", "trial", "attempt", "started_utc", "duration_s", "valid", "reasons", "notes")
_Found = TypeVar("_Found")


class StoreReader:
    """The methods of `Store` that read a campaign's database. Errors of SQLite are raised as StoreError."""

    def __init__(self, connection: BoundedConnection, directory: Path) -> None:
        self._db = connection
        self.directory = directory

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all reads inside the block see the database as it is at one moment, even while a campaign writes."""
        if self._db.in_transaction:  # the state of the larger one
            yield
            return
        with store_errors(self.directory):
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("COMMIT")

    def backup(self, copy: sqlite3.Connection) -> None:
        """Copy the whole database, as it is at one moment, into the empty database `copy`.

        Raises: sqlite3.OperationalError when `copy` cannot be written; StoreError when this database is damaged."""
        try:
            self._db.backup(copy)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise damaged(self.directory, error) from error

    # What the campaign is

    def _meta(self, key: str, kind: type[_Found]) -> _Found:
        if (value := self._noted(key)) is None:
            raise StoreError(f"{self.directory / DB_NAME} has no '{key}'", "the file is damaged: run the study again")
        assert isinstance(value, kind)
        return value

    def _noted(self, key: str, also: str = "") -> Any:
        """Return the value of a key in table meta, or of the first row that `also` ("UNION ALL ...") adds, or None."""
        for name, value in self._query(f"SELECT key, value FROM meta WHERE key = ? {also}", key):
            try:
                return META[key](value)
            except ValueError as error:
                raise invalid_value(self.directory, "meta.value", name, error) from error
        return None

    @property
    def study(self) -> Study:
        return self._meta("study", Study)

    @property
    def provenance(self) -> Provenance:
        return self._meta("provenance", Provenance)

    def treatments(self) -> list[TreatmentRow]:
        rows = self._rows("treatment", ("idx", "levels", "unavailable", "remedy"), "ORDER BY idx")
        for at, (index, *_) in enumerate(rows):
            if index != at:
                raise invalid_value(self.directory, "treatment.idx", index, f"treatment {at} is missing")
        return [TreatmentRow(Treatment(index, levels), reason, remedy) for index, levels, reason, remedy in rows]

    def treatment_of(self, trial: TrialRow) -> TreatmentRow:
        rows = self.treatments()
        if trial.treatment >= len(rows):
            reason = f"there is no treatment {trial.treatment}"
            raise invalid_value(self.directory, "trial.treatment", trial.number, reason)
        return rows[trial.treatment]

    def events(self) -> list[tuple[str, str, str]]:
        """Return the campaign's events as (UTC time, kind, text), such as starts and interruptions, in order."""
        return self._rows("event", ("at_utc", "kind", "text"), "ORDER BY id")

    def segments(self) -> tuple[HostSegment, ...]:
        """Return the segments that began with a change of the host, in order; empty without such a change."""
        return self._noted("segments") or ()

    def looks(self) -> tuple[Look, ...]:
        """Return the looks, in order; empty unless the campaign runs until a decision is made."""
        return self._noted("looks") or ()

    def calibrations(self, testbed: str = "") -> dict[str, Any]:
        """Return {key: value} of the calibration runs; for a campaign with a fleet, those on `testbed`."""
        if testbed:
            rest = "WHERE testbed = ? ORDER BY key"
            return dict(self._rows("testbed_calibration", ("key", "value"), rest, testbed))
        return dict(self._rows("calibration", ("key", "value"), "WHERE key != 'noise floor' ORDER BY key"))

    def noise_floor(self) -> Any:
        """Return the noise floor from an A/A campaign, as `analysis.noise_floor` describes it; None if there is none.

        Versions before 0.1.0 stored it in the table of calibrations."""
        earlier = "UNION ALL SELECT key, value FROM calibration WHERE key = 'noise floor'"
        return self._noted("noise_floor", earlier)

    # The testbeds of a fleet

    @cached_property
    def is_fleet(self) -> bool:
        """True if the campaign was created for a fleet of testbeds, even before the first one has been reached."""
        return bool(self._query("SELECT 1 FROM sqlite_master WHERE name = 'testbed'"))

    def testbeds(self) -> list[TestbedRow]:
        """Return the testbeds that have been reached, ordered by name; empty if the campaign has no fleet."""
        columns = ("name", "provenance", "unavailable")
        return [TestbedRow(*row) for row in self._rows("testbed", columns, "ORDER BY name")] if self.is_fleet else []

    def places(self) -> list[BlockPlace]:
        """Return on which testbeds each block ran, ordered by block and time; empty if the campaign has no fleet."""
        if not self.is_fleet:
            return []
        rows = self._rows("place", ("block", "after", "testbed"), "ORDER BY block, after")
        known = {row.name for row in self.testbeds()}
        for block, _, testbed in rows:
            if testbed not in known:
                raise invalid_value(self.directory, "place.testbed", block, f"there is no testbed {testbed!r:.40}")
        return [BlockPlace(*row) for row in rows]

    def open_blocks(self) -> list[int]:
        """Return the numbers of the blocks that have a pending or running trial, in ascending order."""
        rest = "WHERE state IN ('pending', 'running') GROUP BY block ORDER BY block"
        return [block for block, _ in self._rows("trial", ("block", "count(*)"), rest)]

    def next_trial(self, block: int | None = None) -> TrialRow | None:
        """Return the next trial to run in `block`, by default in the first unfinished block; None if there is none.

        A trial that was running when the campaign was killed comes first. A trial that must be repeated comes at the
        end of its block, since what disturbed it may have ended by then."""
        todo = "state IN ('pending', 'running')"
        order = "ORDER BY state = 'running' DESC, (SELECT count(*) FROM attempt WHERE trial = number), number LIMIT 1"
        if block is not None:
            rows = self._trial_rows(f"WHERE {todo} AND number BETWEEN ? AND ? {order}", *self._numbers(block))
            return rows[0] if rows else None
        while first := self._trial_rows(f"WHERE {todo} ORDER BY number LIMIT 1"):
            span = first[0].number, first[0].number + self._n_treatments
            where = f"WHERE {todo} AND block = ? AND number BETWEEN ? AND ? {order}"
            if rows := self._trial_rows(where, first[0].block, *span):
                return rows[0]  # otherwise another process has just finished the block
        return None

    def _numbers(self, block: int) -> tuple[int, int]:
        """Return the numbers that the first and the last trial of a complete block have."""
        last = block * self._n_treatments
        return last - self._n_treatments + 1, last

    @cached_property
    def _n_treatments(self) -> int:
        return int(self._query("SELECT count(*) FROM treatment")[0][0])

    def trial(self, number: int) -> TrialRow:
        rows = self._trial_rows("WHERE number = ?", number) if 0 < number < 2**63 else []
        if not rows:
            last = self._query("SELECT max(number) FROM trial")[0][0]
            raise InputError(f"{self.directory} has no trial {number}", f"trials are numbered 1 to {last}")
        return rows[0]

    def trials(self) -> list[TrialRow]:
        return self._trial_rows("ORDER BY number")

    def _trial_rows(self, rest: str, *args: int) -> list[TrialRow]:
        n_attempts = "(SELECT count(*) FROM attempt WHERE attempt.trial = number)"
        columns = ("number", "block", "treatment", "state", n_attempts)
        return [TrialRow(*row) for row in self._rows("trial", columns, rest, *args)]

    def counts(self) -> dict[State, int]:
        """Return the number of trials in each state."""
        counts = dict(self._rows("trial", ("state", "count(*)"), "GROUP BY state"))
        return {state: counts.get(state, 0) for state in STATES}

    def unfinished_by_treatment(self) -> dict[int, int]:
        """Return {index of a treatment: number of its pending or running trials}, without treatments that have none."""
        rest = "WHERE state IN ('pending', 'running') GROUP BY treatment"
        return dict(self._rows("trial", ("treatment", "count(*)"), rest))

    def durations(self) -> list[tuple[int, float]]:
        """Return (index of the treatment, duration in seconds) of every attempt, in running order."""
        rest = "JOIN trial ON number = attempt.trial ORDER BY attempt.id"
        rows = self._rows("attempt", ("attempt.id", "duration_s", "treatment"), rest)
        return [(treatment, took_s) for _, took_s, treatment in rows]

    def runner(self) -> Runner | None:
        """Return the process on this machine that runs the campaign; None if there is none."""
        if (process := self._process()) is None:
            return None
        pid, started, since_utc, boot, _ = process
        is_alive = started is not None and boot in ("", boot_id()) and start_time(pid) == started
        return Runner(pid, since_utc) if is_alive else None

    def _process(self) -> Any:
        """Return the recorded process that runs the campaign (`columns._process`); None without a record.

        The process may have ended without deleting the record."""
        return self._noted("process")

    # What the trials yielded

    def attempts(self, trial: int | None = None) -> list[Attempt]:
        """Return the attempts with their measurements, in running order: all, or only those at the trial `trial`."""
        where, args = ("WHERE attempt.trial = ?", (trial,)) if trial is not None else ("", ())
        of_trial = "JOIN attempt ON attempt.id = measurement.attempt " + where if where else ""
        with self.snapshot():
            trials = {row.number: row for row in (self.trials() if trial is None else [self.trial(trial)])}
            rows = self._rows("attempt", _ATTEMPT, f"{where} ORDER BY id", *args)
            columns = ("measurement.attempt", "metric", "value")
            measured = self._rows("measurement", columns, of_trial, *args)
            places = by_key((place.block, place) for place in self.places())
        values: dict[int, dict[str, float]] = {row[0]: {} for row in rows}
        for attempt_id, metric, value in measured:
            if attempt_id not in values:
                raise invalid_value(self.directory, "measurement.attempt", metric, f"there is no attempt {attempt_id}")
            values[attempt_id][metric] = value
        found = []
        for attempt_id, number, *fields in rows:
            if number not in trials:
                raise invalid_value(self.directory, "attempt.trial", attempt_id, f"there is no trial {number}")
            block, treatment = trials[number].block, trials[number].treatment
            attempt, started, duration_s, valid, reasons, notes = fields
            testbed = [place.testbed for place in places.get(block, ()) if place.after < attempt_id][-1:]
            found.append(
                Attempt(
                    number, block, treatment, attempt, started, duration_s, bool(valid), tuple(reasons), notes,
                    values[attempt_id], *testbed,
                )
            )  # fmt: skip
        return found

    def series(self, trial: int, attempt: int) -> list[Series]:
        return [
            Series(name, unit, self._unpacked(samples, "series.samples", name, samples_of, (trial, attempt, name)))
            for name, unit, samples in self._series_rows(trial, attempt)
            if not is_histogram(samples)
        ]

    def histograms(self, trial: int, attempt: int) -> list[NamedHistogram]:
        """Return the histograms of an attempt, ordered by name. They are stored in the table of series."""
        from lastro.results.hdr import NamedHistogram, from_bytes  # loads numpy

        histograms = []
        for name, unit, samples in self._series_rows(trial, attempt):
            if is_histogram(samples):
                try:
                    histograms.append(NamedHistogram(name, unit, from_bytes(samples, self._db.unpack)))
                except ValueError as error:
                    raise invalid_value(self.directory, "series.samples", name, error) from error
        return histograms

    def _series_rows(self, trial: int, attempt: int) -> list[Any]:
        where = "WHERE attempt.trial = ? AND attempt.attempt = ? ORDER BY name"
        rest = f"JOIN attempt ON attempt.id = series.attempt {where}"
        return self._rows("series", ("name", "unit", "samples"), rest, trial, attempt)

    def transcript(self, trial: int, attempt: int) -> list[Record]:
        """Return the steps of an attempt, as `host.base.Transcript` recorded them; empty without such an attempt."""
        rows = self._query("SELECT id, transcript FROM attempt WHERE trial = ? AND attempt = ?", trial, attempt)
        place = trial, attempt
        return self._unpacked(rows[0][1], "attempt.transcript", rows[0][0], transcript_of, place) if rows else []

    def _unpacked(
        self, packed: object, name: str, row: object, read: Callable[[bytes], _Found], place: tuple[int | str, ...]
    ) -> _Found:
        try:
            data = self._db.unpack(packed)
            self._db.count_values(place, len(data) // 8 if read is samples_of else n_values(data))
            return read(data)
        except ValueError as error:
            raise invalid_value(self.directory, name, row, error) from error

    # SQLite

    def _rows(self, table: str, columns: Sequence[str], rest: str, *args: int | str) -> list[Any]:
        """Query the `columns` of a table, and return the rows, with values converted by `columns.typed`.

        `rest` is the SQL after the name of the table, with the parameters `args`."""
        rows = self._query(f"SELECT {', '.join(columns)} FROM {table} {rest}", *args)
        return typed_rows(self.directory, table, columns, rows)

    def _query(self, sql: str, *args: int | str) -> list[Any]:
        with store_errors(self.directory):
            return self._db.read(sql, args)
