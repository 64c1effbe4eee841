"""Commands in processes of their own that do not import Lastro anew: each is forked from one that has.

To start Python and import Lastro takes most of the time of a short command, and tests run hundreds of them.
Run as a script, this file is the process that forks."""

from __future__ import annotations

import gc
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryFile
from typing import IO, Literal, TypeAlias

import lastro
from lastro import registry

# What is read when a command runs. Python and libraries read other variables when they start.
READ_LATE = {"CI", "COLUMNS", "LASTRO_FAULTS", "LASTRO_PARTS", "PATH", "TMPDIR"}
# What functions of Lastro import because it takes long.
_INNER_IMPORT = re.compile(r"^ +(?:from|import) ((?:duckdb|matplotlib|rich|scipy)\b[\w.]*)", re.MULTILINE)
Drawn: TypeAlias = bool | Literal["suite"]  # which pages have figures: all, none, or those of suites


class Forks:
    """A process that has imported what commands need, and begins them."""

    def __init__(self, environment: Mapping[str, str], prefix: Sequence[str] = ()) -> None:
        """`prefix` starts Python as somebody else."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            argv = [*prefix, sys.executable, "-B", str(Path(__file__)), str(theirs.fileno())]
            self._server = subprocess.Popen(argv, env=dict(environment), pass_fds=[theirs.fileno()])

    def start(
        self, words: Sequence[str], cwd: Path | None, environment: Mapping[str, str], *, drawn: Drawn = True
    ) -> Forked:
        """Begin a command; the variables, which must be of those that are `READ_LATE`, are added to its environment.

        Pages that are not `drawn` have no figures, which take most of the time; "suite": only those of suites do."""
        assert environment.keys() <= READ_LATE
        out, err = TemporaryFile(), TemporaryFile()  # noqa: SIM115
        request = [list(words), str(cwd or Path.cwd()), dict(environment), drawn]
        socket.send_fds(self._socket, [json.dumps(request).encode()], [out.fileno(), err.fileno()])
        return Forked(int(self._socket.recv(64)), self, (out, err))

    def run(
        self,
        words: Sequence[str],
        cwd: Path | None,
        timeout_s: float,
        environment: Mapping[str, str],
        *,
        drawn: Drawn = True,
    ) -> tuple[int, str, str]:
        """Exit code, output and errors. Raises: TimeoutExpired, and the command is killed."""
        command = self.start(words, cwd, environment, drawn=drawn)
        try:
            out, err = command.communicate(timeout_s)
        except subprocess.TimeoutExpired:
            command.kill()
            command.wait()
            raise
        assert command.returncode is not None
        return command.returncode, out, err

    def reap(self, pid: int) -> int:
        """The exit code of a command that has ended."""
        self._socket.send(json.dumps(pid).encode())
        return int(self._socket.recv(64))


class Forked:
    """A command that was begun, with the methods of `subprocess.Popen`."""

    def __init__(self, pid: int, forks: Forks, files: tuple[IO[bytes], IO[bytes]]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._forks, self._files, self._end = forks, files, os.pidfd_open(pid)

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it printed until its end."""
        self.wait(timeout)
        texts = []
        for file in self._files:
            file.seek(0)
            texts.append(file.read().decode())
        return texts[0], texts[1]

    def said(self) -> str:
        """What it has printed to standard error so far. Its own position in that file stays."""
        file = self._files[1].fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._end], [], [], timeout_s)[0]:
            self.returncode = self._forks.reap(self.pid)
            os.close(self._end)
        return self.returncode


def _serve(channel: socket.socket) -> None:
    _import_all()
    gc.collect()
    gc.freeze()  # else each command would visit, and so copy, all that was imported
    while True:
        request, fds, _, _ = socket.recv_fds(channel, 1 << 20, 2)
        if not request:
            os._exit(0)  # the interpreter would first take apart what it has imported
        asked = json.loads(request)
        if isinstance(asked, int):
            _, status = os.waitpid(asked, 0)
            channel.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        pid = os.fork()
        if pid == 0:
            channel.close()
            words, cwd, environment, drawn = asked
            _command(words, cwd, environment, drawn, fds)
        for fd in fds:
            os.close(fd)
        channel.send(str(pid).encode())


def _import_all() -> None:
    """Import every module that a command may need when it runs, and not only when it begins."""
    late: set[str] = set()
    for module in walk_packages(lastro.__path__, "lastro."):
        if module.name != "lastro.__main__":
            file = import_module(module.name).__file__
            late.update(_INNER_IMPORT.findall(Path(file).read_text()) if file else ())
    for name in sorted(late):
        import_module(name)
    for kind in registry.KINDS:
        registry.parts(kind)
    _draw()


def _draw() -> None:
    """Draw something: matplotlib imports its renderer, and reads its fonts, with the first figure."""
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().set_title("$x^2$")
    figure.savefig(StringIO(), format="svg")


def _forget_parts() -> None:
    """Those of other folders."""
    registry.scan.cache_clear()
    for name in [name for name in sys.modules if name.startswith("lastro_parts_")]:
        del sys.modules[name]


def _undraw(but: Drawn) -> None:
    from lastro.builders import page_figures, suite

    for name, module in (("campaign", page_figures), ("suite", suite)):
        if name != but:
            module.svgs_of = lambda plan: ("<svg></svg>",)  # type: ignore[attr-defined]


def _command(words: Sequence[str], cwd: str, environment: Mapping[str, str], drawn: Drawn, fds: Sequence[int]) -> None:
    """Become `python -m lastro WORDS`, and never return."""
    from lastro.cli import main

    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # it may have been ignored for the tests
        os.chdir(cwd)
        if drawn is not True:
            _undraw(drawn)
        for fd, target in zip(fds, (1, 2), strict=True):
            os.dup2(fd, target)
            os.close(fd)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        tempfile.tempdir = None
        os.environ.update(environment)  # faults are injected from here on
        if "LASTRO_PARTS" in environment:
            _forget_parts()
        sys.argv = ["lastro", *words]
        code = main(list(words))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
