"""A neighbour that calls sync() without pause."""

from __future__ import annotations

from lastro.anomalies.base import Anomaly, Demand, Dose
from lastro.host.cgroups import Resources

_LEAST_CPUS = 0.0003  # sync() mostly waits; a neighbour that never ran uses nothing at all


class Io(Anomaly):
    name = "io"
    summary = "calls sync() without pause"

    def argv(self, demand: Demand) -> list[str]:
        return [demand.tool, "--io", str(demand.n_workers), "--timeout", f"{demand.timeout_s:.0f}"]

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        if dose.cpus >= _LEAST_CPUS:
            return None
        return f"the neighbour used {dose.cpus:.4f} CPUs: it hardly called sync()"
