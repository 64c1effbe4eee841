"""Determine which CPUs of a host are threads of one core, and so share its execution units.

The kernel reports this as topology. In a virtual machine, it may report each virtual CPU as a core. In that case, loops
run on two CPUs at the same time: they are slower if the CPUs share a core. Source: sysfs-devices-system-cpu."""

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
    """Return, for each core with two or more usable CPUs, its list of CPUs, such as "0-1".

    None if the kernel does not report the topology of every usable CPU."""
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
