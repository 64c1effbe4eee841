"""A neighbour that keeps the last-level cache for itself: it reads as much memory as the cache holds, over and over."""

from __future__ import annotations

from lastro.anomalies._memory_mover import MemoryMover
from lastro.anomalies.base import Demand

_LEAST_PER_S = 10  # how often all of it is read


class Cache(MemoryMover):
    name = "cache"
    summary = "reads as much memory as the last-level cache holds, without pause"
    operation, verb, n_caches = "compare", "read", 1

    def rate(self, demand: Demand) -> int:
        return 0

    def least_rate(self, demand: Demand) -> float:
        return _LEAST_PER_S * demand.memory_bytes
