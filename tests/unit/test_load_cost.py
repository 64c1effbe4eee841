"""What a rate costs: CPUs by the time of the load, although meters run longer."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lastro.host.activity import Totals
from lastro.host.cgroups import Usage
from lastro.isolation.base import NEIGHBOUR
from lastro.meters.host import HostMeter
from lastro.meters.usage import UsageMeter
from lastro.scenarios.load.cost import costs
from lastro.scenarios.load.search import Probe

LOAD_S, METERS_S = 2.0, 4.5  # sockperf sleeps for two seconds first
CHAIN = {
    "source": Usage(cpu_s=2.0, user_s=1.5), "function": Usage(cpu_s=0.2, user_s=0.2), "sink": Usage(cpu_s=0.1),
}  # fmt: skip


def meters(neighbour_s: float = 0.0) -> tuple[HostMeter, UsageMeter]:
    """The meters of a load that keeps 3.2 CPU-seconds busy, 0.5 of which are system time and 1.0 interrupts."""
    usage, host = UsageMeter(cast(Any, None), {}), HostMeter(cast(Any, None), {})
    usage.used = CHAIN | ({NEIGHBOUR: Usage(cpu_s=neighbour_s, user_s=neighbour_s)} if neighbour_s else {})
    busy = {"user": 1.7 + neighbour_s, "nice": 0.0, "system": 0.5, "irq": 0.0, "softirq": 1.0}
    host.totals = Totals({**busy, "idle": 1.0, "iowait": 0.0, "steal": 0.0}, {"cpu": 0.9})
    host.own_user_s = host.own_cpu_s = host.daemons_user_s = 0.0
    usage.elapsed_s = host.elapsed_s = METERS_S
    return host, usage


def cost_of(neighbour_s: float = 0.0, *, waited_s: float = 0.0) -> dict[str, float]:
    probe = Probe(50_000, LOAD_S, 100_000, 100_000, LOAD_S, {}, waited_s=waited_s)
    return costs(probe, *meters(neighbour_s))


def test_cpus_are_those_in_the_time_of_the_load() -> None:
    found = cost_of()
    assert found["host_cpus"] == pytest.approx(3.2 / LOAD_S)
    assert found["chain_cpus"] == pytest.approx(2.3 / LOAD_S) and found["function_cpus"] == pytest.approx(0.1)
    assert found["source_cpus"] == pytest.approx(1.0) and found["sink_cpus"] == pytest.approx(0.05)
    assert found["psi_cpu"] == pytest.approx(100 * 0.9 / METERS_S), "stalls are counted all the time"


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
