"""How a campaign on a fleet starts, and starts again: testbeds that changed, that are in use, that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastro.app.provenance import changed_facts
from lastro.campaign import fleet as fleets
from lastro.campaign.fleet import Fleet
from lastro.campaign.testbed_states import TestbedState
from lastro.campaign.testbed_worker import WorkerFailure
from lastro.errors import HostBusy, HostError, HostUnfit, InputError, LastroError

from ...support.toy_fleet import Pool, Silent, Toy, beds, campaign, hurried, lost, on, run, stopped_after, study_of

__all__ = ["hurried"]  # a fixture for every test here


def test_a_killed_campaign_goes_on_with_each_block_where_it_began(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(4)) as store:
        stopped_after(store, Pool(beds("ada", "bea")), 4)
        begun = {place.block: place.testbed for place in store.places()}
        assert begun == {1: "ada", 2: "bea"} and store.counts()["running"]
        run(store, Pool(beds("ada", "bea")))
        assert store.counts()["valid"] == 12 == len(store.attempts())
        assert {block: on(store)[block] for block in begun} == {1: {"ada"}, 2: {"bea"}}


def test_blocks_of_a_testbed_that_left_the_file_begin_again(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(2)) as store:
        stopped_after(store, Pool(beds("ada", "bea")), 4)
        run(store, Pool(beds("bea", "new")))
        assert on(store)[1] == {"new"} and on(store)[2] == {"bea"}


def test_a_testbed_that_has_changed_is_left_out_unless_that_is_wanted(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(4)) as store:
        stopped_after(store, Pool(beds("ada", "bea")), 4)
        lines = run(store, Pool(beds("ada", "bea"), kernel={"ada": "6.2"})).lines
        assert any("ada: is left out: it has changed: kernel was 6.1, is 6.2" in line for line in lines)
        assert all(names == {"bea"} for names in on(store).values())
    with campaign(tmp_path / "d", study_of(4)) as store:
        stopped_after(store, Pool(beds("ada", "bea")), 4)
        run(store, Pool(beds("ada", "bea"), kernel={"ada": "6.2"}), changed_host=True)
        assert on(store)[1] == {"ada"}
        assert ("changed host", "testbed ada: kernel was 6.1, is 6.2") in [event[1:] for event in store.events()]


def test_without_a_testbed_there_is_one_error_that_names_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(beds("ada", "bea"), lambda testbed, n: HostError(f"{testbed} is off"))
    with pytest.raises(HostError, match="no testbed of the fleet can be used: ada: ada is off; bea: bea is off"):
        Fleet(pool, changes=changed_facts).wait_for_first(print)
    busy = Pool(beds("ada"), lambda testbed, n: HostBusy("is in use"))
    with pytest.raises(HostBusy, match="ada: is in use"):
        Fleet(busy, changes=changed_facts).wait_for_first(print)
    monkeypatch.setattr(fleets, "PATIENCE_S", 0.01)
    with campaign(tmp_path / "c", study_of(2)) as store, pytest.raises(HostError, match="no route to host"):
        run(store, Pool(beds("ada"), lost("ada", *range(3, 10_000))))


def test_a_failure_that_cannot_mend_itself_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unfit = HostUnfit("h2 lacks tar", "install it there")
    pool = Pool(beds("ada", "bea"), lambda testbed, n: unfit if testbed == "bea" else None)
    with campaign(tmp_path / "c", study_of(4)) as store:
        lines = run(store, pool).lines
        assert store.counts()["valid"] == 12 and pool.n["bea"] == 1
    assert [line for line in lines if line.startswith("bea")] == [
        "bea: is left out: h2 lacks tar (remedy: install it there)"
    ]
    monkeypatch.setattr(fleets, "PATIENCE_S", 0.01)
    unfit_later = Pool(beds("ada"), lambda testbed, n: unfit if n >= 4 else None)
    with campaign(tmp_path / "d", study_of(2)) as store:
        with pytest.raises(HostError, match="no testbed of the fleet can be used: ada: h2 lacks tar") as caught:
            run(store, unfit_later)
        assert (caught.value.exit_code, caught.value.hint) == (3, "install it there")
        assert store.counts()["valid"] == 1 and store.counts()["running"] == 0
    wrong = Pool(beds("ada", "bea"), lambda testbed, n: InputError("no such guest") if testbed == "bea" else None)
    with pytest.raises(InputError, match="no such guest"), campaign(tmp_path / "e", study_of(2)) as store:
        run(store, wrong)


def test_a_scheduler_without_workers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "WORKERS_S", 0.01)
    with pytest.raises(HostError, match="has no workers"):
        Fleet(Pool({}), changes=changed_facts).wait_for_first(print)


def test_workers_of_a_killed_campaign_get_time_to_end() -> None:
    pool = Pool(beds("ada"), lambda testbed, n: HostBusy("is in use") if n < 5 else None)
    assert list(Fleet(pool, changes=changed_facts, busy_s=60).wait_for_first(print)) == ["ada"]


def test_a_defect_ends_the_campaign(tmp_path: Path) -> None:
    pool = Pool(beds("ada", "bea"))
    pool.answers.put(("ada", WorkerFailure.of(ZeroDivisionError("on purpose"))))
    with campaign(tmp_path / "c", study_of(2)) as store:
        fleet = Fleet(pool, changes=changed_facts)
        fleet._states["ada"] = TestbedState("ada", "opening")
        fleet._opened = {}
        with pytest.raises(LastroError, match="a defect on a testbed: ZeroDivisionError: on purpose"):
            fleet.run(store, Toy, Silent())


def lines_of(testbed: str, lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(f"{testbed}: ")]


def test_a_host_with_two_names_is_one_testbed(tmp_path: Path) -> None:
    """Each testbed file gives it a state of its own, so its lock does not keep the second one away."""
    pool = Pool(beds("ada", "bea", "again"), machines={"ada": ["m"], "again": ["n", "m"]})
    with campaign(tmp_path / "c", study_of(6)) as store:
        (line,) = lines_of("again", run(store, pool).lines)
        assert line.startswith("again: is left out: it uses the same host as testbed ada (remedy: in the fleet file, ")
        assert {name for names in on(store).values() for name in names} == {"ada", "bea"}
        assert [row.name for row in store.testbeds()] == ["ada", "bea"] and "again" not in pool.open_now


def test_a_testbed_whose_host_is_in_use_as_another_one_is_left_out(tmp_path: Path) -> None:
    def fails(testbed: str, n: int) -> HostBusy | None:
        busy = testbed == "again" and "ada" in pool.open_now
        return HostBusy("root@again is in use by campaign c", "wait", "m") if busy else None

    pool = Pool(beds("ada", "again", "bea"), fails, machines={"ada": ["m"], "again": ["m"]})
    with campaign(tmp_path / "c", study_of(6)) as store:
        (line,) = lines_of("again", run(store, pool).lines)
        assert line.startswith("again: is left out: it uses the same host as testbed ada")
        assert pool.n["again"] == 1, "each attempt would disturb what is measured there"
        assert {attempt.testbed for attempt in store.attempts()} == {"ada", "bea"}


def test_so_is_one_that_is_just_being_opened_again(tmp_path: Path) -> None:
    """It was in use before the other one was ready."""
    pool = Pool(beds("again", "ada"), machines={"ada": ["m"], "again": ["m"]})
    pool.fails = lambda testbed, n: HostBusy("in use", "wait", "m") if testbed == "again" and n < 3 else None
    with campaign(tmp_path / "c", study_of(2)) as store:
        (line,) = lines_of("again", run(store, pool).lines)
        assert line.startswith("again: is left out: it uses the same host as testbed ada") and pool.n["again"] == 2


def test_a_host_that_is_in_use_by_others_is_tried_again(tmp_path: Path) -> None:
    busy = HostBusy("root@bea is in use by campaign d", "wait", "bea")
    pool = Pool(beds("bea", "ada"), lambda testbed, n: busy if (testbed, n) == ("bea", 1) else None)
    with campaign(tmp_path / "c", study_of(6)) as store:
        lines = lines_of("bea", run(store, pool).lines)
        assert lines == ["bea: cannot be used: root@bea is in use by campaign d", "bea: is back"]


def test_a_resumed_campaign_keeps_a_host_under_its_name(tmp_path: Path) -> None:
    """The second name is the first to be opened, and gives the host back."""
    with campaign(tmp_path / "c", study_of(4)) as store:
        stopped_after(store, Pool(beds("ada", "bea"), machines={"ada": ["m"]}), 4)

        def fails(testbed: str, n: int) -> HostBusy | None:
            return HostBusy("in use", "", "m") if testbed == "ada" and "again" in pool.open_now else None

        pool = Pool(beds("again", "ada", "bea"), fails, machines={"ada": ["m"], "again": ["m"]})
        (line,) = lines_of("again", run(store, pool).lines)
        assert "is left out: it uses the same host as testbed ada" in line
        assert on(store)[1] == {"ada"} and store.counts()["valid"] == 12 == len(store.attempts())
        assert "again" not in {row.name for row in store.testbeds()}


def test_a_host_that_has_measured_cannot_be_renamed(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(4)) as store:
        stopped_after(store, Pool(beds("ada"), machines={"ada": ["m"]}), 8)
        with pytest.raises(HostError, match="renamed: it uses the same host as testbed ada") as caught:
            run(store, Pool(beds("renamed"), machines={"renamed": ["m"]}))
        assert "whose name stays" in str(caught.value.hint)
