"""What a rate costs: CPUs by the time of the load, although meters run longer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lastro.errors import CommandFailed
from lastro.host.activity import HostTotals
from lastro.host.cgroups import Usage
from lastro.isolation.base import NEIGHBOUR
from lastro.results.samples import REALLY, Outcome
from lastro.scenarios.chain import measuring
from lastro.scenarios.load.cost import CpuSpent, costs, measure_cost, spent
from lastro.scenarios.load.search import Probe
from lastro.scenarios.shared.window import Meters
from lastro.validity import Window

from ...support.recording import FakeInstance, answer

LOAD_S, METERS_S = 2.0, 4.5  # sockperf sleeps for two seconds first
CHAIN = {
    "source": Usage(cpu_s=2.0, user_s=1.5), "function": Usage(cpu_s=0.2, user_s=0.2), "sink": Usage(cpu_s=0.1),
}  # fmt: skip


def meters(neighbour_s: float = 0.0) -> Meters:
    """The meters of a load that keeps 3.2 CPU-seconds busy, 0.5 of which are system time and 1.0 interrupts."""
    found = Meters(cast(Any, None), {})
    usage, host = found.usage, found.host
    usage.used = CHAIN | ({NEIGHBOUR: Usage(cpu_s=neighbour_s, user_s=neighbour_s)} if neighbour_s else {})
    busy = {"user": 1.7 + neighbour_s, "nice": 0.0, "system": 0.5, "irq": 0.0, "softirq": 1.0}
    host.totals = HostTotals({**busy, "idle": 1.0, "iowait": 0.0, "steal": 0.0}, {"cpu": 0.9})
    host.own_user_s = host.own_cpu_s = host.daemons_user_s = 0.0
    usage.elapsed_s = host.elapsed_s = METERS_S
    return found


def cost_of(neighbour_s: float = 0.0, *, waited_s: float = 0.0) -> dict[str, float]:
    probe = Probe(50_000, LOAD_S, 100_000, 100_000, LOAD_S, {}, waited_s=waited_s)
    return costs(probe, meters(neighbour_s))


def test_cpus_are_those_in_the_time_of_the_load() -> None:
    found = cost_of()
    assert found["host_cpus"] == pytest.approx(3.2 / LOAD_S)
    assert found["chain_cpus"] == pytest.approx(2.3 / LOAD_S) and found["function_cpus"] == pytest.approx(0.1)
    assert found["source_cpus"] == pytest.approx(1.0) and found["sink_cpus"] == pytest.approx(0.05)
    assert found["psi_cpu"] == pytest.approx(100 * 0.9 / METERS_S), "stalls are counted all the time"


def test_the_cpus_of_several_chains_are_added_up() -> None:
    found_by = meters()
    found_by.usage.used = {**found_by.usage.used, "source-2": Usage(cpu_s=1.0), "sink-2": Usage(cpu_s=0.3)}
    found = costs(Probe(50_000, LOAD_S, 100_000, 100_000, LOAD_S, {}), found_by)
    assert found["source_cpus"] == pytest.approx(3.0 / LOAD_S) and found["sink_cpus"] == pytest.approx(0.4 / LOAD_S)


def test_a_neighbour_that_runs_all_the_time_has_its_own_rate() -> None:
    """It keeps one CPU busy, also while the generator sleeps."""
    found, alone = cost_of(neighbour_s=METERS_S), cost_of()
    assert found["host_cpus"] == pytest.approx(alone["host_cpus"] + 1.0)
    assert found["chain_cpus"] == alone["chain_cpus"]
    assert found["frames_per_cpu_s"] == pytest.approx(alone["frames_per_cpu_s"]) == pytest.approx(100_000 / 3.2)


@pytest.mark.parametrize(("waited_s", "cost_s"), [(1.5, 1.7), (0.9, 2.3), (2.05, 1.15), (9.0, 1.1)])
def test_the_time_in_which_generators_wait_is_no_cost_of_a_frame(waited_s: float, cost_s: float) -> None:
    """Not more than what they report, although a guest's whole work is user time; nor than what both ends used."""
    assert cost_of(waited_s=waited_s)["frames_per_cpu_s"] == pytest.approx(100_000 / cost_s)


def test_a_generator_in_the_kernel_is_the_source_s_and_only_its_waiting_is_no_cost() -> None:
    """It is system time in no cgroup, of which a neighbour has none."""
    found_by = meters(neighbour_s=METERS_S)
    host, usage = found_by.host, found_by.usage
    usage.used[NEIGHBOUR] = Usage(cpu_s=2 * METERS_S, user_s=METERS_S)
    host.totals = HostTotals({**host.totals.cpu_s, "system": 0.5 + 1.9}, host.totals.stalled_s)
    found_by.kernel_s = 1.9
    probe = Probe(50_000, LOAD_S, 100_000, 100_000, LOAD_S, {}, waited_s=1.4, kernel_s=1.9)
    found = costs(probe, found_by)
    assert found["frames_per_cpu_s"] == pytest.approx(100_000 / (3.2 + 1.9 - 1.4))
    assert found["source_cpus"] == pytest.approx((2.0 + 1.9) / LOAD_S)


def test_a_neighbour_is_not_charged_with_the_interrupts_that_forward_packets() -> None:
    """Most kernels count them as time of the process that they interrupt, and as interrupts of the host."""
    found_by = meters(neighbour_s=METERS_S)
    host, usage = found_by.host, found_by.usage
    usage.used[NEIGHBOUR] = Usage(cpu_s=METERS_S, user_s=METERS_S - 0.8)
    in_interrupts = {**host.totals.cpu_s, "user": host.totals.cpu_s["user"] - 0.8, "softirq": 1.8}
    host.totals = HostTotals(in_interrupts, host.totals.stalled_s)
    found = spent(Probe(50_000, LOAD_S, 100_000, 100_000, LOAD_S, {}), found_by)
    assert found == CpuSpent(pytest.approx(4.0), 0.0, pytest.approx(METERS_S - 0.8))


def test_the_system_time_of_a_neighbour_is_its_own() -> None:
    """As one that floods a link or writes to a disk has: the host counts 2 seconds more of it."""
    found_by = meters(neighbour_s=1.0)
    host, usage = found_by.host, found_by.usage
    usage.used[NEIGHBOUR] = Usage(cpu_s=3.0, user_s=1.0)
    host.totals = HostTotals({**host.totals.cpu_s, "system": 0.6 + 2.0}, host.totals.stalled_s)
    assert spent(Probe(50_000, LOAD_S, 100_000, 100_000, LOAD_S, {}), found_by).beside_s == pytest.approx(3.0)


def test_the_start_of_a_generator_is_no_cost_of_a_frame() -> None:
    """The start on a platform with a daemon may take as long as the frames."""
    probe = Probe(50_000, LOAD_S, 100_000, 100_000, LOAD_S, {})
    few, start = Probe(100, 0.1, 10, 10, 0.1, {}), CpuSpent(work_s=1.2, waited_s=0.5)
    found, as_before = costs(probe, meters(), few, start), cost_of()
    assert found["frames_per_cpu_s"] == pytest.approx((100_000 - 10) / (3.2 - 1.2))
    assert found["host_cpus"] == pytest.approx(as_before["host_cpus"] - 1.2 / LOAD_S), "its waiting is no work"


def test_cost_is_measured_at_the_rate_or_a_condition_says_that_it_was_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator that was disturbed for a moment tries again."""
    sent, asked = iter([10, 70_000, 100_000]), []

    def probe(rate_fps: float, duration_s: float) -> Probe:
        asked.append(rate_fps)
        n = next(sent)
        return Probe(rate_fps, duration_s, n, n, duration_s, {})

    class Still(Meters):
        def __init__(self, *around: Any) -> None:
            vars(self).update(vars(meters()))

        def start(self) -> None: ...
        def stop(self) -> None: ...

    monkeypatch.setattr("lastro.scenarios.load.cost.Meters", Still)
    prober, standing = (
        SimpleNamespace(probe=probe, refresh=lambda: None, mean_bytes=60.0),
        SimpleNamespace(everyone={}, own_cgroups=()),
    )
    outcome = Outcome()
    measure_cost(cast(Any, None), cast(Any, standing), cast(Any, prober), 50_000, LOAD_S, outcome)
    assert asked == [100, 50_000, 50_000] and outcome.measurements["frame_mean"] == 60
    assert outcome.notes["cost"]["reached"]  # type: ignore[index]
    assert REALLY not in outcome.notes
    sent, asked[:] = iter([10, 70_000, 90_000, 80_000]), []
    outcome = Outcome()
    measure_cost(cast(Any, None), cast(Any, standing), cast(Any, prober), 50_000, LOAD_S, outcome)
    assert asked == [100, 50_000, 50_000, 50_000]
    assert outcome.notes["cost"]["sent"] == 90_000, "the one that was closest"  # type: ignore[index]
    assert "the generator did not hold" in outcome.notes[REALLY]["load at which cost was measured"]  # type: ignore[index]


# The cost of what a chain carries


def watched(neighbour_s: float = 0.0) -> Meters:
    watch = meters(neighbour_s)
    watch.usage.used = {role: watch.usage.used.get(role, Usage()) for role in (*CHAIN, NEIGHBOUR)}
    return watch


def test_the_work_of_a_load_is_that_of_the_host_without_lastro_and_what_runs_beside_it() -> None:
    """Interrupts included: the kernel forwards packets in the name of whatever it interrupts."""
    assert watched().work_s(0.0) == pytest.approx(3.2)
    assert watched().work_s(0.3) == pytest.approx(2.9), "the apparatus"
    assert watched(neighbour_s=METERS_S).work_s(0.3) == pytest.approx(2.9), "the neighbour"
    assert watched().work_s(9.0) == 0.0


def test_what_lastro_used_is_subtracted_once() -> None:
    """Its own process is a part of the apparatus; without a count of the apparatus, it is what remains."""
    watch = watched()
    watch.host.own_cpu_s, watch.host.own_user_s = 0.5, 0.0
    assert watch.work_s(0.3) == watch.work_s(0.0) == pytest.approx(2.7)
    assert watch.work_s(0.6) == pytest.approx(2.6)


@pytest.mark.parametrize(("apparatus_s", "work_s"), [(0.2, 3.0), (None, 3.2)])
def test_a_chains_cost_is_for_each_gbit_of_the_tcp_flow(apparatus_s: float | None, work_s: float) -> None:
    """Of several chains, each window has all of the apparatus."""
    windows = [Window(METERS_S, 1, apparatus_s), Window(METERS_S, 1, apparatus_s and apparatus_s - 0.1)]
    found = measuring._cost_of_carrying(watched(), measuring._work_s(watched(), windows), 500_000_000)
    assert found["cpu_per_gbit"] == pytest.approx(work_s / 4)
    assert found["host_cpus"] == pytest.approx(3.2 / METERS_S)
    assert found["chain_cpus"] == pytest.approx(2.3 / METERS_S)
    assert found["function_cpus"] == pytest.approx(0.2 / METERS_S)
    nothing = measuring._cost_of_carrying(watched(), work_s, 0)
    assert nothing.keys() == {"host_cpus", "chain_cpus", "function_cpus"}, "no cost of nothing"


def test_a_watch_of_a_load_reads_around_the_command_alone() -> None:
    order: list[str] = []
    watch = Meters(cast(Any, None), {})
    for name in ("host", "usage"):
        steps = {step: lambda name=name, step=step: order.append(f"{name} {step}") for step in ("start", "stop")}
        setattr(watch, name, SimpleNamespace(**steps, used={}, instances={}))
    FakeInstance(lambda argv: order.append(argv[0])).measure(["iperf3"], watch=watch)
    assert order == ["usage start", "host start", "iperf3", "host stop", "usage stop"]
    order.clear()
    with pytest.raises(CommandFailed):
        FakeInstance(lambda argv: answer(code=1)).measure(["iperf3"], watch=watch)
    assert order == ["usage start", "host start"], "instances of a flow that failed may be gone"
