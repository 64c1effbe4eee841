"""The base of anomalies that move memory at a rate: their program, the size of their memory, and the check of the dose.

stress-ng can keep to a rate, too (--memrate), but it reports how much it moved only when it ends, and for its whole
run. The dose must be known for the time of the measurement alone, so this program counts while it works."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import ClassVar

from lastro.anomalies.base import LEAST_SHARE, Anomaly, Demand, Dose, KernelUse, allowed_cpus
from lastro.host.cgroups import Resources
from lastro.host.processors import last_level_cache_bytes
from lastro.platforms.base import Instance
from lastro.units import human_bytes

SCRIPT = Path(__file__).with_name("move.pl")
COUNTS = PurePosixPath("/run/moved")  # writable in every instance; each worker appends its number to this name
_PARTS = 2  # it takes at most half of the memory that the neighbour may have: above a limit, the kernel would end it
_USUAL_CACHE_BYTES = 32 << 20  # if the kernel does not report the cache


class MemoryMover(Anomaly):
    """An anomaly that moves memory of `n_caches` times the size of the last-level cache."""

    program = "perl"
    script = SCRIPT
    operation: ClassVar[str]  # the argument of its program: what to do with the memory
    verb: ClassVar[str]  # in messages, what it did, such as "moved"
    n_caches: ClassVar[int]

    @abstractmethod
    def rate(self, demand: Demand) -> int:
        """Return the bytes per second that all workers move together; 0 if they work without pause."""

    @abstractmethod
    def least_rate(self, demand: Demand) -> float:
        """Return the bytes per second, of all workers together, below which the dose is too small."""

    def argv(self, demand: Demand) -> list[str]:
        n = demand.n_workers
        workers = [str(n), str(demand.memory_bytes // n), str(self.rate(demand) // n)]
        return ["perl", SCRIPT.name, self.operation, *workers, f"{demand.timeout_s:.0f}", str(COUNTS)]

    def fitted(self, demand: Demand, neighbour: Instance) -> Demand:
        """Return the demand with `memory_bytes` set to the memory of all workers together.

        It is `n_caches` times the last-level cache, but at most half of the memory that the neighbour may take."""
        resources = neighbour.testbed.on_own_cpus(neighbour.spec.resources)
        cache_bytes = last_level_cache_bytes(neighbour.testbed.host, resources.cpuset) or _USUAL_CACHE_BYTES
        most = min(_available_bytes(neighbour), resources.memory_bytes or float("inf")) // _PARTS
        return replace(demand, memory_bytes=int(min(self.n_caches * cache_bytes, most)))

    def taken(self, instance: Instance) -> KernelUse:
        """Return the bytes that all workers have moved so far, in the field `moved_bytes`.

        Each worker writes its count to a file. These files are read from the host, so that no process is started in the
        neighbour, except in a virtual machine, where a command inside reads them."""
        if not instance.shares_kernel:
            text = instance.run(["sh", "-c", f"cat {COUNTS}.* 2>/dev/null"], check=False).text
            return KernelUse(moved_bytes=_total(text))
        view = instance.testbed.host.view
        for pid in sorted(instance.pids(), reverse=True):  # the youngest is a worker, unless it has ended
            directory = f"/proc/{pid}/root{COUNTS.parent}"
            files = [f"{directory}/{name}" for name in view.names(directory) if name.startswith(f"{COUNTS.name}.")]
            if files:
                return KernelUse(moved_bytes=_total("\n".join(view.read(files).values())))
        return KernelUse()

    def too_little(self, dose: Dose, demand: Demand, limits: Resources) -> str | None:
        moved, least = dose.moved_bytes / dose.elapsed_s, self.least_rate(demand)
        # If a limit on its CPU time slowed it down, it did what it could.
        at_cpu_limit = limits.cpus is not None and dose.cpus >= LEAST_SHARE * allowed_cpus(demand, limits)
        if moved >= least or (at_cpu_limit and moved > 0):
            return None
        return f"the neighbour {self.verb} {human_bytes(moved)} of memory per second, less than {human_bytes(least)}"


def _available_bytes(neighbour: Instance) -> int:
    """Return the bytes of memory that the neighbour's kernel can allocate without swapping. Source: proc_meminfo(5)."""
    file = "/proc/meminfo"
    host = neighbour.testbed.host
    text = host.read_text(file) if neighbour.shares_kernel else neighbour.run(["cat", file]).text
    return next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("MemAvailable:"))


def _total(counts: str) -> int:
    return sum(int(word) for word in counts.split() if word.isdigit())
