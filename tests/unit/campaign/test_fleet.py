"""The blocks of a campaign on a fleet: who gets which, what some testbeds cannot run, and when a trial is stored."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lastro.campaign import fleet as fleets
from lastro.campaign.executor import AttemptCall, Call
from lastro.errors import HostError
from lastro.results.read import load_campaign
from lastro.results.samples import Outcome
from lastro.results.store import Store

from ...support.toy_fleet import Pool, beds, campaign, hurried, on, run, study_of

__all__ = ["hurried"]  # a fixture for every test here


def test_whole_blocks_are_divided_and_calibrations_belong_to_a_testbed(tmp_path: Path) -> None:
    pool = Pool(beds("ada", "bea", "cid"))
    with campaign(tmp_path / "c", study_of(9, ceiling=True)) as store:
        run(store, pool)
        assert store.counts()["valid"] == 27
        assert Counter(name for names in on(store).values() for name in names) == {"ada": 3, "bea": 3, "cid": 3}
        assert all(len(names) == 1 for names in on(store).values())
        assert {name: store.calibrations(name) for name in pool.beds} == {
            name: {"ceiling": 101.0} for name in pool.beds
        }
        data = load_campaign(store)
    assert [(each.directory, len(each.blocks), len(each.trials)) for each in data.members] == [
        ("ada", 3, 9), ("bea", 3, 9), ("cid", 3, 9),
    ]  # fmt: skip


def test_what_a_testbed_cannot_run_is_missing_there_alone(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(4)) as store:
        run(store, Pool(beds("ada", "bea", ada="b")))
        assert store.counts()["unavailable"] == sum("ada" in names for names in on(store).values()) == 2
        assert [row.unavailable for row in store.treatments()] == [None] * 3
        data = load_campaign(store)
        assert len(data.trials) == 10 and {member.directory: len(member.trials) for member in data.members} == {
            "ada": 4, "bea": 6
        }  # fmt: skip
        run(store, Pool(beds("ada", "bea")))  # it was installed there
        assert store.counts()["unavailable"] == 0 and store.counts()["valid"] == 12


def test_trials_are_counted_again_only_for_a_testbed_that_lacks_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All trials are read for that, which would be most of the work of a large fleet that opens."""
    counted, count = list[int](), fleets.RunningCampaign.runnable_trials
    monkeypatch.setattr(
        fleets.RunningCampaign, "runnable_trials", lambda self: counted.append(count(self)) or counted[-1]
    )
    with campaign(tmp_path / "c", study_of(4)) as store:
        run(store, Pool(beds("ada", "bea", "cid")))
        assert counted == [12]
    with campaign(tmp_path / "d", study_of(4)) as store:
        run(store, Pool(beds("ada", "bea", "cid", cid="b")))
        assert len(counted) == 3 and counted[1] == 12


def test_what_no_testbed_can_run_is_unavailable(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(2)) as store:
        run(store, Pool(beds("ada", "bea", ada="b", bea="b")))
        assert [row.unavailable for row in store.treatments()] == [None, "is not here", None]
        assert store.counts()["unavailable"] == 2


def test_a_testbed_that_can_run_nothing_is_left_out(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(2, levels=("a",))) as store:
        lines = run(store, Pool(beds("ada", "bea", ada="a"))).lines
        assert on(store) == {1: {"bea"}, 2: {"bea"}}
    assert any(line.startswith("ada: is left out: no treatment of this study can run here: is not h") for line in lines)
    with campaign(tmp_path / "d", study_of(2, levels=("a",))) as store, pytest.raises(HostError, match="no testbed"):
        run(store, Pool(beds("ada", ada="a")))


def test_a_trial_that_ends_while_the_attempts_are_read_leaves_them_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lastro status` and `lastro show` read what a campaign writes at the same time."""
    with campaign(tmp_path / "c", study_of(2)) as store, Store.open(tmp_path / "c", readonly=True) as reader:
        rows, numbers = reader._rows, iter((1, 2))

        def meanwhile(table: str, *words: Any) -> Any:
            found = rows(table, *words)
            if table == "attempt":
                outcome, at = Outcome({"speed": 1.0}), "2026-11-02T10:00:00+00:00"
                store.finish(next(numbers), outcome, started_utc=at, duration_s=1.0, transcript=[])
            return found

        monkeypatch.setattr(reader, "_rows", meanwhile)
        assert [len(reader.attempts()), len(reader.attempts())] == [0, 1]
        assert len(store.attempts()) == 2


def test_a_sequential_campaign_grows_by_a_block_for_each_testbed(tmp_path: Path) -> None:
    from dataclasses import replace

    study = study_of(10)
    grown = replace(study, design=replace(study.design, stopping="sequential", precision=1e-9, max_replicates=14))
    with campaign(tmp_path / "c", grown) as store:
        run(store, Pool(beds("ada", "bea", "cid")))
        assert store.study.design.replicates in (10, 12, 13, 14) and not store.open_blocks()


def test_no_trial_of_a_testbed_begins_before_the_last_one_is_in_the_database(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(4)) as store:
        pool = Pool(beds("ada", "bea"))
        stored: list[int] = []
        asked = pool.ask

        def ask(testbed: str, call: Call) -> None:
            if isinstance(call, AttemptCall):
                with Store.open(tmp_path / "c", readonly=True) as reader:  # sees only what is written for good
                    stored.append(sum(attempt.testbed == testbed for attempt in reader.attempts()))
                assert stored[-1] == sum(isinstance(each, AttemptCall) for each in pool.asked[testbed])
            asked(testbed, call)

        pool.ask = ask  # type: ignore[method-assign]
        run(store, pool)
        assert len(stored) == 12 and max(stored) == 5
