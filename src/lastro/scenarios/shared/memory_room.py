"""The memory of a host: how much is taken, and whether it has room for more instances."""

from __future__ import annotations

from contextlib import suppress

from lastro.errors import PlatformError
from lastro.host.base import Host
from lastro.results.noted import SearchEnd
from lastro.results.samples import AT_LEAST, Outcome, Remark

MIB = 1 << 20
ENOUGH = "enough for this study"  # how a reason begins when the study, not the host, refused more
_LEAST_AVAILABLE = 0.1  # fraction of the host's memory below which no further instance is started


def require_room(host: Host) -> None:
    """Check that the host has free memory for one more instance. Raises: PlatformError when it has too little."""
    total_bytes, available_bytes = _memory(host)
    if available_bytes < _LEAST_AVAILABLE * total_bytes:
        raise PlatformError(
            f"the host has {available_bytes / MIB:.0f} MiB of memory left, under {_LEAST_AVAILABLE:.0%} of its total"
        )


def record_capacity(outcome: Outcome, end: SearchEnd) -> None:
    """Record the number of instances that the host carried; a lower bound if the study ended the search."""
    outcome.measurements["capacity"] = end.n
    if end.stopped_by.startswith(ENOUGH):
        outcome.add_caveat(Remark(AT_LEAST, end.stopped_by, ("capacity",)))
    outcome.notes |= end.as_notes("capacity")


def memory_taken(host: Host) -> int:
    total_bytes, available_bytes = _memory(host)
    return total_bytes - available_bytes


def swap_taken(host: Host) -> int | None:
    """Return the bytes of swap in use; None on a host without swap. Source: proc(5), /proc/meminfo."""
    found = _meminfo(host)
    return found["SwapTotal:"] - found.get("SwapFree:", 0) if found.get("SwapTotal:") else None


def proportional_bytes(host: Host, pid: int) -> int | None:
    """Return a process's proportional set size; None where it cannot be read, 0 for an ended process or a zombie."""
    with suppress(OSError, ValueError, StopIteration):
        text = host.read_text(f"/proc/{pid}/smaps_rollup")
        return 1024 * int(next(line.split()[1] for line in text.splitlines() if line.startswith("Pss:")))
    try:
        status = host.read_text(f"/proc/{pid}/status")
    except OSError:
        return 0
    return None if "\nVmSize:" in status else 0  # without memory of its own, as a zombie is


def _memory(host: Host) -> tuple[int, int]:
    """Return the host's total and available memory in bytes. Source: proc(5), /proc/meminfo."""
    found = _meminfo(host)
    return found["MemTotal:"], found["MemAvailable:"]


def _meminfo(host: Host) -> dict[str, int]:
    lines = (line.split() for line in host.read_text("/proc/meminfo").splitlines())
    return {words[0]: int(words[1]) * 1024 for words in lines if len(words) > 1}
