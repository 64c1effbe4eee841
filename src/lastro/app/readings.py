"""What `lastro serve` reads, and when it may read it again.

Trials may be running, so reading must take little CPU time: at most the fraction BUSY of one CPU for each thing that is
read. The longer a reading takes, the longer is the pause before the next one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from lastro.errors import LastroError

BUSY = 0.002  # of one CPU, in the mean over time
Content = TypeVar("Content")
Stamp: TypeAlias = tuple[tuple[str, int, int], ...]  # name, time and size of each file


@dataclass(frozen=True, slots=True)
class FileReading(Generic[Content]):
    """The content of files as read, or the `problem` that prevented reading them.

    `stamp` is the stamp of the files at that time. They are not read again before `again_s` on the monotonic clock."""

    stamp: Stamp
    content: Content | None
    problem: LastroError | None
    again_s: float


def stamp_of(files: Iterable[Path]) -> Stamp:
    """Return (name, time, size) of each file.

    Empty files are left out, since SQLite creates an empty log when a database is read."""
    stamp = []
    for file in files:
        with suppress(OSError):
            status = file.lstat()
            stamp += [(str(file), status.st_mtime_ns, status.st_size)] if status.st_size else []
    return tuple(stamp)


def renew(
    last: FileReading[Content] | None,
    stamp: Stamp,
    read: Callable[[], Content],
    place: Path,
    hint: str,
    *,
    is_outdated: bool = False,
) -> FileReading[Content]:
    """Return `last` if its pause is not over or the files have not changed, otherwise a new reading.

    `is_outdated` is true if something other than a file has changed. `place` and `hint` are for the error that reports
    a defect."""
    if last and (time.monotonic() < last.again_s or not (is_outdated or stamp != last.stamp)):
        return last
    began_s, content, problem = time.thread_time(), None, None
    try:
        content = read()
    except LastroError as error:
        problem = error
    except Exception as error:  # a defect must not hide the other pages
        problem = LastroError(f"{place} cannot be read: {type(error).__name__}: {error}", hint)
    took_s = time.thread_time() - began_s if last else 0.0  # the first one loads modules
    return FileReading(stamp, content, problem, time.monotonic() + took_s / BUSY)
