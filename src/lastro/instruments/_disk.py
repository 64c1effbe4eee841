"""What instruments of the disk share: a directory of their own on it, and the page cache that may stand before it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from lastro.instruments.base import WORK_DIR, Workload
from lastro.platforms.base import Instance
from lastro.results.samples import Reading
from lastro.study.model import Setting
from lastro.units import human_bytes

NO, YES = "no", "yes"
DIRECT = Setting("direct", NO, "read and write past the page cache of the instance's kernel", choices=(NO, YES))
_TIDY_LIMIT_S = 300.0
_ENOUGH = 2  # times the memory: Bonnie++'s own rule for files that a cache cannot hide


class DiskWorkload(Workload):
    """A workload on files in a directory of its own, on the instance's own disk."""

    @property
    def place(self) -> str:
        return f"{WORK_DIR}/lastro-{self.name}"

    @property
    @abstractmethod
    def file_bytes(self) -> int:
        """How much lies in its files at most, about."""

    @property
    def direct(self) -> bool:
        return self.chosen.get(DIRECT.name) == YES

    def prepare(self, instance: Instance) -> None:
        instance.run(["sh", "-ec", f"rm -rf {self.place}; mkdir -p {self.place}; sync {self.place}"])

    def run(self, instance: Instance, limit_s: float) -> Reading:
        """What it leaves is removed: a volume may outlive its instance. After a failure the instance goes at once."""
        reading = super().run(instance, limit_s)
        instance.run(["rm", "-rf", self.place], timeout_s=_TIDY_LIMIT_S)
        caches = cache_notes(self.file_bytes, instance.spec.resources.memory_bytes, self.direct, instance.shares_kernel)
        return replace(reading, notes={**reading.notes, **caches})


def cache_notes(file_bytes: int, memory_bytes: int | None, direct: bool, shares_kernel: bool) -> dict[str, object]:
    """What caches have to do with the numbers; "warning" where they may be the memory's and not the disk's.

    A container's cache counts as its memory (cgroups(7)). A machine's is its kernel's, and its host may have more."""
    notes: dict[str, object] = {"files": human_bytes(file_bytes)}
    if direct:
        notes["page cache"] = "bypassed (O_DIRECT)"
    elif memory_bytes is None or file_bytes < _ENOUGH * memory_bytes:
        notes["page cache"] = "in use"
        memory = f"{human_bytes(memory_bytes)} of memory" if memory_bytes else "as much memory as the host has"
        notes["warning"] = f"the page cache may hide the disk: {human_bytes(file_bytes)} of files, and {memory}"
    else:
        notes["page cache"] = f"in use, of less than {human_bytes(memory_bytes)}"
    if not shares_kernel:
        notes["host's cache"] = "as the platform's option `cache` says: O_DIRECT in a guest does not reach it"
    return {"disk": notes}
