"""Each call that a campaign makes to the host fails once, or from then on: a write, a sync, a name, a file, a process.

It ends with a documented exit code and one error; what had been measured is there, the rest can be resumed, and nothing
else is left. A sample is drawn from a seed that the test prints; LASTRO_CRASH_SEED repeats it."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ..cli.conftest import rows, study_text
from ..faults.injector import CLOCK, FAILURES, Fault, Injected, Injector, fresh
from .test_storm import Attempts, attempts_of, files_in

SAMPLE = 30
FACTORS = {"level": ["a", "b"]}
# 2: an input could not be read; 3: not possible on this host; 5: not the campaign's database.
CODES = {0, 2, 3, 5}


@dataclass
class Trouble:
    """Campaigns of two trials, each with one fault. `calm` is how one ends without."""

    home: Path
    injector: Injector
    codes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.study = self.home / "study.toml"
        self.study.write_text(study_text(FACTORS, replicates=1, commands=1))
        self.calm = self.home / "calm"
        self.calm.mkdir()
        found = self.run(self.calm)
        assert found.done.code == 0, found
        self.counts = found.counts
        self.measured = measured(attempts_of(self.calm / "c" / "campaign.db"))

    def run(self, place: Path, fault: Fault | None = None) -> Injected:
        return self.injector.run(("run", self.study, "-o", "c"), place, fault)

    def all(self) -> Iterator[Fault]:
        for kind, errors in FAILURES.items():
            for nth in range(1, self.counts[kind] + 1):
                for error in errors:
                    yield Fault(kind, error, nth)
                    yield Fault(kind, error, nth, on=True)

    def check(self, fault: Fault) -> None:
        """One campaign with a fault, and what is left of it when the host is well again."""
        place = fresh(self.home)
        found = self.run(place, fault)
        told = (str(fault), found.what, found.done)
        code, err = found.done.code, found.done.err
        self.codes[f"{fault.kind} {code}"] += 1
        assert code in CODES and "Traceback" not in err and "bug in" not in err, told
        if not (fault.kind == "output" and fault.on):  # nobody can hear it then
            assert err.count("lastro: ") == (code != 0), told
        database = place / "c" / "campaign.db"
        if fault.kind != "unlink":
            assert {file for file in files_in(place) if ".lastro-" in file or "defect" in file} == set(), told
        before = attempts_of(database) if database.exists() else {}
        words = ("resume", "c", "--invalid") if database.exists() else ("run", self.study, "-o", "c")
        again = self.injector.run(words, place).done
        assert again.code == 0, (told, again)
        after = attempts_of(database)
        assert before.items() <= after.items(), told
        assert measured(after) == self.measured, told
        assert all(row[3] == "valid" for row in rows(place / "c")), told
        if fault.kind != "unlink":
            assert files_in(place) == files_in(self.calm), told


def measured(attempts: Attempts) -> set[int]:
    """The trials that have a valid attempt with a series and measurements."""
    return {trial for (trial, _), (valid, _, series, values) in attempts.items() if valid and series and values}


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> Trouble:
    home = tmp_path_factory.mktemp("injected")
    return Trouble(home, Injector(home))


def test_each_kind_of_call_is_seen(trouble: Trouble) -> None:
    """A kind that is not counted would be one that no fault ever hits."""
    assert all(trouble.counts[kind] for kind in FAILURES if kind != "thread"), trouble.counts


def test_a_sample_of_faults(trouble: Trouble) -> None:
    """As many of each kind, so that the rare ones are there, too."""
    seed = int(os.environ.get("LASTRO_CRASH_SEED") or random.SystemRandom().randrange(10**6))
    print(f"LASTRO_CRASH_SEED={seed}")
    chance, faults = random.Random(seed), list(trouble.all())
    kinds = [found for kind in FAILURES if (found := [fault for fault in faults if fault.kind == kind])]
    for at in range(SAMPLE):
        trouble.check(chance.choice(kinds[at % len(kinds)]))
    print(dict(trouble.codes))


@pytest.mark.parametrize("step_s", [3600, -(10**9)])
def test_the_clock_is_set_in_mid_campaign(trouble: Trouble, step_s: int) -> None:
    """An attempt during which that happens does not count and is repeated; everything else goes on."""
    disturbed = 0
    for nth in range(1, trouble.counts[CLOCK] + 1):
        place = fresh(trouble.home)
        fault = Fault(CLOCK, step_s, nth, on=True)
        found = trouble.run(place, fault)
        assert found.done.code == 0, (str(fault), found.done)
        attempts = attempts_of(place / "c" / "campaign.db")
        assert measured(attempts) == trouble.measured
        invalid = [values for values in attempts.values() if not values[0]]
        disturbed += len(invalid)
        assert len(invalid) <= 1, (str(fault), attempts)
    assert disturbed >= 2, "each of the two trials was hit"


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAILURES)
def test_every_fault(trouble: Trouble, kind: str) -> None:
    failures = []
    for fault in trouble.all():
        if fault.kind == kind:
            try:
                trouble.check(fault)
            except AssertionError as failure:
                failures.append(f"{fault}: {failure}")
    print(trouble.counts[kind], dict(trouble.codes))
    assert not failures, "\n\n".join(failures)
