"""Which CPUs of a host are threads of one core, and so share its execution units.

The kernel's topology says it. In a virtual machine it may say nothing: each virtual CPU then looks like a core of its
own. There, a loop on one CPU beside a loop on another shows it by its speed. Source: sysfs-devices-system-cpu."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lastro.errors import LastroError
from lastro.host.base import Host
from lastro.host.caches import CPUS
from lastro.host.cgroups import parse_cpus

TOPOLOGY, CALIBRATION, UNKNOWN = "topology", "calibration", "unknown"
SHARED_BELOW = 0.8  # of the speed alone: on two threads of a core it is about 0.6, on two cores nearly 1
_PROGRAM = Path(__file__).with_name("loops.pl")
_TIMES, _SLOT_MS, _MOST_OTHERS = 3, 40, 4  # at most 3 × 5 × 40 ms, and 10 ms before each loop beside another
_TIMEOUT_S = 20.0
_LINE = re.compile(r"(alone|\d{1,6}) (\d{1,6}\.\d{1,12})", re.ASCII)


def shared_cores(host: Host, usable: Sequence[int], *, virtual: bool, calibrate: bool = True) -> dict[str, Any]:
    """Return the chapter of provenance on cores: the CPUs that share one, and how that is known.

    `usable` are the CPUs on which instances run. `virtual`: whether the host is a virtual machine, whose topology is
    believed only if it says that CPUs share a core; without `calibrate`, it is then unknown. `speed_beside` has, for
    each other CPU that was tried, the speed of a loop on the first CPU beside a loop on it, as a fraction of its speed
    alone."""
    siblings = _siblings(host, usable)
    if siblings or (siblings is not None and not virtual) or len(usable) < 2:
        return {"shared": siblings or [], "known_by": UNKNOWN if siblings is None else TOPOLOGY}
    if not (speeds_beside := _calibrated(host, usable) if calibrate else {}):
        return {"shared": [], "known_by": UNKNOWN}
    shared = [f"{usable[0]},{cpu}" for cpu, speed in speeds_beside.items() if speed < SHARED_BELOW]
    beside = {str(cpu): speed for cpu, speed in speeds_beside.items()}
    return {"shared": shared, "known_by": CALIBRATION, "speed_beside": beside}


def _siblings(host: Host, usable: Sequence[int]) -> list[str] | None:
    """Return the lists of CPUs that are threads of one core, of which two or more are usable; None if unknown."""
    files = [f"{CPUS}/cpu{cpu}/topology/thread_siblings_list" for cpu in usable]
    texts = host.view.read(files)
    lists = dict.fromkeys(texts[file].strip() for file in files if file in texts)
    return [each for each in lists if len(parse_cpus(each) & set(usable)) > 1] if len(texts) == len(files) else None


def _calibrated(host: Host, usable: Sequence[int]) -> dict[int, float]:
    """Return the speed of a loop on the first CPU beside one on each of some others; nothing where it cannot be tried.

    A virtual machine lists threads of a core either one after the other, or in its second half."""
    half = len(usable) // 2
    here, others = usable[0], list(dict.fromkeys([usable[1], usable[half], *usable[2:]]))[:_MOST_OTHERS]
    argv = ["perl", "-", *map(str, (_TIMES, _SLOT_MS, here, *others))]
    try:
        text = host.run(argv, stdin=_PROGRAM.read_text(encoding="utf-8"), timeout_s=_TIMEOUT_S).text
    except LastroError:  # without Perl or taskset, or where a CPU cannot be chosen
        return {}
    return speeds(text)


def speeds(text: str) -> dict[int, float]:
    """Return the best speed beside each other CPU, as a fraction of the best one alone, from the program's output."""
    best: dict[str, float] = {}
    for line in text.splitlines():
        if match := _LINE.fullmatch(line):
            best[match[1]] = max(best.get(match[1], 0.0), float(match[2]))
    alone = best.pop("alone", 0.0)
    return {int(cpu): round(rate / alone, 2) for cpu, rate in best.items()} if alone else {}
