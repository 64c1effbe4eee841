"""The local machine as a host."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lastro.errors import CommandFailed, CommandTimeout, Unavailable, WriteFailed
from lastro.host._child import GRACE_S, ended_within, exit_code, kill_group, memory_file
from lastro.host.base import ENVIRONMENT, Completed, Host, Process
from lastro.host.files import OWNER_VARIABLE

# For all files made on a host, regardless of the user's umask: other users inside an instance must read them.
UMASK = 0o022
_CANNOT_RUN = 126  # the exit code of shells for this: POSIX, Shell Command Language, 2.8.2


class LocalHost(Host):
    """The local machine. `token` is set in the environment of each process, to mark the session that owns it."""

    name = "local"

    def __init__(self, token: str = "") -> None:
        super().__init__()
        self._env = {**ENVIRONMENT, OWNER_VARIABLE: token}

    def run(
        self, argv: Sequence[str], *, stdin: str | bytes | None = None, timeout_s: float = 60.0, check: bool = True
    ) -> Completed:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        # Memory files rather than pipes: nothing has to be copied while a tool measures, and a daemon that inherits
        # them does not delay the return when the command itself has ended.
        with _file_for(argv, data) as source, _file_for(argv) as out, _file_for(argv) as err:
            started_s = time.monotonic()
            given = subprocess.DEVNULL if data is None else source.fileno()
            process = self._popen(argv, given, out.fileno(), err.fileno())
            try:
                ended = ended_within(process, timeout_s)
            except BaseException:
                kill_group(process)
                raise
            duration_s = time.monotonic() - started_s
            if not ended:
                kill_group(process)
            code = exit_code(process.wait())
            done = Completed(tuple(argv), code, out.content(), err.content(), started_s, duration_s, data)
        self.transcript.add_run(done)
        if not ended:
            raise CommandTimeout(argv, timeout_s)
        if check:
            done.require_success()
        return done

    def spawn(self, argv: Sequence[str], *, fed: bool = False, whole: bool = False) -> Process:
        if not whole:
            self.transcript.add_process("spawn", argv, **({"fed": True} if fed else {}))
        err = _file_for(argv)
        try:
            # With DEVNULL, subprocess would leak its descriptor when there is none left for the pipe.
            with open(os.devnull, "rb") as nothing:
                stdin = subprocess.PIPE if fed else nothing.fileno()
                process = self._popen(argv, stdin, subprocess.PIPE, err.fileno())
        except BaseException as error:
            err.close()
            if isinstance(error, OSError):
                raise CommandFailed(argv, _CANNOT_RUN, str(error)) from error
            raise
        return LocalProcess(self, tuple(argv), process, err, fed=fed, whole=whole)

    def _popen(self, argv: Sequence[str], stdin: int, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
        try:
            # With its own session, Ctrl-C in a terminal reaches only Lastro, which then ends processes in order.
            return subprocess.Popen(
                list(argv), stdin=stdin, stdout=stdout, stderr=stderr, env=self._env, cwd="/", start_new_session=True,
                umask=UMASK,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise Unavailable(
                f"this host has no program '{argv[0]}'", "install it; `lastro doctor` shows what is missing"
            ) from error
        except OSError as error:
            raise CommandFailed(argv, _CANNOT_RUN, str(error)) from error

    def write_text(self, path: str, text: str) -> None:
        self.transcript.add_write(path, text)
        try:
            file = Path(path)
            if is_new := not file.exists():
                _make_directories(file.parent)
            file.write_text(text, encoding="utf-8")
            if is_new:
                file.chmod(0o666 & ~UMASK)
        except OSError as error:
            raise WriteFailed(path, text, error.strerror or str(error)) from error

    def read_text(self, path: str) -> str:
        return Path(path).read_text(encoding="utf-8", errors="replace")

    def which(self, program: str) -> str | None:
        return shutil.which(program, path=self._env["PATH"])


def _make_directories(directory: Path) -> None:
    """Create a directory and its parents, with the mode of UMASK; `os.umask` would apply to all threads."""
    if not directory.exists():
        _make_directories(directory.parent)
        directory.mkdir(exist_ok=True)
        directory.chmod(0o777 & ~UMASK)


def _file_for(argv: Sequence[str], content: bytes | None = None) -> memory_file:
    """Return a new file in memory for a command. Raises: CommandFailed without further descriptors or memory."""
    try:
        return memory_file(content or b"")
    except OSError as error:
        raise CommandFailed(argv, _CANNOT_RUN, str(error)) from error


def build_host(host: Host) -> Host:
    """Return the machine on which images for `host` are built: `host` itself or, if it is remote, this machine."""
    return LocalHost() if host.remote else host


class LocalProcess(Process):
    """A child process of Lastro. `fed` and `whole` mean the same as in `Host.spawn`."""

    def __init__(
        self,
        host: Host,
        argv: tuple[str, ...],
        process: subprocess.Popen[bytes],
        err: memory_file,
        *,
        fed: bool = False,
        whole: bool = False,
    ) -> None:
        self.argv, self.pid = argv, process.pid
        self._host = host
        self._sent: list[bytes] | None = [] if fed else None
        self._whole = whole
        self._process = process
        self._err = err
        self._started_s = time.monotonic()
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self._completed: Completed | None = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        try:
            self._reader.start()
        except RuntimeError as error:  # this process may start no more threads
            kill_group(process)
            process.wait()
            for file in (process.stdin, process.stdout, err):
                if file is not None:
                    file.close()
            raise CommandFailed(argv, _CANNOT_RUN, str(error)) from error

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
        def matching_line() -> str | None:
            return next((line for line in self._lines if needle in line), None)

        with self._news:
            self._news.wait_for(lambda: matching_line() is not None or self._ended, timeout_s)
            line = matching_line()
            ended = self._ended
        if line is not None:
            return line
        if ended:
            done = self.stop()
            raise CommandFailed(self.argv, done.returncode, done.error_text or done.text)
        raise CommandTimeout(self.argv, timeout_s)

    def lines(self, start: int) -> list[str]:
        with self._news:
            return self._lines[start:]

    def send(self, line: str) -> None:
        assert self._process.stdin is not None and self._sent is not None, "it was not spawned to be fed"
        if self._completed is not None:
            return
        self._sent.append(f"{line}\n".encode())
        with suppress(BrokenPipeError):
            self._process.stdin.write(self._sent[-1])
            self._process.stdin.flush()

    def alive(self) -> bool:
        return self._process.poll() is None

    def ended_within(self, timeout_s: float) -> bool:
        return ended_within(self._process, timeout_s)

    def stop(self) -> Completed:
        if self._completed is None:
            sent = None if self._sent is None else b"".join(self._sent)
            if not self._whole:
                fed = {} if sent is None else {"stdin": sent.decode()}
                self._host.transcript.add_process("stop", self.argv, **fed, **self._where())
            if self.alive():
                self._end()
            code = exit_code(self._process.wait())
            self._reader.join(timeout=1.0)
            code, error = self._command_result(code, self._err.content())
            out = "".join(self._lines).encode()
            duration_s = time.monotonic() - self._started_s
            self._completed = Completed(self.argv, code, out, error, self._started_s, duration_s, sent)
            if self._whole:
                self._host.transcript.add_run(self._completed, **self._where())
            self._close_input()
            self._err.close()
            if self._process.stdout is not None and not self._reader.is_alive():
                self._process.stdout.close()
        return self._completed

    def _where(self) -> dict[str, Any]:
        """Return the keys that are added to transcript records (`where` in `Transcript`); empty for this machine."""
        return {}

    def _close_input(self) -> None:
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    def _end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        if not ended_within(self._process, GRACE_S):
            kill_group(self._process)

    def _command_result(self, code: int, error: bytes) -> tuple[int, bytes]:
        """Return the command's exit code and standard error, which differ from the child's only if this is ssh."""
        return code, error
