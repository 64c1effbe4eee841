"""The search for the largest load at which a goal of loss is met. Only the probes that it asks for need a testbed.

Multiple loss ratio search (RFC 9971) finds the intervals of several goals together, by the library MLRsearch; binary
search (RFC 2544, section 26.1) finds them one by one. Appendices A and B of RFC 9971 define the classification of loads
and the conditional throughput; the library implements a draft that defines them in the same way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lastro.errors import InstrumentError
from lastro.scenarios.load.goals import Goal, UnmetGoal

REACHED = 0.995  # of the asked rate: below it, a probe shows the limit of its generator
_RETRIES = 2  # of a probe that its generator did not reach: the host may have been busy for a moment
_PATIENCE = 6  # retries, if the generator has sent clearly more before
_MORE, _MUCH_MORE = 1.05, 2.0  # times a rate is clearly more: in a probe as long, or in a shorter one
_MOST_LIMITS = 12  # lower limits of the generator in one search
_BELOW = 0.98  # times the rate that a generator reached is its next limit, which is lowered each time
_TOO_BUSY = "the host is too busy for it: give it a CPU of its own, or search at smaller loads"
_EXPANSION = 2
_WIDEST = 0.7  # of all loads: the library never ends if the interval of a goal is as wide as all loads
_PRECEDING = 2  # coarser targets before the final one


@dataclass(frozen=True, slots=True)
class Probe:
    """One trial of a search, in the words of RFC 2544: frames offered at a rate for a time, and frames received.

    Rates are frames a second, over all directions and chains."""

    rate_fps: float  # the rate that was asked for
    duration_s: float
    sent: int  # including frames that the first link did not take
    received: int
    lasted_s: float
    lost_at: Mapping[str, int]  # frames lost at each hop
    late: int = 0  # number of received frames that arrived from queues after the generator had ended
    # Each sender sent a fraction of its asked rate: the smallest of these fractions. None with one sender.
    least_part: float | None = None
    waited_s: float = 0.0  # CPU time in which generators waited by keeping CPUs busy
    kernel_s: float = 0.0  # CPU time of generators that are threads of the host's kernel, and so in no instance's usage
    overlap: float | None = None  # fraction of the time of sending in which all senders sent; None with one sender
    # Each chain lost a fraction of its frames: the largest of these fractions. None with one chain.
    worst_loss: float | None = None

    @property
    def loss_ratio(self) -> float:
        """The fraction of the frames that were lost; with several chains, the largest fraction of one chain."""
        if self.worst_loss is not None:
            return self.worst_loss
        return max(0.0, 1 - self.received / self.sent) if self.sent else 1.0

    @property
    def lost(self) -> int:
        """The frames that were lost; with several chains, as if each had lost as much as the worst."""
        if self.worst_loss is None:
            return max(0, self.sent - self.received)
        return max(0, math.ceil(round(self.worst_loss * self.sent, 6)))

    @property
    def sent_fps(self) -> float:
        return self.sent / max(self.lasted_s, 1e-9)

    @property
    def part_sent(self) -> float:
        """The fraction of the asked rate that was sent; with several senders, the smallest of their fractions.

        It is 1 if less than one frame is missing, since a generator rounds to whole frames."""
        if self.least_part is not None:
            return self.least_part
        missing = self.rate_fps * self.lasted_s - self.sent
        return 1.0 if 0 < round(missing, 6) < 1 else self.sent_fps / self.rate_fps

    @property
    def reached(self) -> bool:
        """Whether the generator sent the rate that it was asked for. If not, the generator is the limit."""
        return self.part_sent >= REACHED

    def as_note(self) -> dict[str, object]:
        """Return the probe as plain data, to store with the trial."""
        derived = {"loss_ratio": round(self.loss_ratio, 6), "reached": self.reached}
        return {**asdict(self), "lost_at": dict(self.lost_at), **derived}


Measure = Callable[[float, float], Probe]  # rate in frames a second, duration in seconds


@dataclass(frozen=True, slots=True)
class Bounds:
    """The range, the precision and the durations of a search.

    A load is classified by probes of `sum_s` seconds together."""

    least_fps: float  # loads lie between `least_fps` and `most_fps`
    most_fps: float
    width: float = 0.01  # largest width of an interval, as a fraction of its upper end
    first_s: float = 1.0  # probes last from `first_s` to `final_s`
    final_s: float = 1.0
    sum_s: float = 3.0
    limit_s: float = 600.0  # a search that takes longer fails
    begin_fps: float = math.inf  # the first loads are at most this: the generator's ceiling if it is known
    warm_up_s: float = 0.0  # before the search, the largest of the first loads is offered for this time; 0: no warm-up

    def expected(self, method: str, n_goals: int) -> tuple[int, float]:
        """Estimate (number of probes, seconds in which they offer load) of a search whose goals lie far apart.

        Binary search begins with both ends of the range; the goals are taken to be met at a tenth of it. Multiple
        loss ratio search decides on two loads for each goal, of which half of the probes are enough. Before, it decides
        on coarser loads, for a shorter time."""
        if method == "binary":
            n_probes = n_goals * (2 + math.ceil(math.log2(10 / self.width)))
            return n_probes, n_probes * self.sum_s
        between_s = math.sqrt(self.first_s * self.sum_s)
        probes = [(3 + 3 * n_goals, self.first_s)]
        for sum_s in (between_s, self.sum_s):
            probe_s = min(self.final_s, sum_s)
            probes.append((2 * n_goals * math.ceil(sum_s / 2 / probe_s), probe_s))
        return sum(n for n, _ in probes), sum(n * probe_s for n, probe_s in probes)


@dataclass(frozen=True, slots=True)
class GoalInterval:
    """The interval of a goal: the load at its lower end meets the goal, and the load at its upper end does not.

    `upper_fps` is None if the goal is met at the largest load. `conditional_fps` is the conditional throughput (RFC
    9971). `exceed_ratio` is the fraction of the time at `lower_fps` in which loss exceeded the goal; None if a single
    probe can decide whether a load meets the goal, since the fraction would be zero or biased."""

    goal: Goal
    lower_fps: float
    upper_fps: float | None
    conditional_fps: float
    exceed_ratio: float | None


Ends = tuple[GoalInterval | UnmetGoal, ...]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search, and all its probes in order. Each goal is in `intervals` or in `unmet`."""

    intervals: tuple[GoalInterval, ...]
    probes: tuple[Probe, ...]
    most_fps: float  # the largest load of the search
    limited: bool  # the generator, not the study, limited the largest load
    unmet: tuple[UnmetGoal, ...] = ()
    warm_up: Probe | None = None  # the probe before the search; None without a warm-up

    def of(self, goal: str) -> GoalInterval | None:
        """Return the interval of the goal with this name; None if no load met it."""
        return next((interval for interval in self.intervals if interval.goal.name == goal), None)


class _GeneratorLimit(Exception):
    """The generator sent only `fps`, less than a probe's rate, so the search must begin again with lower loads."""

    def __init__(self, fps: float) -> None:
        self.fps = fps


def mlrsearch(goals: Sequence[Goal], bounds: Bounds, measure: Measure) -> Ends:
    """Find the intervals of all goals by multiple loss ratio search; return one end per goal, in order."""
    from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

    class Measurer(AbstractMeasurer):  # type: ignore[misc]
        def measure(self, intended_duration: float, intended_load: float) -> Any:
            probe = measure(intended_load, intended_duration)
            return MeasurementResult(
                intended_duration=intended_duration,
                intended_load=intended_load,
                offered_count=probe.sent,
                loss_count=probe.lost,
            )

    wanted = {
        goal: SearchGoal(
            loss_ratio=goal.loss_ratio,
            exceed_ratio=goal.exceed_ratio,
            relative_width=min(bounds.width, _WIDEST * (1 - bounds.least_fps / bounds.most_fps)),
            initial_trial_duration=bounds.first_s,
            final_trial_duration=bounds.final_s,
            duration_sum=bounds.sum_s,
            preceding_targets=_PRECEDING,
            expansion_coefficient=_EXPANSION,
            fail_fast=False,
        )
        for goal in goals
    }
    config = Config(
        goals=list(dict.fromkeys(wanted.values())),  # of equal goals, the library takes one
        min_load=bounds.least_fps,
        max_load=bounds.most_fps,
        search_duration_max=bounds.limit_s,
        warmup_duration=None,
    )
    try:
        results = MultipleLossRatioSearch(config=config).search(measurer=Measurer(), debug=lambda _: None)
    except RuntimeError as error:
        raise InstrumentError(f"the search ended without a result: {error}") from None
    ends: list[GoalInterval | UnmetGoal] = []
    for goal, asked in wanted.items():
        result = results[asked]
        lower, upper = result.relevant_lower_bound, result.relevant_upper_bound
        if lower is None:
            ends.append(UnmetGoal(goal, float(upper)))
            continue
        (stat,) = lower.target_to_stat.values()
        long_s = stat.good_long + stat.bad_long
        several = bounds.sum_s - bounds.final_s > goal.exceed_ratio * bounds.sum_s  # whether one probe cannot decide
        exceed = stat.bad_long / long_s if long_s and several else None
        upper_fps = None if upper is None else float(upper)
        ends.append(GoalInterval(goal, float(lower), upper_fps, float(result.conditional_throughput), exceed))
    return tuple(ends)


def binary(goals: Sequence[Goal], bounds: Bounds, measure: Measure) -> Ends:
    """Find the interval of each goal by binary search; return one end per goal, in order.

    One probe of `sum_s` decides whether a load meets a goal, so `exceed_ratio` of the goal is not used."""
    return tuple(_bisected(goal, bounds, measure) for goal in goals)


def _bisected(goal: Goal, bounds: Bounds, measure: Measure) -> GoalInterval | UnmetGoal:
    def probe_meeting_goal(rate_fps: float) -> Probe | None:
        probe = measure(rate_fps, bounds.sum_s)
        return probe if probe.loss_ratio <= goal.loss_ratio else None

    lower, upper = bounds.least_fps, bounds.most_fps
    if best := probe_meeting_goal(upper):
        return _interval_of_binary_search(goal, upper, None, best)
    best = probe_meeting_goal(lower)
    if best is None:
        return UnmetGoal(goal, lower)
    while upper - lower > bounds.width * upper:
        middle = (lower + upper) / 2
        if probe := probe_meeting_goal(middle):
            lower, best = middle, probe
        else:
            upper = middle
    return _interval_of_binary_search(goal, lower, upper, best)


def _interval_of_binary_search(goal: Goal, lower: float, upper: float | None, best: Probe) -> GoalInterval:
    return GoalInterval(goal, lower, upper, lower * (1 - best.loss_ratio), None)


METHODS: Mapping[str, Callable[[Sequence[Goal], Bounds, Measure], Ends]] = {"mlrsearch": mlrsearch, "binary": binary}


def search(method: str, goals: Sequence[Goal], bounds: Bounds, measure: Measure) -> SearchResult:
    """Search for the intervals of all goals by a method of METHODS, and return them with all probes.

    If the generator does not reach the rate of a probe, the probe is repeated, since the host may have been busy. It
    is repeated more often if the generator has sent clearly more before. If the generator still does not reach the
    rate, the search begins again with a lower largest load. But if clearly more was lost in each repetition than any
    goal allows, the load misses all goals: the function is the limit, since it loses too much even of the lower rate.
    One such probe decides nothing, since a generator that pauses may then send faster than asked. Clearly more is more
    than the generator is missing if it is at its own limit; if it has sent clearly more before, any excess is enough.

    The first largest load is `begin_fps`; it is doubled as long as a goal is met there. A warm-up comes first, and
    decides nothing. Raises: InstrumentError when the generator holds no rate, or when the search takes too long."""
    most, n_limits = min(bounds.most_fps, max(bounds.begin_fps, 2 * bounds.least_fps)), 0
    allowed = max(goal.loss_ratio for goal in goals)
    warm_up = measure(most, bounds.warm_up_s) if bounds.warm_up_s else None
    probes: list[Probe] = []
    ends_s = time.monotonic() + bounds.limit_s

    def measure_patiently(rate_fps: float, duration_s: float) -> Probe:
        able, best = _has_sent_more(probes, rate_fps, duration_s, allowed), 0.0
        least_loss: Probe | None = None
        for n_before in range(1 + (_PATIENCE if able else _RETRIES)):
            if time.monotonic() > ends_s:
                raise InstrumentError(f"the search did not end within {bounds.limit_s:g} s", "raise `search_limit_s`")
            probe = measure(rate_fps, duration_s)
            probes.append(probe)
            if probe.reached:
                return probe
            best = max(best, probe.part_sent * rate_fps)
            least_loss = min(least_loss or probe, probe, key=lambda each: each.loss_ratio)
            if not able and n_before and best < REACHED * REACHED * rate_fps:  # twice so far below: no busy moment
                break
        clear = allowed if able else max(allowed, 1 - 1 / _MORE)
        if least_loss and least_loss.part_sent > 0 and least_loss.lost > clear * least_loss.sent:
            return least_loss
        raise _GeneratorLimit(min(best, rate_fps))

    while n_limits < _MOST_LIMITS and most > bounds.least_fps:
        try:
            ends = METHODS[method](goals, replace(bounds, most_fps=most), measure_patiently)
        except _GeneratorLimit as limit:
            n_limits += 1
            most = _BELOW**n_limits * limit.fps
            continue
        intervals = tuple(end for end in ends if isinstance(end, GoalInterval))
        if n_limits or most == bounds.most_fps or all(interval.upper_fps for interval in intervals):
            unmet = tuple(end for end in ends if isinstance(end, UnmetGoal))
            return SearchResult(intervals, tuple(probes), most, bool(n_limits), unmet, warm_up)
        most = min(2 * most, bounds.most_fps)
    last = probes[-1]
    raise InstrumentError(
        f"the generator did not hold a rate: it sent {last.part_sent * last.rate_fps:,.0f} of {last.rate_fps:,.0f}"
        " frames a second",
        _TOO_BUSY,
    )


def _has_sent_more(probes: Sequence[Probe], rate_fps: float, duration_s: float, allowed_loss: float) -> bool:
    """Return whether an earlier probe has sent clearly more than `rate_fps`; much more, if that probe was shorter.

    A probe in which the generator was late counts only if it shows that the function was overloaded."""
    return any(
        (probe.reached or probe.loss_ratio > allowed_loss)
        and probe.part_sent * probe.rate_fps >= rate_fps * (_MORE if probe.duration_s >= duration_s else _MUCH_MORE)
        for probe in probes
    )
