"""What instances take of a host: readings without them and with them, and the difference per instance."""

from __future__ import annotations

from dataclasses import dataclass, fields

from lastro.errors import PlatformError
from lastro.host.base import Host
from lastro.results.samples import AT_LEAST, Outcome, Remark
from lastro.testbed import Testbed

MIB = 1 << 20
ENOUGH = "enough for this study"  # how a reason begins when the study, not the host, refused more
_LEAST_AVAILABLE = 0.1  # fraction of the host's memory below which no further instance is started


@dataclass(frozen=True, slots=True)
class Footprint:
    """One reading, in bytes except for `processes`.

    taken: the host's memory, total less available. charged: to the session's cgroup, which holds instances, their
    monitors, and the platform's daemons. disk: what is in the session's directories and in the platforms' stores.
    disk_used: of the whole file system below them."""

    taken_bytes: int
    charged_bytes: int
    disk_bytes: int
    disk_used_bytes: int
    processes: int

    def since(self, earlier: Footprint) -> Footprint:
        return Footprint(*(getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)))

    @classmethod
    def of(cls, testbed: Testbed) -> Footprint:
        disk_bytes, disk_used_bytes = _disk(testbed)
        return cls(
            taken_bytes=memory_taken(testbed.host),
            charged_bytes=testbed.cgroups.usage(testbed.session.cgroup).memory_bytes,
            disk_bytes=disk_bytes,
            disk_used_bytes=disk_used_bytes,
            processes=len(testbed.session.pids()),
        )

    def per_instance(self, n: int) -> dict[str, float]:
        """Return measurements from the difference that `n` instances made."""
        return {
            "memory": self.charged_bytes / n / MIB,
            "memory_host": self.taken_bytes / n / MIB,
            "memory_total": self.taken_bytes / MIB,
            "disk": self.disk_bytes / n / MIB,
            "disk_host": self.disk_used_bytes / n / MIB,
            "processes": self.processes / n,
        }


def require_room(host: Host) -> None:
    """Check the host's free memory, before others on it suffer. Raises: PlatformError when memory runs short."""
    total_bytes, available_bytes = _memory(host)
    if available_bytes < _LEAST_AVAILABLE * total_bytes:
        raise PlatformError(
            f"the host has {available_bytes / MIB:.0f} MiB of memory left, under {_LEAST_AVAILABLE:.0%} of its total"
        )


def tell_capacity(outcome: Outcome, n: int, stopped_by: str) -> None:
    """Report how many the host carried at the end. Where the study set the end, the host might carry more."""
    outcome.measurements["capacity"] = n
    if stopped_by.startswith(ENOUGH):
        outcome.add_caveat(Remark(AT_LEAST, stopped_by, ("capacity",)))


def memory_taken(host: Host) -> int:
    total_bytes, available_bytes = _memory(host)
    return total_bytes - available_bytes


def _memory(host: Host) -> tuple[int, int]:
    """Return the host's total and available memory in bytes. Source: proc(5), /proc/meminfo."""
    lines = (line.split() for line in host.read_text("/proc/meminfo").splitlines())
    found = {words[0]: int(words[1]) * 1024 for words in lines if len(words) > 1}
    return found["MemTotal:"], found["MemAvailable:"]


def _disk(testbed: Testbed) -> tuple[int, int]:
    """Return bytes in Lastro's directories without the image, and bytes used on the file system of the instances."""
    state = testbed.session.ledger.state
    count = ["du", "-cskx", f"--exclude={state}/rootfs", str(state), str(testbed.run_dir)]
    total_kib = testbed.host.run(count, check=False).text.splitlines()[-1].split()[0]  # files may vanish meanwhile
    used_kib = testbed.host.run(["df", "-k", "--output=used", str(testbed.scratch_dir)]).text.split()[-1]
    return int(total_kib) * 1024, int(used_kib) * 1024
