"""A network function that a study defines in its table [functions], and the checks of its definition."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from lastro.study.problems import FieldError, shown

NAME = r"[a-z][a-z0-9-]{1,29}"
FILES = ("docker-archive", "oci", "oci-archive")  # transports of Podman with the path of a file
TRANSPORTS = (*FILES, "docker-daemon", "containers-storage", "docker")
_IMAGES = (
    "write it as Podman does: docker-archive:FILE, oci:DIRECTORY, oci-archive:FILE, docker-daemon:NAME:TAG, "
    "containers-storage:NAME or docker://REGISTRY/NAME"
)


@dataclass(frozen=True, slots=True)
class OwnFunction:
    """The files of a network function, and the command that runs on them in an instance.

    The files are those of a `directory` or of an OCI `image`. An image may also have a command and an environment. With
    a Git `repository`, the paths of `directory` and `image` are relative to a checkout of it; else to the study
    file."""

    name: str
    directory: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()  # a command that succeeds once the function is ready
    ready_s: float = 10.0  # within which the function must be ready
    environment: Mapping[str, str] = field(default_factory=dict)
    # What moves packets from port to port: the kernel of the instance, or the function itself.
    forwarding: Literal["kernel", "function"] = "kernel"
    repository: str = ""
    revision: str = "HEAD"  # what is checked out
    build: tuple[str, ...] = ()  # builds the files in the checkout

    def below(self, folder: str) -> OwnFunction:
        """Return the function with the path of its repository, or else of its files, made absolute below `folder`."""
        if self.repository:
            return replace(self, repository=posixpath.join(folder, self.repository))
        return self.in_checkout(folder)

    def in_checkout(self, folder: str) -> OwnFunction:
        """Return the function with the path of its files, which is relative to `folder`, made absolute."""
        transport, _, place = self.image.partition(":")
        image = f"{transport}:{posixpath.join(folder, place)}" if transport in FILES else self.image
        return replace(self, image=image, directory=self.directory and posixpath.join(folder, self.directory))

    def check(self, known: Collection[str]) -> None:
        """Raise FieldError if the definition is not valid; `known` are the names of the functions of Lastro."""
        if self.name in known:
            raise FieldError("Lastro has a function of this name", "choose another one")
        if not re.fullmatch(NAME, self.name):
            raise FieldError("its name must be 2 to 30 of a-z, 0-9 and '-', and begin with a letter")
        if bool(self.directory) == bool(self.image):
            raise FieldError("needs its files: either `directory` or `image`")
        if self.directory and not self.command:
            raise FieldError("has a directory and no command", 'add command = ["PROGRAM", "ARGUMENT"]')
        transport, _, place = self.image.partition(":")
        if self.image and (transport not in TRANSPORTS or not place):
            raise FieldError(f"{shown(self.image)} does not say where the image is", _IMAGES)
        inside = self.directory or (place if transport in FILES else "")
        if not self.repository:
            if self.build or self.revision != "HEAD":
                raise FieldError("has `build` or `revision`, and no repository", 'add repository = "DIRECTORY"')
        elif not inside or inside.startswith("/") or ".." in inside.split("/"):
            hint = "`directory`, or the path of `image`, is relative to the top of the repository"
            raise FieldError("its files are not inside the checkout of its repository", hint)
        for variable in self.environment:
            if not re.fullmatch(r"(?!LASTRO_)[A-Za-z_]\w*", variable, re.ASCII):
                raise FieldError(f"{shown(variable)} cannot be a variable of its environment")
        for key in ("command", "ready", "build"):
            words = getattr(self, key)
            if words and not words[0].strip():
                raise FieldError(f"`{key}` begins with an empty word")
