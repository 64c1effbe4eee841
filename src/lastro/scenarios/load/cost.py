"""The cost of a frame: the CPU time of each role and of the host, while the chain carries a rate for a while."""

from __future__ import annotations

from lastro.meters.host import HostMeter
from lastro.meters.usage import UsageMeter
from lastro.results.samples import Metric, Outcome
from lastro.scenarios.load.probing import Prober
from lastro.scenarios.load.search import Probe
from lastro.scenarios.shared.chain import ROLES
from lastro.scenarios.shared.on_chain import StandingChain
from lastro.scenarios.shared.topology import note_meter
from lastro.testbed import Testbed

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


def measure_cost(
    testbed: Testbed,
    standing: StandingChain,
    prober: Prober,
    rate_fps: float,
    duration_s: float,
    outcome: Outcome,
) -> None:
    """Carry the rate for this time, with meters around, and add what it cost to `outcome`."""
    everyone = standing.everyone
    host, usage = HostMeter(testbed, everyone, standing.own_cgroups), UsageMeter(testbed, everyone)
    prober.refresh()  # not among what is measured
    usage.start()
    host.start()
    probe = prober.probe(rate_fps, duration_s)
    host.stop()
    usage.stop()
    note_meter(outcome, usage)
    note_meter(outcome, host)
    outcome.measurements |= costs(probe, host, usage)
    if (size := prober.mean_bytes) is not None:
        outcome.measurements[FRAME_MEAN.name] = size
    outcome.notes |= {**usage.notes(), "elapsed_s": probe.lasted_s, "cost": probe.as_note()}


def costs(probe: Probe, host: HostMeter, usage: UsageMeter) -> dict[str, float]:
    """Return the cost of a probe's frames, from two meters that ran around it.

    They run longer than the load: the generator starts (sockperf sleeps for two seconds), counters are read, and late
    frames arrive. So the CPU time of the chain is divided by the time of the load. The neighbour, other processes and
    Lastro run beside it all the time: their part of `host_cpus` is divided by the time of the meter.

    The time in which generators wait is no cost of a frame. A guest that shares its CPU counts more of that time than
    the host does, so at most the host's count of the senders is left out."""
    load_s = probe.lasted_s
    beside_s = host.own_cpu_s + host.others_user_s(usage.user_s)
    beside_s += sum(used.cpu_s for role, used in usage.used.items() if role not in ROLES)
    found = {**host.read(load_s, beside_s), **usage.read(load_s)}
    found["host_cpus"] += beside_s / host.elapsed_s
    found |= {f"{role}_cpus": usage.used[role].cpu_s / load_s for role in _SENDERS}
    waits_s = min(probe.waited_s, sum(usage.used[role].cpu_s for role in _SENDERS))
    if (cost_s := host.busy_s - beside_s - waits_s) > 0:
        found[COST.name] = probe.received / cost_s
    return found
