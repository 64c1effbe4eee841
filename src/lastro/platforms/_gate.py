"""Run a command in an instance so that its output stays inside until it has ended: the host's end of `gate.sh`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from lastro.errors import CommandFailed, CommandTimeout
from lastro.host.base import Completed, Process

_GATE = Path(__file__).with_name("gate.sh").read_text(encoding="utf-8").partition("\n\n")[2]
_ENTER_S, _OUTPUT_S = 60.0, 60.0  # time limits of exec into an instance, and of the transfer of a command's output
CALM_S = 0.05  # until clients and daemons are idle after a message
_MESSAGES = 5


@dataclass(frozen=True, slots=True)
class MeasuredCommand:
    """A command that ran in an instance while the apparatus was idle.

    `done.duration_s` is how long the command ran, in seconds of the host's clock.

    If the instance has a clock of its own, this is the time from the message that starts the command to the message
    that reports its end, less `message_s`. `message_s` is the median time of a message and its answer. If the instance
    has the host's clock, `message_s` is 0."""

    done: Completed
    message_s: float = 0.0


def serve_argv(file: str, ready: str, argv: Sequence[str]) -> list[str]:
    """Return the command, to run in an instance, that runs `argv` and prints a line once `argv` has printed `ready`.

    `file` is the beginning of the paths of two files inside, in memory, which hold the output of `argv`."""
    return ["bash", "-c", _GATE, "serve", file, ready, *argv]


def measure_argv(file: str, argv: Sequence[str]) -> list[str]:
    """Return the command, to run inside, that waits for `Gate.run`, then runs `argv`. `file`: as for `serve_argv`."""
    return ["bash", "-c", _GATE, "measure", file, *argv]


class Gate:
    """The host's end of a conversation with a command of `measure_argv`, which runs in an instance as `process`.

    with gate.running():
        gate.run(timeout_s)
        gate.release_output()
    measured = gate.result"""

    def __init__(self, process: Process, argv: Sequence[str]) -> None:
        self._process, self._argv = process, tuple(argv)
        self._message_s: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Complete exec into the instance before the block; kill the command after the block. Raises: as `run`."""
        try:
            with naming_command(self._argv):
                self._process.wait_line("ready\n", _ENTER_S)
                time.sleep(CALM_S)
                yield
        finally:
            self._completed = self._process.stop()

    def exchange(self) -> float:
        """Send a message, wait for its answer, and return how long this took, in seconds."""
        began_s = time.monotonic()
        word = f"message {began_s}"
        self._process.send(word)
        self._process.wait_line(f"{word}\n", _ENTER_S)
        return time.monotonic() - began_s

    def time_messages(self) -> None:
        """Make `run` time the command by messages, for an instance whose clock is not the host's."""
        self._message_s = median(self.exchange() for _ in range(_MESSAGES))

    def run(self, timeout_s: float) -> None:
        """Start the command, and return when it has ended. Raises: CommandFailed; CommandTimeout."""
        self._started_s = time.monotonic()
        self._process.send("go")
        _, began, ended, code = self._process.wait_line("ended ", timeout_s).split()
        self._took_s = time.monotonic() - self._started_s
        self._inside_s, self._code = float(ended) - float(began), int(code)

    def release_output(self) -> None:
        """Let the command's output leave the instance, and wait until all of it has left."""
        self._process.send("give")
        self._process.ended_within(_OUTPUT_S)

    @property
    def result(self) -> MeasuredCommand:
        """The command's output and time, after the block of `running`. Raises: CommandFailed if output is missing."""
        completed = self._completed
        if completed.returncode != self._code:
            reason = f"its output did not come out of the instance: {completed.error_text.strip()[-200:]}"
            raise CommandFailed(self._argv, completed.returncode, reason)
        message_s = self._message_s or 0.0
        lasted_s = self._inside_s if self._message_s is None else max(0.0, self._took_s - message_s)
        stdout = completed.stdout.partition(b"\nended ")[2].partition(b"\n")[2]
        done = Completed(self._argv, self._code, stdout, completed.stderr, self._started_s, lasted_s)
        return MeasuredCommand(done, message_s)


@contextmanager
def naming_command(argv: Sequence[str]) -> Iterator[None]:
    """Make errors of commands inside the block name `argv`, instead of the script that runs `argv`."""
    try:
        yield
    except CommandTimeout as error:
        raise CommandTimeout(argv, error.timeout_s) from error
    except CommandFailed as error:
        raise CommandFailed(argv, error.returncode, error.stderr) from error
