"""A host that only writes down what is asked of it, for tests that assert exact commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from lastro.errors import CommandFailed, CommandTimeout, Unavailable
from lastro.host.base import Completed, Host, Process
from lastro.host.cgroups import CgroupsV1
from lastro.host.ledger import Ledger, Session
from lastro.image.rootfs import Image
from lastro.platforms.base import MeasuredCommand
from lastro.testbed import Testbed

Answer = Callable[[Sequence[str]], "Completed | None"]


def answer(text: str = "", *, code: int = 0, error: str = "") -> Completed:
    return Completed((), code, text.encode(), error.encode(), 0.0, 0.0)


class RecordingHost(Host):
    """Every command succeeds without a word, but for what `answers` says of it. Nothing is run, nothing written."""

    name = "recording"

    def __init__(self, answers: Answer = lambda argv: None, *, programs: Sequence[str] = ()) -> None:
        super().__init__()
        self._answers, self._programs = answers, programs
        self.commands: list[list[str]] = []
        self.stdins: list[str | bytes | None] = []  # of each command
        self.files: dict[str, str] = {}

    def run(
        self, argv: Sequence[str], *, stdin: str | bytes | None = None, timeout_s: float = 60.0, check: bool = True
    ) -> Completed:
        self.commands.append(list(argv))
        self.stdins.append(stdin)
        done = self._answers(argv) or answer()
        if check and done.returncode != 0:
            raise CommandFailed(argv, done.returncode, done.error_text or done.text)
        return done

    def spawn(self, argv: Sequence[str], *, fed: bool = False, whole: bool = False) -> Process:
        self.commands.append(list(argv))
        self.stdins.append(None)
        return _Idle(tuple(argv), self._answers(argv))

    def write_text(self, path: str, text: str) -> None:
        self.files[path] = text

    def read_text(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def which(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if program in self._programs else None

    def command(self, needle: str) -> list[str]:
        """The one command that has `needle` in a word."""
        (found,) = (argv for argv in self.commands if any(needle in word for word in argv))
        return found


class _Idle(Process):
    """Alive until it is stopped; dead from the start when there is an answer to its command."""

    def __init__(self, argv: tuple[str, ...], ended: Completed | None) -> None:
        self.argv, self._ended = argv, ended

    def wait_line(self, needle: str, timeout_s: float) -> str:
        raise Unavailable("nothing is printed by what does not run")

    def lines(self, start: int) -> list[str]:
        return []

    def send(self, line: str) -> None: ...

    def ended_within(self, timeout_s: float) -> bool:
        return not self.alive()

    def alive(self) -> bool:
        return self._ended is None

    def stop(self) -> Completed:
        self._ended = self._ended or answer()
        return self._ended


class FakeInstance:
    """An instance without a host: `answers` returns the end of each command, as for `RecordingHost`.

    `took_s` is the duration of each measured command, or those of the next ones; `message_s` is that of a message, for
    an instance with another clock. `attributes` are added to the instance, or replace others."""

    takes_taps, shares_kernel, host_cache = False, True, ""
    netns, cgroup, memory_dir = "N1", "/g", "/dev/shm"

    def __init__(
        self,
        answers: Answer = lambda argv: None,
        *,
        took_s: float | Iterator[float] = 0.0,
        message_s: float = 0.0,
        **attributes: Any,
    ) -> None:
        self._answers, self._took_s, self._message_s = answers, took_s, message_s
        self.commands: list[list[str]] = []
        self.stdins: list[str | bytes | None] = []  # of each command
        self.measured: list[list[str]] = []  # the commands that ran by `measure`
        self.served: list[list[str]] = []  # the commands that ran by `during`
        self.readiness: list[str] = []  # what each of these prints when it is ready
        vars(self).update(attributes)

    def run(
        self, argv: Sequence[str], *, stdin: str | bytes | None = None, timeout_s: float = 60.0, check: bool = True
    ) -> Completed:
        self.commands.append(list(argv))
        self.stdins.append(stdin)
        done = self._answers(argv) or answer()
        if check and done.returncode != 0:
            raise CommandFailed(argv, done.returncode, done.error_text or done.text)
        return done

    def measure(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        check: bool = True,
        watch: AbstractContextManager[object] | None = None,
    ) -> MeasuredCommand:
        self.measured.append(list(argv))
        with watch or nullcontext():
            done = self.run(argv, timeout_s=timeout_s, check=check)
        took_s = next(self._took_s) if isinstance(self._took_s, Iterator) else self._took_s
        return MeasuredCommand(replace(done, argv=tuple(argv), duration_s=took_s), self._message_s)

    @contextmanager
    def during(self, argv: Sequence[str], ready: str, timeout_s: float = 15.0) -> Iterator[Process]:
        self.served.append(list(argv))
        self.readiness.append(ready)
        done = self._answers(argv) or answer(ready)
        if ready not in done.text + done.error_text:
            raise CommandTimeout(argv, timeout_s)
        process = _Server(tuple(argv), replace(done, stdout=b"ready\n" + done.stdout))
        try:
            yield process
        finally:
            process.stop()


class _Server(_Idle):
    """A command of `during`: it runs until it is stopped."""

    def __init__(self, argv: tuple[str, ...], done: Completed) -> None:
        super().__init__(argv, None)
        self._done = done

    def stop(self) -> Completed:
        self._ended = self._done
        return self._done


def recording_testbed(host: Host, directory: Path, state: Path | None = None) -> Testbed:
    """A testbed of session `0a1b2c` whose ledger is in `directory`, and the state of its host, unless that is given."""
    session = Session(Ledger(directory), "0a1b2c", host, state)
    trees = directory / "cgroup"
    (trees / "memory").mkdir(parents=True)
    image = Image("f00d" * 16, directory / "rootfs" / "f00d")
    return Testbed(host, session, image, CgroupsV1(trees), session.netns_name("dut"))
