"""A directory in which to build a large object: on the disk of its store, renamed when complete, otherwise removed.

The process that builds may be killed. Its PID is part of the name, so that the next build or `lastro clean` can remove
the directory. mmdebstrap has a mount namespace of its own, which the kernel removes with the last process in it.
Otherwise its mounts would remain, among them the host's /dev and /sys, below what looks like a leftover to delete."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from lastro.errors import CommandFailed, CommandTimeout, ImageError, InputError
from lastro.host.base import RUN_DIR
from lastro.host.files import start_time
from lastro.host.local import UMASK

_PREFIX = "building"
_NAME = re.compile(rf"{_PREFIX}-(\d+)-(\d+)-\w{{8}}")
_PROXIES = ("http_proxy", "https_proxy", "no_proxy")
_FULL = "No space left on device"
# The lines in apt's long output that name an unknown package or release.
_APT_ERROR = re.compile(
    r"^E: (Unable to locate package .*|Package .* has no installation candidate|The repository .* a Release file)", re.M
)
_NOT_FETCHED = re.compile(r"^E: (Failed to fetch .*)", re.M)
_NOT_FOUND = 127  # exit code of a shell that found no such program
_SNAPSHOTS = "https://snapshot.debian.org/archive"
_ANY_AGE = '--aptopt=Acquire::Check-Valid-Until "false"'
ROLLING = "sid"


@contextmanager
def workshop(store: Path) -> Iterator[Path]:
    """Yield a new directory in `store`, removed after the block unless renamed; first remove abandoned ones."""
    store.mkdir(parents=True, exist_ok=True)
    for directory in abandoned(store):
        _remove(directory)
    pid = os.getpid()
    work = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}-{pid}-{start_time(pid)}-", dir=store))
    work.chmod(0o755)  # apt fetches as a user of its own
    umask = os.umask(UMASK)  # instances run programs of other users on what is made here
    try:
        yield work
    finally:
        os.umask(umask)
        _remove(work)


def abandoned(store: Path) -> list[Path]:
    """Return the workshops in `store` whose processes have ended."""
    named = ((path, _NAME.fullmatch(path.name)) for path in store.glob(f"{_PREFIX}-*"))
    return sorted(path for path, builder in named if builder and start_time(int(builder[1])) != int(builder[2]))


def clean(state: Path, *, dry_run: bool = False) -> list[Path]:
    """Remove, except with `dry_run`, the workshops below `state` whose processes have ended; return their paths."""
    stores = [path for depth in ("*", "*/*") for path in state.glob(depth) if path.is_dir()]
    directories = [directory for store in stores for directory in abandoned(store)]
    if not dry_run:
        for directory in directories:
            _remove(directory)
    return directories


def checked_snapshot(text: str) -> str:
    """Return `text`, the time of a snapshot of Debian's archive, unchanged. An empty text stands for today's mirror.

    Raises: InputError unless it is written as snapshot.debian.org writes it, such as 20261101T000000Z."""
    try:
        well_formed = not text or f"{datetime.strptime(text, '%Y%m%dT%H%M%SZ'):%Y%m%dT%H%M%SZ}" == text
    except ValueError:
        well_formed = False
    if not well_formed:
        raise InputError(
            f"'{text}' is not a date and time of Debian's archive", "write it in UTC, such as 20261101T000000Z"
        )
    return text


def snapshot_in(tree: Path) -> str:
    """Return the time of the snapshot of Debian's archive from which a tree was built; empty if from a mirror."""
    try:
        sources = (tree / "etc/apt/sources.list").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    match = re.search(r"^deb .*/debian/(\d{8}T\d{6}Z)/? ", sources, re.MULTILINE)
    return match[1] if match else ""


def mmdebstrap(
    work: Path, options: Sequence[str], release: str, target: Path, *variables: str, snapshot: str = ""
) -> list[str]:
    """Return the command by which mmdebstrap installs or unpacks Debian packages of `release` into `target`.

    mmdebstrap has its scratch directory in `work`. The command sees `work` in place of the run directory, because apt
    downloads as another user, who may not enter the state directory.
    The environment of mmdebstrap has `variables`, each as NAME=VALUE. Of the user's environment, it has only the
    proxies (`http_proxy`, `https_proxy`, `no_proxy`). LASTRO_MIRROR may name another mirror.
    With a `snapshot`, the packages are those of that time, from the three archives that mmdebstrap uses by default."""

    def inside(argument: str) -> str:
        return argument.replace(str(work), str(RUN_DIR))

    argv = ["unshare", "--mount", "sh", "-ec", 'mount --bind "$0" "$1"; shift; exec "$@"', str(work), str(RUN_DIR)]
    argv += ["env", f"TMPDIR={RUN_DIR}", *variables, *proxies(), "mmdebstrap", *map(inside, options)]
    if snapshot:  # whose indexes expired a week later
        main, security = f"{_SNAPSHOTS}/debian/{snapshot}/", f"{_SNAPSHOTS}/debian-security/{snapshot}/"
        sources = [f"deb {main} {release} main", f"deb {main} {release}-updates main"]
        sources.append(f"deb {security} {release}-security main")
        return [*argv, _ANY_AGE, release, inside(str(target)), *sources]
    mirror = os.environ.get("LASTRO_MIRROR")
    if release == ROLLING:  # a mirror may be older than the week for which its indexes are valid
        argv.append(_ANY_AGE)
    return [*argv, release, inside(str(target)), *([mirror] if mirror else [])]


def proxies() -> list[str]:
    """Return the variables of the user's environment that name proxies, each as NAME=VALUE."""
    proxies = {name: os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES}
    return [f"{name}={value}" for name, value in proxies.items() if value]


@contextmanager
def building(what: str, store: Path, snapshot: str) -> Iterator[None]:
    """Convert the error of a tool that fails, or of a file that cannot be written, inside the block to ImageError.

    `what` names the object that is built, in the message. `store` and `snapshot` are for the remedy in the message."""
    try:
        yield
    except (CommandFailed, CommandTimeout) as error:
        words = error.stderr if isinstance(error, CommandFailed) else ""
        remedy = "is the Debian mirror reachable? LASTRO_MIRROR names another one"
        if snapshot:
            place = f"{_SNAPSHOTS}/debian/{snapshot}/"
            remedy = f"is {place} reachable, and did Debian have this release at that moment?"
        if named := _APT_ERROR.search(words):
            wrong = "package" if "package" in named[1].lower() else "release"
            remedy = f"does Debian have a {wrong} of this name? https://packages.debian.org shows it; {remedy}"
        elif _FULL in words:
            remedy = f"free some space on the disk of {store}, or choose another one with LASTRO_STATE"
        elif isinstance(error, CommandFailed) and error.returncode == _NOT_FOUND:
            remedy = "install the program that it names, and repeat the command"
        reason = named or _NOT_FETCHED.search(words)
        raise ImageError(f"{what} could not be built: {reason[1] if reason else error.message}", remedy) from error
    except OSError as error:
        hint = "free some space, or name another directory in LASTRO_STATE"
        raise ImageError(f"{what} could not be stored in {store}: {error}", hint) from error


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
