"""Child processes: in-memory files for their input and output, waiting for their end, and their exit codes."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from contextlib import suppress

GRACE_S = 3.0  # between SIGTERM and SIGKILL


class memory_file:  # noqa: N801 - used like open()
    """An anonymous file in memory, to pass input to a child process or to receive its output."""

    def __init__(self, content: bytes | None = None) -> None:
        self._fd = os.memfd_create("lastro")
        if content:
            try:
                self._write_all(content)
            except OSError:
                self.close()
                raise
            os.lseek(self._fd, 0, os.SEEK_SET)

    def _write_all(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            view = view[os.write(self._fd, view) :]

    def fileno(self) -> int:
        return self._fd

    def content(self) -> bytes:
        return os.pread(self._fd, os.fstat(self._fd).st_size, 0)

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> memory_file:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def ended_within(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait until a process ends, or for `timeout_s`, and return whether it has ended.

    Unlike Popen.wait(timeout), which wakes up 20 times a second, this does not poll."""
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
