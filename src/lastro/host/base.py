"""Machines that run commands, and transcripts of these commands.

Everything done to a machine goes through `run`, `spawn` and `write_text`, so that every trial has an exact transcript,
from which a shell script can repeat the trial."""

from __future__ import annotations

import json
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lastro.errors import CommandFailed, InputError, Unavailable
from lastro.host.files import SEARCHED, Files, LocalFiles
from lastro.host.moments import FileReadings, OwnCpu, TimedSpan
from lastro.validity import ClockReading, ClockSample

# Other characters are special to some tool: `:` and `,` in options of mounts and of QEMU, a blank in settings of LXC.
PLACE = r"(?!.*/\.{1,2}/)/[A-Za-z0-9_./+-]*[A-Za-z0-9_+-]"
NOT_A_PLACE = "is not an absolute path of letters, digits and ._+-, without . and .. as directories"


def directory_from(variable: str, default: str) -> Path:
    """Return the directory that the environment variable `variable` names, or else `default`.

    Raises: InputError when the path has characters that some tool could misread, or is not absolute: see PLACE."""
    text = os.environ.get(variable, default)
    if not re.fullmatch(f"{PLACE}/*", text):
        raise InputError(
            f"{variable}: {text!r} {NOT_A_PLACE}", f"set {variable} to one, or unset it: the default is {default}"
        )
    return Path(text)


RUN_DIR = directory_from("LASTRO_RUN", "/run/lastro")
# A fixed environment: the user's locale, proxy and Docker context do not affect a measurement.
ENVIRONMENT = {"PATH": SEARCHED, "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
ON_A_HOST = "measure it on a host, without a guest as its testbed"  # remedy for a program that no guest contains
_KEEP_BYTES = 200_000  # of each stream in a transcript: an iperf3 report of a minute has about 40 kB


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that has ended. `started_s` and `duration_s` are on the controller's monotonic clock."""

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    started_s: float
    duration_s: float
    stdin: bytes | None = None

    @property
    def text(self) -> str:
        return self.stdout.decode(errors="replace")

    @property
    def error_text(self) -> str:
        return self.stderr.decode(errors="replace")

    def require_success(self, argv: Sequence[str] | None = None) -> None:
        """Raise CommandFailed unless the exit code is 0; the error names `argv` (default: the command itself)."""
        if self.returncode != 0:
            raise CommandFailed(argv or self.argv, self.returncode, self.error_text or self.text)


class Transcript:
    """Every step on a host, in order, as JSON-serializable records of kind `run`, `spawn`, `stop`, `write` or `rmdir`.

    Each method adds its keyword arguments `where` to the record. A step on a remote host has one, `ssh`: the options
    and the destination of the ssh command."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def add_run(self, done: Completed, **where: Any) -> None:
        self.records.append(
            {
                "kind": "run", "argv": list(done.argv), "stdin": _text(done.stdin), "returncode": done.returncode,
                "stdout": _text(done.stdout), "stderr": _text(done.stderr),
                "started_s": round(done.started_s, 6), "duration_s": round(done.duration_s, 6),
                **where,
            }
        )  # fmt: skip

    def add_process(self, kind: str, argv: Sequence[str], **where: Any) -> None:
        """Record that the process `argv` was spawned or stopped now (`kind` is "spawn" or "stop").

        `where` may also have the key `fed`, or `stdin`: all input that was sent to the process."""
        self.records.append({"kind": kind, "argv": list(argv), "started_s": round(time.monotonic(), 6), **where})

    def add_write(self, path: str, text: str, **where: Any) -> None:
        self.records.append({"kind": "write", "path": path, "text": text, **where})


def _text(data: bytes | None) -> str | None:
    return None if data is None else data[:_KEEP_BYTES].decode(errors="replace")


class Process(ABC):
    """A command that runs in the background, such as a server, until it ends or `stop` ends it."""

    argv: tuple[str, ...]
    pid: int  # on the machine where it runs

    @abstractmethod
    def wait_line(self, needle: str, timeout_s: float) -> str:
        """Return the first line with `needle`. Raises: CommandFailed if the process ends before; CommandTimeout."""

    @abstractmethod
    def lines(self, start: int) -> list[str]:
        """Return the lines printed so far on standard output, from index `start` on, without waiting for others."""

    @abstractmethod
    def send(self, line: str) -> None:
        """Write a line to a command spawned with `fed`; `wait_line`, not this, reports that the command has ended."""

    @abstractmethod
    def alive(self) -> bool: ...

    @abstractmethod
    def ended_within(self, timeout_s: float) -> bool:
        """Wait until the process ends, for at most `timeout_s`, and return whether it has ended. It does not poll."""

    @abstractmethod
    def stop(self) -> Completed:
        """End the process by SIGTERM, then SIGKILL, if it still runs; return its output and exit code."""


class Host(ABC):
    """A machine that runs commands: each is an argv with optional standard input; no shell interprets it."""

    name: str
    remote: ClassVar[bool] = False  # it is reached over a network
    run_root: Path = RUN_DIR  # its directory for small files of sessions

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.view: Files = LocalFiles()

    @abstractmethod
    def run(
        self, argv: Sequence[str], *, stdin: str | bytes | None = None, timeout_s: float = 60.0, check: bool = True
    ) -> Completed:
        """Run a command and return when it ends, even if a daemon that it started keeps the output open.

        Raises: CommandFailed when `check` and the exit code is not 0; CommandTimeout after `timeout_s`; Unavailable
        when the program does not exist."""

    @abstractmethod
    def spawn(self, argv: Sequence[str], *, fed: bool = False, whole: bool = False) -> Process:
        """Start a command in the background.

        With `fed`, the command reads the lines that `Process.send` writes; otherwise it has no input. With `whole`, the
        transcript gets one `run` record with all input and output when the command ends; otherwise, it gets a `spawn`
        record at the start and a `stop` record at the end."""

    @abstractmethod
    def write_text(self, path: str, text: str) -> None:
        """Write a file, and create its directory if needed."""

    @abstractmethod
    def read_text(self, path: str) -> str:
        """Return the text of a file, such as one in /proc or of a cgroup. Raises: OSError when it cannot be read."""

    def read_or_empty(self, path: str) -> str:
        """Return the text of a file; empty if it cannot be read."""
        try:
            return self.read_text(path)
        except OSError:
            return ""

    @abstractmethod
    def which(self, program: str) -> str | None: ...

    def require(self, program: str, remedy: str) -> str:
        """Return the path of `program` on the host. Raises: Unavailable, with `remedy` as hint, if it has none."""
        path = self.which(program)
        if path is None:
            raise self.lacks(f"program '{program}'", remedy)
        return path

    def lacks(self, what: str, remedy: str) -> Unavailable:
        """Return, without raising it, the error that `what` is not installed; `remedy` says how to install it."""
        return Unavailable(f"this host has no {what}", remedy)

    def clock(self) -> ClockSample:
        """Return a simultaneous reading of the host's two clocks and of the controller's monotonic clock."""
        now = ClockReading.now()
        return ClockSample(now.monotonic_s, now.monotonic_s, now.realtime_s, 0.0)

    def glance(self, paths: Sequence[str] = ()) -> FileReadings:
        """Read files, the host's monotonic clock, and the CPU time that Lastro has used on the host so far.

        On a remote host, one query reads all of them. A file that cannot be read is left out. The transcript does not
        record this."""
        cpu, at_s = os.times(), time.monotonic()
        commands_s = cpu.children_user + cpu.children_system
        spent = OwnCpu(cpu.user, cpu.user + cpu.system, cpu.children_user, commands_s)
        return FileReadings(at_s, self.view.read(paths), spent)

    @contextmanager
    def timed(self) -> Iterator[TimedSpan]:
        """Yield a span whose values, by the host's clock, are set when the commands of the block have ended."""
        span = TimedSpan(time.monotonic())
        yield span
        span.ended_s = time.monotonic()
        span.took_s = span.ended_s - span.began_s

    def be_ready(self, commands: int) -> None:  # noqa: B027 - nothing to do on this machine
        """Prepare, outside of measured times, to run `commands` commands at once: a remote host gets as many shells."""

    def recover(self) -> None:  # noqa: B027 - this machine is always reachable
        """Reconnect to a remote host after a loss, and end the session's processes there. Raises: HostError."""

    def run_json(self, argv: Sequence[str]) -> list[dict[str, Any]]:
        """Run a command that prints a list of objects as JSON, such as `ip -json`, and return them."""
        objects: list[dict[str, Any]] = json.loads(self.run(argv).stdout)
        return objects

    @contextmanager
    def recorded(self, transcript: Transcript | None = None) -> Iterator[Transcript]:
        """Record the steps of the block in `transcript` (default: a new one), not in the host's own, and yield it."""
        outer, self.transcript = self.transcript, transcript or Transcript()
        try:
            yield self.transcript
        finally:
            self.transcript = outer
