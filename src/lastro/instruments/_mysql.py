"""A MySQL server in an instance, in place of MariaDB. Debian does not package MySQL, so the user provides it.

The image gets it from MySQL's generic Linux archive. Commands use MariaDB's client. Source: MySQL's reference manual
8.0, sections "Installing MySQL on Unix/Linux Using Generic Binaries" and "Initializing the Data Directory".

Not yet tested with a real server: the archive is not in any package registry. Tests check the commands."""

from __future__ import annotations

from pathlib import Path

from lastro.errors import LastroError, Unavailable
from lastro.host.base import Host
from lastro.instruments import _own
from lastro.instruments._mariadb import DATA, ServerMake

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
    """Return its files for an image; none if it is not available."""
    try:
        return (_own.gathered(host, "mysql", sources(host)),)
    except LastroError:
        return ()


def sources(host: Host) -> dict[str, Path]:
    """Return its directories. Raises: Unavailable."""
    program = Path(host.require("mysqld", _HINT)).resolve()
    home = program.parent.parent
    if program.parent.name != "bin" or home == Path("/usr") or not (home / "share").is_dir():
        raise Unavailable(f"{program} is not in a directory of its own, so it would not run in an instance", _HINT)
    return {part: home / part for part in _PARTS if (home / part).is_dir()}
