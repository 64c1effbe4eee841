"""A MariaDB server in an instance: a fresh data directory on its own disk, and nothing left of the server at the end.

The server is started by hand with its own defaults, without a configuration file and without the network unless an
address is given. It runs as the instance's root, since some isolations take the right to become somebody else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from lastro.errors import InstrumentError, TrialError
from lastro.host.base import Process
from lastro.instruments.base import WORK_DIR
from lastro.platforms.base import Instance

PACKAGES = ("mariadb-client-core", "mariadb-server-core")  # the full package would make a data directory in the image
PLACE = f"{WORK_DIR}/lastro-mariadb"
SOCKET, PORT = f"{PLACE}/mariadb.sock", 3306
_DATA, _PID_FILE = f"{PLACE}/data", f"{PLACE}/mariadbd.pid"
_MAKING_LIMIT_S, _ANSWER_LIMIT_S, _END_LIMIT_S = 600.0, 300.0, 120.0


@dataclass(frozen=True, slots=True)
class Server:
    """One that answers. `made_s` is what its data directory took, `started_s` its start, on the host's clock."""

    instance: Instance
    made_s: float
    started_s: float

    def sql(self, statements: str, limit_s: float = 300.0) -> str:
        """What they print, without column names. Raises: CommandFailed, CommandTimeout."""
        return self.instance.run([*_CLIENT, f"--execute={statements}"], timeout_s=limit_s).text.strip()


_CLIENT = ("mariadb", "--no-defaults", f"--socket={SOCKET}", "--user=root", "--batch", "--skip-column-names")


@contextmanager
def running(instance: Instance, address: str | None = None) -> Iterator[Server]:
    """A server with an empty data directory for as long as the block lasts; `address` is one to listen on.

    Raises: InstrumentError when it does not answer, or does not end; CommandFailed; CommandTimeout."""
    made = instance.run(
        ["sh", "-ec", f"rm -rf {PLACE}; mkdir -p {PLACE}; exec {_install()}"], timeout_s=_MAKING_LIMIT_S
    )
    network = [f"--bind-address={address}", f"--port={PORT}", "--skip-name-resolve"] if address else []
    argv = ["mariadbd", "--no-defaults", "--user=root", f"--datadir={_DATA}", f"--socket={SOCKET}"]
    began_s = time.monotonic()
    process = instance.spawn([*argv, f"--pid-file={_PID_FILE}", *(network or ["--skip-networking"])])
    try:
        _wait(instance, process)
        server = Server(instance, made.duration_s, time.monotonic() - began_s)
        yield server
        _end(server, process)
    except BaseException:
        with suppress(TrialError):  # the instance ends with all that is in it; this is for where it lives on
            instance.run([*_CLIENT, "--execute=SHUTDOWN"], timeout_s=_END_LIMIT_S, check=False)
        raise
    finally:
        process.stop()
    instance.run(["rm", "-rf", PLACE], timeout_s=_END_LIMIT_S)  # a volume may outlive its instance


def _install() -> str:
    options = f"--no-defaults --user=root --datadir={_DATA} --skip-test-db --auth-root-authentication-method=normal"
    return f"mariadb-install-db {options}"


def _wait(instance: Instance, process: Process) -> None:
    deadline_s = time.monotonic() + _ANSWER_LIMIT_S
    while instance.run([*_CLIENT, "--execute=SELECT 1"], check=False).returncode != 0:
        if not process.alive():
            done = process.stop()
            words = (done.error_text or done.text).strip()[-300:]
            raise InstrumentError(f"the database server ended with {done.returncode} before it answered: {words}")
        if time.monotonic() > deadline_s:
            raise InstrumentError(f"the database server did not answer within {_ANSWER_LIMIT_S:g} s")
        time.sleep(0.05)


def _end(server: Server, process: Process) -> None:
    """By its own command, until its process is gone, seen from inside: what started it may well end before it."""
    instance = server.instance
    pid = instance.run(["cat", _PID_FILE]).text.strip()
    if not pid.isdecimal():
        raise InstrumentError(f"the database server's file of its process says {pid[:40]!r}")
    server.sql("SHUTDOWN", _END_LIMIT_S)
    deadline_s = time.monotonic() + _END_LIMIT_S
    gone = ["sh", "-c", f'read -r name < /proc/{pid}/comm && [ "$name" = mariadbd ]']
    while process.alive() or instance.run(gone, check=False).returncode == 0:
        if time.monotonic() > deadline_s:
            raise InstrumentError(f"the database server did not end within {_END_LIMIT_S:g} s")
        time.sleep(0.05)
