"""The memory of a host: how much of it is in use, and whether it suffices for more instances."""

from __future__ import annotations

import re
from collections.abc import Collection

from lastro.errors import PlatformError
from lastro.host.activity import meminfo
from lastro.host.base import Host
from lastro.results.samples import AT_LEAST, Outcome, Remark
from lastro.results.trial_notes import SearchEnd
from lastro.units import MIB

MEMINFO = "/proc/meminfo"
ENOUGH = "enough for this study"  # how a reason begins if the study, not the host, sets the limit
_LEAST_AVAILABLE = 0.1  # fraction of the host's memory below which no further instance is started


def require_room(host: Host) -> None:
    """Check that the host has free memory for one more instance. Raises: PlatformError when it has too little."""
    memory = meminfo(host.read_text(MEMINFO))
    total_bytes, available_bytes = memory["MemTotal"], memory["MemAvailable"]
    if available_bytes < _LEAST_AVAILABLE * total_bytes:
        text = f"the host has {available_bytes / MIB:.0f} MiB of memory left, under {_LEAST_AVAILABLE:.0%} of its total"
        raise PlatformError(text)


def record_capacity(outcome: Outcome, end: SearchEnd) -> None:
    """Record the metric `capacity`, the number at which the search ended; a lower bound if a study's limit ended it."""
    outcome.measurements["capacity"] = end.n
    if end.stopped_by.startswith(ENOUGH):
        outcome.add_caveat(Remark(AT_LEAST, end.stopped_by, ("capacity",)))
    outcome.notes |= end.as_notes("capacity")


def used_memory_bytes(host: Host) -> int:
    return used_bytes(host.read_text(MEMINFO))


def used_bytes(text: str) -> int:
    """Return the bytes of memory in use, which are total less available, from the text of MEMINFO."""
    memory = meminfo(text)
    return memory["MemTotal"] - memory["MemAvailable"]


def used_swap_bytes(host: Host) -> int | None:
    """Return the bytes of swap in use; None on a host without swap. Source: proc(5), /proc/meminfo."""
    memory = meminfo(host.read_text(MEMINFO))
    return memory["SwapTotal"] - memory.get("SwapFree", 0) if memory.get("SwapTotal") else None


def proportional_bytes(host: Host, pids: Collection[int]) -> int | None:
    """Return the sum of the processes' proportional set sizes; None if the size of a running process cannot be read.

    A process that has ended, or is a zombie, counts as 0."""
    texts = host.view.read([rollup(pid) for pid in pids])
    sizes = {pid: pss_bytes(texts.get(rollup(pid), "")) for pid in pids}
    unknown = [f"/proc/{pid}/status" for pid, n_bytes in sizes.items() if n_bytes is None]
    if any("\nVmSize:" in status for status in host.view.read(unknown).values()):  # a process with memory of its own
        return None
    return sum(n_bytes or 0 for n_bytes in sizes.values())


def rollup(pid: int) -> str:
    """Return the path of the file that `pss_bytes` parses: the memory summary of a process in /proc."""
    return f"/proc/{pid}/smaps_rollup"


def pss_bytes(text: str) -> int | None:
    """Return the proportional set size in bytes from the text of a `rollup` file; None if the text lacks it."""
    match = re.search(r"^Pss:\s*(\d+) kB$", text, re.MULTILINE)
    return 1024 * int(match[1]) if match else None
