"""What a trial of the scenario load records: intervals, what ended the search, and goals that no load meets."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro import papers
from lastro.analysis.remarks import marks_by_metric, values_lost_by_size
from lastro.campaign.executor import Executor
from lastro.errors import InstrumentError
from lastro.results.rows import Attempt
from lastro.results.samples import AT_LEAST, GENERATOR_LIMITED, Outcome
from lastro.results.trial_notes import TrialNotes
from lastro.scenarios.base import schema
from lastro.scenarios.load import LoadScenario
from lastro.scenarios.load.goals import Goal, UnmetGoal
from lastro.scenarios.load.measuring import leave_out, record
from lastro.scenarios.load.search import GoalInterval, Probe, SearchResult

from ...support.loading import config

ROOT = Path(__file__).parents[3]
PROBES = (
    Probe(200_000, 1, 100_000, 100_000, 1.0, {}),
    Probe(90_000, 1, 90_000, 81_000, 1.0, {"in the function": 9_000}),
)


def test_an_interval_is_recorded_with_what_ended_the_search() -> None:
    outcome = Outcome()
    record(
        SearchResult((GoalInterval(Goal("pdr", 0.005), 80_000, 81_000, 79_900, 0.25),), PROBES, 98_000, True), outcome
    )
    assert outcome.measurements == {
        "pdr": 80_000, "pdr_upper": 81_000, "pdr_conditional": 79_900, "pdr_exceed": 25,
    }  # fmt: skip
    noted = TrialNotes.of(outcome.notes)
    assert noted.stopped_by == {"pdr": "more than 0.5 % lost at 81,000 frames a second"}
    assert noted.remarks == (), "the generator's limit lies above the interval"
    series = {each.name: each.values for each in outcome.series}
    assert series == {
        "probe rate": (200_000, 90_000),
        "probe sent": (100_000, 90_000),
        "probe loss": (0, pytest.approx(10)),
        "probe reached": (0, 1),
    }
    json.dumps(outcome.notes)


def test_the_warm_up_is_noted_and_in_no_series() -> None:
    outcome = Outcome()
    record(SearchResult((), PROBES, 98_000, False, warm_up=Probe(200_000, 0.5, 90_000, 45_000, 0.5, {})), outcome)
    noted: Any = outcome.notes["warm_up"]
    assert (noted["rate_fps"], noted["duration_s"], noted["loss_ratio"]) == (200_000, 0.5, 0.5)
    assert {len(each.values) for each in outcome.series} == {len(PROBES)}
    record(SearchResult((), PROBES, 98_000, False), without := Outcome())
    assert "warm_up" not in without.notes


def test_a_goal_without_loss_is_missed_where_frames_were_lost() -> None:
    assert Goal("ndr", 0.0).missed_at(81_000) == "frames were lost at 81,000 frames a second"
    assert Goal("pdr", 0.005).missed_at(81_000) == "more than 0.5 % lost at 81,000 frames a second"


@pytest.mark.parametrize(("late", "said"), [(2_000, True), (500, False)])
def test_a_load_that_queues_took_is_told_with_its_end(late: int, said: bool) -> None:
    probes = (Probe(80_000, 1, 80_000, 80_000, 1.0, {}, late), Probe(80_000, 0.2, 16_000, 16_000, 0.2, {}, 9_000))
    outcome = Outcome()
    record(
        SearchResult((GoalInterval(Goal("pdr", 0.005), 80_000, 81_000, 79_900, 0.25),), probes, 98_000, False), outcome
    )
    end = TrialNotes.of(outcome.notes).stopped_by["pdr"]
    assert ("; at 80,000, queues still held 2.5 % of the frames when" in end) is said


@pytest.mark.parametrize(("rate_fps", "said"), [(20_000, "5.0 %"), (90_000, "1.1 %"), (110_000, "")])
def test_a_queue_that_is_empty_again_when_counters_are_read_is_told_by_its_length(rate_fps: int, said: str) -> None:
    probes = (Probe(rate_fps, 1, rate_fps, rate_fps, 1.0, {}),)
    found = GoalInterval(Goal("pdr", 0.005), rate_fps, 1.01 * rate_fps, rate_fps, 0.25)
    outcome = Outcome()
    record(SearchResult((found,), probes, 200_000, False), outcome, queue=1000)
    end = TrialNotes.of(outcome.notes).stopped_by["pdr"]
    assert (f"the queue of 1,000 frames in front of the function may hold {said} of a probe" in end) is bool(said)


@pytest.mark.parametrize("limited", [True, False])
def test_a_goal_that_is_met_everywhere_is_a_lower_bound(limited: bool) -> None:
    outcome = Outcome()
    record(
        SearchResult((GoalInterval(Goal("pdr", 0.005), 98_000, None, 98_000, 0.0),), PROBES, 98_000, limited), outcome
    )
    noted = TrialNotes.of(outcome.notes)
    assert "pdr_upper" not in outcome.measurements
    assert all(noted.only_at_least(name) for name in ("pdr", "pdr_conditional", "pdr_upper"))
    assert {remark.kind for remark in noted.remarks} == ({AT_LEAST, GENERATOR_LIMITED} if limited else {AT_LEAST})
    assert ("the generator did not hold more than" in noted.stopped_by["pdr"]) is limited


def test_an_exceed_ratio_that_a_search_does_not_know_is_not_recorded_as_zero() -> None:
    outcome = Outcome()
    record(
        SearchResult((GoalInterval(Goal("ndr", 0.0), 80_000, 81_000, 80_000, None),), PROBES, 98_000, False), outcome
    )
    assert outcome.measurements.keys() == {"ndr", "ndr_upper", "ndr_conditional"}


@pytest.mark.parametrize("text", [papers.find("load"), Path("docs/howto-packet-rates.md")], ids=str)
def test_a_study_that_names_ndr_names_its_exceed_ratio(text: Path) -> None:
    """RFC 9971: a host with other work loses frames now and then, so that a bare NDR says little."""
    found = re.findall(r"metrics = \[.*?\]", (ROOT / text).read_text(encoding="utf-8"), re.DOTALL)
    assert any('"ndr"' in metrics for metrics in found)
    assert all('"ndr_exceed"' in metrics for metrics in found if '"ndr"' in metrics)


def test_upper_ends_have_no_mean_where_a_trial_has_none() -> None:
    """It would be the mean of the trials with a smaller PDR, and so might be smaller than the mean PDR."""
    attempts = []
    for trial, upper_fps in enumerate((81_000.0, None)):
        outcome = Outcome()
        record(
            SearchResult((GoalInterval(Goal("pdr", 0.005), 80_000, upper_fps, 80_000, 0.0),), PROBES, 98_000, True),
            outcome,
        )
        attempts.append(Attempt(trial, 1, 0, trial, "", 60.0, True, (), outcome.notes, outcome.measurements))
    marks = marks_by_metric(attempts, {"pdr", "pdr_upper"})
    assert [mark.kind for mark in marks["pdr_upper"]] == [AT_LEAST]
    assert values_lost_by_size("pdr_upper", attempts, marks["pdr_upper"])
    assert not values_lost_by_size("pdr", attempts, marks["pdr"])


def test_a_goal_that_no_load_meets_has_no_values_and_no_mean() -> None:
    """Whether a trial meets it depends on its loss, so the others would be a selection."""
    outcome = Outcome()
    found = (GoalInterval(Goal("pdr", 0.005), 80_000, 81_000, 79_900, 0.25),)
    record(SearchResult(found, PROBES, 98_000, False, (UnmetGoal(Goal("ndr", 0.0), 1_000),)), outcome)
    assert outcome.measurements.keys() == {"pdr", "pdr_upper", "pdr_conditional", "pdr_exceed"}
    (remark,) = TrialNotes.of(outcome.notes).remarks
    assert remark.text.startswith("no rate meets the goal ndr: frames were lost at 1,000 frames a second")
    assert set(remark.metrics) == {"ndr", "ndr_upper", "ndr_conditional", "ndr_exceed"}
    attempt = Attempt(1, 1, 0, 1, "", 60.0, True, (), outcome.notes, outcome.measurements)
    assert values_lost_by_size("ndr", [attempt], marks_by_metric([attempt], {"ndr"})["ndr"])


def test_a_trial_whose_pdr_no_load_meets_is_valid_and_has_no_cost_and_no_latency() -> None:
    outcome, unmet = Outcome(), (UnmetGoal(Goal("pdr", 0.005), 1_000), UnmetGoal(Goal("ndr", 0.0), 1_000))
    found = SearchResult((), PROBES, 98_000, False, unmet)
    record(found, outcome)
    leave_out(config(at="50%"), found, outcome)
    assert outcome.valid and not outcome.measurements
    attempt = Attempt(1, 1, 0, 1, "", 60.0, True, (), outcome.notes, outcome.measurements)
    for name in ("pdr", "pdr_conditional", "ndr", "frames_per_cpu_s", "host_cpus", "latency_p99_at_50pct"):
        assert values_lost_by_size(name, [attempt], marks_by_metric([attempt], {name})[name]), name
    with pytest.raises(InstrumentError, match="no PDR"):
        LoadScenario.calibration_value(cast(Any, None), "profile/native", outcome)


def test_a_valid_calibration_run_without_its_result_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise InstrumentError("no PDR")

    scenario = SimpleNamespace(sessions=(), attempt=nullcontext, with_its_parts=nullcontext, calibration_value=refuse)
    scenario.run = lambda *_: Outcome()
    scenario.judge_apparatus = lambda outcome: None
    scenario.at = lambda _: scenario
    monkeypatch.setattr(Executor, "_wait", lambda *_: None)
    found = Executor(cast(Any, scenario), cast(Any, None)).calibrate("profile/native", {}, 3, 0)
    assert (found.value, found.failed_because) == (None, "no PDR")


def test_pdr_and_latency_at_half_of_it_lead_where_a_study_names_no_metrics() -> None:
    assert [*schema(LoadScenario).metrics_for({})][:4] == ["pdr", "latency_p99_at_50pct", "ndr", "ndr_exceed"]
    assert [*schema(LoadScenario).metrics_for({"at": "1kpps"})][:2] == ["pdr", "ndr"]
