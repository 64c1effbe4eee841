"""A campaign's database: one SQLite file in WAL mode, in which each trial is one durable transaction."""

from __future__ import annotations

import json
import math
import os
import zlib
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any

from lastro.errors import HostBusy, InputError
from lastro.files import require_own_directory
from lastro.host.files import boot_id, start_time
from lastro.results.connection import FLEET_FORMAT, FORMAT, connect
from lastro.results.database import DB_NAME, new_campaign, pack, store_errors
from lastro.results.files import write_atomically
from lastro.results.looks import Look
from lastro.results.rows import State, TestbedRow
from lastro.results.samples import MAX_ATTEMPTS, Outcome
from lastro.results.segments import HostSegment
from lastro.results.store_reader import StoreReader
from lastro.shapes import MOST, parse_json
from lastro.study.design import Treatment, Trial, block
from lastro.study.model import Study

_BLOCKS_OF_TESTBED = (
    "SELECT block FROM place p WHERE testbed = ? AND after = (SELECT max(after) FROM place WHERE block = p.block)"
)


class Store(StoreReader):
    """A campaign's database. Use it as a context manager. Errors of SQLite are raised as StoreError."""

    @classmethod
    def create(
        cls,
        directory: Path,
        study: Study,
        treatments: Sequence[Treatment],
        trials: Iterable[Trial],
        provenance: dict[str, Any],
        *,
        fleet: bool = False,
    ) -> Store:
        """Create a campaign in `directory`, and open it. With `fleet`, it has several testbeds.

        Raises: InputError when `directory` already contains a campaign; StoreError when it cannot be written."""
        if (directory / DB_NAME).exists():
            hint = "continue it with `lastro resume`, or choose another -o DIR"
            raise InputError(f"{directory} already holds a campaign", hint)
        write_atomically(directory / "study.toml", study.source, durable=True)  # in a suite, it replaces the copy
        meta = {"format": FLEET_FORMAT if fleet else FORMAT, "study": study.to_dict(), "provenance": provenance}
        write_atomically(directory / DB_NAME, new_campaign(meta, treatments, trials, fleet=fleet), durable=True)
        return cls.open(directory)

    @classmethod
    def open(cls, directory: Path, *, readonly: bool = False) -> Store:
        """Open an existing campaign.

        Raises: InputError when there is none in `directory`; StoreError when it is damaged or from a newer version."""
        if not readonly and os.access(directory / DB_NAME, os.F_OK):
            require_own_directory(directory)
        return cls(connect(directory, readonly=readonly), directory)

    def mark_unavailable(self, treatment: int, reason: str, remedy: str | None) -> None:
        """Mark a treatment as unavailable, and also those of its trials that are pending or running."""
        with self.transaction():
            texts = _valid_unicode(reason), remedy and _valid_unicode(remedy)
            self._db.execute("UPDATE treatment SET unavailable = ?, remedy = ? WHERE idx = ?", (*texts, treatment))
            self._db.execute(
                "UPDATE trial SET state = 'unavailable' WHERE treatment = ? AND state IN ('pending', 'running')",
                (treatment,),
            )

    def mark_available(self, treatment: int) -> None:
        """Mark a treatment as available, and its unavailable trials as pending, when a campaign is resumed."""
        with self.transaction():
            self._db.execute("UPDATE treatment SET unavailable = NULL, remedy = NULL WHERE idx = ?", (treatment,))
            self._db.execute(
                "UPDATE trial SET state = 'pending' WHERE treatment = ? AND state = 'unavailable'", (treatment,)
            )

    def add_block(self, only: Collection[int] | None = None) -> None:
        """Add a block, and one replicate to the study.

        Its trials have the order that they would have if the block had been planned from the start. The block has only
        the treatments with an index in `only`; all treatments if `only` is None."""
        study = self.study
        number = study.design.replicates + 1
        trials = block(study, len(self.treatments()), number)
        grown = replace(study, design=replace(study.design, replicates=number))
        with self.transaction():
            self._db.executemany(
                "INSERT INTO trial(number, block, treatment, state)"
                " SELECT ?, ?, idx, iif(unavailable IS NULL, 'pending', 'unavailable') FROM treatment WHERE idx = ?",
                (astuple(trial) for trial in trials if only is None or trial.treatment in only),
            )
            self._db.execute("UPDATE meta SET value = ? WHERE key = 'study'", (json.dumps(grown.to_dict()),))

    def add_look(self, look: Look) -> None:
        """Append the result of a look at the trials to the recorded looks."""
        with self.transaction():
            looks = json.dumps([asdict(recorded) for recorded in (*self.looks(), look)])
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('looks', ?)", (looks,))

    def begin(self, number: int) -> None:
        """Mark a trial as running. Call it before anything is set up for the trial."""
        with self.transaction():
            self._db.execute("UPDATE trial SET state = 'running' WHERE number = ?", (number,))

    def reopen_invalid(self) -> int:
        """Allow MAX_ATTEMPTS more attempts at each trial that was given up, and return how many trials these are."""
        with self.transaction():
            return self._db.execute("UPDATE trial SET state = 'pending' WHERE state = 'invalid'").rowcount

    def withdraw_running(self, block: int | None = None) -> None:
        """Set all running trials, or those of one block, back to pending, so that they are run again."""
        with self.transaction():
            self._db.execute(
                "UPDATE trial SET state = 'pending' WHERE state = 'running' AND block = ifnull(?, block)", (block,)
            )

    def finish(
        self, number: int, outcome: Outcome, *, started_utc: str, duration_s: float, transcript: list[dict[str, Any]]
    ) -> State:
        """Store a finished attempt at trial `number` in one durable transaction, and return the new state of the trial.

        After an invalid attempt, the trial is pending again, or invalid if it has had all its attempts."""
        with self.transaction():
            count = "SELECT count(*) FROM attempt WHERE trial = ?"
            attempt = 1 + self._db.execute(count, (number,)).fetchone()[0]
            attempt_here = attempt  # number of the attempt on this testbed
            if self.is_fleet:
                since = "SELECT ifnull(max(after), 0) FROM place JOIN trial USING (block) WHERE number = ?"
                attempt_here = 1 + self._db.execute(f"{count} AND id > ({since})", (number, number)).fetchone()[0]
            is_last = attempt_here % MAX_ATTEMPTS == 0  # a reopened trial has MAX_ATTEMPTS more
            state: State = "valid" if outcome.valid else "invalid" if is_last else "pending"
            row = (
                number, attempt, started_utc, duration_s, outcome.valid,
                json.dumps(outcome.invalid_because), _readable_json(outcome.notes), pack(transcript),
            )  # fmt: skip
            attempt_id = self._db.execute(
                "INSERT INTO attempt(trial, attempt, started_utc, duration_s, valid, reasons, notes, transcript)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            ).lastrowid
            self._db.executemany(
                "INSERT INTO measurement VALUES (?, ?, ?)",
                ((attempt_id, metric, _representable(value)) for metric, value in outcome.measurements.items()),
            )
            self._db.executemany(
                "INSERT INTO series VALUES (?, ?, ?, ?)",
                (
                    (attempt_id, s.name, s.unit, zlib.compress(array("d", map(_representable, s.values)).tobytes()))
                    for s in outcome.series
                ),
            )
            self._db.executemany(
                "INSERT INTO series VALUES (?, ?, ?, ?)", ((attempt_id, *astuple(h)) for h in outcome.histograms)
            )
            self._db.execute("UPDATE trial SET state = ? WHERE number = ?", (state, number))
        return state

    def save_calibration(self, key: str, value: Any, testbed: str = "") -> None:
        with self.transaction():
            if testbed:
                row = (testbed, key, json.dumps(value))
                self._db.execute("INSERT OR REPLACE INTO testbed_calibration VALUES (?, ?, ?)", row)
            else:
                self._db.execute("INSERT OR REPLACE INTO calibration VALUES (?, ?)", (key, json.dumps(value)))

    # The testbeds of a fleet

    def save_testbed(self, row: TestbedRow) -> None:
        """Store the row of a testbed, and update which trials and treatments are unavailable.

        In the blocks of the testbed, trials that cannot run there become unavailable, and unavailable trials that can
        run there become pending. A treatment is unavailable if no testbed can run it."""
        with self.transaction():
            self._db.execute(
                "INSERT INTO testbed VALUES (?, ?, ?) ON CONFLICT(name) DO UPDATE"
                " SET provenance = excluded.provenance, unavailable = excluded.unavailable",
                (row.name, json.dumps(row.provenance.chapters), unavailable_json(row)),
            )
            self._update_unavailable(f"block IN ({_BLOCKS_OF_TESTBED})", (row.name,), row.name)
            self._db.execute(  # a treatment that no testbed can run is unavailable in the plan, too
                "UPDATE treatment SET (unavailable, remedy) = (SELECT"
                " group_concat(DISTINCT json_extract(value, '$.reason')), max(json_extract(value, '$.remedy'))"
                " FROM testbed, json_each(testbed.unavailable) WHERE CAST(key AS INTEGER) = idx"
                " GROUP BY key HAVING count(*) = (SELECT count(*) FROM testbed))"
            )

    def place(self, block: int, testbed: str) -> bool:
        """Assign a block to a testbed; return whether attempts on another testbed became invalid.

        If another testbed has begun the block, all its trials are run again, since all trials of a block are measured
        on one testbed. Attempts on the other testbed remain in the database, but are marked as invalid."""
        with self.transaction():
            current = "SELECT testbed, after FROM place WHERE block = ? ORDER BY after DESC LIMIT 1"
            before = self._db.execute(current, (block,)).fetchone()
            if before is not None and before[0] == testbed:
                return False
            reason = f"set aside: block {block} began again on testbed {testbed}"
            n_set_aside, numbers = 0, self._numbers(block)
            if before is not None:
                n_set_aside = self._db.execute(
                    "UPDATE attempt SET valid = 0, reasons = json_insert(reasons, '$[#]', ?)"
                    " WHERE id > ? AND trial BETWEEN ? AND ?",
                    (reason, before[1], *numbers),
                ).rowcount
            self._db.execute("UPDATE trial SET state = 'pending' WHERE number BETWEEN ? AND ?", numbers)
            self._db.execute(
                "INSERT OR REPLACE INTO place SELECT ?, ifnull(max(id), 0), ? FROM attempt", (block, testbed)
            )
            self._update_unavailable("number BETWEEN ? AND ?", numbers, testbed)
        return n_set_aside > 0

    def _update_unavailable(self, where: str, values: tuple[object, ...], testbed: str) -> None:
        """Mark trials that cannot run on a testbed as unavailable, and unavailable ones that can as pending.

        `where` is an SQL condition on the table of trials, with the parameters `values`, which selects the trials to
        update."""
        unavailable = "(SELECT CAST(key AS INTEGER) FROM testbed, json_each(testbed.unavailable) WHERE name = ?)"
        for old_state, new_state, test in (("pending", "unavailable", "IN"), ("unavailable", "pending", "NOT IN")):
            sql = f"UPDATE trial SET state = ? WHERE state = ? AND {where} AND treatment {test} {unavailable}"
            self._db.execute(sql, (new_state, old_state, *values, testbed))

    def save_noise_floor(self, value: Any) -> None:
        with self.transaction():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('noise_floor', ?)", (json.dumps(value),))

    def take(self, at_utc: str, *, ended_elsewhere: bool = False) -> None:
        """Record that this process runs the campaign.

        Raises: HostBusy when another process runs the campaign. It is also raised when a process on another machine
        has not recorded its end, unless `ended_elsewhere`, with which the user says that this process has ended."""
        pid, boot, machine = os.getpid(), boot_id(), os.uname().nodename
        with self.transaction():
            if (runner := self.runner()) is not None and runner.pid != pid:
                hint = "wait for its end, or interrupt it with Ctrl-C and continue it later with `lastro resume`"
                since = _minute(runner.since_utc)
                raise HostBusy(f"{self.directory} is running, by process {runner.pid} since {since}", hint)
            if (other := self._process()) is not None and not ended_elsewhere:
                other_pid, _, since_utc, _, its_machine = other
                if its_machine not in ("", machine):
                    place = f"on {its_machine}, by process {other_pid} since {_minute(since_utc)}"
                    hint = "if that has ended, `lastro resume` with `--accept-change` continues it here"
                    raise HostBusy(f"{self.directory} may be running {place}", hint)
            process = json.dumps([pid, start_time(pid), at_utc, boot, machine])
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('process', ?)", (process,))

    def let_go(self) -> None:
        """Record that this process no longer runs the campaign."""
        with self.transaction():
            self._db.execute("DELETE FROM meta WHERE key = 'process'")

    def begin_segment(self, at_utc: str, changes: Mapping[str, Sequence[str]], testbed: str = "") -> None:
        """Record that the host of the campaign, or of a testbed, has changed: later attempts are in a new segment.

        `changes` are {fact that changed: (value before, value now)}."""
        with self.transaction():
            after = self._db.execute("SELECT count(*) FROM attempt").fetchone()[0]
            new = HostSegment(after, at_utc, {name: list(values) for name, values in changes.items()}, testbed)
            segments = json.dumps([asdict(segment) for segment in (*self.segments(), new)])
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('segments', ?)", (segments,))
            self.log(at_utc, "changed host", (f"testbed {testbed}: " if testbed else "") + new.text)

    def log(self, at_utc: str, kind: str, text: str) -> None:
        with self.transaction():
            self._db.execute(
                "INSERT INTO event(at_utc, kind, text) VALUES (?, ?, ?)", (at_utc, kind, _valid_unicode(text))
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything that the block stores in one durable transaction."""
        if self._db.in_transaction:  # part of a larger one
            yield
            return
        with store_errors(self.directory), self._db.watched():
            try:  # an interrupt may come as soon as a transaction begins
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise


def _valid_unicode(text: str) -> str:
    """Return a text without lone surrogates, which SQLite refuses; file names that are not UTF-8 have them."""
    return text.encode(errors="replace").decode()


def unavailable_json(row: TestbedRow) -> str:
    """Return the JSON of a testbed's unavailable treatments, in the format of the column `testbed.unavailable`."""
    gaps = row.unavailable.items()
    return json.dumps({str(treatment): {"reason": reason, "remedy": remedy} for treatment, (reason, remedy) in gaps})


def _minute(at_utc: str) -> str:
    return f"{at_utc[:16].replace('T', ' ')} UTC"


def _readable_json(notes: dict[str, object]) -> str:
    """Return notes as JSON. If they could not be read back, return the JSON of one note that says why instead."""
    try:
        text = json.dumps(notes)
        parse_json(text)
    except (ValueError, TypeError, RecursionError) as error:  # the last two: a part's notes that JSON cannot represent
        text = json.dumps({"notes": f"were not kept: their JSON {error}"})
    return text


def _representable(value: float) -> float:
    """Return the value, or infinity with its sign if it is impossibly large, which only a broken tool reports."""
    return math.copysign(math.inf, value) if abs(value) >= MOST else value
