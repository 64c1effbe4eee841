"""What a part requires of the host, as it declares in `requirements`; `lastro setup` installs it.

The requirements of instances, which go into the root filesystem, are not included; nor are kernel features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Requirements:
    """Debian packages, and at most one program that Debian does not package.

    packages: names of Debian packages.
    optional_packages: for options of the part other than the defaults. The part is complete without them.
    instead: {package: program}. If the program exists, the package is not needed; installing it could remove the
        vendor's packages that provide the program.
    program: a name in PATH, or an absolute path.
    recipe: the directory of `lastro/setup` that builds the program; None if Lastro cannot build it.
    remedy: how the user can install the program."""

    packages: tuple[str, ...] = ()
    optional_packages: tuple[str, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict)
    program: str | None = None
    recipe: str | None = None
    remedy: str | None = None

    @property
    def install(self) -> str:
        """The command that installs the packages, as a hint for error messages."""
        return f"apt-get install {' '.join(self.packages)}"


NOTHING = Requirements()
