"""A neighbour that computes square roots in one process per CPU."""

from __future__ import annotations

from typing import Any, ClassVar

from lastro.anomalies.base import DOSE, Anomaly, Demand, Dose, allowed_cpus, off_dose, share_of
from lastro.host.cgroups import Resources
from lastro.study.model import Setting

_LEAST_SHARE = 0.25  # of the CPU time that it could have: on a saturated host it competes for every slice


class Cpu(Anomaly):
    name = "cpu"
    summary = "square roots on every CPU"

    options: ClassVar[tuple[Setting[Any], ...]] = (DOSE,)

    def argv(self, demand: Demand) -> list[str]:
        if (share := share_of(self.chosen)) is not None:  # stress has no load below the whole
            load = ["--cpu", str(demand.n_workers), "--cpu-load", f"{100 * share:g}", "--cpu-method", "sqrt"]
            return ["stress-ng", *load, "--timeout", f"{demand.timeout_s:.0f}"] if share else []
        method = ["--cpu-method", "sqrt"] if demand.tool == "stress-ng" else []
        return [demand.tool, "--cpu", str(demand.n_workers), *method, "--timeout", f"{demand.timeout_s:.0f}"]

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        if share := share_of(self.chosen):
            asked = min(share * demand.n_workers, allowed_cpus(demand, limits))
            return off_dose(dose.cpus, asked, "{:.2f} CPUs".format)
        least = _LEAST_SHARE * allowed_cpus(demand, limits)
        return f"the neighbour used {dose.cpus:.2f} CPUs, less than {least:.2f}" if dose.cpus < least else None
