"""Commands in processes of their own that do not import Lastro anew: each is forked from one that has.

To start Python and import Lastro takes most of the time of a short command, and tests run hundreds of them.
Run as a script, this file is the process that forks."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryFile

import lastro


class Forks:
    """A process that has imported what commands need, and runs them one at a time."""

    def __init__(self, environment: Mapping[str, str], prefix: Sequence[str] = ()) -> None:
        """`prefix` starts Python as somebody else."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            argv = [*prefix, sys.executable, "-B", str(Path(__file__)), str(theirs.fileno())]
            self._server = subprocess.Popen(argv, env=dict(environment), pass_fds=[theirs.fileno()])

    def run(self, words: Sequence[str], cwd: Path | None, timeout_s: float) -> tuple[int, str, str]:
        """Exit code, output and errors. Raises: TimeoutError, and the command is killed."""
        with TemporaryFile() as out, TemporaryFile() as err:
            request = json.dumps([list(words), str(cwd or Path.cwd())]).encode()
            socket.send_fds(self._socket, [request], [out.fileno(), err.fileno()])
            self._socket.settimeout(timeout_s)
            pid = int(self._socket.recv(64))
            try:
                code = int(self._socket.recv(64))
            except TimeoutError:
                os.kill(pid, 9)
                self._socket.recv(64)
                raise
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode())
        return code, texts[0], texts[1]


def _serve(channel: socket.socket) -> None:
    _import_all()
    gc.collect()
    gc.freeze()  # else each command would visit, and so copy, all that was imported
    while True:
        request, fds, _, _ = socket.recv_fds(channel, 1 << 20, 2)
        if not request:
            return
        pid = os.fork()
        if pid == 0:
            channel.close()
            _command(request, fds)
        for fd in fds:
            os.close(fd)
        channel.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        channel.send(str(os.waitstatus_to_exitcode(status)).encode())


def _import_all() -> None:
    """Import every module that a command may need when it runs, and not only when it begins."""
    for module in walk_packages(lastro.__path__, "lastro."):
        if module.name != "lastro.__main__":
            import_module(module.name)
    for name in ("matplotlib.figure", "matplotlib.backends.backend_svg", "rich.table", "jinja2", "ctypes"):
        import_module(name)


def _command(request: bytes, fds: Sequence[int]) -> None:
    """Become `python -m lastro WORDS`, and never return."""
    from lastro.cli import main

    code = 1
    try:
        words, cwd = json.loads(request)
        os.chdir(cwd)
        for fd, target in zip(fds, (1, 2), strict=True):
            os.dup2(fd, target)
            os.close(fd)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        sys.argv = ["lastro", *words]
        code = main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
