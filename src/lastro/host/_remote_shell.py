"""Shells that stay open on a remote host and run one command after another.

Without them, each command would need its own login, which may take half a second. A shell reads commands from its
standard input. It collects the output of a command in unnamed files in memory, and sends it when the command has ended.
So nothing is sent over the network while a tool measures, and a daemon that inherits the files delays no answer.

The shell is the Perl program `remote_shell.pl`, which needs one fork and one exec for each command; a script for sh(1)
would start five more programs. It needs only modules of perl-base, an essential package of Debian."""

from __future__ import annotations

import secrets
import select
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lastro.host._child import kill_group, memory_file
from lastro.host._exchanges import Exchange
from lastro.host.moments import OwnCpu
from lastro.host.threads import run_all

_START_S = 30.0
# sh reads this whole line before it runs it, so later input is for Perl, which replaces sh. Perl is tested first, since
# sh cannot report a failure after `exec`. The variable and the option keep the login's locale out of output and files.
_OPEN = (
    "{ perl -Mstrict -MFcntl -e 'require 5.010' 2>/dev/null && PERL_BADLANG=0 exec perl -C0 -e %s %s;"
    " echo; echo %s no-perl; }\n"
)
_PERL = Path(__file__).with_name("remote_shell.pl")
_UNFIT = {
    "no-perl": ("has no Perl 5.10 that works, which runs the commands of Lastro there", "install perl-base there"),
    "no-clock": ("has a processor on which Lastro cannot read the clock by Perl", "use a host with x86-64 or AArch64"),
    "no-directory": (
        "has no room for the output of commands: no file can be made in /dev/shm or /tmp",
        "make one of them writable there, and see that it has room: `mount -t tmpfs tmpfs /dev/shm`",
    ),
}
PATIENCE_S = 20.0  # beyond a command's own timeout: three unanswered ServerAlive probes take 15 s


class ShellLost(Exception):
    """The shell has ended or does not answer. The message is the last line that ssh printed, or another reason."""


class UnfitForShell(Exception):
    """The remote host cannot run the shell.

    `reason` is the predicate of a sentence about the host, and `remedy` is what the user can do."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


class Query(str):
    """The body of a Perl subroutine that `remote_shell.pl` runs; its variable `$stdin` holds the standard input."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a shell: exit code, output, and times."""

    returncode: int
    stdout: bytes
    stderr: bytes
    started_s: float  # on the controller's clock; `duration_s` alike
    duration_s: float
    work_began_s: float  # on the host's clock; `work_ended_s` alike
    work_ended_s: float

    @property
    def exchange(self) -> Exchange:
        return Exchange(self.started_s, self.started_s + self.duration_s, self.work_began_s, self.work_ended_s)


class Shell:
    """A shell on the remote host, which occupies one session of a connection; `release` frees that session.

    `servers` are the PIDs of its sshd processes. `spent` is the CPU time of shell and commands at its last answer."""

    def __init__(self, argv: Sequence[str], release: Callable[[], None]) -> None:
        self._release = release
        self._err = memory_file()
        self._process = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._err.fileno(), bufsize=0,
            start_new_session=True,
        )  # fmt: skip
        self._unread = b""
        self.spent, self.servers = OwnCpu(), frozenset[str]()
        self._timeout_reason = (
            f"its login shell did not start within {_START_S:g} s; start-up files, such as ~/.bashrc, delay it"
        )
        ready = secrets.token_hex(8)
        self._send((_OPEN % (shlex.quote(_PERL.read_text(encoding="utf-8")), ready, ready)).encode())
        words = self._words_after(ready)
        self._take_spent(words[:4])
        self.servers = frozenset(words[4:])
        self._timeout_reason = "no answer"

    def _words_after(self, ready: str) -> list[str]:
        """Wait for the line that begins with the word `ready`, and return the line's other words.

        Earlier lines, such as the greeting of a login, are skipped. Raises: ShellLost, UnfitForShell."""
        deadline_s = time.monotonic() + _START_S
        while not (line := self._line(deadline_s).decode(errors="replace")).startswith(f"{ready} "):
            pass
        words = line.split()[1:]
        if unfit := _UNFIT.get(words[0]):
            self.close()
            raise UnfitForShell(*unfit)
        return words

    def run(
        self, argv: Sequence[str], stdin: bytes | None, timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> Answer:
        """Run a command and return its answer; after `timeout_s`, the command is killed and has exit code 137.

        `environment` replaces the environment of the login. Raises: ShellLost when there is no answer in time."""
        variables = [f"{name}={value}" for name, value in (environment or {}).items()]
        return self._call("run", [str(len(variables)), *variables, *argv], stdin, timeout_s)

    def ask(self, query: Query, words: Sequence[str], stdin: bytes | None, timeout_s: float) -> Answer:
        """Run a query with the arguments `words`, and return its answer. Raises: ShellLost."""
        return self._call("perl", [query, *words], stdin, timeout_s)

    def _call(self, kind: str, words: Sequence[str], stdin: bytes | None, timeout_s: float) -> Answer:
        nonce = secrets.token_hex(8)
        text = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in words)
        n_stdin = -1 if stdin is None else len(stdin)
        head = f"{nonce} {kind} {timeout_s:.3f} {len(text)} {n_stdin}\n".encode()
        started_s = time.monotonic()
        self._send(head + text + (stdin or b""))
        deadline_s = started_s + timeout_s + PATIENCE_S
        while not (line := self._line(deadline_s)).startswith(nonce.encode()):
            pass
        duration_s = time.monotonic() - started_s
        code, n_out, n_err = map(int, line.split()[1:4])
        began_s, ended_s = map(float, line.split()[4:6])
        self._take_spent(line.split()[6:])
        out, err = self._bytes(n_out, deadline_s), self._bytes(n_err, deadline_s)
        return Answer(code, out, err, started_s, duration_s, began_s, ended_s)

    def _take_spent(self, numbers: Sequence[str | bytes]) -> None:
        """Set `spent` from four numbers: the shell's user and system seconds, its commands' user and total seconds."""
        user_s, system_s, commands_user_s, commands_s = map(float, numbers)
        self.spent = OwnCpu(user_s, user_s + system_s, commands_user_s, commands_user_s + commands_s)

    def close(self) -> None:
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        kill_group(self._process)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._err.close()
        self.servers = frozenset()  # another process may get their numbers
        self._release()

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        view = memoryview(data)
        try:
            while view:
                view = view[self._process.stdin.write(view) or 0 :]
        except OSError as error:
            raise self._lost() from error

    def _line(self, deadline_s: float) -> bytes:
        while b"\n" not in self._unread:
            self._unread += self._read_more(deadline_s)
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _bytes(self, n: int, deadline_s: float) -> bytes:
        parts, have = [self._unread], len(self._unread)
        while have < n:
            parts.append(self._read_more(deadline_s))
            have += len(parts[-1])
        whole = b"".join(parts)
        self._unread = whole[n:]
        return whole[:n]

    def _read_more(self, deadline_s: float) -> bytes:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
            raise ShellLost(self._timeout_reason)
        data = self._process.stdout.read(1 << 16)
        if not data:
            raise self._lost()
        return data

    def _lost(self) -> ShellLost:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        lines = [line for line in self._err.content().decode(errors="replace").splitlines() if line.strip()]
        return ShellLost(lines[-1].strip() if lines else "closed by the remote host")


class Shells:
    """A pool with one shell per concurrent command."""

    def __init__(self, start: Callable[[], tuple[Path, list[str]]], release: Callable[[Path], None]) -> None:
        """Use `start` to open a session, which returns its socket and command, and `release` to free a socket's."""
        self._start, self._release = start, release
        self._idle: list[Shell] = []
        self._all: list[Shell] = []
        self._guard = threading.Lock()

    @property
    def spent(self) -> OwnCpu:
        """The CPU time of all shells and their commands, including shells that have been closed."""
        return sum((shell.spent for shell in list(self._all)), OwnCpu())

    @property
    def servers(self) -> list[str]:
        """The PIDs of the sshd processes on the remote host that serve these shells, sorted as text."""
        return sorted({server for shell in list(self._all) for server in shell.servers})

    def open(self, least: int) -> None:
        """Open shells until at least `least` shells are idle. Raises: ShellLost, UnfitForShell."""
        missing = least - len(self._idle)
        if missing > 0:
            for future in run_all([lambda: self._idle.append(self._new_shell())] * missing, missing):
                future.result()

    def _new_shell(self) -> Shell:
        socket, command = self._start()
        shell = Shell(command, lambda: self._release(socket))
        with self._guard:
            self._all.append(shell)
        return shell

    def call(self, request: Callable[[Shell], Answer]) -> Answer:
        """Call `request` with an idle or a new shell, and return its answer. Raises: ShellLost, UnfitForShell."""
        with self._guard:
            shell = self._idle.pop() if self._idle else None
        shell = shell or self._new_shell()
        try:
            answer = request(shell)
        except BaseException:  # the shell's state is now unknown
            shell.close()
            raise
        with self._guard:
            self._idle.append(shell)
        return answer

    def close(self) -> None:
        with self._guard:
            shells, self._idle = self._idle, []
        for shell in shells:
            shell.close()
