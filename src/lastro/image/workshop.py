"""Where something large is built: on its store's own disk, renamed when it is whole, and removed when it is not.

Whoever builds may be killed. What it leaves says whose it is, so that the next to build, or `lastro clean`, removes it;
and mmdebstrap has its mounts in a namespace of its own, which the kernel takes down with its last process. On the host
they would outlive it, with the host's own /dev and /sys below a directory that looks like a leftover to delete."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lastro.host.files import start_time

_PREFIX = "building"
_NAME = re.compile(rf"{_PREFIX}-(\d+)-(\d+)-\w{{8}}")


@contextmanager
def workshop(store: Path) -> Iterator[Path]:
    """A new directory in `store`, which is gone after the block unless it was renamed."""
    store.mkdir(parents=True, exist_ok=True)
    for left in abandoned(store):
        _remove(left)
    pid = os.getpid()
    work = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}-{pid}-{start_time(pid)}-", dir=store))
    work.chmod(0o755)  # apt fetches as a user of its own
    try:
        yield work
    finally:
        _remove(work)


def abandoned(store: Path) -> list[Path]:
    """The workshops in `store` of processes that are gone."""
    return sorted(path for path in store.glob(f"{_PREFIX}-*") if _is_abandoned(path.name))


def clean(state: Path, *, dry_run: bool = False) -> list[Path]:
    """Remove the abandoned workshops of every store of this host, and return them."""
    stores = [path for depth in ("*", "*/*") for path in state.glob(depth) if path.is_dir()]
    found = [left for store in stores for left in abandoned(store)]
    for left in () if dry_run else found:
        _remove(left)
    return found


def mmdebstrap(work: Path, arguments: Sequence[str], *variables: str) -> list[str]:
    """The command that has Debian's packages unpacked or installed, with its own scratch directory in `work`.

    `variables`: NAME=VALUE, of its environment. Of the user's, only a proxy and LASTRO_MIRROR reach it."""
    proxies = [f"{name}={value}" for name in ("http_proxy", "https_proxy") if (value := os.environ.get(name))]
    mirror = os.environ.get("LASTRO_MIRROR")
    argv = ["unshare", "--mount", "env", f"TMPDIR={work}", *variables, *proxies, "mmdebstrap", *arguments]
    return [*argv, mirror] if mirror else argv


def _is_abandoned(name: str) -> bool:
    builder = _NAME.fullmatch(name)
    return builder is not None and start_time(int(builder[1])) != int(builder[2])


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
