"""What a trial measures: by a search, the rates that meet the goals; then the cost of a frame and latency under load.

If no load meets the goal PDR, cost and latency are not measured. The trial stays valid, since that is a result, too."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lastro.errors import Unavailable
from lastro.functions.base import Readings
from lastro.instruments.load_generator import FLOWS, PROBE_S, SIZE, LoadGenerator, Traffic
from lastro.meters.host import HostMeter
from lastro.meters.usage import UsageMeter
from lastro.results.samples import AT_LEAST, GOAL_NOT_MET, Metric, Outcome, Remark, Series
from lastro.results.trial_notes import Ceiling, SearchEnd
from lastro.scenarios.base import Config, chosen_class, chosen_part
from lastro.scenarios.load.cost import METRICS as COST_METRICS
from lastro.scenarios.load.cost import measure_cost
from lastro.scenarios.load.goals import NO_GOAL, Goal, own_goal
from lastro.scenarios.load.latency import AT, measure_latency, metrics_at
from lastro.scenarios.load.probing import DIRECTION, Prober
from lastro.scenarios.load.search import METHODS, REACHED, Bounds, GoalInterval, Probe, SearchResult, search
from lastro.scenarios.load.steering import queue_frames
from lastro.scenarios.shared.chain import Chain
from lastro.scenarios.shared.flow import difference, judge_crossings
from lastro.scenarios.shared.impaired_link import Impairment
from lastro.scenarios.shared.on_chain import IMPLEMENTATION, IP, StandingChain, n_chains
from lastro.scenarios.shared.simultaneous import MEMORY, OVERLAP, extend_marks, overlap_reasons, prefixing_reasons
from lastro.scenarios.shared.topology import note_load, note_witness
from lastro.study.model import DAY_S, Setting
from lastro.testbed import Testbed

PDR, NDR, OWN = "pdr", "ndr", "own"
PROBE_SENT, PROBE_LOSS, PROBE_REACHED = "probe sent", "probe loss", "probe reached"  # series
SEARCH = Setting("search", "mlrsearch", "multiple loss ratio search, or binary search", choices=tuple(METHODS))
OWN_GOAL = Setting("own_goal", NO_GOAL, "a goal of loss besides PDR and NDR: 1%, 1% exceed 20%", check=own_goal)
EXCEED_PERCENT = Setting("exceed_percent", 50.0, "time at a load in which loss may exceed the goals PDR and NDR", 0, 99)
WIDTH_PERCENT = Setting(
    "width_percent", 1.0, "width of an interval, relative to its upper end", 0.1, 50, by_profile=True
)
WARM_UP_S = Setting(
    "warm_up_s", 1.0, "length of a probe at the largest load before the search, which does not count; 0: none", 0, DAY_S
)
FIRST_PROBE_S = Setting(
    "first_probe_s", 0.2, "length of the first, coarse probes; sockperf rounds up to whole seconds", 0.1, DAY_S
)
DECIDING_S = Setting("deciding_s", 3.0, "length of all probes that classify a load; sockperf rounds up", 0.1, DAY_S)
LEAST_FPS = Setting("least_fps", 1000, "smallest load, in frames a second", 10, 100_000_000)
MOST_FPS = Setting("most_fps", 1_000_000, "largest load, in frames a second", 20, 100_000_000)
SEARCH_LIMIT_S = Setting("search_limit_s", 300.0, "time after which a search without a result ends", 1, DAY_S)
COST_S = Setting("cost_s", 2.0, "time at the PDR in which CPU is measured", 0.5, DAY_S)
SEARCH_SETTINGS = (
    SEARCH, OWN_GOAL, EXCEED_PERCENT, WIDTH_PERCENT, WARM_UP_S, FIRST_PROBE_S, PROBE_S, DECIDING_S, LEAST_FPS,
    MOST_FPS, SEARCH_LIMIT_S,
)  # fmt: skip
_PDR_LOSS = 0.005
_MOST_QUEUED = 0.01  # of the frames of a probe: the usual width of an interval
_WORDS = {PDR: "partial drop rate (0.5 % loss)", NDR: "non-drop rate (no loss)", OWN: "study's own goal of loss"}


def _metrics_of(goal: str, words: str) -> tuple[Metric, ...]:
    ends = goal, f"{goal}_upper"
    return (
        Metric(goal, "1/s", "higher", f"frames offered at the {words}: lower end of its interval", cell=ends),
        Metric(f"{goal}_upper", "1/s", "higher", f"upper end of the interval of the {words}", cell=ends),
        Metric(f"{goal}_conditional", "1/s", "higher", f"conditional throughput (RFC 9971) of the {words}", cell=ends),
        Metric(f"{goal}_exceed", "%", "neither", f"time at that load in which loss exceeded the {words}"),
    )


PDR_PER_CHAIN = Metric("pdr_per_chain", "1/s", "higher", "the PDR divided by the number of chains: what each carries")
WORST_LOSS = Metric("worst_loss", "%", "lower", "frames that the chain with the largest loss lost at the PDR")
SIDE_BY_SIDE = (PDR_PER_CHAIN, WORST_LOSS, OVERLAP, MEMORY)  # of several chains
METRICS = (*(metric for goal, words in _WORDS.items() for metric in _metrics_of(goal, words)), *COST_METRICS)


def bounds_of(config: Config, ceiling_fps: float | None = None) -> Bounds:
    """Return the bounds of a treatment's search; `ceiling_fps` is the largest rate of the generator, if it is known.

    The search begins at that ceiling. It may later exceed the ceiling, since a busy host may have lowered it."""
    step_s = chosen_class(LoadGenerator, config).step_s
    warm_up_s, first_s, final_s, sum_s = (
        math.ceil(seconds / step_s) * step_s if step_s else seconds
        for seconds in (setting.of(config) for setting in (WARM_UP_S, FIRST_PROBE_S, PROBE_S, DECIDING_S))
    )
    return Bounds(
        least_fps=LEAST_FPS.of(config),
        most_fps=MOST_FPS.of(config),
        width=WIDTH_PERCENT.of(config) / 100,
        first_s=first_s,
        final_s=final_s,
        sum_s=sum_s,
        limit_s=SEARCH_LIMIT_S.of(config),
        begin_fps=math.inf if ceiling_fps is None else ceiling_fps,
        warm_up_s=warm_up_s,
    )


def require_order(config: Config) -> None:
    """Check that settings of the search are in ascending order. Raises: Unavailable if they are not."""
    if not FIRST_PROBE_S.of(config) <= PROBE_S.of(config) <= DECIDING_S.of(config):
        raise Unavailable("first_probe_s, probe_s and deciding_s must not decrease", "make deciding_s the longest")
    if LEAST_FPS.of(config) >= MOST_FPS.of(config):
        raise Unavailable("least_fps must be below most_fps", "raise most_fps")


def goals_of(config: Config) -> tuple[Goal, ...]:
    """Return the goals of a treatment: PDR, NDR, and the user's own goal, if any."""
    exceed, own = EXCEED_PERCENT.of(config) / 100, own_goal(OWN_GOAL.of(config))
    return (Goal(PDR, _PDR_LOSS, exceed), Goal(NDR, 0.0, exceed), *([own] if own else []))


def traffic_of(config: Config) -> Traffic:
    return Traffic.of(SIZE.of(config), FLOWS.of(config), IP.of(config))


def measure(testbed: Testbed, config: Config, standing: StandingChain, bounds: Bounds, outcome: Outcome) -> None:
    """Add all measurements of a trial, and all reasons for its invalidity, to `outcome`.

    Raises: TrialError when the search does not end."""
    chains = standing.chains
    generator = chosen_part(LoadGenerator, config)
    traffic = traffic_of(config)
    link = Impairment.of(config)
    prober = Prober(testbed, standing.chain, generator, traffic, DIRECTION.of(config), link.delay_ms / 1000)
    window = standing.window(testbed, config)
    counted = [chain.counted() for chain in chains]
    with window:
        with prober.ready():
            searched = search(SEARCH.of(config), goals_of(config), bounds, prober.probe)
            record(searched, outcome, queue_frames(chains, DIRECTION.of(config)))
            outcome.add_condition(generator.condition())
            since = counted
            if pdr := searched.of(PDR):
                carried_bytes = traffic.counted_bytes * pdr.lower_fps / len(chains) * bounds.final_s
                outcome.invalidate(link.rate_reasons(PDR, (1 - _PDR_LOSS) * carried_bytes, bounds.final_s))
                since = [chain.counted() for chain in chains]
                at_pdr = measure_cost(testbed, standing, prober, pdr.lower_fps, COST_S.of(config), outcome)
                outcome.measurements |= {
                    PDR_PER_CHAIN.name: pdr.lower_fps / len(chains),
                    WORST_LOSS.name: 100 * at_pdr.loss_ratio,
                    MEMORY.name: outcome.measurements["chain_memory"] / len(chains),
                }
                extend_marks(outcome, PDR, PDR_PER_CHAIN.name)
            else:
                leave_out(config, searched, outcome)
            for chain, first, last in zip(chains, counted, since, strict=True):
                with prefixing_reasons(outcome, chain, len(chains)):
                    _judge_path(prober, generator.name, chain, first, last, IMPLEMENTATION.of(config), outcome)
            outcome.invalidate(prober.size_reasons())
            if prober.overdue:
                outcome.notes["frames_after_their_probe"] = prober.overdue
            outcome.notes["witness"] = {generator.name: prober.moved}
            _judge_overlap(generator.name, searched.probes, bounds.final_s, config, outcome)
        if pdr:
            measure_latency(testbed, config, standing.chain, traffic, pdr.lower_fps, outcome)
    window.judge(outcome)


def _judge_path(
    prober: Prober, generator: str, chain: Chain, first: Readings, last: Readings, implementation: str, outcome: Outcome
) -> None:
    """Invalidate the trial unless the frames of the last probe on this chain crossed its functions.

    `first` and `last` are the readings of the functions' counters before the search and before that probe."""
    after = chain.counted()
    counted, new_flows = difference(last, after), difference(first, after)  # flows of the search may go on
    counted |= {name: new_flows[name] for name in chain.function.witnesses if name in new_flows}
    note_load(outcome, generator, chain.source.spec.role, chain.sink.spec.role)
    roles = [instance.spec.role for instance in chain.instances.values()]
    note_witness(outcome, "interfaces", "frames sent and received at every hop", roles)
    carried_bytes = prober.carried_bytes(chain.path.chain)
    judge_crossings(generator, chain, counted, carried_bytes, implementation, outcome)


def _judge_overlap(generator: str, probes: Sequence[Probe], final_s: float, config: Config, outcome: Outcome) -> None:
    """Record for how long all chains carried their load in the probes of full length; invalidate a trial of too little.

    Shorter probes only lead the search to the loads that count."""
    if n_chains(config) == 1:
        outcome.measurements[OVERLAP.name] = 100.0
        return
    counting = [probe for probe in probes if probe.duration_s >= final_s and probe.overlap is not None]
    total_s = sum(probe.lasted_s for probe in counting)
    if not total_s:  # of a generator whose commands the apparatus does not see
        return
    found = 100 * sum(probe.lasted_s * (probe.overlap or 0.0) for probe in counting) / total_s
    outcome.measurements[OVERLAP.name] = found
    outcome.invalidate(overlap_reasons(generator, found, config))


def leave_out(config: Config, searched: SearchResult, outcome: Outcome) -> None:
    """Mark the metrics that need a PDR as dropped. Call this if no load meets the goal PDR.

    Without the mark, a mean over the other trials would look like a mean over all trials."""
    side_by_side = [metric for metric in SIDE_BY_SIDE if metric is not OVERLAP]
    needing = (*COST_METRICS, *side_by_side, *UsageMeter.metrics, *HostMeter.metrics, *metrics_at(AT.of(config)))
    reason = next(missed.reason for missed in searched.unmet if missed.goal.name == PDR)
    outcome.add_caveat(Remark(GOAL_NOT_MET, reason, tuple(metric.name for metric in needing)))


def record(searched: SearchResult, outcome: Outcome, queue: int = 0) -> None:
    """Record the interval of each goal and what ended its search, and the probes of the search as series.

    If a goal is met at the largest load, its rate is a lower bound without an upper end, and a caveat marks it. For
    a goal that no load met, there is only a caveat. If the generator limited the load, the rates are flagged.
    `queue` is the length in frames of the queue in front of the function; 0 if it is not known. The warm-up is
    noted, and is in no series."""
    open_intervals = [interval for interval in searched.intervals if interval.upper_fps is None]
    steps = [probe.as_note() for probe in searched.probes]
    for interval in searched.intervals:
        name, end = interval.goal.name, _ending(interval, searched, queue)
        outcome.measurements[name] = interval.lower_fps
        if interval.upper_fps is not None:
            outcome.measurements[f"{name}_upper"] = interval.upper_fps
        outcome.measurements[f"{name}_conditional"] = interval.conditional_fps
        if interval.exceed_ratio is not None:
            outcome.measurements[f"{name}_exceed"] = 100 * interval.exceed_ratio
        outcome.notes |= SearchEnd("frames a second", int(interval.lower_fps), end, []).as_notes(name)
        if interval.upper_fps is None:
            outcome.add_caveat(Remark(AT_LEAST, end, (name, f"{name}_conditional", f"{name}_upper")))
    for missed in searched.unmet:
        names = tuple(f"{missed.goal.name}{end}" for end in ("", "_upper", "_conditional", "_exceed"))
        outcome.add_caveat(Remark(GOAL_NOT_MET, missed.reason, names))
    if searched.limited and open_intervals:
        goals = [interval.goal.name for interval in open_intervals]
        rates = [rate for goal in goals for rate in (goal, f"{goal}_conditional")]
        values = dict.fromkeys(rates, searched.most_fps)
        outcome.notes |= Ceiling(values, limited=True).as_notes()
    outcome.notes |= {"most_fps": searched.most_fps, "generator_reached_its_limit": searched.limited, "probes": steps}
    if searched.warm_up:
        outcome.notes["warm_up"] = searched.warm_up.as_note()
    outcome.series += _series(searched.probes)


def _ending(interval: GoalInterval, searched: SearchResult, queue: int) -> str:
    """Return why the interval ends where it does: a load missed the goal, or the generator or the study has a limit."""
    if interval.upper_fps is not None:
        parts = [probe.part_sent for probe in searched.probes if probe.rate_fps == interval.upper_fps]
        late = f", of which the generator sent {100 * min(parts):.0f} %" if parts and min(parts) < REACHED else ""
        return interval.goal.missed_at(interval.upper_fps) + late + _queued(interval.lower_fps, searched.probes, queue)
    if searched.limited:
        return f"the generator did not hold more than {searched.most_fps:,.0f} frames a second"
    return f"the study offers {searched.most_fps:,.0f} frames a second at most"


def _queued(rate_fps: float, probes: Sequence[Probe], queue: int) -> str:
    """Return a remark if a queue may have held frames of the load `rate_fps`, which met its goal; else an empty text.

    Such frames would be lost in a longer probe. `queue` is the length of the queue in frames, so it cannot hold
    more. It held at least the late frames that were counted, since it may have been emptier again when counters were
    read."""
    seen = [probe for probe in probes if probe.rate_fps == rate_fps and probe.sent]
    longest_s = max((probe.duration_s for probe in seen), default=0.0)
    late = max((probe.late / probe.sent for probe in seen if probe.duration_s == longest_s), default=0.0)
    most = queue / (rate_fps * longest_s) if longest_s else 0.0
    if most > max(late, _MOST_QUEUED):
        text = f"the queue of {queue:,} frames in front of the function may hold {100 * most:.1f} % of a probe"
    elif late > _MOST_QUEUED:
        text = f"queues still held {100 * late:.1f} % of the frames when the generator had ended"
    else:
        return ""
    return f"; at {rate_fps:,.0f}, {text}: longer probes may find less"


def _series(probes: Sequence[Probe]) -> list[Series]:
    """Return four series, one value per probe: rate asked for, rate sent, loss, and 1 if the rate was reached."""
    return [
        Series("probe rate", "1/s", tuple(probe.rate_fps for probe in probes)),
        Series(PROBE_SENT, "1/s", tuple(probe.sent_fps for probe in probes)),
        Series(PROBE_LOSS, "%", tuple(100 * probe.loss_ratio for probe in probes)),
        Series(PROBE_REACHED, "1", tuple(float(probe.reached) for probe in probes)),
    ]
