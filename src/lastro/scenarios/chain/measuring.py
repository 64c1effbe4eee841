"""The measuring part of a chain's trial: instruments one after the other, with meters and witnesses around them."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any

from lastro import validity
from lastro.functions.dpi import Dpi
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.instruments.iperf3_udp import UDP_S, Iperf3Udp
from lastro.instruments.irtt import LOADED_S
from lastro.meters.host import HostMeter
from lastro.meters.interfaces import InterfaceMeter
from lastro.meters.usage import UsageMeter
from lastro.results.samples import Metric, Outcome, Reading
from lastro.scenarios.base import Config
from lastro.scenarios.chain.latency import TRANSACTIONS, BesideTcp, idle_instrument, load_reasons, signed, undetoured
from lastro.scenarios.shared.awake import AWAKE, CPUS_IDLE, AwakeCpus, awake_cpus
from lastro.scenarios.shared.chain import hops_of
from lastro.scenarios.shared.flow import difference, judge_crossings, rest
from lastro.scenarios.shared.frames import OFFLOADS, frames_of, judge_frames
from lastro.scenarios.shared.impaired_link import Impairment
from lastro.scenarios.shared.on_chain import IMPLEMENTATION, StandingChain
from lastro.scenarios.shared.topology import note_load, note_meter
from lastro.scenarios.shared.window import Meters
from lastro.study.model import DAY_S, Setting
from lastro.testbed import Testbed

GAP_S = Setting("gap_s", 1.0, "pause between two measurements", 0, DAY_S)
COST = Metric(
    "cpu_per_gbit",
    "s/Gbit",
    "lower",
    "CPU seconds of the host for each Gbit of TCP payload, interrupts included; without the neighbour and Lastro",
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
    with ExitStack() as stack:
        awake = stack.enter_context(awake_cpus(testbed)) if CPUS_IDLE.of(config) == AWAKE else None
        if awake:
            standing = replace(standing, own_cgroups=(*standing.own_cgroups, awake.group))
        _measure(testbed, config, standing, awake, outcome)
        if awake:
            awake.note(outcome)


def _measure(
    testbed: Testbed, config: Config, standing: StandingChain, awake: AwakeCpus | None, outcome: Outcome
) -> None:
    window = standing.window(testbed, config)
    with window:
        carrying = _instruments(testbed, config, standing, awake, outcome)
    outcome.measurements.update({**window.host.read(), **window.usage.read(), **carrying})
    outcome.notes |= {**window.usage.notes(), "elapsed_s": window.usage.elapsed_s}
    window.judge(outcome)


def _instruments(
    testbed: Testbed, config: Config, standing: StandingChain, awake: AwakeCpus | None, outcome: Outcome
) -> dict[str, float]:
    """Measure TCP, UDP, transactions and latency; for each, witnesses of the path must account for what was measured.

    Return what CPUs did while the chain carried TCP: at its own pace, while UDP and ping have a rate of the study's."""
    chain = standing.chain
    carrying: dict[str, float] = {}
    witness: dict[str, Any] = {}
    phases: dict[str, Any] = {}
    datagrams = (Iperf3Udp(),) if UDP_S.of(config) else ()
    transactions = [tool() for length, tool in TRANSACTIONS if length.of(config)]
    beside = (BesideTcp(),) if LOADED_S.of(config) else ()
    latency = idle_instrument(config)
    for position, instrument in enumerate((Iperf3Tcp(), *datagrams, *transactions, latency, *beside)):
        if position:
            rest(GAP_S.of(config))
        counters = InterfaceMeter(testbed, standing.on_links)
        watch = Meters(testbed, standing.everyone, standing.own_cgroups)
        counters.start()
        counted = chain.counted()
        with awake.kept() if awake and instrument is latency else nullcontext():
            reading = instrument.measure(chain.source, chain.sink, chain.path.sink, signed(config), watch)
        counters.stop()
        outcome.add(reading)
        note_load(outcome, instrument.name, chain.source.spec.role, chain.sink.spec.role)
        note_meter(outcome, counters)
        ports = [(port, f"{way}_bytes") for port, way in hops_of(chain)]
        reasons = validity.path_reasons(
            instrument.name, counters.moved, reading.payload_bytes, ports, also_sent=standing.also_sent
        )
        outcome.invalidate([*reasons, *Impairment.of(config).reasons(instrument.name, reading)])
        seen = difference(counted, chain.counted())
        if instrument.name == Iperf3Tcp.name:
            frames = frames_of(chain, counters, seen, mixed=bool(standing.also_sent))
            judge_frames(frames, chain, OFFLOADS.of(config), outcome)
            carrying = _carrying(testbed, watch, reading)
            outcome.notes["carrying_cpus"] = _work_s(testbed, watch) / watch.host.elapsed_s
        for hop in chain.function.hops if instrument is latency else ():
            if isinstance(hop.function, Dpi):
                outcome.invalidate(undetoured(reading, hop.function.detoured(counters.moved, seen, hop.role), config))
        if instrument in beside:
            received = counters.moved.get("sink.in0", {}).get("rx_bytes", 0)
            outcome.invalidate(load_reasons(received, watch.host.elapsed_s, outcome.measurements["throughput"]))
        judge_crossings(instrument.name, chain, seen, reading.payload_bytes, IMPLEMENTATION.of(config), outcome)
        witness[instrument.name] = counters.moved
        phases[instrument.name] = {"host_cpus": watch.host.read()["host_cpus"], **watch.host.pressure()}
    outcome.notes["witness"] = witness
    outcome.notes["phases"] = phases
    return carrying


def _carrying(testbed: Testbed, watch: Meters, reading: Reading) -> dict[str, float]:
    """Return the CPUs that were in use during a flow, and the cost of each Gbit that arrived."""
    used = watch.usage.read()
    found = {
        "host_cpus": watch.host.read()["host_cpus"],
        **{name: used[name] for name in ("chain_cpus", "function_cpus")},
    }
    if reading.payload_bytes:
        found[COST.name] = _work_s(testbed, watch) / (8 * reading.payload_bytes / 1e9)
    return found


def _work_s(testbed: Testbed, watch: Meters) -> float:
    """Return the CPU seconds of the chain in the window that ended last."""
    return watch.work_s(testbed.apparatus.windows[-1].cpu_s or 0.0)
