"""Checkouts of the user's Git repositories: one for each commit, stored with what was built in it.

A checkout uses the objects of the user's repository, but has its own index, references and configuration. So the
repository and its working copy do not change. Changes in the working copy that are not committed are not built. The
build runs on this host, as root, in the top directory of the checkout."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from lastro.errors import CommandFailed, CommandTimeout, ImageError, InputError
from lastro.host.base import Host
from lastro.image.workshop import building, workshop

_BUILD_TIMEOUT_S = 1800.0
_CHECKOUT_TIMEOUT_S = 600.0
_LAST_LINES = 8
# $1 is a new directory, $2 the directory of Git of the repository, $3 the commit.
_CHECKOUT = """git init --quiet "$1"; cd "$1"; echo "$2/objects" >.git/objects/info/alternates
[ ! -f "$2/shallow" ] || cp "$2/shallow" .git/
git -c advice.detachedHead=false checkout --quiet --detach "$3\""""


@dataclass(frozen=True, slots=True)
class GitSource:
    """A directory in a Git repository."""

    what: str  # is built from it, in messages: "function 'limiter'"
    repository: str
    build: tuple[str, ...] = ()  # the command that runs at the top of a checkout; empty for none


@dataclass(frozen=True, slots=True)
class Checkout:
    """A commit of a repository, and the directory of its checkout, which may not exist yet."""

    source: GitSource
    commit: str
    directory: Path

    @property
    def exists(self) -> bool:
        return self.directory.is_dir()


def checkout_of(source: GitSource, revision: str, store: Path, host: Host) -> Checkout:
    """Return the checkout of a revision, in a directory below `store` that may not exist yet.

    Raises: InputError if there is no such repository or revision, or Git is not installed."""
    what, place = source.what, source.repository
    if host.which("git") is None:
        raise InputError(f"{what}: git, which reads the repository, is not installed", "apt-get install git")
    if not Path(place).is_dir():
        raise InputError(f"{what}: {place} is not a directory", "name a Git repository")
    if _git(source, host, "rev-parse", "--git-dir") is None:
        raise InputError(
            f"{what}: {place} is not a Git repository",
            f"commit {what} to a Git repository first: git init, git add, git commit",
        )
    expression = f"{revision}^{{commit}}"
    commit = _git(source, host, "rev-parse", "--verify", "--quiet", "--end-of-options", expression)
    if commit is None or not re.fullmatch(r"[0-9a-f]{40,64}", commit):
        raise InputError(
            f"{what}: {place} has no revision '{revision}'",
            f"git -C {shlex.quote(place)} log --oneline --all shows which it has",
        )
    key = hashlib.sha256("\0".join([commit, *source.build]).encode()).hexdigest()[:16]
    return Checkout(source, commit, store / key)


def working_copy(source: GitSource, host: Host) -> tuple[Path, str]:
    """Return the top of the working copy of a repository, and the path of the source's directory below it."""
    words = ("rev-parse", "--show-toplevel", "--show-prefix")
    top, _, below = (_git(source, host, *words) or source.repository).partition("\n")
    return Path(top), below


def ensure(checkout: Checkout, host: Host) -> Path:
    """Return the directory of a checkout; if it does not exist, make it, and build there what the source asks for.

    Raises: ImageError, with the last lines of a build that failed."""
    source, store = checkout.source, checkout.directory.parent
    if checkout.exists:
        os.utime(checkout.directory)  # it was used (`stock`)
        return checkout.directory
    what = f"the checkout of {source.what}"
    with building(what, store, ""), workshop(store) as work:
        tree = work / "tree"
        common = _git(source, host, "rev-parse", "--path-format=absolute", "--git-common-dir")
        argv = ["sh", "-ec", _CHECKOUT, "checkout", str(tree), str(common), checkout.commit]
        host.run(argv, timeout_s=_CHECKOUT_TIMEOUT_S)
        if source.build:
            _build(checkout, tree, host)
        shutil.rmtree(tree / ".git")  # it differs from checkout to checkout, and its objects may go
        if not checkout.exists:  # another process may have made it in the meantime
            tree.rename(checkout.directory)
    return checkout.directory


def _build(checkout: Checkout, tree: Path, host: Host) -> None:
    source = checkout.source
    task = f"{source.what}: {shlex.join(source.build)} at commit {checkout.commit[:12]}"
    argv = ["sh", "-c", 'cd "$0" && exec "$@" 2>&1', str(tree), *source.build]
    try:
        done = host.run(argv, timeout_s=_BUILD_TIMEOUT_S, check=False)
    except CommandTimeout as error:
        raise ImageError(f"{task} did not end within {_BUILD_TIMEOUT_S:g} s", "build less, or faster") from error
    if done.returncode:
        lines = [line.rstrip() for line in done.text.splitlines() if line.strip()][-_LAST_LINES:]
        raise ImageError(
            f"{task} ended with exit code {done.returncode}: {' / '.join(lines) or 'it printed nothing'}",
            "build this commit by hand in a clone, as root",
        )


def _git(source: GitSource, host: Host, *words: str) -> str | None:
    """Return the output of a Git command in the user's repository, regardless of its owner; None if Git fails."""
    try:
        return host.run(["git", "-c", "safe.directory=*", "-C", source.repository, *words]).text.strip()
    except CommandFailed:
        return None
