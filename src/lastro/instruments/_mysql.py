"""A MySQL server of the user's own in an instance, where MariaDB stands for it otherwise: Debian has no package of it.

It goes into the image from its generic Linux archive, with nothing of the host's under it. Commands reach it by
MariaDB's client. Source: MySQL's reference manual 8.0, sections "Installing MySQL on Unix/Linux Using Generic Binaries"
and "Initializing the Data Directory".

Not run for real yet: its archive is in no package registry. The commands are asserted by tests."""

from __future__ import annotations

from pathlib import Path

from lastro.errors import LastroError, Unavailable
from lastro.host.base import Host
from lastro.instruments import _own
from lastro.instruments._mariadb import DATA, Kind

_HINT = (
    "unpack MySQL's minimal generic Linux archive from dev.mysql.com into a directory, and link its bin/mysqld into"
    ' /usr/local/bin; or take `server = "mariadb"`'
)
_HOME = "/usr/local/bin/lastro-mysql"
_PROGRAM = (f"{_HOME}/bin/mysqld", "--no-defaults", "--user=root", f"--basedir={_HOME}")
_PARTS = ("bin", "lib", "share")

MYSQL = Kind(
    process="mysqld",
    make=(*_PROGRAM, f"--datadir={DATA}", "--initialize-insecure"),
    serve=(*_PROGRAM, "--mysqlx=OFF"),
)


def files(host: Host) -> tuple[str, ...]:
    """What of it goes into an image; nothing where it cannot be had."""
    try:
        return (_own.gathered(host, "mysql", sources(host)),)
    except LastroError:
        return ()


def sources(host: Host) -> dict[str, Path]:
    """Its directories. Raises: Unavailable."""
    found = host.which("mysqld")
    if found is None:
        raise Unavailable("this host has no program 'mysqld'", _HINT)
    program = Path(found).resolve()
    home = program.parent.parent
    if program.parent.name != "bin" or home == Path("/usr") or not (home / "share").is_dir():
        raise Unavailable(f"{program} is not in a directory of its own, so it would not run in an instance", _HINT)
    return {part: home / part for part in _PARTS if (home / part).is_dir()}
