"""Commands in which the n-th call of a kind to the C library fails (`faults.c`), or which record what they write.

Such calls are those of Python, of SQLite, and of every other library alike."""

from __future__ import annotations

import ctypes
import errno
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..cli.conftest import ENVIRONMENT, TIMEOUT_S, Finished
from ..cli.forking import Forks

SHORT = 0  # in place of an error: a write that writes half
# What each kind of call fails with, in the order of `enum kind`.
FAILURES: dict[str, tuple[int, ...]] = {
    "output": (errno.ENOSPC, errno.EIO),  # a write to standard output or standard error
    "write": (errno.ENOSPC, errno.EIO, SHORT),
    "sync": (errno.EIO,),
    "rename": (errno.ENOSPC,),
    "mkdir": (errno.ENOSPC,),
    "unlink": (errno.EIO,),
    "open": (errno.EMFILE,),
    "read": (errno.EIO,),  # not of /proc and /sys
    "fork": (errno.EAGAIN,),
    "exec": (errno.EAGAIN,),
    "thread": (errno.EAGAIN,),
}
CLOCK = "clock"  # a reading of the wall clock, which is set by so many seconds in place of an error
KINDS = (*FAILURES, CLOCK)


class _Plan(ctypes.Structure):
    """`struct plan`."""

    _fields_ = [
        ("kind", ctypes.c_int32), ("error", ctypes.c_int32), ("nth", ctypes.c_int64), ("on", ctypes.c_int32),
        ("owner", ctypes.c_int32), ("counts", ctypes.c_int64 * len(KINDS)), ("hit", ctypes.c_int32),
        ("log", ctypes.c_int32), ("what", ctypes.c_char * 4096),
    ]  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """The `nth` call of a kind fails with an error; if it stays `on`, so do all later ones of this kind."""

    kind: str
    error: int
    nth: int
    on: bool = False

    def __str__(self) -> str:
        name = errno.errorcode.get(self.error, "short")
        return f"{self.kind} {self.nth}{' and later' if self.on else ''}: {name}"


@dataclass(frozen=True)
class Injected:
    """A command that ended; how often it made each kind of call, and the first call that failed."""

    done: Finished
    counts: dict[str, int]
    what: str


class Injector:
    """Runs commands with faults. `home` is for its own files."""

    def __init__(self, home: Path) -> None:
        self._home = home
        library = home / "faults.so"
        argv = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library]
        subprocess.run([*argv, Path(__file__).with_name("faults.c"), "-ldl"], check=True, timeout=60)
        self._forks = Forks({**ENVIRONMENT, "LD_PRELOAD": str(library)})

    @property
    def log(self) -> Path:
        """What the last command wrote, if it recorded that."""
        return self._home / "plan.log"

    def run(self, words: Sequence[object], cwd: Path, fault: Fault | None = None, *, record: bool = False) -> Injected:
        """Run a command in `cwd`, which is for its temporary files, too."""
        file = self._home / "plan"
        plan = _Plan(log=record)
        if fault:
            plan.kind, plan.error, plan.nth, plan.on = KINDS.index(fault.kind), fault.error, fault.nth, fault.on
        file.write_bytes(bytes(plan))
        self.log.unlink(missing_ok=True)
        variables = {"LASTRO_FAULTS": str(file), "TMPDIR": str(cwd)}
        done = Finished(*self._forks.run([*map(str, words)], cwd, TIMEOUT_S, variables, drawn=False))
        plan = _Plan.from_buffer_copy(file.read_bytes())
        return Injected(done, dict(zip(KINDS, plan.counts, strict=True)), plan.what.decode(errors="replace"))


def fresh(home: Path) -> Path:
    """An empty place for one campaign, without that of the fault before."""
    place = home / "trouble"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place
