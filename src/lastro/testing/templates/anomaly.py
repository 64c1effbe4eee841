"""A neighbour that fills the processor's caches. Replace the command, the dose and this line."""

from __future__ import annotations

from lastro.anomalies.base import Anomaly, Demand, Dose, allowed_cpus
from lastro.host.cgroups import Resources

_LEAST_SHARE = 0.25  # of the CPU time that the neighbour could have had


class MyPart(Anomaly):
    name = "my-part"
    summary = "fills the processor's caches on every CPU"

    def argv(self, demand: Demand) -> list[str]:
        """Return the command that the neighbour runs. It must end by itself after `demand.timeout_s` seconds."""
        return ["stress-ng", "--cache", str(demand.n_workers), "--timeout", f"{demand.timeout_s:.0f}"]

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        """Return why the neighbour did too little to disturb the trial, or None. A reason makes the trial invalid."""
        least = _LEAST_SHARE * allowed_cpus(demand, limits)
        return f"the neighbour used {dose.cpus:.2f} CPUs, less than {least:.2f}" if dose.cpus < least else None
