"""Run a MariaDB or MySQL server in an instance, with a new data directory that is removed at the end.

The server is started directly with its defaults, without a configuration file, and without the network unless an
address is given. It runs as root of the instance, since some isolations do not allow it to become another user.

Debian does not package MySQL: its files come from the generic Linux archive that the user provides, and commands use
MariaDB's client. Not yet tested with a real MySQL server, since no package registry has the archive: tests check the
commands. Source: MySQL's reference manual 8.0, "Installing MySQL on Unix/Linux Using Generic Binaries"."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lastro.errors import InstrumentError, LastroError, TrialError, Unavailable
from lastro.host.base import Host, Process
from lastro.instruments import _user_programs
from lastro.instruments.answer import wait_for_answer
from lastro.instruments.base import WORK_DIR
from lastro.platforms.base import Instance

DECISIVE = (
    "innodb_buffer_pool_size",
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_log_file_size",
    "innodb_redo_log_capacity",
    "innodb_use_native_aio",
    "log_bin",
    "sync_binlog",
)
PACKAGES = ("mariadb-client-core", "mariadb-server-core")  # the full package would make a data directory in the image
PLACE = f"{WORK_DIR}/lastro-mariadb"
SOCKET, PORT = f"{PLACE}/mariadb.sock", 3306
DATA, PID_FILE = f"{PLACE}/data", f"{PLACE}/server.pid"
_FEW_PAGES = 8  # dirty pages of an idle server, which writes its statistics from time to time
_CALM_LOOKS = 6  # in a row: the purge that follows a fill makes pages dirty once more
_MAKING_LIMIT_S, _ANSWER_LIMIT_S, _END_LIMIT_S = 600.0, 300.0, 120.0


@dataclass(frozen=True, slots=True)
class Deadline:
    """A common deadline for all steps until a database is ready; each step may take the time that is left."""

    limit_s: float
    at_s: float

    @classmethod
    def within(cls, limit_s: float) -> Self:
        return cls(limit_s, time.monotonic() + limit_s)

    def left_s(self) -> float:
        """Return the time left. Raises: InstrumentError when there is none."""
        if (left_s := self.at_s - time.monotonic()) <= 0:
            raise InstrumentError(f"the database was not ready within {self.limit_s:g} s")
        return left_s


@dataclass(frozen=True, slots=True)
class ServerMake:
    """A kind of database server.

    `process` is the name of the server's process.
    `make` is the command that makes a data directory for the server.
    `serve` is the command that runs the server."""

    process: str
    make: tuple[str, ...]
    serve: tuple[str, ...]


MARIADB = ServerMake(
    process="mariadbd",
    make=(
        "mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={DATA}", "--skip-test-db",
        "--auth-root-authentication-method=normal",
    ),
    serve=("mariadbd", "--no-defaults", "--user=root"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. `made_s` and `started_s` are the seconds to make its data directory and to start it.

    Both are measured by the host's clock."""

    instance: Instance
    made_s: float
    started_s: float

    def sql(self, statements: str, limit_s: float = 300.0) -> str:
        """Run statements and return what they print, without column names. Raises: CommandFailed, CommandTimeout."""
        return self.instance.run([*_CLIENT, f"--execute={statements}"], timeout_s=limit_s).text.strip()

    def settle(self, deadline: Deadline) -> None:
        """Wait until all writes are on the disk; otherwise they would slow down the next queries by chance.

        Raises: InstrumentError when pages are still dirty at the deadline; CommandFailed; CommandTimeout."""
        limits = ("innodb_max_dirty_pages_pct", "innodb_max_dirty_pages_pct_lwm")  # MySQL lowers both with the first
        originals = self.sql(f"SELECT {', '.join(f'@@{name}' for name in limits)}").split()
        self.sql(f"SET GLOBAL {limits[0]} = 0")
        calm_looks = 0
        while calm_looks < _CALM_LOOKS:
            _, _, dirty = self.sql("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'").rpartition("\t")
            calm_looks = calm_looks + 1 if int(dirty or 0) <= _FEW_PAGES else 0
            deadline.left_s()
            time.sleep(0.05)
        self.sql("; ".join(f"SET GLOBAL {name} = {value}" for name, value in zip(limits, originals, strict=True)))
        self.instance.run(["sync", "--file-system", PLACE], timeout_s=deadline.left_s())

    def variables(self) -> dict[str, str]:
        """Return {name: value} of the variables in DECISIVE, which affect the cost of a transaction.

        Variables that the server does not have are left out."""
        names = ", ".join(f"'{name}'" for name in DECISIVE)
        lines = self.sql(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})").splitlines()
        return {name: value for name, _, value in (line.partition("\t") for line in lines)}


_CLIENT = ("mariadb", "--no-defaults", f"--socket={SOCKET}", "--user=root", "--batch", "--skip-column-names")


@contextmanager
def running(
    instance: Instance, deadline: Deadline, address: str | None = None, kind: ServerMake = MARIADB
) -> Iterator[Server]:
    """Run a server with an empty data directory inside the block; without `address`, it has no network.

    When the block ends without an exception, the server is shut down, and its files are removed.

    Raises: InstrumentError when the server does not answer, or does not end; CommandFailed; CommandTimeout."""
    script = f"rm -rf {PLACE}; mkdir -p {PLACE}; exec {shlex.join(kind.make)}"
    made = instance.run(["sh", "-ec", script], timeout_s=min(_MAKING_LIMIT_S, deadline.left_s()))
    network = [f"--bind-address={address}", f"--port={PORT}", "--skip-name-resolve"] if address else []
    argv = [*kind.serve, f"--datadir={DATA}", f"--socket={SOCKET}"]
    began_s = time.monotonic()
    process = instance.spawn([*argv, f"--pid-file={PID_FILE}", *(network or ["--skip-networking"])])
    try:
        answer_s = min(_ANSWER_LIMIT_S, deadline.left_s())
        ask = [*_CLIENT, "--execute=SELECT 1"]
        wait_for_answer(instance, process, ask, "the database server", answer_s)
        server = Server(instance, made.duration_s, time.monotonic() - began_s)
        yield server
        _end(server, process, kind)
    except BaseException:
        with suppress(TrialError):  # only matters for an instance that is not ended after this error
            instance.run([*_CLIENT, "--execute=SHUTDOWN"], timeout_s=_END_LIMIT_S, check=False)
        raise
    finally:
        process.stop()
    instance.run(["rm", "-rf", PLACE], timeout_s=_END_LIMIT_S)  # a volume may outlive its instance


def _end(server: Server, process: Process, kind: ServerMake) -> None:
    """Shut the server down, and wait until both its process and the command `process`, which started it, have ended."""
    instance = server.instance
    pid = instance.run(["cat", PID_FILE]).text.strip()
    if not pid.isdecimal():
        raise InstrumentError(f"the database server's PID file contains {pid[:40]!r}, not a process ID")
    server.sql("SHUTDOWN", _END_LIMIT_S)
    deadline_s = time.monotonic() + _END_LIMIT_S
    still_running = ["sh", "-c", f'read -r name < /proc/{pid}/comm && [ "$name" = {kind.process} ]']
    while process.alive() or instance.run(still_running, check=False).returncode == 0:
        if time.monotonic() > deadline_s:
            raise InstrumentError(f"the database server did not end within {_END_LIMIT_S:g} s")
        time.sleep(0.05)


_HINT = (
    "unpack MySQL's minimal generic Linux archive from dev.mysql.com into a directory, and link its bin/mysqld into"
    ' /usr/local/bin; or set `server = "mariadb"`'
)
_HOME = "/usr/local/bin/lastro-mysql"
_PROGRAM = (f"{_HOME}/bin/mysqld", "--no-defaults", "--user=root", f"--basedir={_HOME}")
_PARTS = ("bin", "lib", "share")

MYSQL = ServerMake(
    process="mysqld", make=(*_PROGRAM, f"--datadir={DATA}", "--initialize-insecure"), serve=(*_PROGRAM, "--mysqlx=OFF")
)


def files(host: Host) -> tuple[str, ...]:
    """Return the path of a copy of MySQL's files, for the image; empty if the user has not provided MySQL."""
    try:
        return (_user_programs.gather_files(host, "mysql", sources(host)),)
    except LastroError:
        return ()


def sources(host: Host) -> dict[str, Path]:
    """Return the directories of the user's MySQL, as {"bin": path, "lib": path, "share": path}.

    A directory that does not exist is left out. Raises: Unavailable if MySQL is missing, or is not in a directory of
    its own."""
    program = Path(host.require("mysqld", _HINT)).resolve()
    home = program.parent.parent
    if program.parent.name != "bin" or home == Path("/usr") or not (home / "share").is_dir():
        raise Unavailable(f"{program} is not in a directory of its own, so it would not run in an instance", _HINT)
    return {part: home / part for part in _PARTS if (home / part).is_dir()}
