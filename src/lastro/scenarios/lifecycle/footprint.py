"""The footprint of instances on a host: readings without them and with them, and the difference per instance."""

from __future__ import annotations

from dataclasses import dataclass, fields

from lastro.errors import InstrumentError
from lastro.host.base import Completed
from lastro.scenarios.shared.memory_room import MIB, memory_taken
from lastro.testbed import Testbed


@dataclass(frozen=True, slots=True)
class Footprint:
    """One reading, in bytes except for `processes`.

    taken: the used memory of the host (total less available). charged: the memory of the session's cgroup, with
    instances, their monitors, and the platform's daemons. disk: the files in the session's directories and in the
    platforms' stores. disk_used: the used space of the whole file system below them."""

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


def _disk(testbed: Testbed) -> tuple[int, int]:
    """Return bytes in Lastro's directories without the image, and bytes used on the file system of the instances."""
    state = testbed.session.state
    count = ["du", "-cskx", f"--exclude={state}/rootfs", str(state), str(testbed.run_dir)]
    counted = testbed.host.run(count, check=False)  # files may vanish meanwhile
    used = testbed.host.run(["df", "-k", "--output=used", str(testbed.scratch_dir)])
    return _last_kib("du", counted) * 1024, _last_kib("df", used) * 1024


def _last_kib(tool: str, done: Completed) -> int:
    """Return the number that begins the last line. Raises: InstrumentError when there is none."""
    try:
        return int(done.text.splitlines()[-1].split()[0])
    except (IndexError, ValueError):
        words = (done.error_text or done.text).strip()[-200:] or f"exit code {done.returncode}"
        raise InstrumentError(f"{tool} did not report the disk space of instances: {words}") from None
