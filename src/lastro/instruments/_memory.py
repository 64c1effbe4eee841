"""The base of memory instruments: data larger than all caches, and a remark if a cache may hold it."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

from lastro.host.base import Host
from lastro.host.processors import last_level_cache_bytes, local_cache_bytes
from lastro.instruments.base import UNWATCHED, Watch, Workload
from lastro.platforms.base import Instance
from lastro.results.samples import THROUGH_CACHE, Reading, Remark
from lastro.units import human_bytes

_TIMES_CACHE = 4  # STREAM's own rule for arrays (https://www.cs.virginia.edu/stream/ref.html)
_USUAL_BYTES = 128 << 20  # if the size of the cache is unknown


class MemoryWorkload(Workload):
    """A workload that works repeatedly on pieces of memory; `pieces` is the word for them in messages.

    `sized_by` is the name of the option that sets the size of a piece. Its level 0 stands for four times the last-level
    cache of the CPUs.
    `bandwidths` are the metrics that would measure the cache, not the memory, if the pieces fit into the cache."""

    sized_by: ClassVar[str]
    pieces: ClassVar[str]
    bandwidths: ClassVar[tuple[str, ...]]
    _cache_bytes = 0

    @abstractmethod
    def asked_bytes(self) -> int:
        """Return the size of a piece that the option requests, in bytes; 0 means four times the last-level cache."""

    @abstractmethod
    def level_of(self, piece_bytes: int) -> int | str:
        """Return the level of the option `sized_by` that makes pieces of `piece_bytes` or slightly more."""

    def piece_for(self, cache_bytes: int) -> int:
        """Return the size of a piece, in bytes, on CPUs with `cache_bytes` of last-level cache (0: unknown)."""
        return self.asked_bytes() or _TIMES_CACHE * cache_bytes or _USUAL_BYTES

    @property
    def piece_bytes(self) -> int:
        """The size of a piece, in bytes, by the options alone."""
        return self.piece_for(0)

    def piece_on(self, host: Host, cpuset: str | None) -> int:
        return self.piece_for(last_level_cache_bytes(host, cpuset))

    def piece_here(self, cpus: float) -> int:
        """Return the size of a piece, in bytes, for a plan: on the first `cpus` CPUs of this machine."""
        first_cpus = sorted(os.sched_getaffinity(0))[: math.ceil(cpus)]
        return self.piece_for(local_cache_bytes(",".join(map(str, first_cpus))))

    def prepare(self, instance: Instance) -> None:
        """Set the size of the pieces by the host's last-level cache, even if a guest sees a cache of another size."""
        super().prepare(instance)
        self._cache_bytes = last_level_cache_bytes(instance.testbed.host, instance.spec.resources.cpuset)
        self.chosen[self.sized_by] = self.level_of(self.piece_for(self._cache_bytes))

    def run(self, instance: Instance, limit_s: float, watch: Watch = UNWATCHED) -> Reading:
        reading = super().run(instance, limit_s, watch)
        warning = cache_warning(self.pieces, self.piece_bytes, self._cache_bytes)
        if not warning:
            return reading
        return replace(reading, remarks=(*reading.remarks, Remark(THROUGH_CACHE, warning, self.bandwidths)))


def cache_warning(pieces: str, piece_bytes: int, cache_bytes: int) -> str:
    """Return a warning if the cache may have been measured instead of the memory; else an empty text.

    There is no warning if the pieces have at least four times the size of the cache. `cache_bytes` is 0 if that is
    unknown."""
    size = human_bytes(piece_bytes)
    if not cache_bytes:
        return f"the size of the last-level cache is unknown: it may hold {pieces} of {size}"
    if piece_bytes >= _TIMES_CACHE * cache_bytes:
        return ""
    sizes = f"{size} against {human_bytes(cache_bytes)} of last-level cache"
    return f"the cache's bandwidth rather than the memory's: {pieces} of {sizes}, not {_TIMES_CACHE} times its size"
