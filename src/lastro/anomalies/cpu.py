"""A neighbour that computes square roots in one process per CPU."""

from __future__ import annotations

from lastro.anomalies.base import Anomaly, Demand, Dose, allowed_cpus
from lastro.host.cgroups import Resources

_LEAST_SHARE = 0.25  # of the CPU time that it could have: on a saturated host it competes for every slice


class Cpu(Anomaly):
    name = "cpu"
    summary = "square roots on every CPU"

    def argv(self, demand: Demand) -> list[str]:
        method = ["--cpu-method", "sqrt"] if demand.tool == "stress-ng" else []
        return [demand.tool, "--cpu", str(demand.n_workers), *method, "--timeout", f"{demand.timeout_s:.0f}"]

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        least = _LEAST_SHARE * allowed_cpus(demand, limits)
        return f"the neighbour used {dose.cpus:.2f} CPUs, less than {least:.2f}" if dose.cpus < least else None
