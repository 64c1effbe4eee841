"""A neighbour that takes memory bandwidth at a stated rate: it copies memory that no cache holds.

The load `memory` keeps processors busy, above all with page faults. This load allocates its memory once and rests
between copies, so that its cost is that of its accesses. Bytes read and bytes written both count, as in STREAM."""

from __future__ import annotations

from lastro.anomalies._memory_mover import MemoryMover
from lastro.anomalies.base import DOSE, LEAST_SHARE, TOLERANCE, Demand, Dose, allowed_cpus, dose_fraction, off_dose
from lastro.host.cgroups import Resources
from lastro.units import human_bytes


class MemoryBandwidth(MemoryMover):
    name = "membw"
    summary = "copies memory at a stated rate (setting `anomaly_bandwidth`), and rests in between"
    operation, verb, n_caches = "copy", "moved", 4  # as much as STREAM asks for
    options = (DOSE,)

    def argv(self, demand: Demand) -> list[str]:
        return [] if dose_fraction(self.chosen) == 0 else super().argv(demand)

    def rate(self, demand: Demand) -> int:
        fraction = dose_fraction(self.chosen)
        return demand.bandwidth_bps if fraction is None else int(fraction * demand.bandwidth_bps)

    def least_rate(self, demand: Demand) -> float:
        return LEAST_SHARE * demand.bandwidth_bps

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        if dose_fraction(self.chosen) is None:
            return super().too_little(dose, demand, limits)
        moved, asked = dose.moved_bytes / dose.elapsed_s, self.rate(demand)
        at_limit = limits.cpus is not None and dose.cpus >= (1 - TOLERANCE) * allowed_cpus(demand, limits)
        if at_limit and 0 < moved < asked:
            return None
        return off_dose(moved, asked, lambda rate: f"{human_bytes(rate)}/s")
