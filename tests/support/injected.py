"""Campaigns in which a call to the host fails: how one must end, and what it must have kept."""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..faults.injector import Fault, Injected, Injector

Attempts = dict[tuple[int, int], tuple[Any, ...]]
OUT_OF_MEMORY = 1  # as when no thread can be started
# 2: an input could not be read; 3: not possible on this host; 5: not the campaign's database, or the ledger.
CODES = {0, 2, 3, 5}


def attempts_of(database: Path) -> Attempts:
    """Every attempt with what it measured, by trial and number, of a database that is sound."""
    with closing(sqlite3.connect(database, timeout=10)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        found = db.execute(
            "SELECT trial, attempt, valid, started_utc, (SELECT count(*) FROM series WHERE attempt = a.id),"
            " (SELECT group_concat(metric || value) FROM measurement WHERE attempt = a.id) FROM attempt a"
        ).fetchall()
    return {(trial, attempt): tuple(rest) for trial, attempt, *rest in found}


def measured(attempts: Attempts) -> set[int]:
    """The trials that have a valid attempt with a series and measurements."""
    return {trial for (trial, _), (valid, _, series, values) in attempts.items() if valid and series and values}


def drawn_seed() -> int:
    """A seed that the test prints; LASTRO_CRASH_SEED repeats it."""
    seed = int(os.environ.get("LASTRO_CRASH_SEED") or random.SystemRandom().randrange(10**6))
    print(f"LASTRO_CRASH_SEED={seed}")
    return seed


@dataclass
class FaultyCampaigns:
    """Campaigns of one study, each with one fault. `counts` are the calls of one without, and `codes` how each ended.

    A subclass says what is left of one (`check`)."""

    home: Path
    injector: Injector
    text: str  # of the study
    options: tuple[str, ...] = ()  # of `run` and `resume`
    codes: Counter[str] = field(default_factory=Counter)
    counts: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.study = self.home / "study.toml"
        self.study.write_text(self.text)
        self.calm = self.home / "calm"
        self.calm.mkdir()
        found = self.run(self.calm)
        assert found.done.code == 0, found
        self.counts = found.counts

    def run(self, place: Path, fault: Fault | None = None) -> Injected:
        return self.injector.run(("run", self.study, "-o", "c", *self.options), place, fault)

    def ended(self, place: Path, fault: Fault) -> tuple[object, ...]:
        """Run a campaign with a fault, which ends with a documented exit code and at most one error; return both."""
        found = self.run(place, fault)
        told = (str(fault), found.what, found.done)
        code, err = found.done.code, found.done.err
        self.codes[f"{fault.kind} {code}"] += 1
        assert code in CODES or (code == OUT_OF_MEMORY and "out of memory" in err), told
        assert "Traceback" not in err and "bug in" not in err, told
        if not (fault.kind == "output" and fault.on):  # nobody can hear it then
            assert err.count("lastro: ") == (code != 0), told
        return told

    def resumed(self, place: Path, told: object) -> Attempts:
        """Run the rest when the host is well again, which loses no attempt, and return all attempts."""
        database = place / "c" / "campaign.db"
        before = attempts_of(database) if database.exists() else {}
        words = ("resume", "c", "--invalid") if database.exists() else ("run", self.study, "-o", "c")
        again = self.injector.run((*words, *self.options), place).done
        assert again.code == 0, (told, again)
        after = attempts_of(database)
        assert before.items() <= after.items(), told
        return after

    def check(self, fault: Fault) -> None:
        raise NotImplementedError

    def check_all(self, faults: Iterable[Fault]) -> None:
        """Check each of these faults, also after one has failed."""
        failures = []
        for fault in faults:
            try:
                self.check(fault)
            except AssertionError as failure:
                failures.append(f"{fault}: {failure}")
        print(self.counts, dict(self.codes))
        assert not failures, "\n\n".join(failures)
