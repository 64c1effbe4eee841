"""The root filesystems in the state directory, when each was last used, and the removal of old ones.

What was made from a root filesystem is removed with it: the disk of virtual machines, and the data of private daemons
for variants that use it. Checkouts are listed and removed in the same way."""

from __future__ import annotations

import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from lastro.errors import HostError
from lastro.image.functions import FUNCTIONS

_IMAGE = re.compile(r"[0-9a-f]{12}")
_CHECKOUT = re.compile(r"[0-9a-f]{16}")
_DAEMON_DATA = ("guest/disk", "docker*", "containerd", "pod")  # named after images, below the state directory


@dataclass(frozen=True, slots=True)
class StoredTree:
    """A root filesystem or a checkout in the state directory."""

    name: str
    what: str  # its description for users
    paths: tuple[Path, ...]  # its own path, and those that are removed with it
    used_s: float  # Unix time of its last use

    @property
    def n_bytes(self) -> int:
        """The total size of its files on the disk, in bytes."""
        return sum(_disk_bytes(path) for path in self.paths)


def stored_trees(state: Path) -> list[StoredTree]:
    """Return the root filesystems and checkouts in the state directory, the most recently used first."""
    trees = []
    for directory in (state / "rootfs").glob("*"):
        if _IMAGE.fullmatch(name := directory.name) and (directory / "rootfs.tar").is_file():
            paths = (directory, *(path for kind in _DAEMON_DATA for path in state.glob(f"{kind}-{name}*")))
            trees.append(StoredTree(name, _description(directory / "rootfs"), paths, directory.stat().st_mtime))
    for directory in (state / "checkouts").glob("*"):
        if _CHECKOUT.fullmatch(name := directory.name):
            trees.append(StoredTree(name, "checkout of a repository", (directory,), directory.stat().st_mtime))
    return sorted(trees, key=lambda stored: stored.used_s, reverse=True)


def unused_trees(state: Path, age_s: float) -> list[StoredTree]:
    """Return the root filesystems and checkouts that were not used in the last `age_s` seconds."""
    limit_s = time.time() - age_s
    return [stored for stored in stored_trees(state) if stored.used_s < limit_s]


def remove(old: StoredTree, state: Path) -> None:
    """Remove a root filesystem or a checkout. No other Lastro may be running. Raises: HostError if a file remains."""
    try:
        for pointer in (state / "rootfs" / "recipes").glob("*"):
            if pointer.read_text(encoding="utf-8").startswith(old.name):
                pointer.unlink()
        for path in old.paths:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    except OSError as error:
        raise HostError(f"{old.name} cannot be removed: {error}", "find out what uses it, then try again") from error


def _description(tree: Path) -> str:
    """Return a description of a root filesystem: the name of its system, and the user's functions in it."""
    try:
        lines = (tree / "etc/os-release").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    system = next((line.partition("=")[2].strip("\"'") for line in lines if line.startswith("PRETTY_NAME=")), "")
    functions = ", ".join(sorted(file.stem for file in (tree / FUNCTIONS).glob("*.json")))
    return (system or "files of the user's own") + (f", with {functions}" if functions else "")


def _disk_bytes(path: Path) -> int:
    if not path.is_dir():
        return path.lstat().st_blocks * 512
    inodes = (f"{parent}/{name}" for parent, directories, files in os.walk(path) for name in (*directories, *files))
    return sum(os.lstat(inode).st_blocks * 512 for inode in inodes)
