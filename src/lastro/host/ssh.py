"""A host reached by the OpenSSH client. Nothing of Lastro stays there: no agent, no file, no daemon.

The remote host enforces the time limit of a command, so that the command ends even if the connection is lost. A spawned
process ends with the connection. The remote host sends each exit code after a random word, for spawned processes on
standard error. So an exit code of 255 from a command is distinguishable from an exit code of 255 from ssh itself."""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from lastro.errors import (
    CommandFailed,
    CommandTimeout,
    ConnectionLost,
    HostError,
    HostUnfit,
    NeedsRoot,
    Unavailable,
    WriteFailed,
)
from lastro.host._child import GRACE_S, ended_within, kill_group, memory_file
from lastro.host._exchanges import Exchanges
from lastro.host._remote_files import READ, RemoteFiles, texts_of
from lastro.host._remote_shell import PATIENCE_S, Answer, Query, Shell, ShellLost, Shells, UnfitForShell
from lastro.host.base import ENVIRONMENT, ON_A_HOST, Completed, Host, Process
from lastro.host.connections import LOST, Connections, SshTarget
from lastro.host.files import OWNER_VARIABLE
from lastro.host.local import LocalProcess
from lastro.host.moments import FileReadings, OwnCpu, TimedSpan
from lastro.validity import ClockSample

TOOLS = ("ip", "tc", "nsenter", "unshare", "setsid", "timeout", "flock", "mount", "tar", "base64", "sha256sum", "find")
_QUIET_S = 60.0
_KILLED = 137
_NO_PROGRAM = 127
_TICKS = os.sysconf("SC_CLK_TCK")
# Standard input ends when we close it, or when the connection is lost: then the spawned process gets SIGTERM.
_SPAWN = """cd /; n=$1; g=$2; fed=$3; program=$4; shift 4; exec 3<&0
command -v "$program" >/dev/null || { printf '\\n%s 0\\n' $n; printf '\\n%s 127' $n >&2; exit; }
in=/dev/null; case $fed in yes) in=/dev/shm/lastro-$n; mkfifo -m 600 $in; esac
setsid sh -c 'printf "\\n%s %d\\n" "$0" $$; exec "$@"' $n "$@" <$in 3<&- & p=$!
case $fed in yes) exec 4>$in; rm $in;; *) exec 4>/dev/null; esac
{ cat <&3 >&4; kill -TERM -$p || kill -TERM $p
  i=0; while kill -0 $p && [ $((i += 1)) -le $g ]; do sleep 0.1; done; kill -KILL -$p; } >/dev/null 2>&1 & w=$!
exec 3<&- 4>&- 7>&2 2>/dev/null
wait $p; c=$?; kill $w; printf '\\n%s %d' $n $c >&7"""
_WRITE = Query(
    r"""my ($path) = @_; my ($above, $file) = ("");
    for ($path =~ m{([^/]*/)}g) { $above .= $_; mkdir $above }
    open $file, ">", $path or die "$path: $!\n";
    while (length $stdin) { substr $stdin, 0, (syswrite $file, $stdin or die "$path: $!\n"), "" }
    close $file or die "$path: $!\n"; ()"""
)
# For cat, a lost connection is like the end of the file, so an incomplete file is removed.
_SEND = """mkdir -p -- "$(dirname -- "$1")" && cat >"$1.part" &&
[ "$(stat -c %s -- "$1.part")" = "$2" ] && mv -f -- "$1.part" "$1" || { rm -f -- "$1.part"; exit 1; }"""
# The monotonic clock, and the wall clock.
_CLOCKS = Query('join " ", map { clock($_) } 1, 0')


class SshHost(Host):
    """A remote host where commands run as root.

    `token` belongs to the session that owns the processes on the remote host, and `local_token` to the session that
    owns the ssh processes on this machine. `sockets` is a local directory for the control sockets of ssh.
    `on_reconnect` is called after each reconnection, for example to take the host's lock again."""

    remote = True

    def __init__(self, target: SshTarget, sockets: Path, token: str, local_token: str = "") -> None:
        super().__init__()
        self.target, self.name, self.run_root = target, target.name, Path(target.run)
        self.view = RemoteFiles(self.ask)
        self._environment = {**ENVIRONMENT, OWNER_VARIABLE: token}
        self._token = token
        self._connections = Connections(target, sockets, {OWNER_VARIABLE: local_token})
        self._shells = Shells(self._shell, self._connections.release)
        self._sudo: tuple[str, ...] = ()
        self._lost: str | None = None
        self._which: dict[str, str | None] = {}
        self.exchanges = Exchanges()
        self._spawned: set[SshProcess] = set()  # they outlive a trial, and are lost with the connection
        self.on_reconnect: Callable[[], None] = lambda: None
        self._guard = threading.Lock()

    # The connection

    def connect(self) -> None:
        """Connect as root, and require that the host has the tools that Lastro uses.

        Raises: HostError when the host cannot be reached; HostUnfit when it lacks a tool; NeedsRoot without root."""
        self._connections.open()
        self._lost = None
        script = "id -u; for t; do command -v $t >/dev/null || echo $t; done"
        uid, *missing = self.ask(script, TOOLS).split() or [""]
        if missing:
            raise HostUnfit(
                f"{self.name} lacks these programs: {', '.join(missing)}",
                "install them there: on Debian they are in coreutils, findutils, iproute2, mount, tar and util-linux",
            )
        if uid != "0":
            try:
                self.ask("sudo -n true", [])
            except CommandFailed as error:
                raise NeedsRoot(
                    f"the user on {self.name} is not root, and `sudo` asks for a password or is not installed",
                    "set `user` to root, or to a user whom sudoers(5) allows to run everything with NOPASSWD",
                ) from error
            self._sudo = ("sudo", "-n", "--")
            self._shells.close()  # the first shell ran as the user

    def close(self) -> None:
        self._shells.close()
        self._connections.close()

    def recover(self) -> None:
        """Reconnect after a loss, and end processes of this session that still run there.

        Raises: HostError when the host stays unreachable, or a `lasting` process was lost with the connection."""
        if self._lost is None:
            return
        self.close()
        self.connect()
        self.view.end_owned(self._token)
        self.on_reconnect()
        lost_processes, self._spawned = self._spawned, set()
        if lost_processes:
            raise HostError(
                f"the connection to {self.name} is back, but the processes started there for later trials have ended",
                "`lastro resume` continues the campaign",
            )

    # Commands

    def run(
        self, argv: Sequence[str], *, stdin: str | bytes | None = None, timeout_s: float = 60.0, check: bool = True
    ) -> Completed:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        answer = self._call(lambda shell: shell.run(argv, data, timeout_s, self._environment))
        self.exchanges.add(answer.exchange)
        done = Completed(
            tuple(argv), answer.returncode, answer.stdout, answer.stderr, answer.started_s, answer.duration_s, data
        )
        self.transcript.add_run(done, **self._where())
        if done.returncode == _KILLED and done.duration_s >= timeout_s:
            raise CommandTimeout(argv, timeout_s)
        if done.returncode == _NO_PROGRAM and done.error_text.startswith("env: ") and argv[0] in done.error_text:
            raise self.lacks(f"program '{argv[0]}'", "install it there; `lastro doctor` shows what is missing")
        if check:
            done.require_success()
        return done

    def spawn(self, argv: Sequence[str], *, fed: bool = False, whole: bool = False, lasting: bool = True) -> Process:
        """Start a process as `Host.spawn` does.

        If it is `lasting`, later trials use it, and `recover` reports its loss."""
        self._require_connection()
        self.exchanges.start_process()
        if not whole:
            self.transcript.add_process("spawn", argv, **({"fed": True} if fed else {}), **self._where())
        nonce = secrets.token_hex(8)
        grace_tenths, is_fed = str(round(GRACE_S * 10)), "yes" if fed else "no"
        variables = [f"{name}={value}" for name, value in self._environment.items()]
        words = [nonce, grace_tenths, is_fed, argv[0], "env", "-i", *variables, *argv]
        socket, ssh = self._connections.acquire()
        err = memory_file()
        process = subprocess.Popen(
            [*ssh, self._sh_command("-c", _SPAWN, "lastro", *words)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err.fileno(), start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        pid = _pid_after(process.stdout, nonce)
        if not pid:
            process.communicate()
            self._connections.release(socket)
            if pid is None:
                raise self.lose(_last_line(err.content()))
            raise self.lacks(f"program '{argv[0]}'", "install it there")
        started = SshProcess(
            self, tuple(argv), process, err, nonce, pid, lambda: self._connections.release(socket), fed=fed, whole=whole
        )
        if lasting and not fed:
            with self._guard:
                self._spawned.add(started)
        return started

    def forget(self, process: SshProcess) -> None:
        """Stop tracking a spawned process that has ended, so that `recover` does not report it as lost."""
        with self._guard:
            self._spawned.discard(process)

    def _where(self) -> dict[str, list[str]]:
        return {"ssh": self.target.argv()}

    def _sh_command(self, *words: str) -> str:
        return "exec " + shlex.join([*self._sudo, "env", f"PATH={ENVIRONMENT['PATH']}", "sh", *words])

    def _call(self, request: Callable[[Shell], Answer]) -> Answer:
        with self._host_errors():
            return self._shells.call(request)

    @contextmanager
    def _host_errors(self) -> Iterator[None]:
        """Raise ConnectionLost for a ShellLost from the block, and HostUnfit for an UnfitForShell."""
        self._require_connection()
        try:
            yield
        except ShellLost as error:
            raise self.lose(str(error)) from error
        except UnfitForShell as error:
            raise HostUnfit(f"{self.name} {error.reason}", error.remedy) from error

    def _require_connection(self) -> None:
        """Raise ConnectionLost until `recover` has reconnected, so that no trial continues with commands missing."""
        if self._lost is not None:
            raise ConnectionLost(self.name, self._lost)

    def lose(self, reason: str) -> ConnectionLost:
        """Record that the connection is lost, and return the error to raise. Until `recover`, no command can run."""
        self._lost = reason or "no answer"
        return ConnectionLost(self.name, self._lost)

    def _shell(self) -> tuple[Path, list[str]]:
        socket, ssh = self._connections.acquire()
        return socket, [*ssh, self._sh_command()]

    # Files, and queries that no transcript records

    def ask(self, query: str | Query, words: Sequence[str], stdin: str | None = None) -> str:
        """Run `query`, a script for sh(1) or a `Query` in Perl, with the arguments `words`, and return its output.

        The transcript does not record this. Raises: CommandFailed, ConnectionLost."""
        answer = self._answer(query, words, stdin)
        self.exchanges.add(answer.exchange)
        return answer.stdout.decode(errors="replace")

    def _answer(self, query: str | Query, words: Sequence[str], stdin: str | None = None) -> Answer:
        data = None if stdin is None else stdin.encode()
        argv = ["perl" if isinstance(query, Query) else "sh", "-c", query]
        if isinstance(query, Query):
            answer = self._call(lambda shell: shell.ask(query, words, data, _QUIET_S))
        else:
            answer = self._call(lambda shell: shell.run([*argv, "lastro", *words], data, _QUIET_S))
        if answer.returncode != 0:
            raise CommandFailed(argv, answer.returncode, answer.stderr.decode(errors="replace"))
        return answer

    def write_text(self, path: str, text: str) -> None:
        self.transcript.add_write(path, text, **self._where())
        try:
            self.ask(_WRITE, [path], text)
        except CommandFailed as error:
            raise WriteFailed(path, text, error.stderr.strip().rpartition(": ")[2] or "no reason given") from error

    def read_text(self, path: str) -> str:
        texts = self.view.read([path])
        if path not in texts:
            raise FileNotFoundError(f"{path} cannot be read on {self.name}")
        return texts[path]

    def send(self, file: Path, path: str, timeout_s: float = 1800.0) -> None:
        """Copy the local file `file` to `path` on the host, where it appears only once it is complete.

        Raises: WriteFailed; ConnectionLost, also after `timeout_s`."""
        self._require_connection()
        nonce = secrets.token_hex(8)
        receive = self._sh_command("-c", _SEND, "lastro", path, str(file.stat().st_size)).removeprefix("exec ")
        command = f"{receive}; echo {nonce} $?"
        with file.open("rb") as source, self._connections.channel() as ssh:
            try:
                done = subprocess.run(
                    [*ssh, command], stdin=source, capture_output=True, timeout=timeout_s, check=False,
                    start_new_session=True,
                )  # fmt: skip
            except subprocess.TimeoutExpired as error:
                raise self.lose(f"{file.name} was not copied within {timeout_s:g} s") from error
        answer = done.stdout.decode(errors="replace").split()
        if answer[-2:-1] != [nonce]:
            raise self.lose(_last_line(done.stderr))
        if answer[-1] != "0":
            raise WriteFailed(path, "", _last_line(done.stderr).rpartition(": ")[2] or "the copy is incomplete")

    def which(self, program: str) -> str | None:
        if program not in self._which:
            self._which[program] = self.ask('command -v -- "$1" || :', [program]).strip() or None
        return self._which[program]

    def lacks(self, what: str, remedy: str) -> Unavailable:
        """Return, without raising it, the error that `what` is not installed; `remedy` says how to install it.

        A guest has no network, so nothing can be installed there: the remedy is then to measure on a real host."""
        if self.target.called:  # only a guest has a name of this kind
            return Unavailable(f"{self.name} does not contain {what}", ON_A_HOST)
        return Unavailable(f"{self.name} has no {what}", remedy)

    # Moments and times of the host's own clock

    def glance(self, paths: Sequence[str] = ()) -> FileReadings:
        servers = [f"/proc/{pid}/stat" for pid in self._shells.servers]
        files = [*paths, *servers]
        answer = self._answer(READ, files)
        texts = texts_of(files, answer.stdout.decode(errors="replace"))
        serving = [cpu_of(texts.pop(file)) for file in servers if file in texts]
        return FileReadings(answer.work_began_s, texts, sum(serving, self._shells.spent))

    @contextmanager
    def timed(self) -> Iterator[TimedSpan]:
        with self.exchanges.timed(lambda: self._answer(READ, []).exchange) as span:
            yield span

    def be_ready(self, commands: int) -> None:
        with self._host_errors():
            self._shells.open(commands)

    def clock(self) -> ClockSample:
        """Return a reading of the host's two clocks and the controller's; its uncertainty is half a round trip.

        The transcript does not record this. Raises: CommandFailed, ConnectionLost."""
        answer = self._answer(_CLOCKS, [])
        monotonic_s, real_s = map(float, answer.stdout.split())
        half_s = answer.duration_s / 2
        return ClockSample(answer.started_s + half_s, monotonic_s, real_s, half_s)


def cpu_of(stat: str) -> OwnCpu:
    """Return the CPU time of a process, without the time of its children, from the text of its /proc/PID/stat."""
    user, system = stat.rpartition(")")[2].split()[11:13]
    return OwnCpu(int(user) / _TICKS, (int(user) + int(system)) / _TICKS)


def _last_line(output: bytes) -> str:
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _pid_after(lines: IO[bytes], nonce: str) -> int | None:
    """Return the PID that a script prints after its nonce; lines before that are skipped. None if there is none."""
    for line in iter(lines.readline, b""):
        mark, _, pid = line.decode(errors="replace").partition(" ")
        if mark == nonce:
            return int(pid)
    return None


def split_exit_code(nonce: str, error: bytes) -> tuple[int | None, bytes]:
    """Split the standard error of a spawned process into the exit code after the nonce and the text before the nonce.

    The exit code is None if the output has none: the connection was lost."""
    words, mark, code = error.rpartition(f"\n{nonce} ".encode())
    return (int(code), words) if mark and code.strip().isdigit() else (None, error)


class SshProcess(LocalProcess):
    """A process on a remote host. `pid` is its PID there; it is the leader of a new session."""

    def __init__(
        self, host: SshHost, argv: tuple[str, ...], process: subprocess.Popen[bytes], err: memory_file, nonce: str,
        pid: int, release: Callable[[], None], *, fed: bool = False, whole: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(host, argv, process, err, fed=fed, whole=whole)
        self._remote, self._nonce, self.pid, self._release = host, nonce, pid, release

    def _where(self) -> dict[str, Any]:
        return {"ssh": self._remote.target.argv()}

    def _end(self) -> None:
        sent_s = time.monotonic()
        self._close_input()
        if not ended_within(self._process, GRACE_S + PATIENCE_S):
            kill_group(self._process)
        self._remote.exchanges.add_end(sent_s)

    def _command_result(self, code: int, error: bytes) -> tuple[int, bytes]:
        self._release()
        remote_code, words = split_exit_code(self._nonce, error)
        self._remote.forget(self)
        if remote_code is None:  # the connection was lost, or we gave up waiting: it may still run there
            self._remote.lose(_last_line(error))
            return LOST, words
        return remote_code, words
