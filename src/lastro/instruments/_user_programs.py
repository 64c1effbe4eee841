"""Programs of the user that a workload runs, gathered in one directory of the root filesystem."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from lastro.host.base import Host
from lastro.host.ledger import STATE_DIR
from lastro.host.shell import quoted

_COPY_S = 600.0


def gather_files(host: Host, name: str, parts: Mapping[str, Path]) -> str:
    """Copy the user's files and directories into a directory `lastro-NAME`, and return its path.

    `parts` is {name of the copy in this directory: path of the original}. A directory that was made from the same
    originals, by path, size and time of change, is reused."""
    states = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in _files(parts.values())]
    digest = hashlib.sha256("\n".join([*parts, *states]).encode()).hexdigest()[:12]
    directory = STATE_DIR / "programs" / f"{name}-{digest}" / f"lastro-{name}"
    if not directory.is_dir():
        complete, part = quoted(directory, directory.with_suffix(".part"))  # so that an interrupted copy is not used
        pairs = (quoted(source, target) for target, source in parts.items())
        copies = [f"cp -a {source} {part}/{target}" for source, target in pairs]
        script = "; ".join([f"rm -rf {part}", f"mkdir -p {part}", *copies, f"mv {part} {complete}"])
        host.run(["sh", "-ec", script], timeout_s=_COPY_S)
    return str(directory)


def _files(sources: Iterable[Path]) -> Iterator[Path]:
    for source in sources:
        if source.is_dir():
            yield from sorted(path for path in source.rglob("*") if path.is_file())
        else:
            yield source
