"""The activity of a host: CPU time by mode, stalls by resource, user time by process.

Sources: proc(5), Documentation/accounting/psi.rst of the kernel."""

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
    """CPU seconds of a host by mode, and seconds in which some task stalled, by resource; both since boot.

    `stalled_s` is empty on a kernel without PSI."""

    cpu_s: Mapping[str, float]
    stalled_s: Mapping[str, float]

    @classmethod
    def parse(cls, lines: Mapping[str, str]) -> HostTotals:
        """Parse the first lines of /proc/stat and of the existing files of /proc/pressure, given by path."""
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
    """Set the name of this process to that of `lastro serve`, by which campaigns recognize it."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(_SERVER)


def totals_of(texts: Mapping[str, str]) -> HostTotals:
    """Return the totals from the texts of the files TOTALS, some of which do not exist on a kernel without PSI."""
    return HostTotals.parse({path: texts[path].partition("\n")[0] for path in TOTALS if path in texts})


def meminfo(text: str) -> dict[str, int]:
    """Return the sizes in the text of /proc/meminfo, in bytes, by name."""
    lines = (line.split() for line in text.splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3}


def n_cpus(stat: str) -> int:
    """Return the number of online CPUs, from the text of the file STAT."""
    return len(re.findall(r"^cpu\d", stat, re.MULTILINE)) or 1


@dataclass(frozen=True, slots=True)
class ActiveProcess:
    """A reading of a process. `user_s` includes the time of ended children, such as the compilers that make ran."""

    pid: int
    name: str
    user_s: float


@dataclass(frozen=True, slots=True)
class ActivityReading:
    """A reading of a host; `at_s` is its time on the controller's monotonic clock."""

    at_s: float
    totals: HostTotals
    processes: Mapping[int, ActiveProcess]

    def busiest(self, before: ActivityReading, own: Iterable[int] = ()) -> tuple[ActiveProcess, float] | None:
        """Return the process that used the most user CPU time since `before`, and the number of CPUs that it kept busy.

        None when no process used any. Processes with a PID in `own` do not count."""
        busiest, most_s = None, 0.0
        for pid, process in self.processes.items():
            earlier = before.processes.get(pid)
            if pid in own or earlier is None or earlier.name != process.name:
                continue
            if process.user_s - earlier.user_s > most_s:
                busiest, most_s = process, process.user_s - earlier.user_s
        return (busiest, most_s / (self.at_s - before.at_s)) if busiest else None

    def servers(self, before: ActivityReading) -> set[int]:
        """Return the PIDs of servers of `lastro serve` that used little CPU time since `before`.

        These belong to the apparatus; one that uses more is foreign load."""
        most_s = max(1 / _TICKS, _SERVER_CPUS * (self.at_s - before.at_s))
        servers = {pid: process for pid, process in self.processes.items() if process.name == _SERVER}
        return {
            pid
            for pid, process in servers.items()
            if pid in before.processes and process.user_s - before.processes[pid].user_s <= most_s
        }

    def foreign_user_s(self, before: ActivityReading, own: Collection[int], own_s: float) -> float:
        """Return the seconds in user mode since `before` of all processes that are not in `own`.

        `own_s` is the time of this process and of its ended children; 0 on a remote host. Two counts are made, and the
        smaller one is returned, since each may be too large. The first is the host's total less our own time. It has
        whole ticks, so threads that wake up with the tick, such as the processors of a guest, seem to use more than
        they do. The second is the sum over processes, whose times are exact. But when a child ends, its parent gets the
        time of its whole life. In a PID namespace other than the host's, where the kernel's first thread is not
        visible, other processes cannot be counted, so there is only the first."""
        used = {
            pid: process.user_s - (before.processes[pid].user_s if pid in before.processes else 0.0)
            for pid, process in self.processes.items()
            if pid != os.getpid()
        }
        ours_s = own_s + sum(used[pid] for pid in own if pid in used)
        counts = [self.totals.since(before.totals).user_s - ours_s]
        if (first := self.processes.get(_KTHREADD)) and first.name == "kthreadd":
            counts.append(sum(max(0.0, seconds) for pid, seconds in used.items() if pid not in own))
        return max(0.0, min(counts))


def look(host: Host) -> ActivityReading:
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
    """Parse a line of /proc/PID/stat. A name may contain spaces and parentheses; None for a name with a newline."""
    pid, _, rest = line.partition(" (")
    name, found, numbers = rest.rpartition(") ")
    fields = numbers.split()
    if not found or len(fields) < 14:
        return None
    name = "".join(char if char.isprintable() else "?" for char in name)  # any user may have chosen the name
    return ActiveProcess(int(pid), name, (int(fields[11]) + int(fields[13])) / _TICKS)
