"""As in test_injected.py, each call that a campaign makes to the host fails once, or from then on; here on real kernel
objects: a chain on the bare host, with its namespaces, links and rules of nftables.

It ends with a documented exit code and at most one error. Nothing is left on the host, or what is left is in the ledger
and `lastro clean` removes it. What had been measured is there, and the rest can be resumed. The faults are drawn from a
seed that the test prints; LASTRO_CRASH_SEED repeats them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lastro.host.ledger import Ledger

from ..cli.conftest import study_text
from ..faults.injector import FAILURES, Fault, Injector, fresh
from ..support.hostlisting import Listing, idle_host, listing, settled_differences
from ..support.injected import FaultyCampaigns, drawn_seed, measured
from ..support.scenarios import SHORT, TOLERANT

pytestmark = pytest.mark.root

FEW = 2
SPREAD = 8  # over all calls of a kind
STUDY = study_text(
    {"platform": ["native"]}, scenario="chain", replicates=1, **{**SHORT["chain"], "udp_s": 0, **TOLERANT}
)


@dataclass
class Trouble(FaultyCampaigns):
    """Campaigns of one trial. `before` is the host without any."""

    before: Listing = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.must_be_clean("without a fault")

    def cleaned(self, place: Path, fault: Fault) -> tuple[object, ...]:
        """One campaign with a fault, and what it leaves on the host."""
        told = self.ended(place, fault)
        cleaned = self.injector.run(("clean", "--wait"), place).done
        assert cleaned.code == 0, (told, cleaned)
        self.must_be_clean(told)
        return told

    def check(self, fault: Fault) -> None:
        """As `cleaned`, and how the campaign goes on when the host is well again."""
        place = fresh(self.home)
        told = self.cleaned(place, fault)
        after = self.resumed(place, told)
        assert len(measured(after)) == 1, (told, after)

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
    return Trouble(home, Injector(home), STUDY, ("--wait", "--no-report"), before=before)


def drawn(chance: random.Random, kind: str, n_calls: int, number: int) -> Iterator[Fault]:
    """Faults of a kind that are spread over all of its calls; every other one stays."""
    for at in range(min(number, n_calls)):
        first, behind = (1 + each * n_calls // number for each in (at, at + 1))
        yield Fault(
            kind, chance.choice(FAILURES[kind]), chance.randrange(first, max(behind, first + 1)), on=at % 2 == 1
        )


def test_a_few_faults(trouble: Trouble) -> None:
    chance = random.Random(drawn_seed())
    for kind in chance.sample([kind for kind in FAILURES if trouble.counts[kind]], FEW):
        [fault] = drawn(chance, kind, trouble.counts[kind], 1)
        trouble.cleaned(fresh(trouble.home), fault)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAILURES)
def test_a_spread_of_faults(trouble: Trouble, kind: str) -> None:
    chance = random.Random(f"{drawn_seed()} {kind}")
    trouble.check_all(drawn(chance, kind, trouble.counts[kind], SPREAD))
