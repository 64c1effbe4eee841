"""A neighbour that takes memory bandwidth at a stated rate: it copies memory that no cache holds.

The load `memory` keeps processors busy, above all with page faults. This one has its memory from the start and rests
between copies, so that its cost is that of its accesses. Bytes read and bytes written both count, as in STREAM."""

from __future__ import annotations

from lastro.anomalies._memory_mover import LEAST_SHARE, MemoryMover
from lastro.anomalies.base import Demand


class MemoryBandwidth(MemoryMover):
    name = "membw"
    summary = "copies memory at a stated rate (setting `anomaly_bandwidth`), and rests in between"
    does, verb, caches = "copy", "moved", 4  # as much as STREAM asks for

    def rate(self, demand: Demand) -> int:
        return demand.bandwidth_bps

    def least_rate(self, demand: Demand) -> float:
        return LEAST_SHARE * demand.bandwidth_bps
