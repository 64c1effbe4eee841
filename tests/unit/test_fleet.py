"""The blocks of a campaign on a fleet: who gets which, and what a testbed that is lost, changed or different costs."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.app.provenance import changes_between
from lastro.app.status import status_of
from lastro.campaign import dask_crew
from lastro.campaign import fleet as fleets
from lastro.campaign.crew import Answers
from lastro.campaign.duration import pace_of
from lastro.campaign.executor import AttemptCall, Call, Executor, ReachCall
from lastro.campaign.fleet import Fleet
from lastro.campaign.seat import Failed, Opened
from lastro.errors import ConnectionLost, HostBusy, HostError, HostUnfit, InputError, LastroError, StoreError
from lastro.platforms.base import AVAILABLE, Availability
from lastro.results.read import load_campaign
from lastro.results.rows import TestbedRow
from lastro.results.samples import Metric, Outcome
from lastro.results.store import Store
from lastro.scenarios.base import Config, Scenario
from lastro.study import design
from lastro.study.model import Study

from ..campaigns import make_study

SPEED = Metric("speed", "Mbit/s", "higher", "how fast")


class Toy(Scenario):
    """A scenario without a host. `gaps` are the levels that cannot run, `sick` those that are invalid."""

    name = "toy"
    summary = "for tests"
    needs_root = False
    metrics = (SPEED,)
    gaps: frozenset[str] = frozenset()
    sick: frozenset[str] = frozenset()

    @classmethod
    def duration_s(cls, config: Config) -> float:
        return 0.001

    @classmethod
    def calibrations(cls, config: Config) -> dict[str, Config]:
        return {"ceiling": {**config, "calibrates": True}} if "ceiling" in config else {}

    def calibration_value(self, key: str, outcome: Outcome) -> Any:
        return outcome.measurements["speed"]

    def availability(self, config: Config) -> Availability:
        return Availability("is not here", "install it") if config["level"] in self.gaps else AVAILABLE

    def run(self, config: Config, calibrations: Mapping[str, Any]) -> Outcome:
        reasons = ["sick"] if config["level"] in self.sick else []
        return Outcome({"speed": 100.0 + len(str(config["level"]))}, invalid_because=reasons)


class Silent:
    """An observer that keeps the lines on testbeds."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def at(self, testbed: str) -> Silent:
        return self

    def said(self, testbed: str, line: str) -> None:
        self.lines.append(f"{testbed}: {line}")

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: None


@dataclass
class Crew:
    """Testbeds without processes. They answer in turns, and `fails` says what comes instead of the n-th answer."""

    beds: dict[str, Toy]
    fails: Callable[[str, int], Exception | None] = lambda testbed, n: None
    kernel: dict[str, str] = field(default_factory=dict)
    answers: Answers = field(default_factory=queue.SimpleQueue)
    asked: dict[str, list[Call]] = field(default_factory=lambda: defaultdict(list))
    n: Counter[str] = field(default_factory=Counter)
    open_now: set[str] = field(default_factory=set)
    silent: frozenset[str] = frozenset()  # they never open
    grows: bool = False

    def names(self) -> Sequence[str]:
        return list(self.beds)

    def open(self, testbed: str) -> None:
        assert testbed not in self.open_now
        host = {"hostname": testbed, "kernel": self.kernel.get(testbed, "6.1")}
        if testbed not in self.silent:
            self._answer(testbed, lambda: Opened({"host": host}))

    def ask(self, testbed: str, call: Call) -> None:
        assert testbed in self.open_now, "no call before it is open, and none after a failure"
        self.asked[testbed].append(call)
        self._answer(testbed, lambda: call.on(Executor(self.beds[testbed], Silent())))

    def _answer(self, testbed: str, answer: Callable[[], object]) -> None:
        self.n[testbed] += 1
        error = self.fails(testbed, self.n[testbed])
        (self.open_now.discard if error else self.open_now.add)(testbed)
        self.answers.put((testbed, Failed.of(error) if error else answer()))

    def close(self) -> None:
        pass


def beds(*names: str, **gaps: str) -> dict[str, Toy]:
    made = {name: Toy(None) for name in names}
    for name, level in gaps.items():
        made[name].gaps = frozenset({level})
    return made


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for what does not come."""
    monkeypatch.setattr(fleets, "_AGAIN_S", (0.0, 0.0))
    monkeypatch.setattr(fleets, "_TICK_S", 0.001)


def study_of(replicates: int = 6, levels: Iterable[str] = ("a", "b", "c"), **settings: Any) -> Study:
    return make_study(
        {"level": tuple(levels)}, replicates=replicates, metrics=(SPEED,), baseline={"level": "a"}, scenario="toy",
        settings=settings,
    )  # fmt: skip


@contextmanager
def campaign(place: Path, study: Study) -> Iterator[Store]:
    treatments = design.treatments(study)
    with Store.create(place, study, treatments, design.trials(study, len(treatments)), {}, fleet=True) as store:
        yield store


def run(store: Store, crew: Crew, **options: Any) -> Silent:
    observer, fleet = Silent(), Fleet(crew, changes=changes_between, **options)
    fleet.wait_for_first(observer.said)
    fleet.run(store, Toy, observer)
    return observer


def on(store: Store) -> dict[int, set[str]]:
    """The testbeds of the valid attempts of each block."""
    found: dict[int, set[str]] = defaultdict(set)
    for attempt in store.attempts():
        if attempt.valid:
            found[attempt.block].add(attempt.testbed)
    return found


def lost(testbed: str, *at: int) -> Callable[[str, int], LastroError | None]:
    return lambda name, n: HostError("no route to host") if name == testbed and n in at else None


def test_whole_blocks_are_divided_and_calibrations_belong_to_a_testbed(tmp_path: Path) -> None:
    crew = Crew(beds("ada", "bea", "cid"))
    with campaign(tmp_path / "c", study_of(9, ceiling=True)) as store:
        run(store, crew)
        assert store.counts()["valid"] == 27
        assert Counter(name for names in on(store).values() for name in names) == {"ada": 3, "bea": 3, "cid": 3}
        assert all(len(names) == 1 for names in on(store).values())
        assert {name: store.calibrations(name) for name in crew.beds} == {
            name: {"ceiling": 101.0} for name in crew.beds
        }
        data = load_campaign(store)
    assert [(each.directory, len(each.blocks), len(each.trials)) for each in data.members] == [
        ("ada", 3, 9), ("bea", 3, 9), ("cid", 3, 9),
    ]  # fmt: skip


def test_a_testbed_that_comes_back_goes_on_with_its_block(tmp_path: Path) -> None:
    # The first answers are: open, probe, trial, then the loss in its second trial.
    crew = Crew(beds("ada", "bea"), lost("ada", 4))
    with campaign(tmp_path / "c", study_of(4)) as store:
        lines = run(store, crew).lines
        assert store.counts()["valid"] == 12 and len(store.attempts()) == 12, "no finished trial is repeated"
        assert len(store.places()) == 4 and all(len(names) == 1 for names in on(store).values())
    assert "ada: is lost: no route to host" in lines and "ada: is back" in lines


def test_the_block_of_a_testbed_that_stays_away_begins_again_on_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "GRACE_S", 0.0)
    crew = Crew(beds("ada", "bea"), lost("ada", *range(4, 10_000)))
    with campaign(tmp_path / "c", study_of(3)) as store:
        lines = run(store, crew).lines
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
        store.save_testbed(TestbedRow("ada", {"host": {"hostname": "ada", "kernel": "6.1"}}, {}))
        store.place(1, "ada")
        run(store, Crew(beds("ada", "bea"), silent=frozenset({"ada"})))
        assert on(store) == {1: {"bea"}, 2: {"bea"}}


def test_attempts_on_another_testbed_do_not_count_as_repetitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "GRACE_S", 0.0)
    crew = Crew(beds("ada", "bea"), lost("ada", *range(5, 10_000)))
    for bed in crew.beds.values():
        bed.sick = frozenset({"a"})
    with campaign(tmp_path / "c", study_of(1, levels=("a",))) as store:
        run(store, crew)
        assert [(a.testbed, a.attempt) for a in store.attempts()] == [
            ("ada", 1), ("ada", 2), ("bea", 3), ("bea", 4), ("bea", 5),
        ]  # fmt: skip
        assert store.counts()["invalid"] == 1


def test_an_idle_testbed_that_cannot_be_reached_takes_no_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has spoken to it for a while, so only the next call shows that its link is broken."""
    monkeypatch.setattr(fleets, "GRACE_S", 0.0)
    away = {"ada": range(4, 40), "bea": range(6, 10_000)}  # bea is open, probed, and has measured a block of 3 trials
    crew = Crew(beds("ada", "bea"), lambda name, n: HostError("no route to host") if n in away[name] else None)
    with campaign(tmp_path / "c", study_of(2)) as store:
        lines = run(store, crew).lines
        assert on(store) == {1: {"ada"}, 2: {"bea"}} and len(store.attempts()) == 6, "nothing is set aside"
        assert "moved" not in {kind for _, kind, _ in store.events()}
    assert isinstance(crew.asked["bea"][-1], ReachCall) and "bea: is lost: no route to host" in lines


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
        bed: Any = SimpleNamespace(watched=(), sessions=[SimpleNamespace(host=Host(name)) for name in names])
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
    crew = Crew(beds("ada", "bea"), lost("ada", 4, 5, 6))
    with campaign(tmp_path / "c", study_of(40)) as store:
        run(store, crew)
        assert len(store.attempts()) == 120 and len(store.places()) == 40
        assert "ada" in on(store)[1]


def test_what_a_testbed_cannot_run_is_missing_there_alone(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(4)) as store:
        run(store, Crew(beds("ada", "bea", ada="b")))
        assert store.counts()["unavailable"] == sum("ada" in names for names in on(store).values()) == 2
        assert [row.unavailable for row in store.treatments()] == [None] * 3
        data = load_campaign(store)
        assert len(data.trials) == 10 and {member.directory: len(member.trials) for member in data.members} == {
            "ada": 4, "bea": 6
        }  # fmt: skip
        run(store, Crew(beds("ada", "bea")))  # it was installed there
        assert store.counts()["unavailable"] == 0 and store.counts()["valid"] == 12


def test_trials_are_counted_again_only_for_a_testbed_that_lacks_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All trials are read for that, which would be most of the work of a large fleet that opens."""
    counted, count = list[int](), fleets.Campaign.runnable_trials
    monkeypatch.setattr(fleets.Campaign, "runnable_trials", lambda self: counted.append(count(self)) or counted[-1])
    with campaign(tmp_path / "c", study_of(4)) as store:
        run(store, Crew(beds("ada", "bea", "cid")))
        assert counted == [12]
    with campaign(tmp_path / "d", study_of(4)) as store:
        run(store, Crew(beds("ada", "bea", "cid", cid="b")))
        assert len(counted) == 3 and counted[1] == 12


def test_what_no_testbed_can_run_is_unavailable(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(2)) as store:
        run(store, Crew(beds("ada", "bea", ada="b", bea="b")))
        assert [row.unavailable for row in store.treatments()] == [None, "is not here", None]
        assert store.counts()["unavailable"] == 2


def test_a_testbed_that_can_run_nothing_is_left_out(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(2, levels=("a",))) as store:
        lines = run(store, Crew(beds("ada", "bea", ada="a"))).lines
        assert on(store) == {1: {"bea"}, 2: {"bea"}}
    assert any(line.startswith("ada: is left out: no treatment of this study can run here: is not h") for line in lines)
    with campaign(tmp_path / "d", study_of(2, levels=("a",))) as store, pytest.raises(HostError, match="no testbed"):
        run(store, Crew(beds("ada", ada="a")))


def stopped_after(store: Store, crew: Crew, answers: int) -> None:
    """Run a campaign, and kill it after so many answers of a testbed."""

    class Killed(Exception):
        pass

    def fails(testbed: str, n: int) -> LastroError | None:
        if n > answers:
            raise Killed
        return None

    crew.fails = fails
    with pytest.raises(Killed):
        run(store, crew)


def test_a_killed_campaign_goes_on_with_each_block_where_it_began(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(4)) as store:
        stopped_after(store, Crew(beds("ada", "bea")), 4)
        begun = {place.block: place.testbed for place in store.places()}
        assert begun == {1: "ada", 2: "bea"} and store.counts()["running"]
        run(store, Crew(beds("ada", "bea")))
        assert store.counts()["valid"] == 12 == len(store.attempts())
        assert {block: on(store)[block] for block in begun} == {1: {"ada"}, 2: {"bea"}}


def test_blocks_of_a_testbed_that_left_the_file_begin_again(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(2)) as store:
        stopped_after(store, Crew(beds("ada", "bea")), 4)
        run(store, Crew(beds("bea", "new")))
        assert on(store)[1] == {"new"} and on(store)[2] == {"bea"}


def test_a_testbed_that_has_changed_is_left_out_unless_that_is_wanted(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(4)) as store:
        stopped_after(store, Crew(beds("ada", "bea")), 4)
        lines = run(store, Crew(beds("ada", "bea"), kernel={"ada": "6.2"})).lines
        assert any("ada: is left out: it has changed: kernel was 6.1, is 6.2" in line for line in lines)
        assert all(names == {"bea"} for names in on(store).values())
    with campaign(tmp_path / "d", study_of(4)) as store:
        stopped_after(store, Crew(beds("ada", "bea")), 4)
        run(store, Crew(beds("ada", "bea"), kernel={"ada": "6.2"}), changed_host=True)
        assert on(store)[1] == {"ada"}
        assert ("changed host", "testbed ada: kernel was 6.1, is 6.2") in [event[1:] for event in store.events()]


def test_without_a_testbed_there_is_one_error_that_names_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crew = Crew(beds("ada", "bea"), lambda testbed, n: HostError(f"{testbed} is off"))
    with pytest.raises(HostError, match="no testbed of the fleet can be used: ada: ada is off; bea: bea is off"):
        Fleet(crew, changes=changes_between).wait_for_first(print)
    busy = Crew(beds("ada"), lambda testbed, n: HostBusy("is in use"))
    with pytest.raises(HostBusy, match="ada: is in use"):
        Fleet(busy, changes=changes_between).wait_for_first(print)
    monkeypatch.setattr(fleets, "PATIENCE_S", 0.01)
    with campaign(tmp_path / "c", study_of(2)) as store, pytest.raises(HostError, match="no route to host"):
        run(store, Crew(beds("ada"), lost("ada", *range(3, 10_000))))


def test_a_failure_that_cannot_mend_itself_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unfit = HostUnfit("h2 lacks tar", "install it there")
    crew = Crew(beds("ada", "bea"), lambda testbed, n: unfit if testbed == "bea" else None)
    with campaign(tmp_path / "c", study_of(4)) as store:
        lines = run(store, crew).lines
        assert store.counts()["valid"] == 12 and crew.n["bea"] == 1
    assert [line for line in lines if line.startswith("bea")] == [
        "bea: is left out: h2 lacks tar (remedy: install it there)"
    ]
    monkeypatch.setattr(fleets, "PATIENCE_S", 0.01)
    unfit_later = Crew(beds("ada"), lambda testbed, n: unfit if n >= 4 else None)
    with campaign(tmp_path / "d", study_of(2)) as store:
        with pytest.raises(HostError, match="no testbed of the fleet can be used: ada: h2 lacks tar") as caught:
            run(store, unfit_later)
        assert (caught.value.exit_code, caught.value.hint) == (3, "install it there")
        assert store.counts()["valid"] == 1 and store.counts()["running"] == 0
    wrong = Crew(beds("ada", "bea"), lambda testbed, n: InputError("no such guest") if testbed == "bea" else None)
    with pytest.raises(InputError, match="no such guest"), campaign(tmp_path / "e", study_of(2)) as store:
        run(store, wrong)


def test_a_testbed_that_was_open_may_refuse_a_key_for_a_while(tmp_path: Path) -> None:
    refused = HostUnfit("ada refuses the key", "add it")
    crew = Crew(beds("ada", "bea"), lambda testbed, n: refused if testbed == "ada" and n in (4, 5) else None)
    with campaign(tmp_path / "c", study_of(4)) as store:
        lines = run(store, crew).lines
        assert store.counts()["valid"] == 12 == len(store.attempts()), "no finished trial is repeated"
        assert on(store)[1] == {"ada"}
    assert "ada: is lost: ada refuses the key (remedy: add it)" in lines and "ada: is back" in lines


def test_lost_testbeds_do_not_share_the_remaining_time(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(9)) as store:
        crew = Crew(beds("ada", "bea"))

        class Killed(Exception):
            pass

        def fails(testbed: str, n: int) -> LastroError | None:
            if n > 8 and testbed == "bea":
                raise Killed
            return HostError("no route to host") if testbed == "ada" and n >= 4 else None

        crew.fails = fails
        with pytest.raises(Killed):
            run(store, crew)
        assert len(store.testbeds()) == 2 and store.counts()["running"] == 1
        left_s = pace_of(store, None).remaining_s
        assert left_s > 0 and status_of(tmp_path / "c")["remaining_s"] == pytest.approx(left_s / 2), "it can be resumed"
        store.take("2026-01-01T00:00:00")
        assert status_of(tmp_path / "c")["remaining_s"] == pytest.approx(left_s)
        store.log("2026-01-01T00:00:01", "testbed", "ada is back")
        assert status_of(tmp_path / "c")["remaining_s"] == pytest.approx(left_s / 2)


def test_a_worker_of_dask_answers_while_it_releases_a_testbed(monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, ended = threading.Event(), []

    class Held:
        def close(self) -> None:
            ended.append(may_end.wait(10))

    monkeypatch.setitem(dask_crew._seats, "token", (Held(), 0.0))  # type: ignore[arg-type]

    async def worker() -> None:
        releasing = asyncio.ensure_future(dask_crew._release_apart("token"))
        await asyncio.sleep(0)
        may_end.set()
        await releasing

    asyncio.run(worker())
    assert ended == [True] and "token" not in dask_crew._seats


def test_a_testbed_that_never_finishes_a_trial_does_not_go_on_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "PATIENCE_S", 0.05)

    class Leaky(Crew):
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


def test_a_scheduler_without_workers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleets, "WORKERS_S", 0.01)
    with pytest.raises(HostError, match="has no workers"):
        Fleet(Crew({}), changes=changes_between).wait_for_first(print)


def test_seats_of_a_killed_campaign_get_time_to_end() -> None:
    crew = Crew(beds("ada"), lambda testbed, n: HostBusy("is in use") if n < 5 else None)
    assert list(Fleet(crew, changes=changes_between, busy_s=60).wait_for_first(print)) == ["ada"]


def test_a_defect_ends_the_campaign(tmp_path: Path) -> None:
    crew = Crew(beds("ada", "bea"))
    crew.answers.put(("ada", Failed.of(ZeroDivisionError("on purpose"))))
    with campaign(tmp_path / "c", study_of(2)) as store:
        fleet = Fleet(crew, changes=changes_between)
        fleet._posts["ada"] = fleets._Post("ada", "opening")
        fleet._opened = {}
        with pytest.raises(LastroError, match="a defect on a testbed: ZeroDivisionError: on purpose"):
            fleet.run(store, Toy, Silent())


@pytest.mark.parametrize(
    "error",
    [
        BlockingIOError("no process can be started"), PermissionError("/dev/kvm"), FileNotFoundError("/sys/x"),
        TimeoutError("no answer"), ConnectionResetError("by peer"), StoreError("ledger.db: disk full", "free some"),
    ],
)  # fmt: skip
def test_an_error_of_the_system_is_of_its_testbed_alone(tmp_path: Path, error: Exception) -> None:
    crew = Crew(beds("ada", "bea"), lambda testbed, n: error if (testbed, n) == ("ada", 4) else None)
    with campaign(tmp_path / "c", study_of(4)) as store:
        lines = run(store, crew).lines
        assert store.counts()["valid"] == 12 == len(store.attempts())
    assert f"ada: is lost: {Failed.of(error).message}" in lines and "ada: is back" in lines
    assert isinstance(Failed.of(error).error(), HostError)


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
        run(store, Crew(beds("ada", "bea", "cid")))
        assert store.study.design.replicates in (10, 12, 13, 14) and not store.open_blocks()


def test_no_trial_of_a_testbed_begins_before_the_last_one_is_in_the_database(tmp_path: Path) -> None:
    with campaign(tmp_path / "c", study_of(4)) as store:
        crew = Crew(beds("ada", "bea"))
        stored: list[int] = []
        asked = crew.ask

        def ask(testbed: str, call: Call) -> None:
            if isinstance(call, AttemptCall):
                with Store.open(tmp_path / "c", readonly=True) as reader:  # sees only what is written for good
                    stored.append(sum(attempt.testbed == testbed for attempt in reader.attempts()))
                assert stored[-1] == sum(isinstance(each, AttemptCall) for each in crew.asked[testbed])
            asked(testbed, call)

        crew.ask = ask  # type: ignore[method-assign]
        run(store, crew)
        assert len(stored) == 12 and max(stored) == 5
