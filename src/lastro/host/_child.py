"""Child processes: in-memory files for their input and output, waiting for their end, and their exit codes."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from contextlib import suppress
from io import FileIO

GRACE_S = 3.0  # between SIGTERM and SIGKILL


class memory_file(FileIO):  # noqa: N801 - used like open()
    """An anonymous file in memory, to pass input to a child process or to receive its output."""

    def __init__(self, content: bytes = b"") -> None:
        super().__init__(os.memfd_create("lastro"), "r+")
        view = memoryview(content)
        try:
            while view:
                view = view[self.write(view) :]
        except OSError:
            self.close()
            raise
        self.seek(0)

    def content(self) -> bytes:
        return os.pread(self.fileno(), os.fstat(self.fileno()).st_size, 0)


def ended_within(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Return whether a process ends within `timeout_s`, without polling as Popen.wait(timeout) does."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:  # this process may open no more files
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout_s)
        return process.returncode is not None
    try:
        poll = select.poll()  # select() itself accepts no descriptor above 1023
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(1000 * timeout_s))
    finally:
        os.close(pidfd)


def exit_code(returncode: int) -> int:
    """Convert Popen's return code to an exit code: 128 + N for signal N, as shells and container runtimes do."""
    return returncode if returncode >= 0 else 128 - returncode


def kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
