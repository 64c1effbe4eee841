"""A neighbour that writes files on its own disk and removes them, over and over."""

from __future__ import annotations

from lastro.anomalies.base import Anomaly, Demand, Dose
from lastro.host.cgroups import Resources
from lastro.units import human_bytes

_FILE = "128M"
_LEAST_BPS = 1 << 20


class Disk(Anomaly):
    name = "disk"
    summary = "writes and unlinks files on its own disk"

    def argv(self, demand: Demand) -> list[str]:
        where = ["--temp-path", "/var/tmp"] if demand.tool == "stress-ng" else []
        load = ["--hdd", str(demand.n_workers), "--hdd-bytes", _FILE]
        return [demand.tool, *load, *where, "--timeout", f"{demand.timeout_s:.0f}"]

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        if limits.write_bps is not None:
            # One throttled write may outlast the measurement: then the load since its start must have met the limit.
            written_bytes, least = dose.written_events_bytes, float(limits.write_bps)
        else:
            written_bytes, least = dose.written_bytes, _LEAST_BPS * dose.elapsed_s
        if written_bytes >= least:
            return None
        return f"the neighbour wrote {human_bytes(written_bytes)}, less than {human_bytes(least)}"
