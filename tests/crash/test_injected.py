"""Each call that a campaign makes to the host fails once, or from then on: a write, a sync, a name, a file, a process.

It ends with a documented exit code and one error; what had been measured is there, the rest can be resumed, and nothing
else is left. A sample is drawn from a seed that the test prints; LASTRO_CRASH_SEED repeats it."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from ..cli.conftest import rows, study_text
from ..faults.injector import CLOCK, FAILURES, Fault, Injector, fresh
from ..support.injected import FaultyCampaigns, attempts_of, drawn_seed, measured
from .test_storm import files_in

SAMPLE = 30
STUDY = study_text({"level": ["a", "b"]}, replicates=1, commands=1)


class Trouble(FaultyCampaigns):
    """Campaigns of two trials."""

    def all(self) -> Iterator[Fault]:
        for kind, errors in FAILURES.items():
            for nth in range(1, self.counts[kind] + 1):
                for error in errors:
                    yield Fault(kind, error, nth)
                    yield Fault(kind, error, nth, on=True)

    def check(self, fault: Fault) -> None:
        """One campaign with a fault, and what is left of it when the host is well again."""
        place = fresh(self.home)
        told = self.ended(place, fault)
        if fault.kind != "unlink":
            assert {file for file in files_in(place) if ".lastro-" in file or "defect" in file} == set(), told
        assert measured(self.resumed(place, told)) == self.measured, told
        assert all(row[3] == "valid" for row in rows(place / "c")), told
        if fault.kind != "unlink":
            assert files_in(place) == files_in(self.calm), told

    @property
    def measured(self) -> set[int]:
        return measured(attempts_of(self.calm / "c" / "campaign.db"))


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> Trouble:
    home = tmp_path_factory.mktemp("injected")
    return Trouble(home, Injector(home), STUDY)


def test_each_kind_of_call_is_seen(trouble: Trouble) -> None:
    """A kind that is not counted would be one that no fault ever hits."""
    assert all(trouble.counts[kind] for kind in FAILURES if kind != "thread"), trouble.counts


def test_a_sample_of_faults(trouble: Trouble) -> None:
    """As many of each kind, so that the rare ones are there, too."""
    chance, faults = random.Random(drawn_seed()), list(trouble.all())
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
    trouble.check_all(fault for fault in trouble.all() if fault.kind == kind)
