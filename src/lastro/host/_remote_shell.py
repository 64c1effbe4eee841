"""Shells that stay open on a remote host and run one command after another.

They save a login for each command, which may take half a second. A shell reads commands from its standard input. It
collects the output of a command in unnamed files in memory, and sends it when the command has ended. So nothing is sent
over the network while a tool measures, and a daemon that inherits the files does not delay the answer."""

from __future__ import annotations

import base64
import secrets
import select
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lastro.host._child import kill_group, memory_file

_START_S = 30.0
# Most commands print nothing, and no program is needed to send that. Otherwise busybox starts fastest: in a machine in
# software, 60 ms faster than coreutils.
_PRELUDE = """exec 2>/dev/null; cd /; d=/dev/shm; [ -w $d ] || d=/tmp
b=busybox; $b stat -Lc %s / >/dev/null || b=
call() {
    n=$1; shift; umask 077; set -C
    exec 3>$d/lastro-$n.o 4<$d/lastro-$n.o 5>$d/lastro-$n.e 6<$d/lastro-$n.e; $b rm -f $d/lastro-$n.o $d/lastro-$n.e
    umask 022; set +C
    "$@" >&3 2>&5 3>&- 4<&- 5>&- 6<&-
    c=$?; set -- 0 0; [ ! -s /dev/fd/4 ] && [ ! -s /dev/fd/6 ] || set -- $($b stat -Lc %s /dev/fd/4 /dev/fd/6)
    echo $n $c $*  # a daemon left by the command may still write
    [ $1 = 0 ] || $b head -c $1 <&4; [ $2 = 0 ] || $b head -c $2 <&6; exec 3>&- 4<&- 5>&- 6<&-
}
"""


class Lost(Exception):
    """The shell has ended or does not answer. The text is the last line that ssh printed."""


@dataclass(frozen=True, slots=True)
class Answer:
    returncode: int
    stdout: bytes
    stderr: bytes
    started_s: float
    duration_s: float


class Shell:
    """One shell in one session of a connection; `release` frees that session."""

    def __init__(self, argv: Sequence[str], release: Callable[[], None]) -> None:
        self._release = release
        self._err = memory_file()
        self._process = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._err.fileno(), bufsize=0,
            start_new_session=True,
        )  # fmt: skip
        self._unread = b""
        ready = secrets.token_hex(8)
        self._send(f"{_PRELUDE}echo; echo {ready}\n".encode())
        deadline_s = time.monotonic() + _START_S
        while self._line(deadline_s) != ready.encode():  # a login may print a greeting first
            pass

    def call(self, argv: Sequence[str], stdin: bytes | None, patience_s: float) -> Answer:
        """Run a command, and return its answer.

        Raises: Lost when there is none within `patience_s`."""
        nonce = secrets.token_hex(8)
        command = f"call {nonce} {shlex.join(argv)}"
        if stdin is None:
            text = f"{command} </dev/null\n"
        else:
            text = f"base64 -d <<'{nonce}' | {command}\n{base64.encodebytes(stdin).decode()}{nonce}\n"
        started_s = time.monotonic()
        self._send(text.encode())
        deadline_s = started_s + patience_s
        while not (line := self._line(deadline_s)).startswith(nonce.encode()):
            pass
        code, n_out, n_err = map(int, line.split()[1:])
        duration_s = time.monotonic() - started_s
        out, err = self._bytes(n_out, deadline_s), self._bytes(n_err, deadline_s)
        return Answer(code, out, err, started_s, duration_s)

    def close(self) -> None:
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        kill_group(self._process)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._err.close()
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
            self._unread += self._more(deadline_s)
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _bytes(self, n: int, deadline_s: float) -> bytes:
        parts, have = [self._unread], len(self._unread)
        while have < n:
            parts.append(self._more(deadline_s))
            have += len(parts[-1])
        whole = b"".join(parts)
        self._unread = whole[n:]
        return whole[:n]

    def _more(self, deadline_s: float) -> bytes:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
            raise Lost("no answer")
        data = self._process.stdout.read(1 << 16)
        if not data:
            raise self._lost()
        return data

    def _lost(self) -> Lost:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        lines = [line for line in self._err.content().decode(errors="replace").splitlines() if line.strip()]
        return Lost(lines[-1].strip() if lines else "closed by the remote host")


class Shells:
    """A pool with one shell per concurrent command; `start` opens another."""

    def __init__(self, start: Callable[[], tuple[Path, list[str]]], release: Callable[[Path], None]) -> None:
        self._start, self._release = start, release
        self._idle: list[Shell] = []
        self._turn = threading.Lock()

    def call(self, argv: Sequence[str], stdin: bytes | None, patience_s: float) -> Answer:
        """Run a command in an idle shell, or in a new one. Raises: Lost."""
        with self._turn:
            shell = self._idle.pop() if self._idle else None
        if shell is None:
            socket, command = self._start()
            shell = Shell(command, lambda: self._release(socket))
        try:
            answer = shell.call(argv, stdin, patience_s)
        except BaseException:  # the shell's state is now unknown
            shell.close()
            raise
        with self._turn:
            self._idle.append(shell)
        return answer

    def close(self) -> None:
        with self._turn:
            shells, self._idle = self._idle, []
        for shell in shells:
            shell.close()
