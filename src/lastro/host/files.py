"""What a host's kernel and disk show, and ending processes there: looked at directly, in no transcript."""

from __future__ import annotations

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

OWNER_VARIABLE = "LASTRO_OWNER"  # in the environment of every process that we start: how a crash's orphans are found
# Type, mode, owner, group, size, time, target of a link and path of each file: find(1), -printf.
DESCRIPTION = r"%y\t%m\t%U\t%G\t%s\t%T@\t%l\t%P\0"
_AT_ONCE = 256  # processes that are ended by one look: each takes a descriptor


class Files(ABC):
    """Files and processes of one host. What vanishes meanwhile is left out, never an error."""

    @abstractmethod
    def read(self, paths: Sequence[str]) -> dict[str, str]:
        """Texts of those files that can be read, by path."""

    @abstractmethod
    def names(self, directory: str) -> list[str]:
        """What is in a directory, sorted; nothing where there is none."""

    @abstractmethod
    def directories(self, directory: str) -> list[str]:
        """Names of the directories in a directory, sorted, without symbolic links."""

    @abstractmethod
    def exists(self, path: str) -> bool: ...

    @abstractmethod
    def pids_below(self, groups: Sequence[str]) -> set[int]:
        """Processes in these cgroups and all below them."""

    @abstractmethod
    def owned_pids(self, token: str) -> set[int]:
        """Processes that carry a session's token in their environment; Lastro itself aside."""

    @abstractmethod
    def end_owned(self, token: str) -> set[int]:
        """SIGKILL to the processes that carry a session's token, Lastro itself aside; those that there were."""

    @abstractmethod
    def end_below(self, groups: Sequence[str]) -> None:
        """SIGKILL to the processes in these cgroups and all below them."""

    @abstractmethod
    def described(self, tree: str) -> str:
        """What is in a tree, as `find` prints it by DESCRIPTION: names, and what an inode says of them."""

    @abstractmethod
    def remove_empty(self, directories: Sequence[str], *, below: bool = True) -> dict[str, str]:
        """Remove directories, and those below them first unless told otherwise, as far as they are empty.

        Those that are left, with the reason."""


class LocalFiles(Files):
    def read(self, paths: Sequence[str]) -> dict[str, str]:
        found = {}
        for path in paths:
            with suppress(OSError):
                found[path] = Path(path).read_text(encoding="utf-8", errors="replace")
        return found

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(entry.name for entry in Path(directory).iterdir())
        except OSError:
            return []

    def directories(self, directory: str) -> list[str]:
        try:
            with os.scandir(directory) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def pids_below(self, groups: Sequence[str]) -> set[int]:
        found: set[int] = set()
        for top in groups:
            for directory, _, _ in os.walk(top):  # unlike a glob, at ease with groups that vanish meanwhile
                with suppress(OSError):
                    found.update(int(line) for line in (Path(directory) / "cgroup.procs").read_text().split())
        return found

    def owned_pids(self, token: str) -> set[int]:
        mark = f"{OWNER_VARIABLE}={token}".encode()
        found = set()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    owned = mark in (entry / "environ").read_bytes().split(b"\0")
                    if owned and start_time(int(entry.name)) is not None:
                        found.add(int(entry.name))
        return found - {os.getpid()}

    def end_owned(self, token: str) -> set[int]:
        return _end(lambda: self.owned_pids(token))

    def end_below(self, groups: Sequence[str]) -> None:
        for group in groups:
            with suppress(OSError), open(Path(group, "cgroup.kill"), "r+") as file:  # version 2, from Linux 5.14 on
                file.write("1")
        _end(lambda: self.pids_below(groups))

    def described(self, tree: str) -> str:
        return subprocess.run(["find", tree, "-printf", DESCRIPTION], capture_output=True, check=True).stdout.decode(
            errors="surrogateescape"
        )

    def remove_empty(self, directories: Sequence[str], *, below: bool = True) -> dict[str, str]:
        left = {}
        for top in directories:
            for path in [each for each, _, _ in os.walk(top, topdown=False)] if below else [top]:
                try:
                    Path(path).rmdir()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    left[path] = error.strerror or str(error)
        return left


def _end(look: Callable[[], set[int]]) -> set[int]:
    """SIGKILL to what a look finds. A number alone is not enough, since it may be another process's by then:

    each process is held by a descriptor (pidfd), and ended when a second look finds its number again."""
    held: dict[int, int] = {}
    try:
        found = look()
        for pid in sorted(found)[:_AT_ONCE]:
            with suppress(OSError):
                held[pid] = os.pidfd_open(pid)
        for pid in held.keys() & look() if held else ():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(held[pid], signal.SIGKILL)
        return found
    finally:
        for descriptor in held.values():
            os.close(descriptor)


def start_time(pid: int) -> int | None:
    """When a process of this machine started, in clock ticks since boot: with the pid, its identity. None when gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *rest = stat.rpartition(")")[2].split()
    return None if state == "Z" else int(rest[18])
