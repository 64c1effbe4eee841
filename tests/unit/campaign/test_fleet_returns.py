"""Testbeds of a fleet that come back later than others: their blocks wait for them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from lastro.app import fleets as app
from lastro.app.provenance import changed_facts
from lastro.app.studies import load_study
from lastro.campaign import fleet as fleets
from lastro.campaign.dask_pool import LEASE_S
from lastro.campaign.fleet import BOOT_S, BUSY_S, GRACE_S, Fleet
from lastro.errors import HostBusy, HostError, HostUnfit
from lastro.results.store import Store

from ...support.toy_fleet import Pool, beds, campaign, hurried, on, run, stopped_after, study_of

__all__ = ["hurried"]  # a fixture for every test here


class Clock:
    """The time of a fleet, which can be put forward."""

    later_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.later_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(fleets, "time", found := Clock())
    return found


@dataclass
class Workers(Pool):
    """Workers of a scheduler. `late` joins after 50 looks at them."""

    grows: bool = True
    late: str = ""
    looks: int = 0

    def names(self) -> Sequence[str]:
        self.looks += 1
        return [name for name in self.beds if name != self.late or self.looks > 50]


def moved(store: Store) -> list[str]:
    return [text for _, kind, text in store.events() if kind == "moved"]


def test_a_worker_that_joins_later_than_another_keeps_its_block(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(2)) as store:
        stopped_after(store, Pool(beds("ada", "bea")), 4)
        run(store, pool := Workers(beds("ada", "bea"), late="ada"))
        assert pool.looks > 50 and moved(store) == []
        assert on(store) == {1: {"ada"}, 2: {"bea"}} and len(store.attempts()) == 6


def test_the_block_of_a_worker_that_does_not_join_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "GRACE_S", 0.05)
    with campaign(tmp_path / "c", study_of(2)) as store:
        stopped_after(store, Pool(beds("ada", "bea")), 4)
        run(store, Workers(beds("bea")))
        assert on(store) == {1: {"bea"}, 2: {"bea"}} and len(moved(store)) == 1


def test_of_those_that_come_back_from_an_outage_the_first_takes_no_block_of_another(
    tmp_path: Path, clock: Clock
) -> None:
    away = {"ada": range(4, 60), "bea": (4,)}

    class Outage(Pool):
        def open(self, testbed: str) -> None:
            if testbed == "bea" and self.n["bea"] == 4:
                clock.later_s = 2.5 * GRACE_S
            super().open(testbed)

    pool = Outage(beds("ada", "bea"), lambda name, n: HostError("no route to host") if n in away[name] else None)
    with campaign(tmp_path / "c", study_of(2)) as store:
        run(store, pool)
        assert clock.later_s and moved(store) == []
        assert on(store) == {1: {"ada"}, 2: {"bea"}} and len(store.attempts()) == 6


@pytest.mark.parametrize("trial_s", [0.0, 1000.0])
def test_a_worker_may_end_a_trial_of_a_killed_process_before_it_opens(
    tmp_path: Path, clock: Clock, trial_s: float
) -> None:
    class Queued(Workers):
        def names(self) -> Sequence[str]:
            if self.looks == 25:  # the other one has ended its block
                clock.later_s = 2.5 * GRACE_S
            elif self.looks == 50:
                self.silent = frozenset()
                self.open("ada")
            return super().names()

    with campaign(tmp_path / "c", study_of(2)) as store:
        stopped_after(store, Pool(beds("ada", "bea")), 4)
        run(store, Queued(beds("ada", "bea"), silent=frozenset({"ada"})), trial_s=trial_s)
        assert bool(moved(store)) is (trial_s == 0.0)


def test_a_worker_gets_time_to_end_from_the_first_answer_on(clock: Clock) -> None:
    """A worker of Dask answers when the running trial has ended, and its worker is held for a lease more."""

    class Queued(Pool):
        def open(self, testbed: str) -> None:
            clock.later_s = 300.0
            super().open(testbed)

    pool = Queued(beds("ada"), lambda testbed, n: HostBusy("is in use") if n < 5 else None)
    assert list(Fleet(pool, changes=changed_facts, busy_s=60).wait_for_first(print)) == ["ada"]


def test_hosts_that_lost_power_with_the_campaign_get_time_to_boot(clock: Clock) -> None:
    lines = list[str]()

    def off(testbed: str, n: int) -> HostError:
        clock.later_s += 10
        return HostError(f"{testbed} is off")

    def opened(pool: Pool) -> object:
        fleet = Fleet(pool, changes=changed_facts, boot_s=60)
        return fleet.wait_for_first(lambda testbed, line: lines.append(f"{testbed}: {line}"))

    assert opened(Pool(beds("ada", "bea"), lambda testbed, n: off(testbed, n) if n < 2 else None))
    assert lines == [f"{name}: cannot be used: {name} is off; it is tried again for 60 s" for name in ("ada", "bea")]
    with pytest.raises(HostError, match="no testbed of the fleet can be used: ada: ada is off; bea: bea is off"):
        opened(away := Pool(beds("ada", "bea"), off))
    assert away.n["ada"] == 5
    with pytest.raises(HostError, match="ada lacks tar"):
        opened(unfit := Pool(beds("ada"), lambda testbed, n: HostUnfit("ada lacks tar")))
    assert unfit.n["ada"] == 1


def test_a_resumed_campaign_allows_hosts_a_boot_and_workers_of_dask_a_trial_and_a_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study, file = load_study("kagami2017"), SimpleNamespace()
    monkeypatch.setattr(app, "one_interrupt", lambda: nullcontext(lambda: None))
    for grows, again, found in ((True, False, 0.0), (False, True, BUSY_S), (True, True, BUSY_S + LEASE_S)):
        monkeypatch.setattr(app, "_pool", lambda *_, grows=grows, **__: Pool({}, grows=grows))
        with app.hold_fleet(study, "tests", file, wait=False, again=again) as fleet:  # type: ignore[arg-type]
            assert (fleet._busy_s, fleet._boot_s) == (found, BOOT_S if again else 0.0)
            assert (fleet._trial_s > 60) is (grows and again)
