"""The forecast of a suite: later studies know what earlier studies found missing here."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lastro.app import plans
from lastro.app import suites as app_suites
from lastro.app.campaigns import ResumeOptions
from lastro.app.status import status_of_suite
from lastro.app.studies import GivenSuite
from lastro.app.suites import SuiteRun
from lastro.campaign import suite as suites
from lastro.campaign.duration import EMULATED_TRIAL_S, emulated_guests, missing, treatments_without
from lastro.campaign.progress import PlainProgress, SuitePosition
from lastro.campaign.suite import Suite, read_folder
from lastro.platforms.base import AVAILABLE
from lastro.results.store import Store
from lastro.scenarios.base import schemas
from lastro.scenarios.shared.bases import OnPlatforms
from lastro.scenarios.shared.pools import MissingPlatform, PlatformPool
from lastro.study import design
from lastro.study.load import load
from lastro.study.model import Study

COMPUTE = """
[study]
name = "{name}"
scenario = "compute"
[factors]
platform = ["native", "kvm"]
instrument = ["sysbench-cpu"]
[settings]
"instrument.sysbench-cpu.time_s" = {time_s}
[design]
replicates = 3
seed = 7
"""


@pytest.fixture
def studies(tmp_path: Path) -> list[Study]:
    for name, time_s in (("one", 10), ("two", 20)):
        (tmp_path / f"{name}.toml").write_text(COMPUTE.format(name=name, time_s=time_s))
    return [load(tmp_path / f"{name}.toml", schemas()) for name in ("one", "two")]


@pytest.fixture
def suite(tmp_path: Path, studies: list[Study]) -> Suite:
    """In `tmp_path/out`; nothing of it has run."""
    return suites.create(tmp_path / "out", read_folder(tmp_path), "mine", studies, lambda name: None)


def begun(directory: Path, study: Study) -> Store:
    rows = design.treatments(study)
    return Store.create(directory, study, rows, design.trials(study, len(rows)), {})


def test_studies_to_come_have_no_trials_on_platforms_that_this_one_has_just_found_missing(
    tmp_path: Path, studies: list[Study], suite: Suite
) -> None:
    place, first = tmp_path / "out", suite.studies[0]
    run = SuiteRun(place, suite, ResumeOptions())
    with begun(place / first.name, studies[0]) as store:
        before = run._position(first, suite.studies[1:])
        assert (before.other_trials, before.other_done) == (6, 0)
        store.mark_unavailable(1, "no guest boots on this host's /dev/kvm", None)
        after = run._position(first, suite.studies[1:])
    assert (after.other_trials, after.other_done) == (3, 0)
    assert 3 * 20 < after.later_s < before.later_s - 3 * 20


def test_what_is_missing_is_a_platform_or_an_instrument_that_an_available_platform_lacks(tmp_path: Path) -> None:
    (tmp_path / "three.toml").write_text(
        COMPUTE.format(name="three", time_s=10).replace('["sysbench-cpu"]', '["sysbench-cpu", "john"]')
    )
    study = load(tmp_path / "three.toml", schemas())
    rows = design.treatments(study)
    with begun(tmp_path / "out", study) as store:
        for row in rows:
            if row.levels["platform"] == "kvm":
                store.mark_unavailable(row.index, "no guest boots", None)
        assert missing(store) == {"platform kvm"}
        (johns,) = (row.index for row in rows if row.levels == {"platform": "native", "instrument": "john"})
        store.mark_unavailable(johns, "no john", None)
        assert missing(store) == {"platform kvm", "instrument john"}
        assert [row.levels["instrument"] for row in treatments_without(study, missing(store))] == ["sysbench-cpu"]


def test_a_chain_on_two_platforms_does_not_show_which_is_missing(tmp_path: Path) -> None:
    (tmp_path / "mixed.toml").write_text(
        '[study]\nname = "mixed"\nscenario = "chain"\n[factors]\nfunction = ["nat", "nat@kvm", "nat@kvm>dpi"]\n'
        '[settings]\nplatform = "runc"\nattachment = "veth-bridge"\n'
    )
    study = load(tmp_path / "mixed.toml", schemas())
    with begun(tmp_path / "out", study) as store:
        store.mark_unavailable(1, "no guest boots", None)
        store.mark_unavailable(2, "no guest boots", None)
        assert missing(store) == set()
    assert [row.levels["function"] for row in treatments_without(study, {"platform kvm"})] == ["nat"]


def test_progress_asks_for_its_place_once_more_when_it_is_known_what_can_run() -> None:
    places = iter([SuitePosition("one", 196, 0, 2600.0), SuitePosition("one", 100, 0, 1300.0)])
    progress = PlainProgress(6, 0, (), lambda: next(places))
    assert progress.overall == (0, 202)
    progress.probed(3)
    assert progress.overall == (0, 103) and progress._left(80.0) == "23 min 00 s left"


class Probed(OnPlatforms):
    """A scenario whose probing takes 130 s, of which 100 s build an image; 20 s more were spared."""

    def __init__(self, session: Any, clock: list[float]) -> None:
        super().__init__(SimpleNamespace(session=session, guest=None))  # type: ignore[arg-type]
        self.pool, self._clock = PlatformPool(self.testbed, self._stack), clock

    duration_s = run = None  # type: ignore[assignment]

    def availability(self, config: Any) -> Any:
        if config["platform"] == "native":
            self._clock[0] += 130
            self.testbed.session.built_s += 100
            return AVAILABLE
        return self.pool.availability("kvm")


def test_a_plan_counts_what_a_campaign_will_probe_again_and_not_what_is_built_by_now(
    studies: list[Study], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]

    @contextmanager
    def on_host(*_: Any, **__: Any) -> Iterator[Probed]:
        yield Probed(SimpleNamespace(built_s=0.0), clock)

    monkeypatch.setattr(plans, "scenario_on_host", on_host)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    missing = {"kvm": MissingPlatform(AVAILABLE, 20.0)}
    treatments = design.treatments(studies[0])
    _, probing_s, emulated = plans._probe(
        studies[0], treatments, plans.ProbeOptions(), None, missing, "study 1 of 3: one: "
    )
    assert (probing_s, emulated) == (130 - 100 + 20, 0)
    assert capsys.readouterr().err == "study 1 of 3: one: probing what this host can run …\n"


def test_a_suite_goes_on_where_it_began(tmp_path: Path, studies: list[Study], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a study that had not begun when Lastro was killed."""
    given = GivenSuite("mine", read_folder(tmp_path), tuple(studies))
    places: list[Any] = []

    def begin(directory: Path, study: Study, *, file: Any, fleet: Any, **_: Any) -> None:
        places.append((file and file.place, fleet and fleet.place))
        raise KeyboardInterrupt

    monkeypatch.setattr(app_suites.campaigns, "begin", begin)
    with pytest.raises(KeyboardInterrupt):
        app_suites.begin(tmp_path / "out", given, ResumeOptions(testbed=Path("guest")))
    for how in (ResumeOptions(), ResumeOptions(testbed=Path("guest"))):
        with pytest.raises(KeyboardInterrupt):
            app_suites.resume(tmp_path / "out", how)
    assert places == [("guest", None)] * 3
    fleet = tmp_path / "fleet" / "fleet.toml"
    fleet.parent.mkdir()
    fleet.write_text('[testbeds]\nvm = "guest"\n')
    with pytest.raises(KeyboardInterrupt):
        app_suites.begin(tmp_path / "fleet-out", given, ResumeOptions(fleet=fleet))
    with pytest.raises(KeyboardInterrupt):
        app_suites.resume(tmp_path / "fleet-out", ResumeOptions())
    assert places[3:] == [(None, str(fleet))] * 2


def test_studies_to_come_allow_for_a_guest_in_software(tmp_path: Path, studies: list[Study], suite: Suite) -> None:
    place, first = tmp_path / "out", suite.studies[0]
    expected = {}
    for name, provenance in (("host", {}), ("guest", {"guest": {"title": "a guest", "emulated": True}})):
        rows = design.treatments(studies[0])
        made = Store.create(place / first.name, studies[0], rows, design.trials(studies[0], len(rows)), provenance)
        with made as store:
            assert emulated_guests(store) == (name == "guest")
        later_s = SuiteRun(place, suite, ResumeOptions())._position(first, suite.studies[1:]).later_s
        left_s = status_of_suite(place, suite)["studies"][1]["remaining_s"]
        assert left_s == pytest.approx(later_s)
        expected[name] = later_s
        shutil.rmtree(place / first.name)
    assert expected["guest"] >= expected["host"] + 6 * EMULATED_TRIAL_S
