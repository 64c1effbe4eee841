"""How long a campaign takes: foretold from its study, and then from its own trials.

What campaigns really took is in tests/data/durations.json (see tests/support/record_durations.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lastro import registry
from lastro.app import noise_floor
from lastro.campaign.duration import EMULATED_TRIAL_S, EtaEstimator, eta_estimator, expected_s, forecast
from lastro.host.testbed_file import load as load_testbed
from lastro.host.testbed_file import parse as parse_testbed
from lastro.results.store import Store
from lastro.scenarios.base import Scenario, installed_scenario, schemas
from lastro.study.design import Treatment, treatments
from lastro.study.load import parse
from lastro.study.model import Study
from lastro.units import human_duration

from ...support.caches import cache_of
from ...support.campaigns import PROVENANCE, make_campaign

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data" / "durations.json").read_text(encoding="utf-8")
)
ALONE = [each for each in RECORDED if each.get("alone", True)]  # studies of a minute or two are read as a suite alone
COMPUTE = """
[study]
name = "compute"
scenario = "compute"
[factors]
platform = [{platforms}]
instrument = ["sysbench-cpu"]
[settings]
"instrument.sysbench-cpu.time_s" = 10
[design]
replicates = {replicates}
"""


def study_of(text: str) -> tuple[Study, type[Scenario]]:
    study = parse(text, "a test", schemas())
    return study, registry.get("scenario", study.scenario)


def recorded_study(recorded: dict[str, Any]) -> tuple[Study, type[Scenario], list[Treatment]]:
    """With the treatments that could run on the host on which it was recorded."""
    study, scenario = study_of(recorded["study"])
    if "profile" in recorded:
        study = study.with_profile(recorded["profile"])
    rows = treatments(study)
    return study, scenario, [row for row in rows if row.index in recorded.get("treatments", range(len(rows)))]


def compute(*platforms: str, replicates: int = 2) -> tuple[Study, type[Scenario]]:
    return study_of(COMPUTE.format(platforms=", ".join(f'"{name}"' for name in platforms), replicates=replicates))


# Foretold


@pytest.mark.parametrize("recorded", ALONE, ids=lambda recorded: recorded["name"])
def test_a_forecast_is_within_a_quarter_of_what_a_campaign_took(recorded: dict[str, Any]) -> None:
    study, scenario, rows = recorded_study(recorded)
    with cache_of(recorded.get("cache_bytes", 0)):
        found = forecast(study, scenario, rows)
    trials_s = recorded["started_to_finished_s"] - recorded.get("before_first_trial_s", 0)
    before_s = 0 if "before_first_trial_s" in recorded else found.probing_s + found.calibrations_s
    assert before_s + found.trials_s == pytest.approx(trials_s, rel=0.25)


@pytest.mark.parametrize("paper", ["correa2011", "eiras2018", "trindade2018"])
def test_a_paper_is_foretold_within_a_quarter_with_all_that_comes_before_its_trials(paper: str) -> None:
    """All its studies in `quick`: probes, calibration runs and images are of its time, too."""
    foretold_s = took_s = 0.0
    for recorded in RECORDED:
        if recorded["name"].partition("-")[0] == paper:
            study, scenario, rows = recorded_study(recorded)
            with cache_of(recorded["cache_bytes"]):
                found = forecast(study, scenario, rows)
            foretold_s += found.total_s - found.report_s  # which is written when the last trial has finished
            took_s += recorded["started_to_finished_s"]
    assert foretold_s == pytest.approx(took_s, rel=0.25)


@pytest.mark.parametrize("recorded", ALONE, ids=lambda recorded: recorded["name"])
def test_what_is_left_after_one_block_is_within_a_quarter_of_what_it_took(recorded: dict[str, Any]) -> None:
    study, scenario, rows = recorded_study(recorded)
    first, rest = recorded["attempts"][: len(rows)], recorded["attempts"][len(rows) :]
    with cache_of(recorded.get("cache_bytes", 0)):
        expected = expected_s(study, scenario, rows)
    pace = EtaEstimator(expected, {row.index: study.design.replicates for row in rows})
    for treatment, took_s in first:
        pace.note(treatment, took_s, final=True)
    assert pace.remaining_s == pytest.approx(sum(took_s for _, took_s in rest), rel=0.25)


def test_a_forecast_has_the_session_the_probes_the_trials_and_the_report() -> None:
    study, scenario = compute("native", "runc")
    found = forecast(study, scenario, treatments(study))
    assert min(found.session_s, found.probing_s, found.report_s) > 0 and found.calibrations_s == 0
    assert found.trials_s == pytest.approx(4 * 10, rel=0.1)
    parts = (found.session_s, found.probing_s, found.calibrations_s, found.trials_s, found.report_s)
    assert found.total_s == pytest.approx(sum(parts))
    assert forecast(study, scenario, treatments(study), probing_s=77.0).total_s == pytest.approx(
        found.total_s - found.probing_s + 77
    )


def test_a_guest_in_software_boots_first_and_takes_longer_for_each_trial() -> None:
    study, scenario = compute("native", "runc")
    rows = treatments(study)
    host, guest = (forecast(study, scenario, rows, emulated=n) for n in (0, 1))
    assert guest.session_s > host.session_s and guest.probing_s == host.probing_s
    assert guest.trials_s == pytest.approx(host.trials_s + 4 * EMULATED_TRIAL_S)
    longer = expected_s(study, scenario, rows, emulated=True)
    assert longer == {at: each + EMULATED_TRIAL_S for at, each in expected_s(study, scenario, rows).items()}


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Study]:
    """The A/A studies that were to run. None does, and none needs root."""
    found: list[Study] = []
    monkeypatch.setattr(noise_floor, "require_root", lambda name: None)
    monkeypatch.setattr(noise_floor.campaigns, "begin", lambda directory, study, **how: found.append(study))
    return found


def baseline_of_two() -> Study:
    """Its A/A campaign takes three quarters of an hour on a host, and twice as long in a guest in software."""
    levels = ["sysbench-cpu:time_s=10,primes=1000", "sysbench-cpu:time_s=10,primes=2000"]
    text = COMPUTE.format(platforms='"native", "runc"', replicates=60).replace('["sysbench-cpu"]', json.dumps(levels))
    text = text.replace('"instrument.sysbench-cpu.time_s" = 10\n', "")
    return study_of(f'{text}baseline = {{ platform = "native" }}\n')[0]


def said_of(aa: Study, emulated: int, fitting: int) -> str:
    """What is said of an A/A campaign before it runs."""
    seconds = forecast(aa, registry.get("scenario", aa.scenario), treatments(aa), emulated=emulated).total_s
    return f"{fitting} of 2 baseline treatments, 120 blocks, {fitting * 120} trials, about {human_duration(seconds)}"


@pytest.mark.parametrize(("accelerator", "emulated", "fitting"), [("tcg", 1, 1), ("kvm", 0, 2)])
def test_an_a_a_campaign_in_a_guest_in_software_has_what_fits_in_an_hour_there(
    begun: list[Study],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    accelerator: str,
    emulated: int,
    fitting: int,
) -> None:
    file = parse_testbed(f'kind = "guest"\naccelerator = "{accelerator}"\n', "guest.toml")
    noise_floor.run(baseline_of_two(), tmp_path / "aa", None, file, everything=False, wait=False)
    (aa,) = begun
    assert said_of(aa, emulated, fitting) in capsys.readouterr().err


def test_an_a_a_campaign_is_as_emulated_as_the_one_that_it_is_for(
    begun: list[Study], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a /dev/kvm here, and yet no guest booted on it."""
    monkeypatch.setattr("lastro.guest._has_kvm", lambda: True)
    study, guest = baseline_of_two(), {"guest": {"title": "a guest", "emulated": True}}
    judged = make_campaign(
        tmp_path / "judged", study, stop_after=0, provenance={**PROVENANCE, **guest, "testbed": {"file": "guest"}}
    )
    noise_floor.run(study, tmp_path / "aa", judged, None, everything=False, wait=False)
    noise_floor.run(study, tmp_path / "other", judged, load_testbed(Path("guest")), everything=False, wait=False)
    said = capsys.readouterr().err.splitlines()
    for line, aa, emulated, fitting in zip(said, begun, (1, 0), (1, 2), strict=True):
        assert said_of(aa, emulated, fitting) in line


def test_status_knows_that_a_campaign_runs_in_a_guest_in_software(tmp_path: Path) -> None:
    study, scenario = compute("native")
    left_s = []
    for emulated in (False, True):
        provenance = {"guest": {"title": "a guest", "emulated": emulated}}
        made = make_campaign(tmp_path / str(emulated), study, stop_after=0, provenance=provenance)
        with Store.open(made, readonly=True) as store:
            left_s.append(eta_estimator(store, scenario).remaining_s)
    assert left_s[1] == pytest.approx(left_s[0] + 2 * EMULATED_TRIAL_S) and left_s[0] > 10


def test_each_platform_and_each_workload_on_it_is_probed_once() -> None:
    def probing_s(*platforms: str, replicates: int = 2) -> float:
        study, scenario = compute(*platforms, replicates=replicates)
        return forecast(study, scenario, treatments(study)).probing_s

    assert probing_s("native", replicates=50) == probing_s("native")
    assert probing_s("native", "runc") == pytest.approx(2 * probing_s("native"))
    assert probing_s("qemu-tcg") > 3 * probing_s("runc"), "a machine boots whenever something is tried on it"


def test_calibration_runs_are_in_it_once() -> None:
    study, scenario = study_of(RECORDED[0]["study"])
    found = forecast(study, scenario, treatments(study))
    assert found.calibrations_s == pytest.approx(found.trials_s / study.design.replicates)


def test_nothing_runnable_takes_no_trials() -> None:
    study, scenario = compute("native")
    assert forecast(study, scenario, []).trials_s == 0


# From its own trials


def test_a_treatment_that_has_run_counts_as_it_took() -> None:
    pace = EtaEstimator({0: 1.0, 1: 1.0}, {0: 3, 1: 3})
    assert pace.remaining_s == 6
    pace.note(0, 4.0, final=True)
    pace.note(1, 10.0, final=True)
    assert pace.remaining_s == 2 * 4 + 2 * 10


def test_one_that_has_not_is_expected_to_be_as_much_slower_as_the_others_were() -> None:
    pace = EtaEstimator({0: 1.0, 1: 5.0}, {0: 2, 1: 2})
    pace.note(0, 3.0, final=True)
    assert pace.actual_and_expected_s == (3.0, 1.0)
    assert pace.remaining_s == 3 + 2 * 3 * 5


def test_a_repeated_trial_is_still_to_be_run() -> None:
    pace = EtaEstimator({0: 1.0}, {0: 2})
    pace.note(0, 2.0)
    assert pace.remaining_s == 4
    pace.note(0, 4.0, final=True)
    assert pace.remaining_s == 3


def test_of_what_nothing_is_expected_the_mean_of_all_counts() -> None:
    pace = EtaEstimator({}, {0: 2, 1: 2})
    assert not pace.is_known and pace.remaining_s == 0
    pace.note(0, 3.0, final=True)
    assert pace.is_known and pace.remaining_s == 3 * 3


def test_a_campaign_tells_its_pace_without_the_part_that_it_ran_with(tmp_path: Path) -> None:
    with Store.open(make_campaign(tmp_path / "c", stop_after=6), readonly=True) as store:
        took_s = [seconds for _, seconds in store.durations()]
        n_left = sum(store.unfinished_by_treatment().values())
        own, without = eta_estimator(store, installed_scenario(store.study)), eta_estimator(store, None)
        assert (len(took_s), n_left) == (6, 24)
        assert own.remaining_s == pytest.approx(24 * 19.5, rel=0.1)
        assert without.remaining_s == pytest.approx(24 * 19.5, rel=0.1)
    with Store.open(make_campaign(tmp_path / "whole"), readonly=True) as store:
        assert store.unfinished_by_treatment() == {} and eta_estimator(store, None).remaining_s == 0
