"""A role on CPUs of its own, on whichever host: what an instance must see of them, and how much a load can use."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lastro.anomalies.base import Demand, Dose, allowed_cpus
from lastro.anomalies.cpu import Cpu
from lastro.host.cgroups import Resources
from lastro.scenarios.shared.resources import _inside

from ...support.recording import answer

KIB = 1 << 20


def seen(resources: Resources, nproc: int, *, shares_kernel: bool = True) -> list[str]:
    """Reasons against an instance that counts so many CPUs."""
    instance: Any = SimpleNamespace(
        spec=SimpleNamespace(resources=resources),
        shares_kernel=shares_kernel,
        run=lambda argv: answer(f"{nproc}\n{KIB} kB\n"),
        limits_outside=lambda: resources,
    )
    return _inside(instance)[0]


def test_a_bare_process_sees_the_set_of_its_role_and_needs_no_limit_for_that() -> None:
    assert seen(Resources(cpuset="0-3"), 4) == []
    assert seen(Resources(cpuset="0-3"), 8) == ["the instance sees 8 CPUs instead of 4"]


def test_a_container_sees_the_set_whatever_its_quota() -> None:
    assert seen(Resources(cpus=2, cpuset="0-1,4-5"), 4) == []
    assert seen(Resources(cpus=2, cpuset="0-1,4-5"), 2) == ["the instance sees 2 CPUs instead of 4"]
    assert seen(Resources(cpus=2), 8) == [], "without a set, all of the host's"


def test_a_machine_has_as_many_cpus_as_it_was_given() -> None:
    assert seen(Resources(cpus=2, cpuset="0-3"), 2, shares_kernel=False) == []
    assert seen(Resources(cpus=2, cpuset="0-3"), 4, shares_kernel=False) != []


@pytest.mark.parametrize(
    ("workers", "limits", "cpus"),
    [
        (12, Resources(), 64),  # of a remote host, however few the controller has
        (12, Resources(cpuset="0-1,4"), 3),
        (2, Resources(cpuset="0-3"), 2),
        (0, Resources(cpus=1.5, cpuset="0-3"), 1.5),
    ],
)
def test_a_dose_is_judged_by_the_cpus_that_the_load_may_use(workers: int, limits: Resources, cpus: float) -> None:
    demand = Demand("stress", workers, 0, 1.0, usable_cpus=64)
    assert demand.n_workers == (workers or 64)
    assert allowed_cpus(demand, limits) == min(cpus, demand.n_workers)
    enough, short = (Dose(1.0, share * min(cpus, demand.n_workers), 0, 0, alive=True) for share in (0.3, 0.2))
    assert Cpu().unmet(enough, demand, limits) is None
    assert "less than" in (Cpu().unmet(short, demand, limits) or "")
