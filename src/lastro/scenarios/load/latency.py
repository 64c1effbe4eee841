"""Latency under load: round trips at fractions of the treatment's own PDR, and at loads that all treatments share.

A fraction of the PDR compares treatments that are equally busy. A load in packets a second compares treatments that do
the same work. A load counts all packets: those that the generator sends, and the answers, one for each ten of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from lastro.errors import InstrumentError
from lastro.instruments.latency import (
    LATENCY_S,
    WORDS,
    MeasurementDisturbed,
    RoundTrips,
    pack_histogram,
    percentiles_reading,
)
from lastro.instruments.load_generator import Direction, Traffic
from lastro.instruments.packet_capture import PacketCapture
from lastro.instruments.sockperf_latency import ANSWERS_EVERY, SockperfLatency
from lastro.meters.interfaces import Counters, InterfaceMeter
from lastro.platforms.base import Instance, InstanceSpec
from lastro.platforms.native import Native
from lastro.results.samples import AT_LEAST, CLOCK_NOT_VERIFIED, GENERATOR_DELAY, OTHER_TRAFFIC, Metric, Outcome, Remark
from lastro.results.trial_notes import TrialNotes
from lastro.scenarios.base import Config
from lastro.scenarios.load.loads import OFF as OFF
from lastro.scenarios.load.loads import LatencyLoad, all_loads, loads_of
from lastro.scenarios.load.probing import DIRECTION, FORWARD
from lastro.scenarios.load.search import REACHED
from lastro.scenarios.shared.chain import SINK_PORT, SOURCE_PORT, Chain, hops_of
from lastro.scenarios.shared.on_chain import n_chains
from lastro.scenarios.shared.topology import note_load
from lastro.study.model import DAY_S, Setting
from lastro.testbed import Testbed
from lastro.validity import path_reasons

DEFAULT_AT = "10%, 50%, 90%"
NO, YES = "no", "yes"
_ETHERNET_BYTES = 14
_GRAIN_FPS = 2.0  # sockperf sends whole packets in a second
_CAPTURES_S = 1.6  # until captures have begun and ended
_STARTS_S = 3.0  # what a measurement takes besides its time: sockperf sleeps for 2 s before it begins
_REPEATS = 2  # of a measurement that other work on the host disturbed
_LATE = "{}, generator late"  # the name of a histogram that is in no figure
_US = "µs"
_Measured = TypeVar("_Measured")

AT = Setting(
    "at", DEFAULT_AT, "loads at which latency is measured: percentages of the PDR, packets a second (100kpps), or none",
    check=loads_of, by_profile=True, listed=True,
)  # fmt: skip
ONE_WAY = Setting(
    "one_way", NO,
    "delays in one direction, too, by captures at both ends: source and sink need the clock of one kernel",
    choices=(NO, YES), by_profile=True,
)  # fmt: skip
OWN_DELAY_S = Setting(
    "own_delay_s", 3.0, "length of the measurement of the generator's own delay at each load", 1, DAY_S
)
SETTINGS = (AT, LATENCY_S, ONE_WAY, OWN_DELAY_S)


def metrics_at(at: object) -> tuple[Metric, ...]:
    """Return the latency metrics at each load.

    `at` is the value of the setting `at` or, if that is a factor, a mapping whose keys are its levels."""
    loads = all_loads(at)
    metrics: list[Metric] = []
    own_metrics: list[Metric] = []
    for load in loads:
        text = f"packets sent and answers requested, per second, at {load.place}"
        metrics.append(Metric(load.load_metric, "1/s", "neither", text))
        for name in WORDS:
            text = f"{WORDS[name]} of round trips at {load.place}"
            metrics.append(Metric(load.metric(name), _US, "lower", text))
        for name in WORDS:
            text = f"{WORDS[name]} of one-way delays at {load.place}"
            metrics.append(Metric(load.one_way_metric(name), _US, "lower", text))
            text = f"{WORDS[name]} of the generator's own round trips, on its loopback, at {load.place}"
            own_metrics.append(Metric(load.own_metric(name), _US, "neither", text))
    return (*metrics, *own_metrics)


def latency_s(config: Config) -> float:
    """Estimate the seconds that a trial takes to measure the latency of chain and generator at all its loads.

    0 for several chains, on which latency is not measured."""
    if n_chains(config) > 1:
        return 0.0
    captures_s = _CAPTURES_S if ONE_WAY.of(config) == YES else 0.0
    each_s = OWN_DELAY_S.of(config) + LATENCY_S.of(config) + 2 * _STARTS_S + captures_s
    return len(loads_of(AT.of(config))) * each_s


def measure_latency(
    testbed: Testbed, config: Config, chain: Chain, traffic: Traffic, pdr_fps: float, outcome: Outcome
) -> None:
    """Measure latency at each load of the setting `at`, and add the percentiles to `outcome`.

    Each percentile is judged by the generator's own delay at the same load. Latency is measured only on a single chain,
    with one flow of one frame size over IPv4 from source to sink; otherwise, a remark reports that it is not.

    Raises: InstrumentError when nothing was answered at a percentage of the PDR; as `round_trips`."""
    loads, tool = loads_of(AT.of(config)), SockperfLatency()
    if not loads:
        return
    is_simple = len(traffic.sizes) == 1 and traffic.flows == 1 and traffic.ip == "4"
    if not is_simple or DIRECTION.of(config) != FORWARD or n_chains(config) > 1:
        text = "latency is measured on a single chain with one flow of one frame size over IPv4, from source to sink"
        outcome.add_caveat(Remark(OTHER_TRAFFIC, text, tuple(metric.name for metric in metrics_at(AT.of(config)))))
        return
    way = Direction(chain.source, chain.sink, chain.path.sink)
    note_load(outcome, tool.name, chain.source.spec.role, chain.sink.spec.role)
    notes: dict[str, object] = {}
    counters = InterfaceMeter(testbed, chain.instances)
    with both_ends(testbed, chain) if _is_one_way(config, chain, outcome) else nullcontext() as ends:
        for load in loads:
            rate_fps = load.rate_fps(pdr_fps)
            own_s, trips_s = OWN_DELAY_S.of(config), LATENCY_S.of(config)
            own = _undisturbed(partial(tool.own_delay, chain.source, traffic, rate_fps, own_s))
            measure = partial(tool.round_trips, way, traffic, rate_fps, trips_s)
            trips, moved = _undisturbed(partial(_counted, counters, tool.answering, way, ends, measure))
            answered_bytes = int(len(trips.due_ns) * (traffic.counted_bytes - _ETHERNET_BYTES))
            ports = [(port, f"{sent}_bytes") for port, sent in hops_of(chain)]
            outcome.invalidate(path_reasons(f"{tool.name} at {load.text}", moved, answered_bytes, ports))
            lost = _lost_by_receiver(trips, moved, ANSWERS_EVERY)
            _record_own(load, rate_fps, own, outcome)
            _record(load, rate_fps, trips, own, outcome, lost)
            if ends:
                _record_one_way(load, rate_fps, trips, ends, outcome)
            alone = {"generator_alone": _note(rate_fps, own)}
            notes[load.text] = {**_note(rate_fps, trips), "lost_by_receiver": lost, **alone}
    outcome.notes["latency"] = notes
    if TrialNotes.of(outcome.notes).only_at_least("pdr"):
        _bound_fractions(loads, outcome)


def _undisturbed(measure: Callable[[], _Measured]) -> _Measured:
    """Return the result of `measure`; call it again, a few times at most, if other work on the host disturbed it.

    Raises: MeasurementDisturbed when the last call was disturbed, too."""
    for _ in range(_REPEATS):
        with suppress(MeasurementDisturbed):
            return measure()
    return measure()


def _counted(
    counters: InterfaceMeter,
    answering: Callable[[Direction], AbstractContextManager[object]],
    direction: Direction,
    ends: Ends | None,
    measure: Callable[[], RoundTrips],
) -> tuple[RoundTrips, Counters]:
    """Return the round trips that `measure` returns, and the increases of the interfaces' counters meanwhile.

    If `ends` is not None, its captures run during the measurement."""
    counters.start()
    with answering(direction), ends.running() if ends else nullcontext():
        trips = measure()
    counters.stop()
    return trips, counters.moved


def _is_one_way(config: Config, chain: Chain, outcome: Outcome) -> bool:
    """Return whether to measure one-way delays; add a remark if the setting asks for it, but the clocks differ."""
    if ONE_WAY.of(config) == YES and not have_one_clock(chain):
        names = [load.one_way_metric(name) for load in loads_of(AT.of(config)) for name in WORDS]
        text = "source and sink have no common clock"
        outcome.add_caveat(Remark(CLOCK_NOT_VERIFIED, text, tuple(names)))
    return ONE_WAY.of(config) == YES and have_one_clock(chain)


def _bound_fractions(loads: Sequence[LatencyLoad], outcome: Outcome) -> None:
    """Mark latencies at percentages of the PDR as lower bounds. Call this if the PDR itself is a lower bound.

    In this case, the loads were smaller percentages of the true PDR, and latency grows with load."""
    relative_loads = [load for load in loads if load.fraction is not None]
    names = [load.metric(name) for load in relative_loads for name in WORDS]
    names += [load.one_way_metric(name) for load in relative_loads for name in WORDS]
    names += [load.load_metric for load in relative_loads]
    if marked := tuple(name for name in names if name in outcome.measurements):
        text = "the PDR is only a lower bound, so the load was a smaller percentage of the true PDR"
        outcome.add_caveat(Remark(AT_LEAST, text, marked))


def _lost_by_receiver(trips: RoundTrips, moved: Counters, answers_every: int) -> int:
    """Return how many unanswered packets the receiver lost: they reached its interface, and no link lost the answer.

    The counters of the interfaces of both ends, `moved`, show how many packets the path lost in each direction."""
    source, sink = moved.get(f"source.{SOURCE_PORT}"), moved.get(f"sink.{SINK_PORT}")
    if not source or not sink:
        return 0
    there = max(0, source["tx_packets"] + source["tx_dropped"] - sink["rx_packets"])
    back = max(0, sink["tx_packets"] + sink["tx_dropped"] - source["rx_packets"])
    return max(0, trips.lost - math.ceil(there / answers_every) - back)


def _record_own(load: LatencyLoad, asked_fps: float, of_generator: RoundTrips, outcome: Outcome) -> None:
    """Add the percentiles of the generator's own delay at a load; only a caveat if it did not hold its rate."""
    if _held_rate(of_generator, asked_fps):
        outcome.histograms.append(pack_histogram(load.own_histogram, of_generator.histogram))
        outcome.add(percentiles_reading(of_generator.histogram, None, load.own_metric))
    else:
        outcome.histograms.append(pack_histogram(_LATE.format(load.own_histogram), of_generator.histogram))
        outcome.add_caveat(Remark(GENERATOR_DELAY, _late(of_generator, asked_fps), tuple(map(load.own_metric, WORDS))))


def _record(
    load: LatencyLoad, asked_fps: float, trips: RoundTrips, alone: RoundTrips, outcome: Outcome, lost: int = 0
) -> None:
    """Add the percentiles of round trips at a load to `outcome`; only a caveat if the generator missed its rate.

    `alone` are the round trips of the generator alone; `lost` is the number of packets that the receiver lost.
    Percentiles that the generator's own delay could explain are left out, with a remark. Raises: InstrumentError
    when no packet was answered at a percentage of the PDR."""
    if load.fraction is not None and not len(trips.due_ns):
        raise InstrumentError(f"no packet was answered at {load.text} of the rate that the function carried before")
    outcome.measurements[load.load_metric] = trips.rate_fps
    if not _held_rate(trips, asked_fps):
        outcome.add_caveat(Remark(GENERATOR_DELAY, _late(trips, asked_fps), tuple(map(load.metric, WORDS))))
        outcome.histograms.append(pack_histogram(_LATE.format(load.histogram), trips.histogram))
        return
    outcome.histograms.append(pack_histogram(load.histogram, trips.histogram))
    own = alone.histogram if _held_rate(alone, asked_fps) else None
    reading = percentiles_reading(trips.histogram, own, load.metric, lost)
    if own is None and reading.measurements:
        text = f"its own delay at this load is not known: on its loopback, {_late(alone, asked_fps)}"
        unjudged = Remark(GENERATOR_DELAY, text, tuple(reading.measurements))
        reading = replace(reading, measurements={}, remarks=(*reading.remarks, unjudged))
    outcome.add(reading)


def _record_one_way(load: LatencyLoad, asked_fps: float, trips: RoundTrips, ends: Ends, outcome: Outcome) -> None:
    """Add the percentiles of one-way delays at a load; only a caveat if the generator did not hold its rate."""
    if not _held_rate(trips, asked_fps):
        text = "the generator did not hold its rate"
        outcome.add_caveat(Remark(GENERATOR_DELAY, text, tuple(map(load.one_way_metric, WORDS))))
        return
    delays = SockperfLatency.one_way(ends.sender.data, ends.receiver.data, asked_fps)
    outcome.histograms.append(pack_histogram(load.one_way_histogram, delays.histogram))
    own, own_is = delays.generator_delays, "the generator itself was late by"
    outcome.add(percentiles_reading(delays.histogram, own, load.one_way_metric, own_is=own_is))


def _held_rate(trips: RoundTrips, asked_fps: float) -> bool:
    """Return whether the generator sent at the rate `asked_fps`; if not, it delayed packets itself."""
    return trips.rate_fps >= REACHED * asked_fps - _GRAIN_FPS


def _late(trips: RoundTrips, asked_fps: float) -> str:
    return f"the generator sent {trips.rate_fps:,.0f} of {asked_fps:,.0f} packets a second, and so was late itself"


def _note(asked_fps: float, trips: RoundTrips) -> dict[str, object]:
    late_ns = trips.sent_ns - trips.due_ns
    return {
        "asked_fps": round(asked_fps),
        "sent_fps": round(trips.rate_fps),
        "answered": len(trips.due_ns),
        "lost": trips.lost,
        "sent_late_us": {"mean": round(float(late_ns.mean()) / 1000, 3), "most": round(float(late_ns.max()) / 1000, 3)}
        if len(late_ns)
        else {},
    }


@dataclass(frozen=True, slots=True)
class Ends:
    """Packet captures at both ends of a path."""

    sender: PacketCapture
    receiver: PacketCapture

    @contextmanager
    def running(self) -> Iterator[None]:
        """Capture at both ends inside the block. Raises: as `PacketCapture.running`."""
        with self.receiver.running(), self.sender.running():
            yield


def have_one_clock(chain: Chain) -> bool:
    """Return whether both ends use the host's kernel, so that one clock stamps the packets of both."""
    return all(end.shares_kernel and not end.takes_taps for end in (chain.source, chain.sink))


@contextmanager
def both_ends(testbed: Testbed, chain: Chain) -> Iterator[Ends]:
    """Prepare captures in the network namespaces of source and sink inside the block, without starting them.

    The capturing processes are outside the confinement and the limits of the instances."""
    with ExitStack() as stack:

        def capture_at(instance: Instance, device: str) -> PacketCapture:
            spec = InstanceSpec(testbed.session.unique("capture"), "capture", netns=instance.netns)
            return PacketCapture(stack.enter_context(Native().start(testbed, spec)), device)

        yield Ends(capture_at(chain.source, SOURCE_PORT), capture_at(chain.sink, SINK_PORT))
