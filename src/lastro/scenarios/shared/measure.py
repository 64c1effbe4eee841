"""The measuring part of a chain's trial: instruments one after the other, with meters and witnesses around them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lastro import validity
from lastro.anomalies.base import Anomaly, Demand, Neighbour
from lastro.functions.base import Counted
from lastro.instruments.iperf3_tcp import Iperf3Tcp
from lastro.instruments.iperf3_udp import Iperf3Udp
from lastro.instruments.ping import Ping
from lastro.meters.host import HostMeter
from lastro.meters.interfaces import InterfaceMeter
from lastro.meters.usage import UsageMeter
from lastro.platforms.base import Instance
from lastro.results.samples import Outcome
from lastro.results.topology import DUT
from lastro.scenarios.base import Config
from lastro.scenarios.shared.deploy import Chain
from lastro.scenarios.shared.topology import note_load, note_meter, note_witness
from lastro.testbed import Testbed

Disturbance = tuple[Neighbour, Anomaly, Demand]


def measure(
    testbed: Testbed,
    config: Config,
    chain: Chain,
    everyone: Mapping[str, Instance],
    disturbance: Disturbance | None,
    outcome: Outcome,
    *,
    own_cgroups: Sequence[str] = (),
) -> None:
    """Put everything that a trial measures, and every reason for its invalidity, into `outcome`."""
    host, usage = HostMeter(testbed, everyone, own_cgroups), UsageMeter(testbed, everyone)
    if disturbance:
        disturbance[0].require_alive()
    before = disturbance[0].reading() if disturbance else None
    clocks = _clocks(everyone)
    links = chain.attachment.counters(testbed)
    usage.start()
    host.start()
    _instruments(testbed, config, chain, outcome)
    host.stop()
    usage.stop()
    _judge_clocks(clocks, _clocks(everyone), float(config["max_drift_percent"]) / 100, outcome)
    judge_links(chain.attachment.name, links, chain.attachment.counters(testbed), outcome)
    note_meter(outcome, usage)
    note_meter(outcome, host)
    outcome.measurements.update({**host.read(), **usage.read()})
    outcome.notes.update(usage.notes())
    outcome.notes["elapsed_s"] = usage.elapsed_s
    foreign_cpus = host.foreign_cpus(usage.user_s)
    outcome.notes["host"] = {"foreign_cpus": round(foreign_cpus, 3), **host.notes()}
    outcome.invalidate(validity.host_reasons(host.steal_percent, foreign_cpus, config))
    if disturbance and before:
        neighbour, anomaly, demand = disturbance
        note_witness(outcome, "dose", "what the neighbour really did", (neighbour.instance.spec.role,))
        dose = neighbour.dose_since(before, usage.elapsed_s)
        outcome.notes["doses"] = {**asdict(dose), **host.pressure()}
        unmet = anomaly.unmet(dose, demand, neighbour.instance.spec.resources)
        outcome.invalidate([f"the anomaly missed its dose: {unmet}"] if unmet else [])


def _clocks(instances: Mapping[str, Instance]) -> dict[str, validity.ClockSample]:
    readings = {role: instance.clock() for role, instance in instances.items()}
    return {role: reading for role, reading in readings.items() if reading is not None}


def _judge_clocks(
    before: Mapping[str, validity.ClockSample],
    after: Mapping[str, validity.ClockSample],
    limit: float,
    outcome: Outcome,
) -> None:
    """Note how the guests' own clocks drifted against the host's; too much drift invalidates the trial."""
    drifts = {role: validity.drift(before[role], after[role]) for role in before if role in after}
    if drifts:
        note_witness(outcome, "clocks", "the guests' clocks against the host's", drifts)
        outcome.notes["clocks"] = {
            role: {"drift": found.ratio - 1, "uncertainty": found.uncertainty} for role, found in drifts.items()
        }
    outcome.invalidate(validity.drift_reasons(drifts, limit))


def _instruments(testbed: Testbed, config: Config, chain: Chain, outcome: Outcome) -> None:
    """Measure TCP, UDP and ping; for each, the witnesses of the path must account for what was measured."""
    witness: dict[str, Any] = {}
    phases: dict[str, Any] = {}
    for position, instrument in enumerate((Iperf3Tcp(), Iperf3Udp(), Ping())):
        if position:
            rest(float(config["gap_s"]))
        counters, host = InterfaceMeter(testbed, chain.instances), HostMeter(testbed, {})
        counters.start()
        counted = chain.counted()
        host.start()
        reading = instrument.measure(chain.source, chain.sink, chain.path.sink, config)
        host.stop()
        counters.stop()
        outcome.add(reading)
        note_load(outcome, instrument.name, chain.source.spec.role, chain.sink.spec.role)
        note_meter(outcome, counters)
        outcome.invalidate(validity.path_reasons(instrument.name, counters.moved, reading.payload_bytes))
        if config["implementation"] == "kernel":
            seen = _difference(counted, chain.counted())
            note_witness(
                outcome, "counters", f"packets that its rules counted: {', '.join(sorted(seen))}", ("function",)
            )
            outcome.invalidate(_crossings(instrument.name, chain, seen, reading.payload_bytes))
        witness[instrument.name] = counters.moved
        phases[instrument.name] = {"host_cpus": host.read()["host_cpus"], **host.pressure()}
    outcome.notes["witness"] = witness
    outcome.notes["phases"] = phases


def judge_links(name: str, before: Mapping[str, int], after: Mapping[str, int], outcome: Outcome) -> None:
    """Check that the counters on the path that the links promise, if any, have moved."""
    moved = {counter: after.get(counter, 0) - value for counter, value in before.items()}
    if moved:
        outcome.notes["links"] = moved
        note_witness(outcome, name, f"packets on the links: {', '.join(sorted(moved))}", (DUT,))
    outcome.invalidate(
        [f"the links of '{name}' did not carry the flow: their counter '{each}' stood still"
         for each, packets in moved.items() if packets <= 0]
    )  # fmt: skip


def _difference(before: Mapping[str, Counted], after: Mapping[str, Counted]) -> dict[str, Counted]:
    return {
        name: Counted(now.packets - before[name].packets, now.bytes - before[name].bytes)
        for name, now in after.items()
        if name in before
    }


def _crossings(phase: str, chain: Chain, seen: Mapping[str, Counted], payload_bytes: int) -> list[str]:
    crossed = seen.get("crossed")
    reasons = validity.crossing_reasons(phase, crossed.bytes if crossed else None, payload_bytes)
    idle = [name for name in chain.function.witnesses if not seen.get(name, Counted(0, 0)).packets]
    return reasons + [
        f"{phase}: the function did not act on the flow: its counter '{name}' stood still" for name in idle
    ]


def rest(seconds: float) -> None:
    if seconds > 0:
        time.sleep(seconds)
