"""The measurements of a chain's trial: instruments one after the other, with meters and witnesses around them.

Several chains are measured at the same time, each with its own client and server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

from lastro import validity
from lastro.functions.dpi import Dpi
from lastro.instruments.base import Instrument, Watch
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.instruments.iperf3_udp import UDP_S, Iperf3Udp
from lastro.instruments.irtt import LOADED_S
from lastro.meters.host import HostMeter
from lastro.meters.interfaces import Counters, InterfaceMeter
from lastro.meters.usage import UsageMeter
from lastro.results.samples import Metric, Outcome, Reading, Series
from lastro.scenarios.base import Config
from lastro.scenarios.chain.latency import (
    TRANSACTIONS,
    BesideTcp,
    idle_instrument,
    load_reasons,
    missed_redirections,
    signed,
)
from lastro.scenarios.shared.awake import AWAKE, CPUS_IDLE, AwakeCpus, awake_cpus
from lastro.scenarios.shared.chain import SINK_PORT, Chain, hops_of
from lastro.scenarios.shared.flow import difference, judge_crossings, rest
from lastro.scenarios.shared.frames import FRAME_SIZE, OFFLOADS, frames_of, judge_frames
from lastro.scenarios.shared.impaired_link import Impairment
from lastro.scenarios.shared.on_chain import IMPLEMENTATION, StandingChain
from lastro.scenarios.shared.simultaneous import MEMORY, OVERLAP, at_the_same_time, overlap_reasons, prefixing_reasons
from lastro.scenarios.shared.topology import note_load, note_witness
from lastro.scenarios.shared.window import Meters
from lastro.study.model import DAY_S, Setting
from lastro.testbed import Testbed

GAP_S = Setting("gap_s", 1.0, "pause between two measurements", 0, DAY_S)
COST = Metric(
    "cpu_per_gbit", "s/Gbit", "lower",
    "CPU seconds of the host for each Gbit of TCP payload, interrupts included; without the neighbour and Lastro",
)  # fmt: skip
THROUGHPUT = "throughput"  # of TCP, on each chain
TOTAL, WORST, FAIRNESS = "host_throughput", "worst_throughput", "throughput_fairness"
SIDE_BY_SIDE = (  # of several chains
    Metric(TOTAL, "Mbit/s", "higher", "TCP throughput of all chains together: what the whole host carries"),
    Metric(WORST, "Mbit/s", "higher", "TCP throughput of the chain that got least"),
    Metric(
        FAIRNESS, "1", "higher", "Jain's index of the chains' TCP throughputs: 1 if all are equal, 1/n if one has all"
    ),
    replace(OVERLAP, summary="time in which all chains carried TCP, of that in which any did"),
    MEMORY,
)
_DURING = "; during the TCP flow"
METRICS = (
    COST,
    *(
        replace(metric, summary=metric.summary + _DURING) if metric.unit == "CPU" else metric
        for metric in (*UsageMeter.metrics, *HostMeter.metrics)
    ),
)


def measure(testbed: Testbed, config: Config, standing: StandingChain, outcome: Outcome) -> None:
    """Add all measurements of a trial, and all reasons for its invalidity, to `outcome`."""
    with awake_cpus(testbed) if CPUS_IDLE.of(config) == AWAKE else nullcontext() as awake:
        if awake:
            standing = replace(standing, own_cgroups=(*standing.own_cgroups, awake.group))
        window = standing.window(testbed, config)
        with window:
            carrying = _run_instruments(testbed, config, standing, awake, outcome)
        used = window.usage.read()
        outcome.measurements.update({**window.host.read(), **used, **carrying})
        outcome.measurements[MEMORY.name] = used["chain_memory"] / len(standing.chains)
        outcome.notes |= {**window.usage.notes(), "elapsed_s": window.usage.elapsed_s}
        window.judge(outcome)
        if awake:
            awake.note(outcome)


def _run_instruments(
    testbed: Testbed, config: Config, standing: StandingChain, awake: AwakeCpus | None, outcome: Outcome
) -> dict[str, float]:
    """Measure TCP, UDP, transactions and latency, and add the readings to `outcome`.

    The trial is invalid unless witnesses on the path account for each reading. Return, by metric, the CPUs, the cost
    and the throughput of the host while the chains carried TCP. TCP is used because it takes the whole capacity,
    whereas the study sets the rates of UDP and ping."""
    carrying: dict[str, float] = {}
    witness: dict[str, Any] = {}
    phases: dict[str, Any] = {}
    throughputs: list[float] = []
    datagrams = (Iperf3Udp(),) if UDP_S.of(config) else ()
    transactions = [tool() for length, tool in TRANSACTIONS if length.of(config)]
    beside = (BesideTcp(),) if LOADED_S.of(config) else ()
    latency = idle_instrument(config)
    for position, instrument in enumerate((Iperf3Tcp(), *datagrams, *transactions, latency, *beside)):
        if position:
            rest(GAP_S.of(config))
        flows = [_Flow(testbed, standing, chain) for chain in standing.chains]
        watch = Meters(testbed, standing.everyone, standing.own_cgroups)
        for flow in flows:
            flow.start()
        with awake.keep_awake() if awake and instrument is latency else nullcontext():
            readings, windows = measure_on_all(testbed, instrument, standing.chains, signed(config), watch)
        for flow in flows:
            flow.stop()
        outcome.add(combined(readings))
        if len(windows) > 1:
            outcome.invalidate(overlap_reasons(instrument.name, validity.overlap_percent(windows), config))
        for flow, reading in zip(flows, readings, strict=True):
            with prefixing_reasons(outcome, flow.chain, len(flows)):
                flow.judge(instrument.name, reading, config, outcome)
                if instrument is latency:
                    outcome.invalidate(flow.missed_redirections(reading, config))
                if instrument in beside:
                    throughput = throughputs[flow.chain.path.chain]
                    outcome.invalidate(load_reasons(flow.received_bytes, watch.host.elapsed_s, throughput))
        if instrument.name == Iperf3Tcp.name:
            throughputs = [each.measurements["throughput"] for each in readings]
            _judge_frames(flows, config, outcome)
            work_s = _work_s(watch, windows)
            n_bytes = sum(each.payload_bytes for each in readings)
            carrying = {**_cost_of_carrying(watch, work_s, n_bytes), **of_host(throughputs, windows)}
            outcome.notes["carrying_cpus"] = work_s / watch.host.elapsed_s
        witness[instrument.name] = {port: moved for flow in flows for port, moved in flow.moved.items()}
        phases[instrument.name] = {"host_cpus": watch.host.read()["host_cpus"], **watch.host.pressure()}
    outcome.notes["witness"] = witness
    outcome.notes["phases"] = phases
    return carrying


class _Flow:
    """The flow of an instrument over one chain, and what the chain's interfaces and functions count meanwhile."""

    def __init__(self, testbed: Testbed, standing: StandingChain, chain: Chain) -> None:
        self.chain, self.also_sent = chain, standing.also_sent(chain)
        self.counters = InterfaceMeter(testbed, standing.on_links(chain))

    def start(self) -> None:
        self.counters.start()
        self._counted = self.chain.counted()

    def stop(self) -> None:
        self.counters.stop()
        self.seen = difference(self._counted, self.chain.counted())

    @property
    def moved(self) -> Counters:
        """The increase of each interface's counters, by 'ROLE.INTERFACE' with the trial's role: 'source-2.out0'."""
        by_trial_role: Counters = {}
        for port, counters in self.counters.moved.items():
            role, _, interface = port.partition(".")
            by_trial_role[f"{self.counters.instances[role].spec.role}.{interface}"] = counters
        return by_trial_role

    @property
    def received_bytes(self) -> int:
        return self.counters.moved.get(f"sink.{SINK_PORT}", {}).get("rx_bytes", 0)

    def judge(self, name: str, reading: Reading, config: Config, outcome: Outcome) -> None:
        """Invalidate the trial unless the counters of each hop account for `reading` of the instrument `name`."""
        chain, moved = self.chain, self.counters.moved
        note_load(outcome, name, chain.source.spec.role, chain.sink.spec.role)
        roles = [each.spec.role for each in self.counters.instances.values()]
        note_witness(outcome, self.counters.name, self.counters.summary, roles)
        ports = [(port, f"{way}_bytes") for port, way in hops_of(chain)]
        reasons = validity.path_reasons(name, moved, reading.payload_bytes, ports, also_sent=self.also_sent)
        outcome.invalidate([*reasons, *Impairment.of(config).reasons(name, reading)])
        judge_crossings(name, chain, self.seen, reading.payload_bytes, IMPLEMENTATION.of(config), outcome)

    def missed_redirections(self, reading: Reading, config: Config) -> Iterator[str]:
        """Yield a reason for each function `dpi` of the chain that redirected too few packets with its signature."""
        for hop in self.chain.function.hops:
            if isinstance(hop.function, Dpi):
                redirected = hop.function.detoured(self.counters.moved, self.seen, hop.role)
                yield from missed_redirections(reading, redirected, config)


def _judge_frames(flows: Sequence[_Flow], config: Config, outcome: Outcome) -> None:
    sizes = []
    for flow in flows:
        frames = frames_of(flow.chain, flow.counters, flow.seen, mixed=bool(flow.also_sent))
        with prefixing_reasons(outcome, flow.chain, len(flows)):
            judge_frames(frames, flow.chain, OFFLOADS.of(config), outcome)
        sizes += [frames.on_link] if frames else []
    if sizes:
        outcome.measurements[FRAME_SIZE.name] = fmean(sizes)


def _work_s(watch: Meters, windows: Sequence[validity.Window]) -> float:
    """Return the CPU seconds of the chains; each of their commands' windows has all CPU time of Lastro meanwhile."""
    return watch.work_s(max((each.cpu_s or 0.0 for each in windows), default=0.0))


def _cost_of_carrying(watch: Meters, work_s: float, payload_bytes: int) -> dict[str, float]:
    """Return by metric the CPUs used during the flows and, if any payload arrived, the CPU seconds per Gbit.

    `work_s` is the CPU time of the chains."""
    used = watch.usage.read()
    of_roles = {name: used[name] for name in ("chain_cpus", "function_cpus")}
    measurements = {"host_cpus": watch.host.read()["host_cpus"], **of_roles}
    if payload_bytes:
        measurements[COST.name] = work_s / (8 * payload_bytes / 1e9)
    return measurements


def measure_on_all(
    testbed: Testbed, instrument: Instrument, chains: Sequence[Chain], settings: Config, watch: Watch
) -> tuple[list[Reading], list[validity.Window]]:
    """Measure on all chains; return as `at_the_same_time`, with readings in the order of the chains. Raises: as it."""
    calls = [partial(instrument.measure, chain.source, chain.sink, chain.path.sink, settings) for chain in chains]
    return at_the_same_time(testbed, calls, watch)


def combined(readings: Sequence[Reading]) -> Reading:
    """Return one reading for all chains: means of measurements, and series with the samples of one chain after another.

    Payload bytes are added up. A measurement that one of the chains lacks is left out."""
    first, *others = readings
    if not others:
        return first
    common = [name for name in first.measurements if all(name in other.measurements for other in others)]
    units: dict[str, str] = {}
    samples: dict[str, list[float]] = {}
    reasons: list[str] = []
    notes = dict(first.notes)
    for number, reading in enumerate(readings, 1):
        for series in reading.series:
            units[series.name] = series.unit
            samples.setdefault(series.name, []).extend(series.values)
        reasons += [f"chain {number}: {reason}" for reason in reading.invalid_because]
        if number > 1 and reading.notes:
            notes[f"chain {number}"] = reading.notes
    return replace(
        first,
        measurements={name: fmean(reading.measurements[name] for reading in readings) for name in common},
        series=tuple(Series(name, unit, tuple(samples[name])) for name, unit in units.items()),
        payload_bytes=sum(reading.payload_bytes for reading in readings),
        invalid_because=tuple(reasons),
        remarks=tuple(dict.fromkeys(remark for reading in readings for remark in reading.remarks)),
        notes=notes,
    )


def of_host(throughputs: Sequence[float], windows: Sequence[validity.Window]) -> dict[str, float]:
    """Return the total and the worst TCP throughput, their fairness, and the overlap in time, by metric.

    `throughputs` has a value for each chain, and `windows` the times of the chains' commands. Without windows, the
    result has no overlap. Source of the index of fairness: Jain, Chiu and Hawe, DEC-TR-301 (1984)."""
    squares = sum(rate**2 for rate in throughputs)
    fairness = {FAIRNESS: sum(throughputs) ** 2 / (len(throughputs) * squares)} if squares else {}
    overlap = {OVERLAP.name: validity.overlap_percent(windows)} if windows else {}
    return {TOTAL: sum(throughputs), WORST: min(throughputs), **overlap, **fairness}
