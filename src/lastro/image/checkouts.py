"""Functions that are built from a Git repository: a checkout for each commit, stored with what was built in it.

A checkout uses the objects of the user's repository, but has its own index, references and configuration. So the
repository and its working copy do not change. Changes in the working copy that are not committed are not built. The
build runs on this host, as root, in the top directory of the checkout."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from lastro.errors import CommandFailed, CommandTimeout, ImageError, InputError
from lastro.host.base import Host
from lastro.image.workshop import building, workshop
from lastro.study.own_function import OwnFunction

_BUILD_TIMEOUT_S = 1800.0
_CHECKOUT_TIMEOUT_S = 600.0
_LAST_LINES = 8
# $1 is a new directory, $2 the directory of Git of the repository, $3 the commit.
_CHECKOUT = """git init --quiet "$1"; cd "$1"; echo "$2/objects" >.git/objects/info/alternates
[ ! -f "$2/shallow" ] || cp "$2/shallow" .git/
git -c advice.detachedHead=false checkout --quiet --detach "$3\""""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A commit of a function's repository, and the directory of its checkout, which may not exist yet."""

    function: OwnFunction
    commit: str
    directory: Path

    @property
    def exists(self) -> bool:
        return self.directory.is_dir()

    @property
    def built(self) -> OwnFunction:
        """The function as built from this checkout: its files are in `directory`, and its revision is `commit`."""
        return replace(self.function.in_checkout(str(self.directory)), revision=self.commit)


def checkout_of(own: OwnFunction, revision: str, store: Path, host: Host) -> Checkout:
    """Return the checkout of a revision, in a directory below `store` that may not exist yet.

    Raises: InputError if there is no such repository or revision, or Git is not installed."""
    if host.which("git") is None:
        raise InputError(
            f"function '{own.name}': git, which reads its repository, is not installed", "apt-get install git"
        )
    if not Path(own.repository).is_dir():
        raise InputError(f"function '{own.name}': {own.repository} is not a directory", "name a Git repository")
    asked = f"{revision}^{{commit}}"
    if _git(own, host, "rev-parse", "--git-dir") is None:
        raise InputError(f"function '{own.name}': {own.repository} is not a Git repository", "git init makes one")
    commit = _git(own, host, "rev-parse", "--verify", "--quiet", "--end-of-options", asked)
    if commit is None or not re.fullmatch(r"[0-9a-f]{40,64}", commit):
        raise InputError(
            f"function '{own.name}': {own.repository} has no revision '{revision}'",
            f"git -C {shlex.quote(own.repository)} log --oneline --all shows which it has",
        )
    key = hashlib.sha256("\0".join([commit, *own.build]).encode()).hexdigest()[:16]
    return Checkout(own, commit, store / key)


def ensure(checkout: Checkout, host: Host) -> OwnFunction:
    """Return the function with the files of a checkout. If the checkout does not exist, make it and build the function.

    Raises: ImageError, with the last lines of a build that failed."""
    own, store = checkout.function, checkout.directory.parent
    if checkout.exists:
        os.utime(checkout.directory)  # it was used (`stock`)
        return checkout.built
    what = f"the checkout of function '{own.name}'"
    with workshop(store) as work, building(what, store, ""):
        tree, common = work / "tree", _git(own, host, "rev-parse", "--path-format=absolute", "--git-common-dir")
        argv = ["sh", "-ec", _CHECKOUT, "checkout", str(tree), str(common), checkout.commit]
        host.run(argv, timeout_s=_CHECKOUT_TIMEOUT_S)
        if own.build:
            _build(checkout, tree, host)
        shutil.rmtree(tree / ".git")  # it differs from checkout to checkout, and its objects may go
        tree.rename(checkout.directory)
    return checkout.built


def _build(checkout: Checkout, tree: Path, host: Host) -> None:
    own = checkout.function
    asked = f"function '{own.name}': {shlex.join(own.build)} at commit {checkout.commit[:12]}"
    argv = ["sh", "-c", 'cd "$0" && exec "$@" 2>&1', str(tree), *own.build]
    try:
        done = host.run(argv, timeout_s=_BUILD_TIMEOUT_S, check=False)
    except CommandTimeout as error:
        raise ImageError(f"{asked} did not end within {_BUILD_TIMEOUT_S:g} s", "build less, or faster") from error
    if done.returncode:
        lines = [line.rstrip() for line in done.text.splitlines() if line.strip()][-_LAST_LINES:]
        raise ImageError(
            f"{asked} ended with exit code {done.returncode}: {' / '.join(lines) or 'it printed nothing'}",
            "build this commit by hand in a clone, as root",
        )


def _git(own: OwnFunction, host: Host, *words: str) -> str | None:
    """Return the output of a Git command in the user's repository, regardless of its owner; None if Git fails."""
    try:
        return host.run(["git", "-c", "safe.directory=*", "-C", own.repository, *words]).text.strip()
    except CommandFailed:
        return None
