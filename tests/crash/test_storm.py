"""A storm of kills on campaigns and suites whose trials take half a second: inside the transaction that ends a trial,
between two trials, while the index of a suite is written, and while a command puts its things away.

The moments are drawn from a seed that the test prints; LASTRO_CRASH_SEED repeats a run as far as timing can be."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ..cli.conftest import lastro, no_stragglers, rows, schedule, start, study_text
from ..cli.suites import LEVELS, write_folder
from ..support.injected import Attempts, attempts_of

__all__ = ["no_stragglers"]  # a fixture for every test here

KILLED_AT = Path(__file__).with_name("killed_at.py")
STORE = "lastro.results.store:Store"
# Functions with the most lines to execute in them before the kill: as many as two or three of their calls have.
TRIALS = {f"{STORE}.finish": 90, f"{STORE}.begin": 24, f"{STORE}.take": 12}
ENDS = {f"{STORE}.let_go": 10, f"{STORE}.log": 30, f"{STORE}.close": 3}
FIRST = {f"{STORE}.create": 120}
SUITE = {"lastro.campaign.suite:note_stop": 120}
FIRST_OF_SUITE = {"lastro.campaign.suite:create": 150}
OFTEN = 6  # as often as any other place
FACTORS = {"level": ["a", "b"], "fault": ["none", "invalid-once"]}
MEMBERS: dict[str, Any] = {"cpu": (LEVELS, {}), "gap": ({"fault": ["unavailable"]}, {}), "uplink": (LEVELS, {})}


@dataclass
class Storm:
    """Kills `lastro run` and `lastro resume` on what `begin` runs into `place`, until it has come to its end."""

    begin: tuple[object, ...]
    place: Path
    suite: bool
    longest_s: float  # a kill at any time comes at the latest after this
    chance: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    seen: dict[str, Attempts] = field(default_factory=dict)

    @property
    def words(self) -> tuple[object, ...]:
        begun = (self.place / ("suite.json" if self.suite else "campaign.db")).exists()
        return ("resume", self.place, "--no-report") if begun else (*self.begin, "-o", self.place, "--no-report")

    @property
    def spots(self) -> dict[str, int]:
        begun = self.words[0] == "resume"
        first = {} if begun else FIRST_OF_SUITE if self.suite else FIRST
        return TRIALS | ENDS | first | (SUITE if self.suite else {})

    def once(self) -> bool:
        """One process; whether it came to its end before it was killed."""
        (finish, *_), spots = TRIALS, self.spots
        spot = self.chance.choice([*spots, *[finish, ""] * OFTEN])
        if spot:
            lines = self.chance.randint(1, spots[spot])
            process = start(*self.words, program=(str(KILLED_AT), spot, str(lines)))
            after_s = 60.0
        else:
            process = start(*self.words)
            after_s = self.chance.uniform(0, self.longest_s)
        try:
            process.wait(after_s)
        except subprocess.TimeoutExpired:
            process.kill()
        _, err = process.communicate(timeout=60)
        assert "Traceback" not in err and "defect" not in err, err
        if process.returncode == -signal.SIGKILL:
            self.kills[spot.rpartition(":")[2] or "any time"] += 1
            return False
        assert process.returncode in (0, 3) and "lastro: " not in err, (spot, process.returncode, err)
        return True

    def look(self) -> None:
        """Nothing that was written is gone or another."""
        for database in self.place.rglob("campaign.db"):
            found, before = attempts_of(database), self.seen.get(str(database), {})
            assert before.items() <= found.items()
            assert len({key for key in found if key not in before}) <= 12
            self.seen[str(database)] = found

    def rage(self, most: int) -> int:
        """Until it has come to its end, or there have been enough kills; then the exit code of one left alone."""
        while sum(self.kills.values()) < most:
            if self.once():
                break
            if self.chance.random() < 0.7:  # else the next process is the first to meet what was left
                self.look()
        code = lastro(*self.words).code
        self.look()
        return code


def files_in(place: Path) -> set[str]:
    """Names without SQLite's own files beside a database, which come and go with its last user."""
    names = {str(file.relative_to(place)) for file in place.rglob("*")}
    return {name for name in names if not name.endswith(("-wal", "-shm"))}


def weather(tmp_path: Path, kills: int, trial_s: float, write: Callable[[Path, float], Path], *, suite: bool) -> None:
    """As many campaigns or suites as it takes to be killed that often. `write` makes what is run, of given seconds."""
    seed = int(os.environ.get("LASTRO_CRASH_SEED") or random.SystemRandom().randrange(10**6))
    print(f"LASTRO_CRASH_SEED={seed}")
    calm = tmp_path / "calm"
    calm_code = lastro("run", write(tmp_path / "of-calm", 0.0), "-o", calm, "--no-report").code
    given, done = write(tmp_path / "of-storm", trial_s), Counter[str]()
    for number in range(kills):
        place = tmp_path / f"storm-{number}"
        storm = Storm(("run", given), place, suite, 0.7 + 4 * trial_s, random.Random(seed + number))
        assert storm.rage(kills - done.total()) == calm_code
        done += storm.kills
        for database in calm.rglob("campaign.db"):
            there = place / database.parent.relative_to(calm)
            assert schedule(there) == schedule(database.parent)
            fates = {row[3] for row in rows(database.parent)} | {"invalid"}
            assert all(row[3] in fates and row[4] <= 3 for row in rows(there)), rows(there)
            assert all(row[4] >= 1 for row in rows(there) if row[3] != "unavailable")
        assert files_in(place) == files_in(calm)
        if done.total() >= kills:
            break
    print(f"{done.total()} kills in {number + 1} times: {dict(done)}")
    assert done.total() >= kills


SIZES = pytest.mark.parametrize(("kills", "trial_s"), [(8, 0.05), pytest.param(200, 0.5, marks=pytest.mark.slow)])


@SIZES
def test_a_campaign_weathers_it(tmp_path: Path, kills: int, trial_s: float) -> None:
    def write(file: Path, trial_s: float) -> Path:
        file.write_text(study_text(FACTORS, trial_s=trial_s, replicates=2, baseline={"level": "a"}))
        return file

    weather(tmp_path, kills, trial_s, write, suite=False)


@SIZES
def test_a_suite_weathers_it(tmp_path: Path, kills: int, trial_s: float) -> None:
    def write(folder: Path, trial_s: float) -> Path:
        return write_folder(folder, MEMBERS, trial_s=trial_s)

    weather(tmp_path, kills, trial_s, write, suite=True)
