"""Determine which CPUs of a host share the execution units of a core, and how large their last-level caches are.

The kernel reports this as topology. In a virtual machine, it may report each virtual CPU as a core. In that case, loops
run on two CPUs at the same time: they are slower if the CPUs share a core. Source: sysfs-devices-system-cpu."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from lastro.errors import InputError, LastroError
from lastro.host.base import Host
from lastro.host.cgroups import parse_cpus
from lastro.host.local import LocalHost
from lastro.units import parse_size_bytes

CPUS = "/sys/devices/system/cpu"
TOPOLOGY, CALIBRATION, UNKNOWN = "topology", "calibration", "unknown"
SHARED_BELOW = 0.8  # of the speed of a single loop: about 0.6 on two threads of a core, nearly 1 on two cores
_PROGRAM = Path(__file__).with_name("loops.pl")
_TIMES, _SLOT_MS, _MOST_OTHERS = 3, 40, 4  # at most 3 × 5 × 40 ms, and 10 ms before each loop together with another
_TIMEOUT_S = 20.0
_LINE = re.compile(r"(alone|\d{1,6}) (\d{1,6}\.\d{1,12})", re.ASCII)


def shared_cores(host: Host, usable: Sequence[int], *, virtual: bool, calibrate: bool = True) -> dict[str, Any]:
    """Return the chapter of provenance on cores: which CPUs share a core, and how this is known (`known_by`).

    Its `shared` lists the CPUs of each shared core, such as "0-1". `usable` are the CPUs on which instances run.

    With `virtual`, the host is a virtual machine, whose topology is believed only if it reports shared cores. If it
    reports none, loops measure which CPUs share a core with the first one; without `calibrate`, this stays unknown.
    After a measurement, the chapter also has `speed_beside`, {CPU: speed}: the speed of a loop on the first CPU while
    another loop runs on this CPU, as a fraction of its speed without the other loop."""
    siblings = _siblings(host, usable)
    if siblings or (siblings is not None and not virtual) or len(usable) < 2:
        return {"shared": siblings or [], "known_by": UNKNOWN if siblings is None else TOPOLOGY}
    speed_by_cpu = _measure_speeds(host, usable) if calibrate else {}
    if not speed_by_cpu:
        return {"shared": [], "known_by": UNKNOWN}
    shared = [f"{usable[0]},{cpu}" for cpu, speed in speed_by_cpu.items() if speed < SHARED_BELOW]
    speed_beside = {str(cpu): speed for cpu, speed in speed_by_cpu.items()}
    return {"shared": shared, "known_by": CALIBRATION, "speed_beside": speed_beside}


def _siblings(host: Host, usable: Sequence[int]) -> list[str] | None:
    """Return the CPUs of each core with two or more usable ones, such as "0-1"; None without a complete topology."""
    files = [f"{CPUS}/cpu{cpu}/topology/thread_siblings_list" for cpu in usable]
    texts = host.view.read(files)
    if len(texts) < len(files):
        return None
    lists = dict.fromkeys(texts[file].strip() for file in files)
    return [siblings for siblings in lists if len(parse_cpus(siblings) & set(usable)) > 1]


def _measure_speeds(host: Host, usable: Sequence[int]) -> dict[int, float]:
    """Return {CPU: relative speed of a loop on the first usable CPU while another loop runs on this CPU}.

    The speed is a fraction of the speed without the other loop. Empty if the loops cannot run. Only a few CPUs are
    tried, those most likely to share a core with the first one: a virtual machine numbers the threads of a core one
    after the other, or the second threads of all cores come in the second half."""
    half = len(usable) // 2
    first, others = usable[0], list(dict.fromkeys([usable[1], usable[half], *usable[2:]]))[:_MOST_OTHERS]
    argv = ["perl", "-", *map(str, (_TIMES, _SLOT_MS, first, *others))]
    try:
        text = host.run(argv, stdin=_PROGRAM.read_text(encoding="utf-8"), timeout_s=_TIMEOUT_S).text
    except LastroError:  # without Perl or taskset, or where a CPU cannot be chosen
        return {}
    return speeds(text)


def speeds(text: str) -> dict[int, float]:
    """Parse the output of the loops as {CPU: best speed, as a fraction of the best speed without another loop}.

    Empty if the output has no speed without another loop."""
    best: dict[str, float] = {}
    for line in text.splitlines():
        if match := _LINE.fullmatch(line):
            best[match[1]] = max(best.get(match[1], 0.0), float(match[2]))
    alone = best.pop("alone", 0.0)
    return {int(cpu): round(rate / alone, 2) for cpu, rate in best.items()} if alone else {}


@cache
def local_cache_bytes(cpuset: str) -> int:
    """Return `last_level_cache_bytes` for CPUs of this machine. Plans use it, since they have no testbed."""
    return last_level_cache_bytes(LocalHost(), cpuset)


def last_level_cache_bytes(host: Host, cpuset: str | None) -> int:
    """Return the total size in bytes of the last-level caches of the CPUs in `cpuset`, such as "0-3" (None: all CPUs).

    A cache that several CPUs share is counted once. 0 if the kernel does not report caches."""
    size_bytes: dict[tuple[int, str], int] = {}  # by level, and the CPUs that share the cache
    for cpu in sorted(parse_cpus(cpuset if cpuset is not None else _read(host, f"{CPUS}/online"))):
        last_level, last_directory = 0, ""
        for index in range(8):
            directory = f"{CPUS}/cpu{cpu}/cache/index{index}"
            level = _read(host, f"{directory}/level")
            if level.isdigit() and int(level) > last_level:
                last_level, last_directory = int(level), directory
        if last_directory:
            shared = _read(host, f"{last_directory}/shared_cpu_list") or str(cpu)
            size_bytes[last_level, shared] = _size(_read(host, f"{last_directory}/size"))
    return sum(size_bytes.values())


def _size(text: str) -> int:
    try:
        return parse_size_bytes(text)
    except InputError:
        return 0


def _read(host: Host, file: str) -> str:
    try:
        return host.read_text(file).strip()
    except OSError:
        return ""
