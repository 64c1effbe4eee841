"""A network function that a study brings, and what is wrong with one."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from lastro.study.problems import FieldError, shown

NAME = r"[a-z][a-z0-9-]{1,29}"
_FILES = ("docker-archive", "oci", "oci-archive")  # transports of Podman with the path of a file
_TRANSPORTS = (*_FILES, "docker-daemon", "containers-storage", "docker")
_IMAGES = (
    "write it as Podman does: docker-archive:FILE, oci:DIRECTORY, oci-archive:FILE, docker-daemon:NAME:TAG, "
    "containers-storage:NAME or docker://REGISTRY/NAME"
)


@dataclass(frozen=True, slots=True)
class OwnFunction:
    """The files of a network function, and the command that runs on them in an instance.

    The files are those of a `directory`, or of an OCI `image`, which may also have a command and an environment.
    `ready` is a command that succeeds once the function is ready, within `ready_s`. What moves packets from port to
    port is the instance's kernel, or the function itself (`forwarding`)."""

    name: str
    directory: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    ready_s: float = 10.0
    environment: Mapping[str, str] = field(default_factory=dict)
    forwarding: Literal["kernel", "function"] = "kernel"

    def below(self, folder: str) -> OwnFunction:
        """Return it with the absolute path of its files, which were named relative to the folder of the study."""
        transport, _, place = self.image.partition(":")
        image = f"{transport}:{posixpath.join(folder, place)}" if transport in _FILES else self.image
        return replace(self, image=image, directory=self.directory and posixpath.join(folder, self.directory))

    def check(self, known: Collection[str]) -> None:
        """Check it; `known` are the functions that Lastro has. Raises: FieldError."""
        if self.name in known:
            raise FieldError("Lastro has a function of this name", "choose another one")
        if not re.fullmatch(NAME, self.name):
            raise FieldError("its name must be 2 to 30 of a-z, 0-9 and '-', and begin with a letter")
        if bool(self.directory) == bool(self.image):
            raise FieldError("needs its files: either `directory` or `image`")
        if self.directory and not self.command:
            raise FieldError("has a directory and no command", 'add command = ["PROGRAM", "ARGUMENT"]')
        transport, _, place = self.image.partition(":")
        if self.image and (transport not in _TRANSPORTS or not place):
            raise FieldError(f"{shown(self.image)} does not say where the image is", _IMAGES)
        for variable in self.environment:
            if not re.fullmatch(r"(?!LASTRO_)[A-Za-z_]\w*", variable, re.ASCII):
                raise FieldError(f"{shown(variable)} cannot be a variable of its environment")
        for each in ("command", "ready"):
            if getattr(self, each) and not getattr(self, each)[0].strip():
                raise FieldError(f"`{each}` begins with an empty word")
