"""A neighbour that computes square roots in one process per CPU."""

from __future__ import annotations

from lastro.anomalies.base import DOSE, Anomaly, Demand, Dose, allowed_cpus, dose_fraction, off_dose
from lastro.host.cgroups import Resources

_LEAST_SHARE = 0.25  # of the CPU time that it could have: on a saturated host it competes for every slice


class Cpu(Anomaly):
    name = "cpu"
    summary = "square roots on every CPU"
    options = (DOSE,)

    def argv(self, demand: Demand) -> list[str]:
        if (fraction := dose_fraction(self.chosen)) is not None:  # stress has no option for it
            load = ["--cpu", str(demand.n_workers), "--cpu-load", f"{100 * fraction:g}", "--cpu-method", "sqrt"]
            return ["stress-ng", *load, "--timeout", f"{demand.timeout_s:.0f}"] if fraction else []
        method = ["--cpu-method", "sqrt"] if demand.tool == "stress-ng" else []
        return [demand.tool, "--cpu", str(demand.n_workers), *method, "--timeout", f"{demand.timeout_s:.0f}"]

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        if fraction := dose_fraction(self.chosen):
            asked = min(fraction * demand.n_workers, allowed_cpus(demand, limits))
            return off_dose(dose.cpus, asked, "{:.2f} CPUs".format)
        least = _LEAST_SHARE * allowed_cpus(demand, limits)
        return f"the neighbour used {dose.cpus:.2f} CPUs, less than {least:.2f}" if dose.cpus < least else None
