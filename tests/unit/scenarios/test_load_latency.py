"""Latency under load in a study: its loads, as a list or as text, and the metrics and figures that they bring."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from lastro.errors import InputError, InstrumentError, StudyError
from lastro.instruments.latency import WORDS, MeasurementDisturbed, RoundTrips
from lastro.instruments.load_generator import Traffic
from lastro.results.additions import LoadedHistogram, QuantileCurves, QuantilesByLoad
from lastro.results.samples import AMONG_LOST, GENERATOR_DELAY, TOO_FEW, Outcome
from lastro.results.trial_notes import TrialNotes, remarks_of
from lastro.scenarios.base import schemas
from lastro.scenarios.load import LoadScenario
from lastro.scenarios.load import latency as latency_module
from lastro.scenarios.load.latency import (
    _bound_fractions,
    _lost_by_receiver,
    _record,
    _record_own,
    latency_s,
    measure_latency,
    metrics_at,
)
from lastro.scenarios.load.loads import loads_of
from lastro.scenarios.shared.chain import SINK_PORT, SOURCE_PORT
from lastro.study.load import parse
from lastro.study.model import Study
from lastro.study.selection import Selection

STUDY = """
[study]
name = "a"
scenario = "load"
{metrics}
[factors]
platform = ["native"]
{factors}
[settings]
attachment = "veth-direct"
function = "none"
instrument = "trafgen"
{settings}
"""


def study(settings: str = "", metrics: str = "", factors: str = "") -> Study:
    return parse(STUDY.format(settings=settings, metrics=metrics, factors=factors), "a.toml", schemas())


def test_loads_are_percentages_of_the_pdr_or_rates() -> None:
    half, fixed, precise = loads_of("50%, 100kpps ,2.5%")
    assert (half.rate_fps(80_000), fixed.rate_fps(80_000), precise.rate_fps(80_000)) == (40_000, 100_000, 2_000)
    assert [load.key for load in (half, fixed, precise)] == ["50pct", "100kpps", "2_5pct"]
    assert [load.fps for load in loads_of("7pps, 1.5Mpps")] == [7, 1_500_000] and loads_of("none") == ()


NINE = ",".join(f"{n}%" for n in range(1, 10))


@pytest.mark.parametrize("text", ["", "50", "0%", "201%", "0kpps", "50%, 50%", "-1%", "1e3pps", "10 kpps", NINE])
def test_other_texts_are_not_loads(text: str) -> None:
    with pytest.raises(InputError):
        loads_of(text)


def test_a_study_may_list_them_and_has_their_metrics() -> None:
    found = study('at = ["50%", "100kpps"]', 'metrics = ["pdr", "latency_p99_at_100kpps"]')
    assert found.settings["at"] == "50%, 100kpps"
    names = {metric.name for metric in found.all_metrics}
    assert {"latency_p99_9_at_50pct", "load_at_100kpps", "own_delay_p99_at_50pct", "own_delay_max_at_100kpps"} <= names
    assert not any("at_10pct" in name or "at_90pct" in name for name in names)


def test_without_a_list_of_metrics_a_study_has_those_of_its_loads() -> None:
    assert [m.name for m in study().metrics if m.name.startswith("load_at")] == [
        f"load_at_{n}pct" for n in (10, 50, 90)
    ]
    assert not any("_at_" in metric.name or "own_delay" in metric.name for metric in study('at = "none"').metrics)
    factor = study(factors='at = ["10%", "20kpps, 10%"]')
    assert [m.name for m in factor.metrics if m.name.startswith("load_at")] == ["load_at_10pct", "load_at_20kpps"]


@pytest.mark.parametrize(
    ("settings", "metrics", "why"),
    [
        ('at = ["50%", "fast"]', "", "'fast' is not a load"),
        ('at = ["50%", ["10%"]]', "", "must be a string, a number, true or false"),
        ("at = []", "", "must be a string, a number, true or false"),
        ("probe_s = [1, 2]", "", "must be a string, a number, true or false, but is a list"),
        ('at = "10%"', 'metrics = ["latency_p99_at_50pct"]', "no metric 'latency_p99_at_50pct'"),
    ],
)
def test_an_error_names_the_value(settings: str, metrics: str, why: str) -> None:
    with pytest.raises(StudyError) as error:
        study(settings, metrics)
    assert why in str(error.value)


def test_the_command_line_and_profiles_may_change_them() -> None:
    changed = Selection(settings=("at=20%, 30%",)).of(study(), schemas()["load"])
    assert changed.settings["at"] == "20%, 30%" and "load_at_30pct" in {metric.name for metric in changed.metrics}
    quick = study('[profiles.quick]\nat = ["50%", "1kpps"]\nlatency_s = 1', 'metrics = ["latency_p99_at_50pct"]')
    quick = Selection(profile="quick").of(quick, schemas()["load"])
    assert quick.settings["at"] == "50%, 1kpps" and [each.name for each in quick.metrics] == ["latency_p99_at_50pct"]
    assert "load_at_1kpps" in {metric.name for metric in quick.all_metrics}


def test_a_trial_takes_longer_for_each_load() -> None:
    config: dict[str, Any] = {"at": "10%, 50%", "latency_s": 3, "own_delay_s": 1, "one_way": "no"}
    assert latency_s(config) == 2 * (3 + 3 + 1 + 3), "and for each, the generator is measured alone"
    assert latency_s(config | {"at": "none"}) == 0


def percentiles(key: str) -> tuple[str, ...]:
    return tuple(f"latency_{name}_at_{key}" for name in ("p50", "p90", "p99", "p99_9"))


def test_figures_are_those_of_the_loads() -> None:
    loss, by_load, *curves = LoadScenario.figures_for(study('at = ["50%", "9kpps"]\nown_goal = "2%"'))
    assert getattr(loss, "goals", None) == (0.5, 2.0)
    assert isinstance(by_load, QuantilesByLoad)
    assert by_load.points == (
        LoadedHistogram("round trip at 50%", "own delay at 50%", "load_at_50pct", percentiles("50pct")),
        LoadedHistogram("round trip at 9kpps", "own delay at 9kpps", "load_at_9kpps", percentiles("9kpps")),
    )
    assert [(each.name, each.own) for each in curves if isinstance(each, QuantileCurves)] == [
        ("latency-50pct", "own delay at 50%"), ("latency-9kpps", "own delay at 9kpps"),
    ]  # fmt: skip
    assert len(LoadScenario.figures_for(study('at = "none"'))) == 1


def test_names_of_metrics_are_unique() -> None:
    names = [metric.name for metric in metrics_at("10%, 10pps, 1.5%, 15%")]
    assert len(set(names)) == len(names)


def trips_of(rate_fps: float, n: int = 2000, took_ns: int = 50_000) -> RoundTrips:
    due = np.arange(n) * 1e6
    return RoundTrips(due, due, due + took_ns, 0, round(rate_fps * 10 / 11), round(rate_fps / 11), 1.0)


def recorded(trips: RoundTrips, asked_fps: float, own: RoundTrips | None = None) -> Outcome:
    outcome = Outcome()
    _record(loads_of("50%")[0], asked_fps, trips, own or trips_of(asked_fps, took_ns=9_000), outcome)
    return outcome


def test_percentiles_are_recorded_in_microseconds_with_their_load_and_histogram() -> None:
    outcome = recorded(trips_of(11_000), 11_000)
    assert outcome.measurements["load_at_50pct"] == 11_000
    assert outcome.measurements["latency_p99_at_50pct"] == pytest.approx(50, rel=1e-3)
    assert [each.name for each in outcome.histograms] == ["round trip at 50%"]
    assert [remark.metrics for remark in remarks_of(outcome.notes)] == [("latency_p99_9_at_50pct",)]


def test_a_generator_that_is_too_slow_yields_no_percentile() -> None:
    outcome = recorded(trips_of(10_000), 11_000)
    assert outcome.measurements == {"load_at_50pct": 10_000}
    (remark,) = remarks_of(outcome.notes)
    assert remark.kind == GENERATOR_DELAY and "sent 10,000 of 11,000" in remark.text and len(remark.metrics) == 5
    assert [each.name for each in outcome.histograms] == ["round trip at 50%, generator late"], "in no figure"


def test_a_generator_that_is_too_slow_alone_has_an_unknown_delay() -> None:
    """Percentiles that have another reason to be missing keep it."""
    outcome = recorded(trips_of(11_000), 11_000, own=trips_of(10_000, took_ns=9_000))
    assert outcome.measurements == {"load_at_50pct": 11_000}
    few, unknown = remarks_of(outcome.notes)
    assert (few.kind, few.metrics) == (TOO_FEW, ("latency_p99_9_at_50pct",))
    assert unknown.kind == GENERATOR_DELAY and "on its loopback, the generator sent 10,000 of 11,000" in unknown.text
    assert len(unknown.metrics) == 4
    assert [each.name for each in outcome.histograms] == ["round trip at 50%"], "its time is that of the path"


class _Meter:
    """A generator that takes 9 µs alone, loses most packets on its loopback at high loads, and 50 µs on the path."""

    name, answers_every = "sockperf-latency", 10

    def own_delay(self, _sender: object, _traffic: Traffic, rate_fps: float, duration_s: float) -> RoundTrips:
        assert duration_s == 2
        trips = trips_of(rate_fps, took_ns=9_000)
        return trips if rate_fps < 400_000 else replace(trips_of(rate_fps, n=200, took_ns=9_000), lost=1800)

    def round_trips(self, _way: object, _traffic: Traffic, rate_fps: float, duration_s: float) -> RoundTrips:
        assert duration_s == 3
        return trips_of(rate_fps)

    @contextmanager
    def answering(self, _way: object) -> Iterator[None]:
        yield


def measured(monkeypatch: pytest.MonkeyPatch, at: str) -> tuple[Outcome, list[str]]:
    """What is measured at these loads by _Meter, and when counters of interfaces were read."""
    outcome, readings = Outcome(), list[str]()
    still = SimpleNamespace(start=lambda: readings.append("start"), stop=lambda: readings.append("stop"), moved={})
    monkeypatch.setattr(latency_module, "SockperfLatency", _Meter)
    monkeypatch.setattr(latency_module, "InterfaceMeter", lambda *_: still)
    monkeypatch.setattr(latency_module, "path_reasons", lambda *_: [])
    ends = {role: SimpleNamespace(spec=SimpleNamespace(role=role)) for role in ("source", "sink")}
    chain: Any = SimpleNamespace(**ends, path=SimpleNamespace(sink="198.18.1.10"), instances={})
    config = {"at": at, "latency_s": 3, "own_delay_s": 2, "one_way": "no", "direction": "forward"}
    measure_latency(cast(Any, None), config, chain, Traffic.of("64"), 110_000, outcome)
    return outcome, readings


@pytest.mark.parametrize("what", ["own_delay", "round_trips"])
@pytest.mark.parametrize("n_disturbed", [0, 1, 2, 3])
def test_a_measurement_that_other_work_disturbed_is_repeated(
    monkeypatch: pytest.MonkeyPatch, what: str, n_disturbed: int
) -> None:
    """The third time makes the trial invalid. What a disturbed attempt sent is not counted."""
    sound, times = getattr(_Meter, what), iter(range(9))

    def at_last(*asked: Any) -> RoundTrips:
        if next(times) < n_disturbed:
            raise MeasurementDisturbed("sockperf had no CPU")
        found: RoundTrips = sound(*asked)
        return found

    monkeypatch.setattr(_Meter, what, at_last)
    if n_disturbed == 3:
        with pytest.raises(MeasurementDisturbed, match="sockperf had no CPU"):
            measured(monkeypatch, "10%")
        return
    outcome, readings = measured(monkeypatch, "10%")
    assert outcome.measurements["latency_p99_at_10pct"] == pytest.approx(50, rel=1e-3)
    assert len(outcome.histograms) == 2 and readings[-2:] == ["start", "stop"] and readings.count("stop") == 1


def test_each_load_is_judged_by_the_generator_at_the_same_load(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, _ = measured(monkeypatch, "10%, 500kpps")
    assert outcome.measurements["latency_p99_at_10pct"] == pytest.approx(50, rel=1e-3)
    assert outcome.measurements["own_delay_p99_at_10pct"] == pytest.approx(9, rel=1e-3)
    (lost,) = [each for each in remarks_of(outcome.notes) if "latency_p99_at_500kpps" in each.metrics]
    assert lost.kind == GENERATOR_DELAY and "on its loopback: lost packets" in lost.text
    assert [each.name for each in outcome.histograms] == [
        "own delay at 10%", "round trip at 10%", "own delay at 500kpps", "round trip at 500kpps",
    ]  # fmt: skip


def test_the_generator_alone_has_no_percentiles_if_it_was_too_slow() -> None:
    outcome = Outcome()
    _record_own(loads_of("50%")[0], 11_000, trips_of(10_000, took_ns=9_000), outcome)
    (remark,) = remarks_of(outcome.notes)
    assert outcome.measurements == {} and remark.kind == GENERATOR_DELAY
    assert remark.metrics == tuple(f"own_delay_{name}_at_50pct" for name in WORDS)
    assert [each.name for each in outcome.histograms] == ["own delay at 50%, generator late"], "in no figure"


def test_no_answer_at_a_load_that_was_carried_before_is_a_failure_and_beyond_it_a_result() -> None:
    with pytest.raises(InstrumentError, match="no packet was answered at 50%"):
        recorded(trips_of(11_000, n=0), 11_000)
    outcome, silent = Outcome(), replace(trips_of(990_000, n=0), lost=90_000)
    _record(loads_of("990kpps")[0], 990_000, silent, trips_of(990_000, took_ns=9_000), outcome)
    assert {remark.kind for remark in remarks_of(outcome.notes)} == {AMONG_LOST}


@pytest.mark.parametrize(("received", "kind"), [(22_000, GENERATOR_DELAY), (2_000, AMONG_LOST)])
def test_packets_that_the_receiver_lost_are_not_the_function_s(received: int, kind: str) -> None:
    """Of 2,200 packets that asked for an answer, 2,000 got none."""
    trips = replace(trips_of(22_000, n=200), lost=2000, sent=22_000, asked=2200)
    moved = {
        "source.link": {"tx_packets": 22_000, "tx_dropped": 0, "rx_packets": 200},
        "sink.link": {"tx_packets": 200, "tx_dropped": 0, "rx_packets": received},
    }
    ports = {f"source.{SOURCE_PORT}": moved["source.link"], f"sink.{SINK_PORT}": moved["sink.link"]}
    lost = _lost_by_receiver(trips, ports, 10)
    assert lost == (2000 if received == 22_000 else 0) and _lost_by_receiver(trips, {}, 10) == 0
    outcome = Outcome()
    _record(loads_of("50%")[0], trips.rate_fps, trips, trips_of(trips.rate_fps, took_ns=9_000), outcome, lost)
    dropped = {remark.kind for remark in remarks_of(outcome.notes) if "latency_p50_at_50pct" in remark.metrics}
    assert dropped == {kind}


def test_a_percentage_of_a_lower_bound_gives_a_lower_bound() -> None:
    outcome = Outcome()
    outcome.measurements |= {"pdr": 9.0, "latency_p50_at_50pct": 50.0, "latency_p50_at_9kpps": 40.0}
    _bound_fractions(loads_of("50%, 9kpps"), outcome)
    noted = TrialNotes.of(outcome.notes)
    assert noted.only_at_least("latency_p50_at_50pct") and not noted.only_at_least("latency_p50_at_9kpps")
    assert not noted.only_at_least("latency_p99_at_50pct"), "it has no value"
