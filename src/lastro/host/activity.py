"""The activity of a host: CPU time by mode, stalls by resource, user time by process. Sources: proc(5), psi.rst."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lastro.errors import CommandFailed
from lastro.host.base import Host

_TICKS = os.sysconf("SC_CLK_TCK")
_KTHREADD = 2  # its PID on every host
_SERVER = "lastro-serve"  # the name of its process
_SERVER_CPUS = 0.02  # upper limit; a server uses less, but a reading has whole ticks
_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_RESOURCES = ("cpu", "memory", "io")
STAT = "/proc/stat"
TOTALS = (STAT, *(f"/proc/pressure/{resource}" for resource in _RESOURCES))
# Prints the first line of each existing file, after the file's name. It is one command, also on a remote host.
_READ = [
    "sh", "-c", 'exec grep --no-messages --with-filename --max-count=1 "" "$@" /proc/[0-9]*/stat', "sh", *TOTALS,
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostTotals:
    """The CPU seconds of a host by mode, and the seconds in which some task stalled, by resource; since boot."""

    cpu_s: Mapping[str, float]
    stalled_s: Mapping[str, float]  # empty on a kernel without PSI (pressure stall information)

    @classmethod
    def parse(cls, lines: Mapping[str, str]) -> HostTotals:
        """Parse {path: first line} of /proc/stat and of the files in /proc/pressure, if they exist."""
        ticks = map(int, lines["/proc/stat"].split()[1:])
        stalls = ((name, lines.get(f"/proc/pressure/{name}", "")) for name in _RESOURCES)
        return cls(
            {mode: value / _TICKS for mode, value in zip(_MODES, ticks, strict=False)},
            {name: int(line.rpartition("total=")[2]) / 1e6 for name, line in stalls if line},
        )

    def since(self, before: HostTotals) -> HostTotals:
        return HostTotals(
            {mode: self.cpu_s[mode] - before.cpu_s[mode] for mode in self.cpu_s},
            {name: at - before.stalled_s[name] for name, at in self.stalled_s.items() if name in before.stalled_s},
        )

    @property
    def user_s(self) -> float:
        return self.cpu_s["user"] + self.cpu_s["nice"]

    @property
    def steal_percent(self) -> float:
        total_s = sum(self.cpu_s.values())
        return 100 * self.cpu_s["steal"] / total_s if total_s else 0.0


def name_server() -> None:
    """Set the name of this process to `lastro-serve`, by which campaigns recognize a server of `lastro serve`."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(_SERVER)


def totals_of(texts: Mapping[str, str]) -> HostTotals:
    """Return a host's totals, from {path: text} of the files in TOTALS; the files of PSI may be missing."""
    return HostTotals.parse({path: texts[path].partition("\n")[0] for path in TOTALS if path in texts})


def meminfo(text: str) -> dict[str, int]:
    """Parse the text of /proc/meminfo as {field: size in bytes}; fields that are not sizes are left out."""
    lines = (line.split() for line in text.splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3}


def n_cpus(stat: str) -> int:
    """Return the number of online CPUs, from the text of /proc/stat; 1 if it lists none."""
    return len(re.findall(r"^cpu\d", stat, re.MULTILINE)) or 1


@dataclass(frozen=True, slots=True)
class ActiveProcess:
    """A process and its user CPU time, including the time of its ended children (for make: the compilers it ran)."""

    pid: int
    name: str
    user_s: float


@dataclass(frozen=True, slots=True)
class ActivityReading:
    """The totals of a host and its processes by PID, read at `at_s` on the controller's monotonic clock."""

    at_s: float
    totals: HostTotals
    processes: Mapping[int, ActiveProcess]

    def busiest(self, before: ActivityReading, own: Iterable[int] = ()) -> tuple[ActiveProcess, float] | None:
        """Return the process with the most user CPU time since the reading `before`, and how many CPUs it kept busy.

        The number of CPUs is an average, such as 0.3. PIDs in `own` are ignored. None when no other used CPU time."""
        busiest, most_s = None, 0.0
        for pid, process in self.processes.items():
            earlier = before.processes.get(pid)
            if pid in own or earlier is None or earlier.name != process.name:
                continue
            if process.user_s - earlier.user_s > most_s:
                busiest, most_s = process, process.user_s - earlier.user_s
        return (busiest, most_s / (self.at_s - before.at_s)) if busiest else None

    def servers(self, before: ActivityReading) -> set[int]:
        """Return the PIDs of the `lastro serve` processes that used little CPU time since the reading `before`.

        They belong to the apparatus. A `lastro serve` process that used more is foreign load."""
        most_s = max(1 / _TICKS, _SERVER_CPUS * (self.at_s - before.at_s))
        servers = {pid: process for pid, process in self.processes.items() if process.name == _SERVER}
        return {
            pid
            for pid, process in servers.items()
            if pid in before.processes and process.user_s - before.processes[pid].user_s <= most_s
        }

    def foreign_user_s(self, before: ActivityReading, own: Collection[int], own_s: float) -> float:
        """Return the user CPU seconds since the reading `before` of all processes whose PIDs are not in `own`.

        `own_s` is the user CPU time of this process and of its ended children since then; 0 on a remote host.

        Two estimates are made, and the smaller one is returned, since each may be too large. The first is the host's
        total minus the time of this process and of `own`. The kernel counts the total in whole ticks, so threads that
        wake up with the tick, such as the virtual CPUs of a guest, seem to use more than they do. The second is the sum
        over all other processes, whose times are exact. But when a process ends, its whole CPU time is added to its
        parent, even the part from before `before`. In a PID namespace other than the host's, where kthreadd is not
        visible, other processes are not visible either, so only the first estimate is used."""
        used = {
            pid: process.user_s - (before.processes[pid].user_s if pid in before.processes else 0.0)
            for pid, process in self.processes.items()
            if pid != os.getpid()
        }
        ours_s = own_s + sum(used[pid] for pid in own if pid in used)
        estimates = [self.totals.since(before.totals).user_s - ours_s]
        if (kthreadd := self.processes.get(_KTHREADD)) and kthreadd.name == "kthreadd":
            estimates.append(sum(max(0.0, seconds) for pid, seconds in used.items() if pid not in own))
        return max(0.0, min(estimates))


def read_activity(host: Host) -> ActivityReading:
    """Read the totals of the host and of all its visible processes."""
    at_s = time.monotonic()
    done = host.run(_READ, check=False)  # its exit code is not 0 if a process has ended meanwhile
    text = done.text
    lines = {path: line for path, _, line in (line.partition(":") for line in text.splitlines())}
    if "/proc/stat" not in lines:
        raise CommandFailed(done.argv, done.returncode, done.error_text)
    processes = [_process(line) for path, line in lines.items() if path.endswith("/stat") and path != "/proc/stat"]
    by_pid = {process.pid: process for process in processes if process}
    return ActivityReading(at_s, HostTotals.parse(lines), by_pid)


def _process(line: str) -> ActiveProcess | None:
    """Parse a line of /proc/PID/stat; None if the line is incomplete, as when the process name has a newline.

    A name may contain spaces and parentheses."""
    pid, _, rest = line.partition(" (")
    name, separator, numbers = rest.rpartition(") ")
    fields = numbers.split()
    if not separator or len(fields) < 14:
        return None
    name = "".join(char if char.isprintable() else "?" for char in name)  # any user may have chosen the name
    user_ticks = int(fields[11]) + int(fields[13])  # utime of the process, and cutime of its ended children
    return ActiveProcess(int(pid), name, user_ticks / _TICKS)
