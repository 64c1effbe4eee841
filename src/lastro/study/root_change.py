"""The changes of a variant that require a separate testbed. Pure.

Most of them change the root filesystem of instances: the Debian release, more packages, another root filesystem, or
the revision of functions that are built from a repository. The revision of the user's own parts also belongs here,
because it changes the code that starts instances and daemons."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

from lastro.study.model import Level
from lastro.study.own_function import FILES, TRANSPORTS
from lastro.study.problems import FieldError, shown

_RELEASE = re.compile(r"[a-z]{2,20}")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]{1,99}")
_REVISION = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9._/@{}^~+-]{0,99}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RootChange:
    """The changes of one variant that require a separate testbed; false if there are none.

    An empty field changes nothing. `release` is a Debian release. `packages` are Debian packages to add. `rootfs` is
    the directory, or the OCI image as Podman writes it, that replaces the root filesystem. `git` is the revision from
    which functions are built, and `parts` the revision of the parts in the folders of LASTRO_PARTS. The fields are
    named after the keys in study files."""

    release: str = ""
    packages: tuple[str, ...] = ()
    rootfs: str = ""
    git: str = ""
    parts: str = ""

    @classmethod
    def of(cls, config: Mapping[str, object]) -> RootChange:
        """Return the changes in a treatment's configuration, in which packages are one text, separated by commas."""
        texts = {item.name: str(config.get(item.name, "")) for item in fields(cls)}
        packages = tuple(name.strip() for name in texts.pop("packages").split(",") if name.strip())
        return cls(packages=packages, **texts)

    def __bool__(self) -> bool:
        return self != UNCHANGED

    def __str__(self) -> str:
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values["packages"] = ", ".join(self.packages)
        return "; ".join(f"{name} = {value}" for name, value in values.items() if value)


UNCHANGED = RootChange()
NAMES = tuple(item.name for item in fields(RootChange))


def checked(name: str, value: object) -> str:
    """Return the value of the change `name` (one of `NAMES`) as text. Raises: FieldError if it cannot be used."""
    values = [str(item).strip() for item in value] if isinstance(value, list) else [str(value).strip()]
    if name == "packages":
        packages = [package.strip() for package in ",".join(values).split(",")]
        for package in packages:
            if not _PACKAGE.fullmatch(package):
                raise FieldError(f"{shown(package)} is not the name of a Debian package", 'such as ["nftables"]')
        return ", ".join(dict.fromkeys(packages))
    (text,) = values
    if name == "release" and not _RELEASE.fullmatch(text):
        raise FieldError(f"{shown(text)} is not the name of a Debian release", "such as bookworm or trixie")
    if name in ("git", "parts") and (not _REVISION.fullmatch(text) or ".." in text):
        raise FieldError(f"{shown(text)} is not a revision of Git", "such as v1.0, a branch, HEAD~1, or a commit")
    if name == "rootfs" and not text.isprintable():
        raise FieldError(f"{shown(text)} is not a directory or an image")
    return text


def with_absolute_rootfs(changes: Mapping[str, Level], folder: str) -> dict[str, Level]:
    """Return the changes of a variant, with a `rootfs` relative to `folder` made absolute."""
    if not (rootfs := str(changes.get("rootfs", ""))):
        return dict(changes)
    transport, _, place = rootfs.partition(":")
    if is_image(rootfs):
        rootfs = f"{transport}:{posixpath.join(folder, place)}" if transport in FILES else rootfs
    else:
        rootfs = posixpath.join(folder, rootfs)
    return {**changes, "rootfs": rootfs}


def is_image(rootfs: str) -> bool:
    """Return whether a root filesystem is an OCI image, and not a directory."""
    transport, _, place = rootfs.partition(":")
    return transport in TRANSPORTS and bool(place)
