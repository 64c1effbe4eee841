"""The campaign's database: one SQLite file in WAL mode is the truth, and each trial is one durable transaction."""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

from lastro.errors import InputError, StoreError
from lastro.host.files import start_time
from lastro.results.database import (
    DB_NAME,
    damaged,
    decoded,
    is_quantity,
    loads_each,
    pack,
    read_mode,
    translated,
    write_new,
)
from lastro.results.files import write_atomically
from lastro.results.samples import Outcome, Series
from lastro.study.design import Treatment, Trial, block
from lastro.study.model import Study

FORMAT = 2  # 2: a study may stop sequentially, and then grows by blocks
MAX_ATTEMPTS = 3  # an invalid trial is repeated at most twice

State = Literal["pending", "running", "valid", "invalid", "unavailable"]
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True, slots=True)
class TrialRow:
    number: int
    block: int
    treatment: int
    state: State
    attempts: int


@dataclass(frozen=True, slots=True)
class TreatmentRow:
    treatment: Treatment
    unavailable: str | None
    remedy: str | None


@dataclass(frozen=True, slots=True)
class Runner:
    """The process that runs a campaign now, and the UTC time since when."""

    pid: int
    since_utc: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """One execution of a trial. `measurements` maps metric names to values; invalid attempts have them too."""

    trial: int
    block: int
    treatment: int
    attempt: int
    started_utc: str
    duration_s: float
    valid: bool
    reasons: tuple[str, ...]
    notes: dict[str, Any]
    measurements: dict[str, float]


class Store:
    """A campaign's database. Use as a context manager. Raises StoreError for whatever SQLite cannot do."""

    def __init__(self, connection: sqlite3.Connection, directory: Path) -> None:
        self._db = connection
        self.directory = directory

    @classmethod
    def create(
        cls,
        directory: Path,
        study: Study,
        treatments: Sequence[Treatment],
        trials: Iterable[Trial],
        provenance: dict[str, Any],
    ) -> Store:
        """A new campaign in `directory`, which must not hold one already."""
        if (directory / DB_NAME).exists():
            raise InputError(
                f"{directory} already holds a campaign", "continue it with `lastro resume`, or choose another -o DIR"
            )
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{directory}: {error.strerror or error}", "choose another directory with -o DIR"
            ) from error
        write_atomically(directory / "study.toml", study.source, durable=True)  # of a suite, it is in place of the copy
        # The file gets its final name only when it is whole, so a crash here leaves no half campaign behind.
        new = directory / f"{DB_NAME}.new"
        new.unlink(missing_ok=True)
        meta = {"format": FORMAT, "study": study.to_dict(), "provenance": provenance}
        with translated(directory):
            try:
                write_new(new, meta, treatments, trials)
            except BaseException:
                new.unlink(missing_ok=True)
                raise
            new.rename(directory / DB_NAME)
        return cls.open(directory)

    @classmethod
    def open(cls, directory: Path, *, readonly: bool = False) -> Store:
        """An existing campaign.

        Raises: InputError when there is none in `directory`; StoreError when it is damaged or from a newer version."""
        file = directory / DB_NAME
        try:
            found = file.is_file()
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}", "check its name and permissions") from error
        if not found:
            raise InputError(
                f"{directory} holds no campaign ({DB_NAME} is missing)", "give the directory that `lastro run` named"
            )
        with translated(directory):
            mode = read_mode(file) if readonly else "mode=rw"
            db = sqlite3.connect(f"{file.resolve().as_uri()}?{mode}", uri=True, isolation_level=None, timeout=10)
            if not readonly:
                db.execute("PRAGMA journal_mode=WAL")
                db.execute("PRAGMA synchronous=FULL")
            store = cls(db, directory)
            written_by = store._meta("format")
        if not isinstance(written_by, int):
            raise damaged(directory, f"its format is {written_by!r}")
        if written_by > FORMAT:
            raise StoreError(
                f"{file} was written by a newer Lastro (format {written_by}, this one knows {FORMAT})", "update Lastro"
            )
        return store

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside the block is of one moment, even while a campaign writes."""
        with translated(self.directory):
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("COMMIT")

    # What the campaign is

    def _meta(self, key: str) -> Any:
        with translated(self.directory):
            row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise StoreError(f"{self.directory / DB_NAME} has no '{key}'", "the file is damaged: run the study again")
        with decoded(self.directory):
            return json.loads(row[0])

    @property
    def study(self) -> Study:
        with decoded(self.directory):
            return Study.from_dict(self._meta("study"))

    @property
    def provenance(self) -> dict[str, Any]:
        return self._meta("provenance")  # type: ignore[no-any-return]

    def treatments(self) -> list[TreatmentRow]:
        rows = self._query("SELECT idx, levels, unavailable, remedy FROM treatment ORDER BY idx")
        with decoded(self.directory):
            return [
                TreatmentRow(Treatment(index, json.loads(levels)), reason, remedy)
                for index, levels, reason, remedy in rows
            ]

    def events(self) -> list[tuple[str, str, str]]:
        """(UTC time, kind, text) of what befell the campaign: starts, interruptions, resumptions."""
        return self._query("SELECT at_utc, kind, text FROM event ORDER BY id")

    def calibrations(self) -> dict[str, Any]:
        rows = self._query("SELECT key, value FROM calibration ORDER BY key")
        with decoded(self.directory):
            return {key: json.loads(value) for key, value in rows}

    # The journal

    def mark_unavailable(self, treatment: int, reason: str, remedy: str | None) -> None:
        """A treatment that cannot run here keeps its trials, with the reason."""
        with self._transaction():
            self._db.execute(
                "UPDATE treatment SET unavailable = ?, remedy = ? WHERE idx = ?", (reason, remedy, treatment)
            )
            self._db.execute(
                "UPDATE trial SET state = 'unavailable' WHERE treatment = ? AND state IN ('pending', 'running')",
                (treatment,),
            )

    def mark_available(self, treatment: int) -> None:
        """A treatment that could not run when the campaign was interrupted, and now can, takes its trials up again."""
        with self._transaction():
            self._db.execute("UPDATE treatment SET unavailable = NULL, remedy = NULL WHERE idx = ?", (treatment,))
            self._db.execute(
                "UPDATE trial SET state = 'pending' WHERE treatment = ? AND state = 'unavailable'", (treatment,)
            )

    def next_trial(self) -> TrialRow | None:
        """The next trial without a final verdict, of the first block that has one; None when there is none.

        The one in flight at a crash comes first. One that is repeated comes at the end of its block: what disturbed it
        may be over by then."""
        first = self._trial_rows("WHERE state IN ('pending', 'running') ORDER BY number LIMIT 1")
        if not first:
            return None
        return self._trial_rows(
            "WHERE state IN ('pending', 'running') AND block = ? AND number <= ? + (SELECT count(*) FROM treatment)"
            " ORDER BY state = 'running' DESC, (SELECT count(*) FROM attempt WHERE trial = number), number LIMIT 1",
            first[0].block,
            first[0].number,
        )[0]

    def trial(self, number: int) -> TrialRow:
        rows = self._trial_rows("WHERE number = ?", number) if 0 < number < 2**63 else []
        if not rows:
            last = self._query("SELECT max(number) FROM trial")[0][0]
            raise InputError(f"{self.directory} has no trial {number}", f"trials are numbered 1 to {last}")
        return rows[0]

    def trials(self) -> list[TrialRow]:
        return self._trial_rows("ORDER BY number")

    def _trial_rows(self, rest: str, *args: int) -> list[TrialRow]:
        sql = "SELECT number, block, treatment, state, (SELECT count(*) FROM attempt WHERE trial = number) FROM trial "
        return [TrialRow(*row) for row in self._query(sql + rest, *args)]

    def counts(self) -> dict[State, int]:
        """Trials by state."""
        found = dict(self._query("SELECT state, count(*) FROM trial GROUP BY state"))
        return {state: found.get(state, 0) for state in STATES}

    def left(self) -> dict[int, int]:
        """Trials without a final verdict, by treatment."""
        return dict(
            self._query(
                "SELECT treatment, count(*) FROM trial WHERE state IN ('pending', 'running') GROUP BY treatment"
            )
        )

    def durations(self) -> list[tuple[int, float]]:
        """(treatment, seconds) of every attempt, in running order."""
        return self._query("SELECT treatment, duration_s FROM attempt a JOIN trial ON number = a.trial ORDER BY a.id")

    def add_block(self) -> None:
        """One block more, drawn as if it had been there from the start; the study has one more replicate then."""
        study = self.study
        number = study.design.replicates + 1
        trials = block(study, len(self.treatments()), number)
        grown = replace(study, design=replace(study.design, replicates=number))
        with self._transaction():
            self._db.executemany(
                "INSERT INTO trial(number, block, treatment, state)"
                " SELECT ?, ?, idx, iif(unavailable IS NULL, 'pending', 'unavailable') FROM treatment WHERE idx = ?",
                ((trial.number, trial.block, trial.treatment) for trial in trials),
            )
            self._db.execute("UPDATE meta SET value = ? WHERE key = 'study'", (json.dumps(grown.to_dict()),))

    def begin(self, number: int) -> None:
        """Mark a trial as in flight, before anything is made for it."""
        with self._transaction():
            self._db.execute("UPDATE trial SET state = 'running' WHERE number = ?", (number,))

    def reopen_invalid(self) -> int:
        """Give each trial that was given up MAX_ATTEMPTS attempts more; how many trials these are."""
        with self._transaction():
            return self._db.execute("UPDATE trial SET state = 'pending' WHERE state = 'invalid'").rowcount

    def withdraw_running(self) -> None:
        """No trial is in flight any more: the one that was starts anew when the campaign goes on."""
        with self._transaction():
            self._db.execute("UPDATE trial SET state = 'pending' WHERE state = 'running'")

    def finish(
        self, number: int, outcome: Outcome, *, started_utc: str, duration_s: float, transcript: list[dict[str, Any]]
    ) -> State:
        """Write one attempt whole, in one durable transaction, and return the state of its trial after it."""
        with self._transaction():
            attempt = 1 + self._db.execute("SELECT count(*) FROM attempt WHERE trial = ?", (number,)).fetchone()[0]
            given_up = attempt % MAX_ATTEMPTS == 0  # one that was reopened has that many attempts more
            state: State = "valid" if outcome.valid else "invalid" if given_up else "pending"
            row = (
                number, attempt, started_utc, duration_s, outcome.valid,
                json.dumps(outcome.invalid_because), json.dumps(outcome.notes), pack(transcript),
            )  # fmt: skip
            attempt_id = self._db.execute(
                "INSERT INTO attempt(trial, attempt, started_utc, duration_s, valid, reasons, notes, transcript)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            ).lastrowid
            self._db.executemany(
                "INSERT INTO measurement VALUES (?, ?, ?)",
                ((attempt_id, metric, value) for metric, value in outcome.measurements.items()),
            )
            self._db.executemany(
                "INSERT INTO series VALUES (?, ?, ?, ?)",
                ((attempt_id, s.name, s.unit, zlib.compress(array("d", s.values).tobytes())) for s in outcome.series),
            )
            self._db.execute("UPDATE trial SET state = ? WHERE number = ?", (state, number))
        return state

    def save_calibration(self, key: str, value: Any) -> None:
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO calibration VALUES (?, ?)", (key, json.dumps(value)))

    def take(self, at_utc: str) -> None:
        """Write down that this process runs the campaign."""
        pid = os.getpid()
        with self._transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO meta VALUES ('process', ?)", (json.dumps([pid, start_time(pid), at_utc]),)
            )

    def let_go(self) -> None:
        """This process does not run the campaign any more."""
        with self._transaction():
            self._db.execute("DELETE FROM meta WHERE key = 'process'")

    def runner(self) -> Runner | None:
        """The process that runs the campaign; None when it has ended, however it did, or was of another machine."""
        found = self._query("SELECT value FROM meta WHERE key = 'process'")
        if not found:
            return None
        with decoded(self.directory):
            pid, started, since_utc = json.loads(found[0][0])
            return Runner(int(pid), str(since_utc)) if start_time(int(pid)) == started else None

    def log(self, at_utc: str, kind: str, text: str) -> None:
        with self._transaction():
            self._db.execute("INSERT INTO event(at_utc, kind, text) VALUES (?, ?, ?)", (at_utc, kind, text))

    # What the trials yielded

    def attempts(self, trial: int | None = None) -> list[Attempt]:
        """Every attempt with its measurements, in running order; of one trial, when its number is given."""
        where, args = ("WHERE a.trial = ?", (trial,)) if trial is not None else ("", ())
        values: dict[int, dict[str, float]] = {}
        of_trial = "JOIN attempt a ON a.id = m.attempt " + where if where else ""
        for attempt_id, metric, value in self._query(
            f"SELECT m.attempt, metric, value FROM measurement m {of_trial}", *args
        ):
            if not isinstance(metric, str) or not is_quantity(value, none=True):
                raise damaged(self.directory, f"a measurement of {metric!r} is {value!r}")
            values.setdefault(attempt_id, {})[metric] = float("nan") if value is None else value
        rows = self._query(
            "SELECT a.id, a.trial, t.block, t.treatment, attempt, started_utc, duration_s, valid, reasons, notes"
            f" FROM attempt a JOIN trial t ON t.number = a.trial {where} ORDER BY a.id",
            *args,
        )
        with decoded(self.directory):
            reasons, notes = (loads_each([row[at] for row in rows]) for at in (-2, -1))
            return [
                Attempt(
                    number, block, treatment, attempt, started, duration_s, bool(valid), tuple(why), noted,
                    values.get(attempt_id, {}),
                )
                for (attempt_id, number, block, treatment, attempt, started, duration_s, valid, *_), why, noted in zip(
                    rows, reasons, notes, strict=True
                )
            ]  # fmt: skip

    def series(self, trial: int, attempt: int) -> list[Series]:
        rows = self._query(
            "SELECT name, unit, samples FROM series s JOIN attempt a ON a.id = s.attempt"
            " WHERE a.trial = ? AND a.attempt = ? ORDER BY name",
            trial,
            attempt,
        )
        with decoded(self.directory):
            return [Series(name, unit, tuple(array("d", zlib.decompress(samples)))) for name, unit, samples in rows]

    def transcript(self, trial: int, attempt: int) -> list[dict[str, Any]]:
        """Every command of an attempt, as `host.Completed.to_dict` wrote it."""
        rows = self._query("SELECT transcript FROM attempt WHERE trial = ? AND attempt = ?", trial, attempt)
        with decoded(self.directory):
            return json.loads(zlib.decompress(rows[0][0])) if rows else []

    # SQLite

    def _query(self, sql: str, *args: int) -> list[Any]:
        with translated(self.directory):
            return self._db.execute(sql, args).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with translated(self.directory):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
