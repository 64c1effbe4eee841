"""This machine."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lastro.errors import CommandFailed, CommandTimeout, Unavailable, WriteFailed
from lastro.host.base import Completed, Host, Process

OWNER_VARIABLE = "LASTRO_OWNER"  # in the environment of every process that we start: how a crash's orphans are found
_GRACE_S = 3.0


class LocalHost(Host):
    """Runs commands here. `token` marks every process as owned by this session."""

    name = "local"

    def __init__(self, token: str = "") -> None:
        super().__init__()
        # A fixed environment: no locale, proxy or Docker context of the user's reaches a measurement.
        self._env = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/nonexistent",
            "LC_ALL": "C.UTF-8",
            OWNER_VARIABLE: token,
        }

    def run(
        self, argv: Sequence[str], *, stdin: str | bytes | None = None, timeout_s: float = 60.0, check: bool = True
    ) -> Completed:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        # Memory files rather than pipes: nothing to pump while a tool measures, and a daemon that inherits
        # them cannot keep us waiting after the command itself has ended.
        with _memory_file(data) as source, _memory_file() as out, _memory_file() as err:
            started_s = time.monotonic()
            process = self._popen(
                argv, source.fileno() if data is not None else subprocess.DEVNULL, out.fileno(), err.fileno()
            )
            try:
                ended = _wait(process, timeout_s)
            except BaseException:
                _kill(process)
                raise
            duration_s = time.monotonic() - started_s
            if not ended:
                _kill(process)
            code = _exit_code(process.wait())
            done = Completed(tuple(argv), code, out.content(), err.content(), started_s, duration_s, data)
        self.transcript.add_run(done)
        if not ended:
            raise CommandTimeout(argv, timeout_s)
        if check and done.returncode != 0:
            raise CommandFailed(argv, done.returncode, done.error_text or done.text)
        return done

    def spawn(self, argv: Sequence[str]) -> Process:
        self.transcript.add_spawn(argv, time.monotonic())
        err = _memory_file()
        return _LocalProcess(
            self, tuple(argv), self._popen(argv, subprocess.DEVNULL, subprocess.PIPE, err.fileno()), err
        )

    def _popen(self, argv: Sequence[str], stdin: int, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
        try:
            # Its own session: Ctrl-C in a terminal reaches Lastro alone, which then ends things in order.
            return subprocess.Popen(
                list(argv), stdin=stdin, stdout=stdout, stderr=stderr, env=self._env, cwd="/", start_new_session=True
            )
        except FileNotFoundError as error:
            raise Unavailable(
                f"this host has no program '{argv[0]}'", "install it; `lastro doctor` tells what is missing"
            ) from error
        except OSError as error:
            raise CommandFailed(argv, 126, str(error)) from error

    def write_text(self, path: str, text: str) -> None:
        self.transcript.add_write(path, text)
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise WriteFailed(path, text, error.strerror or str(error)) from error

    def read_text(self, path: str) -> str:
        return Path(path).read_text(encoding="utf-8", errors="replace")

    def which(self, program: str) -> str | None:
        return shutil.which(program, path=self._env["PATH"])


class _memory_file:  # noqa: N801 - used like open()
    """An anonymous file in memory, written by a child and read by us."""

    def __init__(self, content: bytes | None = None) -> None:
        self._fd = os.memfd_create("lastro")
        if content:
            os.write(self._fd, content) if len(content) < 1 << 20 else self._write_all(content)
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

    def __enter__(self) -> _memory_file:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Sleep until the process ends, without polling: Popen.wait(timeout) wakes up twenty times a second."""
    pidfd = os.pidfd_open(process.pid)
    try:
        return bool(select.select([pidfd], [], [], timeout_s)[0])
    finally:
        os.close(pidfd)


def _exit_code(returncode: int) -> int:
    """128 + N for a death by signal N, as shells and container runtimes count: the same on every platform."""
    return returncode if returncode >= 0 else 128 - returncode


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class _LocalProcess(Process):
    def __init__(self, host: Host, argv: tuple[str, ...], process: subprocess.Popen[bytes], err: _memory_file) -> None:
        self.argv = argv
        self._host = host
        self._process = process
        self._err = err
        self._started_s = time.monotonic()
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self._completed: Completed | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._lines.append(line.decode(errors="replace"))
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def wait_line(self, needle: str, timeout_s: float) -> str:
        def found() -> str | None:
            return next((line for line in self._lines if needle in line), None)

        with self._news:
            self._news.wait_for(lambda: found() is not None or self._ended, timeout_s)
            line = found()
            ended = self._ended
        if line is not None:
            return line
        if ended:
            done = self.stop()
            raise CommandFailed(self.argv, done.returncode, done.error_text or done.text)
        raise CommandTimeout(self.argv, timeout_s)

    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> Completed:
        if self._completed is None:
            self._host.transcript.add_stop(self.argv, time.monotonic())
            if self.alive():
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGTERM)
                if not _wait(self._process, _GRACE_S):
                    _kill(self._process)
            code = _exit_code(self._process.wait())
            self._reader.join(timeout=1.0)
            out = "".join(self._lines).encode()
            duration_s = time.monotonic() - self._started_s
            self._completed = Completed(self.argv, code, out, self._err.content(), self._started_s, duration_s)
            self._err.close()
            if self._process.stdout is not None and not self._reader.is_alive():
                self._process.stdout.close()
        return self._completed
