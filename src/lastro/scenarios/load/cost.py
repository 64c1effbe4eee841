"""The cost of a frame: the CPU time of each role and of the host, while the chain carries a rate for a while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

from lastro.results.samples import Metric, Outcome
from lastro.scenarios.load.probing import Prober
from lastro.scenarios.load.search import Probe
from lastro.scenarios.shared.on_chain import StandingChain
from lastro.scenarios.shared.window import Meters
from lastro.testbed import Testbed

_FEW_FPS, _SHORT_S = 100.0, 0.1  # a probe with hardly any frames; sockperf makes it last a second
_REPEATS = 2  # of a probe that its generator did not reach: the host may have been busy for a moment
_SENDERS = ("source", "sink")  # the sink sends only if the load has both directions
COST = Metric(
    "frames_per_cpu_s", "1/s", "higher",
    "frames that arrived for each CPU-second of the host, without the neighbour's and those in which a generator waits",
)  # fmt: skip
FRAME_MEAN = Metric("frame_mean", "B", "neither", "mean size of the frames that the function received, as links count")
METRICS = (
    COST,
    FRAME_MEAN,
    Metric("source_cpus", "CPU", "neither", "CPUs used by the source at the PDR, generator included"),
    Metric("sink_cpus", "CPU", "lower", "CPUs used by the sink's processes at the PDR"),
)


@dataclass(frozen=True, slots=True)
class CpuSpent:
    """CPU seconds of a host while a probe ran, from before its generator started until its last counters were read.

    `beside_s` is the CPU time of the neighbour, of other programs and of Lastro. `waited_s` is the CPU time of
    generators that waited by keeping a CPU busy. `work_s` is all other CPU time: the work of the chain."""

    work_s: float = 0.0
    waited_s: float = 0.0
    beside_s: float = 0.0


def measure_cost(
    testbed: Testbed, standing: StandingChain, prober: Prober, rate_fps: float, duration_s: float, outcome: Outcome
) -> Probe:
    """Offer `rate_fps` for `duration_s`, measure CPU time meanwhile, and add the cost of a frame; return the probe.

    Starting a generator takes CPU time, too, on one platform more than on another. A probe with hardly any frames
    measures that time first, so that it can be subtracted. If the generator does not hold the rate, the cost is
    measured at the highest rate that it sent in a few tries, and a condition reports this."""
    prober.refresh()  # now, so that it does not happen during the measurement
    few, meters = _with_meters(testbed, standing, partial(prober.probe, _FEW_FPS, _SHORT_S))
    start = spent(few, meters)
    carried: list[tuple[Probe, Meters]] = []
    while len(carried) <= _REPEATS and not (carried and carried[-1][0].reached):
        carried.append(_with_meters(testbed, standing, partial(prober.probe, rate_fps, duration_s)))
    probe, meters = max(carried, key=lambda attempt: attempt[0].part_sent)
    if not probe.reached:
        text = "less than the PDR, which the generator did not hold"
        outcome.add_condition({"load at which cost was measured": text})
    outcome.measurements |= costs(probe, meters, few, start)
    if (size := prober.mean_bytes) is not None:
        outcome.measurements[FRAME_MEAN.name] = size
    outcome.notes |= meters.usage.notes()
    outcome.notes |= {"elapsed_s": probe.lasted_s, "cost": probe.as_note(), "start": asdict(start)}
    beside_cpus = spent(probe, meters).beside_s / meters.host.elapsed_s
    outcome.notes["carrying_cpus"] = max(0.0, outcome.measurements["host_cpus"] - beside_cpus)
    return probe


def _with_meters(testbed: Testbed, standing: StandingChain, carry: Callable[[], Probe]) -> tuple[Probe, Meters]:
    meters = Meters(testbed, standing.everyone, standing.own_cgroups)
    with meters:
        probe = carry()
    meters.kernel_s = probe.kernel_s
    return probe, meters


def spent(probe: Probe, meters: Meters) -> CpuSpent:
    """Return the CPU time that a probe took, as `meters` measured it.

    A guest that shares its CPU counts more waiting time of its generator than the host does. So the waiting time is
    limited to the CPU time of the senders and of generators in the kernel, as the host counts it."""
    own_s = meters.host.own_cpu_s + meters.beside_s
    waited_s = min(probe.waited_s, probe.kernel_s + sum(_cpu_s(meters, role) for role in _SENDERS))
    return CpuSpent(meters.host.busy_s - own_s - waited_s, waited_s, own_s)


def _cpu_s(meters: Meters, role: str) -> float:
    """Return the CPU seconds of the instances that have this role in any chain: 'source', 'source-2' …"""
    return sum(used.cpu_s for name, used in meters.usage.used.items() if name.startswith(role))


def costs(probe: Probe, meters: Meters, few: Probe | None = None, start: CpuSpent = CpuSpent()) -> dict[str, float]:
    """Return the measurements of a probe by metric: CPUs used by host and roles, and frames per CPU second.

    The frames per CPU second are left out if the probe took no measurable work. `few` is a probe with hardly any
    frames, and `start` the CPU time that it took; both are subtracted. Meters run longer than the load: the
    generator starts (sockperf sleeps for two seconds), counters are read, and late frames arrive. So the CPU time of
    the chain is divided by the duration of the load. The CPU time of the neighbour, other processes and Lastro is
    divided by the duration of the meters."""
    host, usage = meters.host, meters.usage
    load_s, cpu = probe.lasted_s, spent(probe, meters)
    work_s = cpu.work_s - start.work_s
    values = {**host.read(load_s), **usage.read(load_s)}
    values["host_cpus"] = max(0.0, work_s + cpu.waited_s) / load_s + cpu.beside_s / host.elapsed_s
    values |= {f"{role}_cpus": _cpu_s(meters, role) / load_s for role in _SENDERS}
    values["source_cpus"] += probe.kernel_s / load_s
    frames = probe.received - (few.received if few else 0)
    if work_s > 0 and frames > 0:
        values[COST.name] = frames / work_s
    return values
