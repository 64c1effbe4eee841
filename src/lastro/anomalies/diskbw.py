"""A neighbour that writes to its own disk at a stated rate.

The load `disk` writes as fast as it can, into the kernel's memory, and the kernel chooses how much of it reaches the
disk, and when. Here each write waits until it is on the disk (O_DSYNC of open(2)), as the writes of a database do."""

from __future__ import annotations

from lastro.anomalies._memory_mover import COUNTS, SCRIPT
from lastro.anomalies.base import DOSE, WHOLE, Anomaly, Demand, Dose, off_dose
from lastro.host.cgroups import Resources
from lastro.units import human_bytes

_FILE_BYTES = 128 << 20  # of all workers together


class DiskBandwidth(Anomaly):
    name = "diskbw"
    summary = "writes to its own disk at a stated rate (setting `anomaly_writes`); each write waits for the disk"
    program = "perl"
    script = SCRIPT
    options = (DOSE,)

    def rate(self, demand: Demand) -> float:
        """Return the bytes per second that all workers write together."""
        return DOSE.of(self.chosen) / WHOLE * demand.writes_bps

    def argv(self, demand: Demand) -> list[str]:
        n, rate = demand.n_workers, self.rate(demand)
        workers = [str(n), str(_FILE_BYTES // n), str(int(rate / n)), f"{demand.timeout_s:.0f}"]
        return ["perl", SCRIPT.name, "write", *workers, str(COUNTS)] if rate else []

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        asked = min(self.rate(demand), limits.write_bps or float("inf"))
        return off_dose(dose.written_bytes / dose.elapsed_s, asked, lambda rate: f"{human_bytes(rate)}/s")
