"""What a part requires on the host: it declares this in `requirements`, and `lastro setup` installs it.

What the part requires inside instances goes into the root filesystem and is not included; nor are kernel features."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Requirements:
    """The Debian packages that a part requires, and at most one program that Debian does not package.

    packages: names of required Debian packages. `*` stands for a number that differs between releases of Debian.
    optional_packages: packages that only non-default options of the part require.
    instead: {package: program}. If the program exists, the package is not needed, and is not installed: that could
        remove the packages of a vendor that provide the program.
    program: the program that Debian does not package, as a name in PATH or an absolute path; None if there is none.
    recipe: the directory in `lastro/setup` that builds the program; None if Lastro cannot build it.
    remedy: how the user can install the program."""

    packages: tuple[str, ...] = ()
    optional_packages: tuple[str, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict)
    program: str | None = None
    recipe: str | None = None
    remedy: str | None = None

    @property
    def install(self) -> str:
        """The shell command that installs `packages`, for hints in error messages."""
        return f"apt-get install {shlex.join(self.packages)}"


NOTHING = Requirements()
