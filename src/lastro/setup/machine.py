"""The state of this machine, which `lastro setup` reads before it changes anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import filter as filter_names
from pathlib import Path

# Also searched: the PATH of a user without root lacks the sbin directories, and Go is unpacked into the last.
_MORE_PLACES = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/local/go/bin")
_LEAST_GO = (1, 22)
_ASK_S = 60


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine, as `lastro setup` sees it."""

    path: str  # the directories in which programs are searched, in the format of PATH
    prefix: Path  # the directory below which built programs are installed
    root: bool  # whether this process runs as root

    @classmethod
    def this(cls) -> Machine:
        places = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *_MORE_PLACES]
        return cls(os.pathsep.join(dict.fromkeys(places)), Path("/usr/local"), os.geteuid() == 0)

    @property
    def has_apt(self) -> bool:
        return self.has("apt-get")

    def has(self, program: str) -> bool:
        """Return whether `program` exists: a name is searched in `path`, and an absolute path must be a file."""
        return Path(program).is_file() if program.startswith("/") else self._which(program) is not None

    def missing(self, packages: Iterable[str]) -> frozenset[str]:
        """Return those of the Debian packages that are not installed; all of them if there is no dpkg.

        A name with `*` stands for any package whose name has the pattern, as for apt-get(8)."""
        names = sorted(set(packages))
        query = self._which("dpkg-query")
        if query is None or not names:
            return frozenset(names)
        argv = [query, "--show", "--showformat=${Package} ${db:Status-Status}\\n", *names]
        installed = {line.split()[0] for line in _output_of(argv).splitlines() if line.endswith(" installed")}
        return frozenset(name for name in names if not filter_names(installed, name))

    def go_obstacle(self) -> str | None:
        """Return the reason why Go programs cannot be built here; None if they can be built."""
        go = self._which("go")
        if go is None:
            return "this host has no Go toolchain"
        version = _output_of([go, "env", "GOVERSION"])
        match = re.match(r"go(\d+)\.(\d+)", version)
        if match is None:
            return f"`{go} env GOVERSION` did not print a version"
        if (int(match[1]), int(match[2])) < _LEAST_GO:
            return f"the Go toolchain of this host is too old: {version.strip()}"
        return None

    def _which(self, program: str) -> str | None:
        return shutil.which(program, path=self.path)


def _output_of(argv: Sequence[str]) -> str:
    """Return the output of a program; empty if it cannot be started, or does not end in time."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=_ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
