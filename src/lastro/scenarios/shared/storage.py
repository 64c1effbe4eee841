"""The storage of a workload's files: the file system that an instance sees, and the host's storage under it.

A disk benchmark in a container often measures another file system than its author expects, so each trial records it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lastro.instruments.base import WORK_DIR
from lastro.platforms.base import Instance, Platform

_DF = ("df", "--block-size=1", "--output=source,fstype,avail,target")
_COLUMNS = ("device", "file system", "free", "mounted at")
_SEPARATOR = "SEPARATOR"  # between the two outputs
_REPORTED = {"root filesystem": "root filesystem", "kept in": "instance's disk"}  # names of facts: ours, platforms'


def storage(platform: Platform, instance: Instance) -> dict[str, str]:
    """Return facts on the storage of WORK_DIR by name: the file system inside, and the host's storage under it.

    The facts "path" and "in short" sum up the others, as `sentence` and `in_short` format them. Sizes are in bytes."""
    host = instance.testbed.host
    script = f"{' '.join(_DF)} {WORK_DIR}; echo {_SEPARATOR}; cat /proc/self/mountinfo"
    done = instance.run(["sh", "-c", script], check=False)
    table, _, mounts = done.text.partition(f"{_SEPARATOR}\n")
    facts = {"directory": WORK_DIR, **_df_row(table)}
    facts |= mount_facts(mounts, facts.get("mounted at", ""))
    residuals = platform.residuals(instance.testbed)
    facts |= {name: residuals[key] for name, key in _REPORTED.items() if key in residuals}
    disk = re.search(r"/[^\s,]*", facts.get("kept in", ""))
    if path := facts.get("layer on the host", disk[0] if disk else ""):
        facts["on the host"] = path
        # If the directory does not exist, its nearest existing parent is described instead.
        script = f'p=$1; until [ -e "$p" ]; do p=$(dirname "$p"); done; exec {" ".join(_DF)} "$p"'
        row = _df_row(host.run(["sh", "-c", script, "df", path], check=False).text)
        facts |= {f"host's {key}": row[key] for key in ("device", "file system") if key in row}
    machine = not instance.shares_kernel
    return {**facts, "path": sentence(facts, machine=machine), "in short": in_short(facts, machine=machine)}


def reported_storage(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the facts from `storage` that a report shows: those that do not differ between trials of a platform."""
    names = {"file system": "in short", "kept in": "kept in", "root filesystem": "root filesystem"}
    return {name: facts[key] for name, key in names.items() if key in facts}


def mount_facts(mountinfo: str, target: str) -> dict[str, str]:
    """Return the layer of an overlay mounted at `target`, or the directory of a device that is mounted there.

    `mountinfo` is the text of proc_pid_mountinfo(5). Return {} if neither applies."""
    facts: dict[str, str] = {}
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, rest = left.split(), right.split()
        if len(fields) < 6 or len(rest) < 3 or fields[4] != target:
            continue
        facts = {}  # of several mounts at one place, the last is on top
        if layer := re.search(r"(?:^|,)upperdir=([^,]+)", rest[2]):
            facts["layer on the host"] = layer[1]
        elif fields[3] != "/":
            facts["directory of the device"] = fields[3]
    return facts


def sentence(facts: Mapping[str, str], *, machine: bool) -> str:
    """Format the facts from `storage` in one line. `machine` is true for an instance with its own kernel.

    Examples: 'overlay, its layer in /x on ext4 (/dev/sda1)', 'ext4 (/dev/vda), its disk in /y on xfs (/dev/sdb)'."""
    words, host = _file_system_text(facts), _file_system_text(facts, "host's ")
    if "directory of the device" in facts and not machine:
        words += f", its directory {facts['directory of the device']}"
        what = "the device" if facts.get("device") != facts.get("host's device") else ""  # such as a file of the host
    elif "layer on the host" in facts:
        what = "its layer"
    else:
        what = "its disk" if machine else "its files"
    if "on the host" not in facts or not what:
        return words
    return f"{words}, {what} in {facts['on the host']} on {host}"


def in_short(facts: Mapping[str, str], *, machine: bool) -> str:
    """Format the facts from `storage` without paths, which differ between trials.

    Examples: 'overlay on ext4 (/dev/sda1)', 'btrfs (/dev/loop0) on xfs'."""
    words, host = _file_system_text(facts), _file_system_text(facts, "host's ")
    is_same = words == host and not machine
    return words if is_same or "on the host" not in facts else f"{words} on {host}"


def _file_system_text(facts: Mapping[str, str], whose: str = "") -> str:
    kind, device = facts.get(f"{whose}file system", "unknown"), facts.get(f"{whose}device", "")
    return f"{kind} ({device})" if device.startswith("/") else kind


def _df_row(table: str) -> dict[str, str]:
    lines = table.strip().splitlines()
    return dict(zip(_COLUMNS, lines[-1].split(), strict=False)) if len(lines) > 1 else {}
