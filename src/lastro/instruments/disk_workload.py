"""The base of disk instruments: a directory on the instance's disk, and remarks on caches that may hide the disk."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace

from lastro.instruments.base import UNWATCHED, WORK_DIR, Watch, Workload
from lastro.platforms.base import Instance
from lastro.results.samples import THROUGH_CACHE, Reading, Remark
from lastro.study.model import Setting
from lastro.units import human_bytes

NO, YES = "no", "yes"
DIRECT = Setting("direct", NO, "bypass the page cache of the instance's kernel (O_DIRECT)", choices=(NO, YES))
_TIDY_LIMIT_S = 300.0
PAGE_CACHE, HOST_CACHE = "page cache", "host's cache"
_BYPASSED = ("none", "directsync")  # the host opens the disk with O_DIRECT
_HOST_CACHE = {
    "none": "bypassed (cache=none)",
    "directsync": "bypassed (cache=directsync)",
    "writethrough": "in use for reading (cache=writethrough)",
    "writeback": "in use (cache=writeback)",
    "unsafe": "in use, and flushes are ignored (cache=unsafe)",
}
_ZFS, _ARC = "zfs", "ZFS's own (ARC), in the host's memory, outside every instance's limit"
_TIMES_MEMORY = 2  # Bonnie++'s own rule for files that a cache cannot hold


class DiskWorkload(Workload):
    """A workload on files in the directory `place` of the instance's own disk."""

    @property
    def place(self) -> str:
        return f"{WORK_DIR}/lastro-{self.name}"

    @property
    @abstractmethod
    def file_bytes(self) -> int:
        """The approximate maximum size of all files of the workload together."""

    @property
    def direct(self) -> bool:
        return self.chosen.get(DIRECT.name) == YES

    def prepare(self, instance: Instance) -> None:
        instance.run(["sh", "-ec", f"rm -rf {self.place}; mkdir -p {self.place}; sync {self.place}"])

    def run(self, instance: Instance, limit_s: float, watch: Watch = UNWATCHED) -> Reading:
        """Run the workload, then remove its files, because a volume may outlive its instance.

        After a failure the files stay; `prepare` removes them before the next run in this instance."""
        reading = super().run(instance, limit_s, watch)
        instance.run(["rm", "-rf", self.place], timeout_s=_TIDY_LIMIT_S)
        return with_caches(reading, self.file_bytes, self.direct, instance)


def with_caches(
    reading: Reading, file_bytes: int, direct: bool, instance: Instance, *, unaffected: Collection[str] = ()
) -> Reading:
    """Return the reading with a description of the caches, and a remark if they may hide the disk.

    The remark applies to all metrics except those in `unaffected`, which no cache affects."""
    memory_bytes = instance.spec.resources.memory_bytes
    facts = cache_facts(file_bytes, memory_bytes, direct, instance.shares_kernel, instance.host_cache)
    warning = cache_warning(file_bytes, memory_bytes, direct)
    if not instance.shares_kernel and instance.host_cache not in _BYPASSED:
        host_warning = f"the host's page cache may hide the machine's disk: {facts[HOST_CACHE]}"
        warning = f"{warning}; {host_warning}" if warning else host_warning
    affected = tuple(name for name in reading.measurements if name not in unaffected)
    remarks = (Remark(THROUGH_CACHE, warning, affected),) if warning else ()
    return replace(reading, remarks=(*reading.remarks, *remarks), really={**reading.really, **facts})


def through_arc(reading: Reading, file_systems: Mapping[str, str], unaffected: Collection[str] = ()) -> Reading:
    """Return the reading of a disk workload, with a remark on the cache of ZFS (ARC) if its files are on ZFS.

    `file_systems` has the type of the instance's file system under "file system". For a virtual machine, it also has
    the type of the host's file system with the machine's disk, under "host's file system". `unaffected` are the metrics
    to which the remark does not apply, as in `with_caches`.

    The ARC does not count as memory of a container, so it may hold files of any size. O_DIRECT bypasses it only from
    OpenZFS 2.3 on, for requests that fit its records (zfsprops(7), `direct`)."""
    instance_fs, host_fs = file_systems.get("file system"), file_systems.get("host's file system")
    if PAGE_CACHE not in reading.really or _ZFS not in (instance_fs, host_fs):
        return reading
    text = "ZFS's own cache may hide the disk: it is in the host's memory, outside the instance's limit"
    metrics = tuple(name for name in reading.measurements if name not in unaffected)
    others = []
    for remark in reading.remarks:
        if remark.kind == THROUGH_CACHE:
            text, metrics = f"{remark.text}; {text}", remark.metrics
        else:
            others.append(remark)
    cache = HOST_CACHE if HOST_CACHE in reading.really and instance_fs != _ZFS else PAGE_CACHE
    remarks = (*others, Remark(THROUGH_CACHE, text, metrics))
    return replace(reading, remarks=remarks, really={**reading.really, cache: _ARC})


def cache_warning(file_bytes: int, memory_bytes: int | None, direct: bool) -> str:
    """Return a warning if the instance's memory may have been measured instead of the disk; empty if not.

    `memory_bytes` is the memory limit of the instance; None if it may use all memory of the host."""
    if direct or (memory_bytes is not None and file_bytes >= _TIMES_MEMORY * memory_bytes):
        return ""
    memory = f"{human_bytes(memory_bytes)} of memory" if memory_bytes else "all of the host's memory"
    return f"the page cache may hide the disk: {human_bytes(file_bytes)} of files, and {memory}"


def cache_facts(
    file_bytes: int, memory_bytes: int | None, direct: bool, shares_kernel: bool, host_cache: str = ""
) -> dict[str, str]:
    """Return {name: description} of the caches that may affect the measurement, and of the size of the files.

    The page cache of a container counts as its memory (cgroups(7)). A virtual machine has the page cache of its own
    kernel, and the host may cache the machine's disk, too. `host_cache` is QEMU's name of the mode in which it does so;
    empty if unknown."""
    facts = {"files": human_bytes(file_bytes)}
    if direct:
        facts[PAGE_CACHE] = "bypassed (O_DIRECT)" if shares_kernel else "bypassed inside (O_DIRECT)"
    elif memory_bytes is None or cache_warning(file_bytes, memory_bytes, direct):
        facts[PAGE_CACHE] = "in use"
    else:
        facts[PAGE_CACHE] = f"in use, less than {human_bytes(memory_bytes)}"
    if not shares_kernel:
        facts[HOST_CACHE] = _HOST_CACHE.get(host_cache, "assumed to be in use")
    return facts
