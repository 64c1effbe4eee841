"""The power fails between any two syncs of a campaign: unsynced writes are lost, torn or reordered.

What the progress had reported is there, and no attempt is another than was measured. The draws are from a seed that the
test prints; LASTRO_CRASH_SEED repeats them."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from lastro.errors import StoreError
from lastro.results.read import load_campaign
from lastro.results.store import Store

from ..cli.conftest import rows, study_text
from ..faults.disk import Disk, Record, records
from ..faults.injector import Injector
from ..support.injected import attempts_of

KEPT = (0.0, 1.0, 0.9, 0.5, 0.1)  # the chance of each unsynced write to be there after the cut
RESUMED = 0.05  # of the cuts; to resume takes most of the time
REPORTED = re.compile(rb"\[\d+/\d+\] ")


@dataclass
class Recorded:
    """A campaign that ran to its end, with all that it wrote."""

    home: Path
    injector: Injector
    log: list[Record]
    ignored: str = ""  # a file whose syncs do nothing

    def cuts(self, chance: random.Random, times: int) -> Iterator[tuple[Path, int]]:
        """Disks after a cut at each sync, with unsynced writes drawn so often; and the trials reported by then."""
        disk, reported, place = Disk(self.home / "c"), 0, self.home / "cut" / "c"
        for record in self.log:
            if record.kind == "synced" and disk.has_unsynced:
                for kept in KEPT * times:
                    shutil.rmtree(place.parent, ignore_errors=True)
                    place.mkdir(parents=True)
                    disk.cut(place, chance, kept)
                    yield place, reported
            if record.kind != "synced" or Path(record.path).name != self.ignored:
                disk.feed(record)
            reported += len(REPORTED.findall(record.data)) if record.path.endswith("(deleted)") else 0


@pytest.fixture(scope="module")
def injector(tmp_path_factory: pytest.TempPathFactory) -> Injector:
    return Injector(tmp_path_factory.mktemp("injector"))


def record(home: Path, injector: Injector, **study: int) -> Recorded:
    (home / "study.toml").write_text(study_text({"level": ["a", "b"]}, **study))
    found = injector.run(("run", "study.toml", "-o", "c", "--no-report"), home, record=True)
    assert found.done.code == 0, found
    return Recorded(home, injector, list(records(injector.log.read_bytes())))


def check(campaign: Recorded, times: int) -> None:
    seed = int(os.environ.get("LASTRO_CRASH_SEED") or random.SystemRandom().randrange(10**6))
    print(f"LASTRO_CRASH_SEED={seed}")
    chance, final = random.Random(seed), attempts_of(campaign.home / "c" / "campaign.db")
    cuts = lost = resumed = most = 0
    for place, reported in campaign.cuts(chance, times):
        cuts, most = cuts + 1, max(most, reported)
        if not (place / "campaign.db").exists():
            assert reported == 0
            continue
        with Store.open(place, readonly=True) as store:
            n_read = len(load_campaign(store).attempts)
        found = attempts_of(place / "campaign.db")
        assert found.items() <= final.items() and n_read == len(found) >= reported
        lost += len(found) == reported
        if chance.random() < RESUMED:
            resumed += 1
            again = campaign.injector.run(("resume", place, "--no-report"), campaign.home).done
            assert again.code == 0, again
            assert found.items() <= attempts_of(place / "campaign.db").items()
            assert {row[3] for row in rows(place)} == {"valid"}
    print(f"{cuts} power cuts, {lost} with nothing beyond what was reported, {resumed} resumed")
    assert most == len(final), "the record goes to the end of the campaign"


def test_power_fails_between_two_syncs(tmp_path: Path, injector: Injector) -> None:
    check(record(tmp_path, injector, replicates=2), times=1)


@pytest.mark.slow
def test_power_fails_again_and_again(tmp_path: Path, injector: Injector) -> None:
    check(record(tmp_path, injector, replicates=3), times=20)


@pytest.mark.slow
def test_power_fails_around_a_checkpoint(tmp_path: Path, injector: Injector) -> None:
    """Trials that are large enough for SQLite to copy its log into the database in mid-campaign."""
    campaign = record(tmp_path, injector, replicates=3, samples=200_000)
    copied = [each for each in campaign.log if each.kind == "wrote" and each.path.endswith("campaign.db")]
    assert sum(len(each.data) for each in copied) > 4 << 20
    check(campaign, times=2)


def test_the_simulation_finds_a_lost_sync(tmp_path: Path, injector: Injector) -> None:
    campaign = record(tmp_path, injector, replicates=2)
    with pytest.raises((AssertionError, StoreError)):
        check(replace(campaign, ignored="campaign.db-wal"), times=1)
