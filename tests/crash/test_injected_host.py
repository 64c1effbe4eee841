"""As in test_injected.py, each call that a campaign makes to the host fails once, or from then on; here on real kernel
objects: a chain on the bare host, with its namespaces, links and rules of nftables.

It ends with a documented exit code and at most one error. Nothing is left on the host, or what is left is in the ledger
and `lastro clean` removes it. What had been measured is there, and the rest can be resumed. The faults are drawn from a
seed that the test prints; LASTRO_CRASH_SEED repeats them."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lastro.host.ledger import Ledger

from ..cli.conftest import study_text
from ..faults.injector import FAILURES, Fault, Injected, Injector, fresh
from ..support.hostlisting import Listing, idle_host, listing, settled_differences
from ..support.scenarios import SHORT, TOLERANT
from .test_injected import measured
from .test_storm import attempts_of

pytestmark = pytest.mark.root

# 1: out of memory, as when no thread can be started; 2: an input could not be read; 3: not possible on this host;
# 5: not the campaign's database, or the ledger.
CODES = {0, 1, 2, 3, 5}
FEW = 2
SPREAD = 8  # over all calls of a kind


@dataclass
class Trouble:
    """Campaigns of one trial, each with one fault. `before` is the host without any."""

    home: Path
    injector: Injector
    before: Listing
    codes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.study = self.home / "study.toml"
        settings = {**SHORT["chain"], "udp_s": 0, **TOLERANT}
        self.study.write_text(study_text({"platform": ["native"]}, scenario="chain", replicates=1, **settings))
        calm = self.run(fresh(self.home))
        assert calm.done.code == 0, calm
        self.counts = calm.counts
        self.must_be_clean("without a fault")

    def run(self, place: Path, fault: Fault | None = None) -> Injected:
        return self.injector.run(("run", self.study, "-o", "c", "--wait", "--no-report"), place, fault)

    def check(self, fault: Fault, *, resumed: bool = True) -> None:
        """One campaign with a fault, what it leaves on the host, and how it goes on when the host is well again."""
        place = fresh(self.home)
        found = self.run(place, fault)
        told = (str(fault), found.what, found.done)
        code, err = found.done.code, found.done.err
        self.codes[f"{fault.kind} {code}"] += 1
        assert code in CODES and "Traceback" not in err and "bug in" not in err, told
        assert code != 1 or "out of memory" in err, told
        if not (fault.kind == "output" and fault.on):  # nobody can hear it then
            assert err.count("lastro: ") == (code != 0), told
        cleaned = self.injector.run(("clean", "--wait"), place).done
        assert cleaned.code == 0, (told, cleaned)
        self.must_be_clean(told)
        database = place / "c" / "campaign.db"
        before = attempts_of(database) if database.exists() else {}
        if not resumed:
            return
        words = ("resume", "c", "--invalid") if database.exists() else ("run", self.study, "-o", "c")
        again = self.injector.run((*words, "--wait", "--no-report"), place).done
        assert again.code == 0, (told, again)
        after = attempts_of(database)
        assert before.items() <= after.items() and len(measured(after)) == 1, (told, after)

    def must_be_clean(self, when: object) -> None:
        with idle_host(), closing(Ledger()) as ledger:
            assert ledger.dead_sessions() == [], when
            assert settled_differences(self.before, patience_s=30) == [], when


@pytest.fixture(scope="module")
def trouble(untouched_host: None, tmp_path_factory: pytest.TempPathFactory) -> Trouble:
    with idle_host(), closing(Ledger()) as ledger:
        ledger.clean()
        before = listing()
    home = tmp_path_factory.mktemp("injected")
    return Trouble(home, Injector(home), before)


@pytest.fixture(scope="module")
def seed() -> int:
    chosen = int(os.environ.get("LASTRO_CRASH_SEED") or random.SystemRandom().randrange(10**6))
    print(f"LASTRO_CRASH_SEED={chosen}")
    return chosen


def drawn(chance: random.Random, kind: str, n_calls: int, number: int) -> Iterator[Fault]:
    """Faults of a kind that are spread over all of its calls; every other one stays."""
    for at in range(min(number, n_calls)):
        first, behind = (1 + each * n_calls // number for each in (at, at + 1))
        yield Fault(
            kind, chance.choice(FAILURES[kind]), chance.randrange(first, max(behind, first + 1)), on=at % 2 == 1
        )


def test_a_few_faults(trouble: Trouble, seed: int) -> None:
    chance = random.Random(seed)
    for kind in chance.sample([kind for kind in FAILURES if trouble.counts[kind]], FEW):
        [fault] = drawn(chance, kind, trouble.counts[kind], 1)
        trouble.check(fault, resumed=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAILURES)
def test_a_spread_of_faults(trouble: Trouble, seed: int, kind: str) -> None:
    failures = []
    for fault in drawn(random.Random(f"{seed} {kind}"), kind, trouble.counts[kind], SPREAD):
        try:
            trouble.check(fault)
        except AssertionError as failure:
            failures.append(f"{fault}: {failure}")
    print(trouble.counts[kind], dict(trouble.codes))
    assert not failures, "\n\n".join(failures)
