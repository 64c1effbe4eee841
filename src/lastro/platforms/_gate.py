"""Commands in an instance from which nothing comes out before they have ended: the host's end of `gate.sh`."""

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
_ENTER_S, _GIVE_S = 60.0, 60.0  # for exec into an instance, and for the output of a command to come out
CALM_S = 0.05  # until clients and daemons rest after a message
_MESSAGES = 5


@dataclass(frozen=True, slots=True)
class MeasuredCommand:
    """A command that ran inside without the apparatus. `done.duration_s` is the time from its start to its end.

    That is by the host's clock. Where the instance has another clock, it is the time between two messages, less
    `message_s`, the usual time of a message there and back; 0 if no message is part of the time."""

    done: Completed
    message_s: float = 0.0


def serving(file: str, ready: str, argv: Sequence[str]) -> list[str]:
    """Return the command inside that runs `argv`, and prints a line when `argv` has printed `ready`.

    `file` is the beginning of a name in memory."""
    return ["bash", "-c", _GATE, "serve", file, ready, *argv]


def measuring(file: str, argv: Sequence[str]) -> list[str]:
    """Return the command inside that runs `argv` when it is told to; `file` is as in `serving`."""
    return ["bash", "-c", _GATE, "measure", file, *argv]


class Gate:
    """A conversation with the command of `measuring`, which has entered an instance."""

    def __init__(self, process: Process, argv: Sequence[str]) -> None:
        self._process, self._argv = process, tuple(argv)
        self._message_s: float | None = None

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Wait until exec into the instance is over; end what still runs after the block. Raises: as `run`."""
        try:
            with named(self._argv):
                self._process.wait_line("ready\n", _ENTER_S)
                time.sleep(CALM_S)
                yield
        finally:
            self._whole = self._process.stop()

    def exchange(self) -> float:
        """Send a message and wait for its answer; return how long it took, in seconds."""
        began_s = time.monotonic()
        word = f"message {began_s}"
        self._process.send(word)
        self._process.wait_line(f"{word}\n", _ENTER_S)
        return time.monotonic() - began_s

    def time_messages(self) -> None:
        """Time by messages: the instance has another clock than the host."""
        self._message_s = median(self.exchange() for _ in range(_MESSAGES))

    def run(self, timeout_s: float) -> None:
        """Start the command, and return when it has ended. Raises: CommandFailed; CommandTimeout."""
        self._started_s = time.monotonic()
        self._process.send("go")
        _, began, ended, code = self._process.wait_line("ended ", timeout_s).split()
        self._took_s = time.monotonic() - self._started_s
        self._own_s, self._code = float(ended) - float(began), int(code)

    def give(self) -> None:
        """Let the output out."""
        self._process.send("give")
        self._process.ended_within(_GIVE_S)

    @property
    def measured(self) -> MeasuredCommand:
        """What `run` measured, after the block of `entered`.

        Raises: CommandFailed when the instance ended before it gave all of the output."""
        if self._whole.returncode != self._code:
            words = f"its output did not come out of the instance: {self._whole.error_text.strip()[-200:]}"
            raise CommandFailed(self._argv, self._whole.returncode, words)
        message_s = self._message_s or 0.0
        lasted_s = self._own_s if self._message_s is None else max(0.0, self._took_s - message_s)
        out = self._whole.stdout.partition(b"\nended ")[2].partition(b"\n")[2]
        return MeasuredCommand(
            Completed(self._argv, self._code, out, self._whole.stderr, self._started_s, lasted_s), message_s
        )


@contextmanager
def named(argv: Sequence[str]) -> Iterator[None]:
    """Raise errors that name the command, rather than the script that runs it."""
    try:
        yield
    except CommandTimeout as error:
        raise CommandTimeout(argv, error.timeout_s) from error
    except CommandFailed as error:
        raise CommandFailed(argv, error.returncode, error.stderr) from error
