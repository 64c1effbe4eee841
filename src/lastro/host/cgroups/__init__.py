"""Control groups, version 1 (one tree per controller) and version 2 (one tree), behind one small interface.

Names are paths below the root of every tree, such as `/lastro/1a2b3c/source`. Source: admin-guide/cgroup-v1 and -v2."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lastro.host.base import Host
from lastro.host.cgroups.base import Cgroups, GroupTasks, Resources, Usage, total
from lastro.host.cgroups.v1 import CgroupsV1
from lastro.host.cgroups.v2 import CgroupsV2
from lastro.host.files import Files, LocalFiles

__all__ = ["Cgroups", "CgroupsV1", "CgroupsV2", "GroupTasks", "Resources", "Usage", "block_device_of", "detect",
           "parse_cpus", "total"]  # fmt: skip

# The query of `block_device_of` for the shell of a remote host.
_DISK = """n=/sys/dev/block/$(stat -c %Hd:%Ld -- "$1"); [ -e "$n" ] || exit 0
n=$(readlink -f "$n"); [ ! -e "$n/partition" ] || n=${n%/*}; cat "$n/dev\""""


def detect(root: Path = Path("/sys/fs/cgroup"), files: Files | None = None) -> Cgroups:
    """Return version 2 if its controllers are mounted at `root`, as on hosts with systemd; otherwise version 1."""
    files = files or LocalFiles()
    version2 = files.exists(str(root / "cgroup.controllers"))
    return CgroupsV2(root, files) if version2 else CgroupsV1(root, files)


def parse_cpus(text: str) -> frozenset[int]:
    """Parse a CPU list in the kernel's format (cpuset(7)): '0-2,5' is {0, 1, 2, 5}. Empty if it is not such a list."""
    cpus: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)
        if not match:
            return frozenset()
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            return frozenset()
        cpus.update(range(first, last + 1))
    return frozenset(cpus)


def block_device_of(path: Path, host: Host | None = None) -> str | None:
    """Return 'MAJOR:MINOR' of the disk on which `path` lies on `host` (default: this machine).

    For a partition, it is the number of the whole disk. None if `path` is not on a disk but on tmpfs or overlay."""
    if host is not None and host.remote:
        return host.run(["sh", "-c", _DISK, "disk", str(path)]).text.strip() or None
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    node = Path(f"/sys/dev/block/{number}")
    if not node.exists():
        return None
    # Throttling works on whole disks: for a partition, take its parent.
    whole = node.resolve().parent / "dev" if (node / "partition").exists() else node / "dev"
    return whole.read_text(encoding="utf-8").strip()
