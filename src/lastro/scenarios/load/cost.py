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
_SENDERS = ("source", "sink")  # the latter if the load has both directions
COST = Metric(
    "frames_per_cpu_s",
    "1/s",
    "higher",
    "frames that arrived for each CPU-second of the host, without the neighbour's and those in which a generator waits",
)
FRAME_MEAN = Metric("frame_mean", "B", "neither", "mean size of the frames that the function received, as links count")
METRICS = (
    COST,
    FRAME_MEAN,
    Metric("source_cpus", "CPU", "neither", "CPUs used by the source's processes at the PDR, generator included"),
    Metric("sink_cpus", "CPU", "lower", "CPUs used by the sink's processes at the PDR"),
)


@dataclass(frozen=True, slots=True)
class CpuSpent:
    """CPU seconds of a host while a probe ran, from before its generator started until its last counters were read.

    `beside_s` are those of what runs beside the chain all the time, `waited_s` those in which generators waited, and
    `work_s` all others."""

    work_s: float = 0.0
    waited_s: float = 0.0
    beside_s: float = 0.0


def measure_cost(
    testbed: Testbed, standing: StandingChain, prober: Prober, rate_fps: float, duration_s: float, outcome: Outcome
) -> None:
    """Carry the rate for this time, with meters around, and add what it cost to `outcome`.

    To start a generator costs CPU time, too, on one platform more than on another. A probe with hardly any frames shows
    how much, so that it is not part of the cost of a frame. If the generator does not hold the rate, which may be close
    to its largest one, the cost is that at the most that it sent, and a condition says so."""
    prober.refresh()  # not among what is measured
    few, meters = _metered(testbed, standing, partial(prober.probe, _FEW_FPS, _SHORT_S))
    start = spent(few, meters)
    carried: list[tuple[Probe, Meters]] = []
    while len(carried) <= _REPEATS and not (carried and carried[-1][0].reached):
        carried.append(_metered(testbed, standing, partial(prober.probe, rate_fps, duration_s)))
    probe, meters = max(carried, key=lambda each: each[0].part_sent)
    if not probe.reached:
        outcome.add_condition(
            {"load at which cost was measured": "less than the PDR, which the generator did not hold"}
        )
    outcome.measurements |= costs(probe, meters, few, start)
    if (size := prober.mean_bytes) is not None:
        outcome.measurements[FRAME_MEAN.name] = size
    outcome.notes |= meters.usage.notes()
    outcome.notes |= {"elapsed_s": probe.lasted_s, "cost": probe.as_note(), "start": asdict(start)}
    beside_cpus = spent(probe, meters).beside_s / meters.host.elapsed_s
    outcome.notes["carrying_cpus"] = max(0.0, outcome.measurements["host_cpus"] - beside_cpus)


def _metered(testbed: Testbed, standing: StandingChain, carry: Callable[[], Probe]) -> tuple[Probe, Meters]:
    meters = Meters(testbed, standing.everyone, standing.own_cgroups)
    with meters:
        probe = carry()
    return probe, meters


def spent(probe: Probe, meters: Meters) -> CpuSpent:
    """Return the CPU time of a probe, from the meters that ran around it.

    A guest that shares its CPU counts more of the time in which a generator waits than the host does, so at most the
    host's count of the senders is taken for it."""
    own_s = meters.host.own_cpu_s + meters.beside_s
    waited_s = min(probe.waited_s, sum(meters.usage.used[role].cpu_s for role in _SENDERS))
    return CpuSpent(meters.host.busy_s - own_s - waited_s, waited_s, own_s)


def costs(probe: Probe, meters: Meters, few: Probe | None = None, start: CpuSpent = CpuSpent()) -> dict[str, float]:
    """Return the cost of a probe's frames. `start` is what a probe of a `few` frames cost.

    Meters run longer than the load: the generator starts (sockperf sleeps for two seconds), counters are read, and late
    frames arrive. So the CPU time of the chain is divided by the time of the load. The neighbour, other processes and
    Lastro run beside it all the time: their part of `host_cpus` is divided by the time of the meter."""
    host, usage = meters.host, meters.usage
    load_s, found = probe.lasted_s, spent(probe, meters)
    work_s = found.work_s - start.work_s
    values = {**host.read(load_s), **usage.read(load_s)}
    values["host_cpus"] = max(0.0, work_s + found.waited_s) / load_s + found.beside_s / host.elapsed_s
    values |= {f"{role}_cpus": usage.used[role].cpu_s / load_s for role in _SENDERS}
    frames = probe.received - (few.received if few else 0)
    if work_s > 0 and frames > 0:
        values[COST.name] = frames / work_s
    return values
