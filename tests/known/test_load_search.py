"""The search for a load, on functions of known loss: intervals hold the truth, and goals are met as RFC 9971 says.

The probes are simulated. Loads are classified here by appendix A of the RFC, and conditional throughput is computed by
appendix B, from the probes alone: what the library MLRsearch found must agree."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from lastro import papers
from lastro.errors import InputError, InstrumentError
from lastro.scenarios.base import schemas
from lastro.scenarios.load import search as search_module
from lastro.scenarios.load.goals import Goal, own_goal
from lastro.scenarios.load.measuring import bounds_of, goals_of
from lastro.scenarios.load.search import METHODS, Bounds, GoalInterval, Probe, SearchResult, search
from lastro.study.load import load

PDR, NDR = Goal("pdr", 0.005), Goal("ndr", 0.0)
GOALS = (PDR, NDR)
BOUNDS = Bounds(1_000, 1_000_000)
SEARCHES = 100
LEAST_RIGHT = 95

Curve = Callable[[float, float], float]  # rate and duration -> fraction of the frames that are lost


def function(curve: Curve, generator_fps: float = 1e9) -> Callable[[float, float], Probe]:
    """A function with a loss curve, behind a generator with a limit."""

    def measure(rate_fps: float, duration_s: float) -> Probe:
        sent_fps = min(rate_fps, generator_fps)
        sent = round(sent_fps * duration_s)
        return Probe(rate_fps, duration_s, sent, round(sent * (1 - curve(sent_fps, duration_s))), duration_s, {})

    return measure


def step(capacity_fps: float, queue: int = 0) -> Curve:
    """What passes is the capacity, and at the end of a probe also the frames that wait in the queue."""
    return lambda rate_fps, duration_s: max(0.0, 1 - (capacity_fps + queue / duration_s) / rate_fps)


def of(found: SearchResult, name: str) -> GoalInterval:
    return next(each for each in found.intervals if each.goal.name == name)


# Appendices A and B of RFC 9971, on the example of its appendix with four goals


@dataclass(frozen=True)
class Example:
    """A goal of the RFC's example: its final trial duration, duration sum, loss ratio and exceed ratio."""

    final_s: float
    sum_s: float
    loss: float
    exceed: float


EXAMPLES = {
    "RFC2544": Example(60, 60, 0, 0),
    "TST009": Example(60, 120, 0, 0.5),
    "1s final": Example(1, 120, 0.005, 0.5),
    "20% exceed": Example(60, 60, 0.005, 0.2),
}
Trials = list[tuple[float, float]]  # duration, loss ratio
EXAMPLE_TRIALS: Trials = [(1.0, 0.0)] * 60 + [(1.0, 0.01)] * 60 + [(60.0, 0.001), (60.0, 0.0)]


def estimates(trials: Trials, goal: Example) -> tuple[bool, bool]:
    """Whether a load is a lower bound if all trials to come lose nothing, and if all lose everything (appendix A)."""

    def seconds(full: bool, low: bool) -> float:
        return sum(s for s, loss in trials if (s >= goal.final_s) is full and (loss <= goal.loss) is low)

    balanced = seconds(False, True) * goal.exceed / (1 - goal.exceed)
    high = seconds(True, False) + max(0.0, seconds(False, False) - balanced)
    whole = max(seconds(True, True) + high, goal.sum_s)
    return high <= whole * goal.exceed, whole - seconds(True, True) <= whole * goal.exceed


def quantile_loss(trials: Trials, goal: Example) -> float:
    """The loss ratio of the conditional throughput (appendix B)."""
    full = sorted((loss, s) for s, loss in trials if s >= goal.final_s)
    left = max(goal.sum_s, sum(s for _, s in full)) * (1 - goal.exceed)
    found = 1.0
    for position, (loss, s) in enumerate(full):
        if position and left <= 0:
            return found
        found, left = loss, left - s
    return 1.0 if left > 0 else found


def library(trials: Trials, goal: Example) -> Any:
    """The library's statistic of a load for a goal."""
    from types import SimpleNamespace

    from MLRsearch.target_stat import TargetStat

    wanted = {"loss_ratio": goal.loss, "exceed_ratio": goal.exceed, "duration_sum": goal.sum_s}
    stat = TargetStat(SimpleNamespace(trial_duration=goal.final_s, **wanted))  # type: ignore[arg-type]
    for s, loss in trials:
        given = {"intended_duration": s, "duration_with_overheads": s, "loss_ratio": loss}
        stat.add(SimpleNamespace(**given))  # type: ignore[arg-type]
    return stat


@pytest.mark.parametrize(
    ("name", "lower", "loss"),
    [
        ("RFC2544", False, None),
        ("TST009", True, 0.0),
        ("1s final", True, 0.0),
        ("20% exceed", False, None),  # by its appendix A: 45 of 165 seconds exceed
    ],
)
def test_the_example_of_the_rfc_is_classified_as_it_says(name: str, lower: bool, loss: float | None) -> None:
    goal = EXAMPLES[name]
    assert estimates(EXAMPLE_TRIALS, goal) == (lower, lower) == library(EXAMPLE_TRIALS, goal).estimates()
    if loss is not None:
        assert quantile_loss(EXAMPLE_TRIALS, goal) == loss == library(EXAMPLE_TRIALS, goal).pessimistic_loss_ratio


@pytest.mark.parametrize("seed", range(20))
def test_the_library_classifies_any_trials_by_the_rfc(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        goal = rng.choice([*EXAMPLES.values(), Example(1, 3, 0.005, 0.5), Example(1, 1, 0, 0.5)])
        trials = [(rng.choice([1, 60]), rng.choice([0.0, 0.001, 0.005, 0.01, 1.0])) for _ in range(rng.randrange(1, 9))]
        stat = library(trials, goal)
        assert stat.estimates() == estimates(trials, goal), (trials, goal)
        if any(s >= goal.final_s for s, _ in trials):
            assert stat.pessimistic_loss_ratio == quantile_loss(trials, goal), (trials, goal)


# Searches on functions of known loss


def agrees_with_the_rfc(found: SearchResult, bounds: Bounds) -> None:
    """Assert that both ends of each interval are what the RFC calls them, by the probes of the last search alone."""
    at: dict[float, Trials] = defaultdict(list)
    for probe in found.probes:
        if probe.reached:
            at[probe.rate_fps].append((probe.duration_s, probe.loss_ratio))
    for each in found.intervals:
        goal = Example(bounds.final_s, bounds.sum_s, each.goal.loss_ratio, each.goal.exceed_ratio)
        assert estimates(at[each.lower_fps], goal) == (True, True)
        conditional = each.lower_fps * (1 - quantile_loss(at[each.lower_fps], goal))
        assert each.conditional_fps == pytest.approx(conditional)
        if each.upper_fps is not None:
            assert estimates(at[each.upper_fps], goal) == (False, False)
            assert each.lower_fps < each.upper_fps
            assert each.upper_fps - each.lower_fps <= 1.001 * bounds.width * each.upper_fps


@pytest.mark.parametrize("method", METHODS)
def test_the_capacity_of_a_bottleneck_lies_in_the_interval(method: str) -> None:
    rng, right = random.Random(9971), 0
    for _ in range(SEARCHES):
        capacity_fps, queue = rng.uniform(2_000, 900_000), rng.randrange(20)
        found = search(method, GOALS, BOUNDS, function(step(capacity_fps, queue)))
        seconds = BOUNDS.sum_s if method == "binary" else BOUNDS.final_s
        truth = {"ndr": capacity_fps + queue / seconds, "pdr": (capacity_fps + queue / seconds) / (1 - 0.005)}
        holds = [of(found, name).lower_fps - 1 <= truth[name] <= (of(found, name).upper_fps or 0) + 1 for name in truth]
        right += all(holds)
        if method == "mlrsearch":
            agrees_with_the_rfc(found, BOUNDS)
    assert right >= LEAST_RIGHT


def test_a_binary_search_has_no_exceed_ratio() -> None:
    """It decides by one probe: of the time at a load, it knows nothing."""
    found = search("binary", GOALS, BOUNDS, function(step(50_000)))
    assert [each.exceed_ratio for each in found.intervals] == [None, None]


def test_a_search_in_which_one_probe_decides_has_no_exceed_ratio() -> None:
    """The probe met the goal: a ratio of zero would say something of a time in which nothing was measured."""
    for sum_s, known in ((1, False), (2, False), (3, True)):
        bounds = Bounds(1_000, 1_000_000, sum_s=sum_s)
        found = search("mlrsearch", GOALS, bounds, function(step(50_000)))
        assert [each.exceed_ratio is not None for each in found.intervals] == [known, known]
    never = search("mlrsearch", (Goal("ndr", 0.0, 0.0),), Bounds(1_000, 1_000_000, sum_s=2), function(step(50_000)))
    assert of(never, "ndr").exceed_ratio == 0, "two probes had to meet it"


@pytest.mark.parametrize("method", METHODS)
def test_a_warm_up_takes_the_first_burst_and_decides_nothing(method: str) -> None:
    """The function loses frames in its first probe alone."""

    def found(warm_up_s: float) -> SearchResult:
        first = iter([0.01])
        bounds = replace(BOUNDS, sum_s=1, warm_up_s=warm_up_s)
        return search(method, GOALS, bounds, function(lambda *_: next(first, 0.0)))

    cold, warm = found(0), found(0.5)
    assert cold.warm_up is None and of(cold, "pdr").lower_fps < BOUNDS.most_fps
    assert warm.warm_up and (warm.warm_up.rate_fps, warm.warm_up.duration_s) == (BOUNDS.most_fps, 0.5)
    assert warm.warm_up not in warm.probes and of(warm, "ndr").lower_fps == BOUNDS.most_fps


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("width", "first_s", "final_s", "sum_s"), [(0.01, 0.2, 1, 3), (0.005, 1, 1, 21), (0.01, 1, 60, 180)]
)
def test_the_time_of_a_search_is_what_plans_expect(
    method: str, width: float, first_s: float, final_s: float, sum_s: float
) -> None:
    bounds = Bounds(1_000, 1_000_000, width, first_s, final_s, sum_s, limit_s=1e9)
    found = search(method, GOALS, bounds, function(lambda rate_fps, _: max(0.0, (rate_fps - 1e5) / 1e6)))
    n_probes, offered_s = bounds.expected(method, len(GOALS))
    assert len(found.probes) == pytest.approx(n_probes, rel=0.3)
    assert sum(probe.duration_s for probe in found.probes) == pytest.approx(offered_s, rel=0.3)


def test_the_profile_paper_searches_as_csit_does() -> None:
    """The defaults of the library are CSIT's, except for its time limit, which is in CSIT's keywords."""
    from MLRsearch import Config, SearchGoal

    study = load(papers.find("load"), schemas()).with_profile("paper")
    config = study.config({factor.name: factor.levels[0] for factor in study.factors})
    bounds, csit = bounds_of(config), SearchGoal()
    assert (bounds.width, bounds.first_s, bounds.final_s, bounds.sum_s, bounds.warm_up_s, bounds.limit_s) == (
        csit.relative_width,
        csit.initial_trial_duration,
        csit.final_trial_duration,
        csit.duration_sum,
        Config().warmup_duration,
        1200,
    )
    assert (csit.preceding_targets, csit.expansion_coefficient) == (search_module._PRECEDING, search_module._EXPANSION)
    assert [(goal.name, goal.loss_ratio, goal.exceed_ratio) for goal in goals_of(config)] == [
        ("pdr", 0.005, csit.exceed_ratio), ("ndr", csit.loss_ratio, csit.exceed_ratio),
    ]  # fmt: skip


def test_a_slope_is_cut_where_it_crosses_each_goal() -> None:
    def slope(rate_fps: float, _: float) -> float:
        return max(0.0, (rate_fps - 100_000) / 1_000_000)

    goals = (*GOALS, own_goal("2% exceed 20%"))
    found = search("mlrsearch", goals, BOUNDS, function(slope))
    agrees_with_the_rfc(found, BOUNDS)
    for name, truth_fps in (("ndr", 100_000), ("pdr", 105_000), ("own", 120_000)):
        assert of(found, name).lower_fps <= truth_fps * 1.0001 and truth_fps <= (of(found, name).upper_fps or 0)
    assert of(found, "pdr").conditional_fps <= of(found, "pdr").lower_fps


def test_a_goal_of_one_s_own_may_be_that_of_another_name() -> None:
    found = search("mlrsearch", (*GOALS, own_goal("0.5%")), BOUNDS, function(step(100_000)))
    assert replace(of(found, "own"), goal=of(found, "pdr").goal) == of(found, "pdr")


@pytest.mark.parametrize("often", [0.05, 0.2])
def test_rare_bursts_of_loss_are_borne_by_the_exceed_ratio_and_told_with_it(often: float) -> None:
    """A burst takes 2 % of the frames of a probe. Three probes out of five decide; goals without exceed bear none."""
    rng, near, strict, exceeds = random.Random(2544), 0, 0, 0
    bounds = Bounds(1_000, 1_000_000, sum_s=5)
    for _ in range(SEARCHES):

        def bursts(rate_fps: float, duration_s: float) -> float:
            return max(step(200_000)(rate_fps, duration_s), 0.02 * (rng.random() < often))

        found = search("mlrsearch", GOALS, bounds, function(bursts))
        agrees_with_the_rfc(found, bounds)
        near += of(found, "ndr").lower_fps >= 0.97 * 200_000
        exceeds += bool(of(found, "ndr").exceed_ratio)
        none = search("mlrsearch", (Goal("ndr", 0.0, 0.0),), bounds, function(bursts))
        strict += any(each.lower_fps >= 0.97 * 200_000 for each in none.intervals)  # none: a burst at the smallest load
    assert near >= 85
    assert strict < near
    assert exceeds >= (5 if often < 0.1 else 20)


def test_the_generator_s_limit_bounds_the_search_and_is_no_loss() -> None:
    found = search("mlrsearch", GOALS, BOUNDS, function(lambda *_: 0.0, generator_fps=250_000))
    assert found.limited and 0.9 * 250_000 < found.most_fps <= 250_000
    assert all(each.upper_fps is None and each.lower_fps <= 250_000 for each in found.intervals)
    free = search("mlrsearch", GOALS, BOUNDS, function(lambda *_: 0.0))
    assert not free.limited and free.most_fps == BOUNDS.most_fps


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("generator_fps", [55_000, 90_000, 250_000])
def test_a_function_that_loses_frames_of_a_generator_that_is_late_is_the_limit(
    method: str, generator_fps: float
) -> None:
    """pktgen is late where it shares memory and locks with a function that is overloaded, but it is not blocked."""
    found = search(method, GOALS, BOUNDS, function(step(50_000), generator_fps))
    assert not found.limited and not all(probe.reached for probe in found.probes)
    for each in found.intervals:
        assert each.upper_fps and each.lower_fps <= 50_000 / (1 - each.goal.loss_ratio) <= each.upper_fps * 1.001
    blocked = search(method, GOALS, BOUNDS, function(step(50_000), 49_000))
    assert blocked.limited and all(each.upper_fps is None for each in blocked.intervals)


def test_frames_that_a_generator_sent_too_fast_after_a_pause_are_no_limit_of_the_function() -> None:
    """The mean rate of a burst is what was asked for, or less; but the burst overflows any queue."""
    sound, numbers = function(step(100_000)), itertools.count()

    def measure(rate_fps: float, duration_s: float) -> Probe:
        probe = sound(rate_fps, duration_s)
        if 20 <= next(numbers) < 23:
            return replace(probe, sent=round(0.9 * probe.sent), received=round(0.6 * probe.sent))
        return probe

    found = search("mlrsearch", GOALS, BOUNDS, measure)
    assert not found.limited and of(found, "ndr").lower_fps >= 98_000


@pytest.mark.parametrize("begin_fps", [10, 30_000, 99_000, 120_000, 2_000_000])
def test_a_ceiling_measured_at_a_bad_moment_only_costs_probes(begin_fps: float) -> None:
    bounds = replace(BOUNDS, begin_fps=begin_fps)
    found = search("mlrsearch", GOALS, bounds, function(step(100_000)))
    assert not found.limited
    assert of(found, "ndr").lower_fps <= 100_000 <= (of(found, "ndr").upper_fps or 0)
    free = search("mlrsearch", GOALS, bounds, function(lambda *_: 0.0))
    assert not free.limited and free.most_fps == BOUNDS.most_fps
    limited = search("mlrsearch", GOALS, bounds, function(lambda *_: 0.0, generator_fps=250_000))
    assert limited.limited and 0.9 * 250_000 < limited.most_fps <= 250_000


def test_a_moment_in_which_the_generator_is_late_costs_one_probe_not_the_search() -> None:
    sound, late = function(step(100_000)), iter([False, False, True])

    def measure(rate_fps: float, duration_s: float) -> Probe:
        probe = sound(rate_fps, duration_s)
        if next(late, False):
            return Probe(rate_fps, duration_s, round(0.993 * probe.sent), probe.received, duration_s, {})
        return probe

    found = search("mlrsearch", GOALS, BOUNDS, measure)
    assert not found.limited
    assert [probe.reached for probe in found.probes].count(False) == 1
    agrees_with_the_rfc(found, BOUNDS)


def stalling(first: int, n_stalls: int, part: float = 0.5) -> Callable[[float, float], Probe]:
    """A bottleneck whose generator sends only a part of the rate in some probes, counted from 0."""
    sound, numbers = function(step(50_000)), itertools.count()

    def measure(rate_fps: float, duration_s: float) -> Probe:
        if first <= next(numbers) < first + n_stalls:
            return replace(sound(part * rate_fps, duration_s), rate_fps=rate_fps)
        return sound(rate_fps, duration_s)

    return measure


@pytest.mark.parametrize("method", METHODS)
def test_one_stall_of_the_generator_does_not_bound_the_search_wherever_it_is(method: str) -> None:
    undisturbed = search(method, GOALS, BOUNDS, stalling(0, 0))
    for number in range(len(undisturbed.probes)):
        found = search(method, GOALS, BOUNDS, stalling(number, 1))
        assert [probe.reached for probe in found.probes].count(False) == 1
        assert not found.limited and found.intervals == undisturbed.intervals, number


def test_a_generator_that_stays_slower_than_before_is_a_limit() -> None:
    """Beside a neighbour, for example. An invalid trial would leave only those in which the generator stayed fast."""
    sound, numbers = function(step(50_000)), itertools.count()

    def measure(rate_fps: float, duration_s: float) -> Probe:
        sent_fps = min(rate_fps, 30_000) if next(numbers) >= 4 else rate_fps
        return replace(sound(sent_fps, duration_s), rate_fps=rate_fps)

    found = search("mlrsearch", GOALS, BOUNDS, measure)
    assert found.limited and 25_000 < found.most_fps <= 30_000
    assert [each.upper_fps for each in found.intervals] == [None, None]
    with pytest.raises(InstrumentError, match="the generator did not hold a rate"):
        search("mlrsearch", GOALS, BOUNDS, stalling(4, 1_000))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("most_fps", [1_001, 1_100, 2_000])
def test_a_range_no_wider_than_the_interval_ends_the_search(method: str, most_fps: float) -> None:
    found = search(method, GOALS, Bounds(1_000, most_fps, width=0.5), function(lambda *_: 0.0))
    assert of(found, "ndr").lower_fps == pytest.approx(most_fps)
    found = search(method, GOALS, Bounds(1_000, most_fps, width=0.5), function(step(1_000)))
    assert 1_000 <= of(found, "ndr").lower_fps <= 1_001


@pytest.mark.parametrize("method", METHODS)
def test_goals_that_no_rate_meets_are_a_result_and_no_error(method: str) -> None:
    found = search(method, GOALS, BOUNDS, function(lambda *_: 0.3))
    assert found.intervals == () and found.of("pdr") is None
    assert [each.reason for each in found.unmet] == [
        f"no rate meets the goal {name}: {what} at 1,000 frames a second, the smallest load of the search"
        for name, what in (("pdr", "more than 0.5 % lost"), ("ndr", "frames were lost"))
    ]


@pytest.mark.parametrize("method", METHODS)
def test_a_goal_that_no_rate_meets_leaves_the_first_its_interval(method: str) -> None:
    found = search(method, GOALS, BOUNDS, function(lambda fps, _: 0.001 if fps < 100_000 else 0.3))
    assert [each.goal.name for each in found.intervals] == ["pdr"]
    assert (pdr := found.of("pdr")) and pdr.lower_fps < 100_000 <= (pdr.upper_fps or 0)
    assert [(each.goal.name, each.rate_fps) for each in found.unmet] == [("ndr", 1_000)]


def test_a_generator_that_holds_no_rate_is_one_clear_error() -> None:
    with pytest.raises(InstrumentError, match="the generator did not hold a rate: it sent "):
        search("mlrsearch", GOALS, BOUNDS, function(lambda *_: 0.0, generator_fps=20))
    asked: list[float] = []

    def always_late(rate_fps: float, duration_s: float) -> Probe:
        asked.append(rate_fps)
        sent = round(0.9 * rate_fps * duration_s)
        return Probe(rate_fps, duration_s, sent, sent, duration_s, {})

    with pytest.raises(InstrumentError, match="the generator did not hold a rate: it sent "):
        search("mlrsearch", GOALS, BOUNDS, always_late)
    assert len(asked) <= 24, "two probes at each rate"
    with pytest.raises(InstrumentError, match="the generator did not hold a rate: it sent 0 "):
        search("mlrsearch", GOALS, BOUNDS, lambda rate_fps, s: Probe(rate_fps, s, 0, 0, s, {}))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("lost", [0.006, 0.01, 0.04])
def test_a_generator_that_loses_some_frames_whenever_it_is_late_is_the_limit(method: str, lost: float) -> None:
    """In bursts, or as it shares a CPU with the function, which loses nothing."""

    def measure(rate_fps: float, duration_s: float) -> Probe:
        sent = round(min(rate_fps, 60_000) * duration_s)
        return Probe(rate_fps, duration_s, sent, round(sent * (1 - lost * (rate_fps > 60_000))), duration_s, {})

    found = search(method, GOALS, BOUNDS, measure)
    assert found.limited and all(each.upper_fps is None for each in found.intervals)


def test_of_several_senders_a_silent_one_is_no_loss_of_the_function() -> None:
    def measure(rate_fps: float, duration_s: float) -> Probe:
        silent, sent = rate_fps > 100_000, round(rate_fps * duration_s)
        of_senders = {"least_part": 0.0 if silent else 1.0, "worst_loss": float(silent)}
        return Probe(rate_fps, duration_s, sent, sent, duration_s, {}, **of_senders)

    with pytest.raises(InstrumentError, match="the generator did not hold a rate: it sent 0 "):
        search("mlrsearch", GOALS, BOUNDS, measure)


def test_a_function_that_loses_everything_meets_no_goal_whatever_its_generator_sends() -> None:
    def measure(rate_fps: float, duration_s: float) -> Probe:
        return Probe(rate_fps, duration_s, round(0.9 * rate_fps * duration_s), 0, duration_s, {})

    found = search("mlrsearch", GOALS, BOUNDS, measure)
    assert not found.intervals and len(found.unmet) == len(GOALS)


def test_a_search_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    with pytest.raises(InstrumentError, match="the search "):
        search("binary", GOALS, Bounds(1_000, 1_000_000, limit_s=50), function(step(100_000)))


@pytest.mark.parametrize(
    ("text", "goal"),
    [("1%", Goal("own", 0.01)), ("0.01 % exceed 20 %", Goal("own", 0.0001, 0.2)), ("0%", Goal("own", 0))],
)
def test_a_goal_of_one_s_own_is_read(text: str, goal: Goal) -> None:
    assert own_goal(text) == goal


@pytest.mark.parametrize(
    "text", ["", "1", "1% 2%", "101%", "1% exceed", "1% exceed exceed", "exceed 1%", "nan%", "-1%", "1% exceed 100%"]
)
def test_what_is_not_a_goal_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a goal of loss"):
        own_goal(text)
