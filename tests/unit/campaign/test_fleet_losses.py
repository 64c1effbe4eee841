"""Testbeds of a fleet that are lost: what it costs, who takes their blocks, and how long that waits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.app.status import status_of
from lastro.campaign import fleet as fleets
from lastro.campaign.duration import eta_estimator
from lastro.campaign.executor import AttemptCall, Call, Executor, ReachCall
from lastro.campaign.testbed_worker import WorkerFailure
from lastro.errors import ConnectionLost, HostError, HostUnfit, LastroError, StoreError
from lastro.results.provenance import Provenance
from lastro.results.read import load_campaign
from lastro.results.rows import TestbedRow

from ...support.toy_fleet import Pool, Silent, Toy, beds, campaign, hurried, lost, on, run, study_of

__all__ = ["hurried"]  # a fixture for every test here


def test_a_testbed_that_comes_back_goes_on_with_its_block(tmp_path: Path) -> None:
    # The first answers are: open, probe, trial, then the loss in its second trial.
    pool = Pool(beds("ada", "bea"), lost("ada", 4))
    with campaign(tmp_path / "c", study_of(4)) as store:
        lines = run(store, pool).lines
        assert store.counts()["valid"] == 12 and len(store.attempts()) == 12, "no finished trial is repeated"
        assert len(store.places()) == 4 and all(len(names) == 1 for names in on(store).values())
    assert "ada: is lost: no route to host" in lines and "ada: is back" in lines


def test_the_block_of_a_testbed_that_stays_away_begins_again_on_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "GRACE_S", 0.0)
    pool = Pool(beds("ada", "bea"), lost("ada", *range(4, 10_000)))
    with campaign(tmp_path / "c", study_of(3)) as store:
        lines = run(store, pool).lines
        assert store.counts()["valid"] == 9
        assert on(store) == {1: {"bea"}, 2: {"bea"}, 3: {"bea"}}
        aside = [attempt for attempt in store.attempts() if not attempt.valid]
        assert [(a.testbed, a.block, a.reasons) for a in aside] == [
            ("ada", 1, ("set aside: block 1 began again on testbed bea",))
        ]
        assert ("moved", "block 1 from ada to bea; its earlier trials are set aside") in [e[1:] for e in store.events()]
        assert load_campaign(store).members == (), "only one testbed measured"
    assert "bea: takes block 1 from ada; its earlier trials are set aside" in lines


def test_so_does_the_block_of_one_that_never_opens_in_a_resumed_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another campaign may hold it for hours."""
    monkeypatch.setattr(fleets, "GRACE_S", 0.0)
    with campaign(tmp_path / "c", study_of(2)) as store:
        store.save_testbed(TestbedRow("ada", Provenance.of({"host": {"hostname": "ada", "kernel": "6.1"}}), {}))
        store.place(1, "ada")
        run(store, Pool(beds("ada", "bea"), silent=frozenset({"ada"})))
        assert on(store) == {1: {"bea"}, 2: {"bea"}}


def test_attempts_on_another_testbed_do_not_count_as_repetitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "GRACE_S", 0.0)
    pool = Pool(beds("ada", "bea"), lost("ada", *range(5, 10_000)))
    for bed in pool.beds.values():
        bed.sick = frozenset({"a"})
    with campaign(tmp_path / "c", study_of(1, levels=("a",))) as store:
        run(store, pool)
        assert [(a.testbed, a.attempt) for a in store.attempts()] == [
            ("ada", 1), ("ada", 2), ("bea", 3), ("bea", 4), ("bea", 5),
        ]  # fmt: skip
        assert store.counts()["invalid"] == 1


def test_an_idle_testbed_that_cannot_be_reached_takes_no_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has spoken to it for a while, so only the next call shows that its link is broken."""
    monkeypatch.setattr(fleets, "GRACE_S", 0.0)
    away = {"ada": range(4, 40), "bea": range(6, 10_000)}  # bea is open, probed, and has measured a block of 3 trials
    pool = Pool(beds("ada", "bea"), lambda name, n: HostError("no route to host") if n in away[name] else None)
    with campaign(tmp_path / "c", study_of(2)) as store:
        lines = run(store, pool).lines
        assert on(store) == {1: {"ada"}, 2: {"bea"}} and len(store.attempts()) == 6, "nothing is set aside"
        assert "moved" not in {kind for _, kind, _ in store.events()}
    assert isinstance(pool.asked["bea"][-1], ReachCall) and "bea: is lost: no route to host" in lines


def test_a_testbed_is_reached_when_each_of_its_hosts_answers() -> None:
    ran: list[str] = []

    class Host:
        recorded = nullcontext

        def __init__(self, name: str) -> None:
            self.name = name

        def run(self, argv: Sequence[str]) -> None:
            if self.name == "away":
                raise ConnectionLost(self.name, "no answer")
            ran.append(self.name)

    def executor(*names: str) -> Executor:
        bed: Any = SimpleNamespace(quiet_sessions=(), sessions=[SimpleNamespace(host=Host(name)) for name in names])
        return Executor(Toy(bed), Silent())

    assert ReachCall().on(executor("dut", "client")) and ran == ["dut", "client"]
    with pytest.raises(ConnectionLost):
        ReachCall().on(executor("dut", "away"))
    both = executor()
    both.scenario.guests = {"new": executor("new").scenario, "old": executor("old").scenario}
    assert ReachCall().on(both) and ran[3:] == ["new", "old"]


def test_a_lost_testbed_keeps_its_block_while_there_are_others_to_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "GRACE_S", 0.0)
    pool = Pool(beds("ada", "bea"), lost("ada", 4, 5, 6))
    with campaign(tmp_path / "c", study_of(40)) as store:
        run(store, pool)
        assert len(store.attempts()) == 120 and len(store.places()) == 40
        assert "ada" in on(store)[1]


def test_a_testbed_that_was_open_may_refuse_a_key_for_a_while(tmp_path: Path) -> None:
    refused = HostUnfit("ada refuses the key", "add it")
    pool = Pool(beds("ada", "bea"), lambda testbed, n: refused if testbed == "ada" and n in (4, 5) else None)
    with campaign(tmp_path / "c", study_of(4)) as store:
        lines = run(store, pool).lines
        assert store.counts()["valid"] == 12 == len(store.attempts()), "no finished trial is repeated"
        assert on(store)[1] == {"ada"}
    assert "ada: is lost: ada refuses the key (remedy: add it)" in lines and "ada: is back" in lines


def test_lost_testbeds_do_not_share_the_remaining_time(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(9)) as store:
        pool = Pool(beds("ada", "bea"))

        class Killed(Exception):
            pass

        def fails(testbed: str, n: int) -> LastroError | None:
            if n > 8 and testbed == "bea":
                raise Killed
            return HostError("no route to host") if testbed == "ada" and n >= 4 else None

        pool.fails = fails
        with pytest.raises(Killed):
            run(store, pool)
        assert len(store.testbeds()) == 2 and store.counts()["running"] == 1
        left_s = eta_estimator(store, None).remaining_s
        assert left_s > 0 and status_of(tmp_path / "c")["remaining_s"] == pytest.approx(left_s / 2), "it can be resumed"
        store.take("2026-01-01T00:00:00")
        assert status_of(tmp_path / "c")["remaining_s"] == pytest.approx(left_s)
        store.log("2026-01-01T00:00:01", "testbed", "ada is back")
        assert status_of(tmp_path / "c")["remaining_s"] == pytest.approx(left_s / 2)


def test_a_testbed_that_never_finishes_a_trial_does_not_go_on_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "PATIENCE_S", 0.05)

    class Leaky(Pool):
        """Its hosts can be opened and probed, but cannot be cleaned up after a trial."""

        def ask(self, testbed: str, call: Call) -> None:
            self.fails = lambda *_: HostError("mount /x cannot be removed") if isinstance(call, AttemptCall) else None
            super().ask(testbed, call)

        def open(self, testbed: str) -> None:
            self.fails = lambda *_: None
            super().open(testbed)

    with campaign(tmp_path / "c", study_of(2)) as store:
        with pytest.raises(HostError, match="ada: mount /x cannot be removed"):
            run(store, Leaky(beds("ada")))
        assert store.counts()["valid"] == 0
        assert "running" not in {state for state, n in store.counts().items() if n}


@pytest.mark.parametrize(
    "error",
    [
        BlockingIOError("no process can be started"), PermissionError("/dev/kvm"), FileNotFoundError("/sys/x"),
        TimeoutError("no answer"), ConnectionResetError("by peer"), StoreError("ledger.db: disk full", "free some"),
    ],
)  # fmt: skip
def test_an_error_of_the_system_is_of_its_testbed_alone(tmp_path: Path, error: Exception) -> None:
    pool = Pool(beds("ada", "bea"), lambda testbed, n: error if (testbed, n) == ("ada", 4) else None)
    with campaign(tmp_path / "c", study_of(4)) as store:
        lines = run(store, pool).lines
        assert store.counts()["valid"] == 12 == len(store.attempts())
    assert f"ada: is lost: {WorkerFailure.of(error).message}" in lines and "ada: is back" in lines
    assert isinstance(WorkerFailure.of(error).error(), HostError)
