"""Programs of our own in C, compiled on the host at first use, for the root filesystem.

They are compiled for the baseline processor of the architecture, since a virtual machine may have another model."""

from __future__ import annotations

import hashlib
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lastro.errors import CommandFailed, CommandTimeout, Unavailable
from lastro.host.base import Host
from lastro.host.ledger import STATE_DIR

_HERE = Path(__file__).parent
_COMPILE_S = 120.0


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler with the options of all programs. `language` is what it compiles, for messages."""

    language: str
    argv: tuple[str, ...]
    version_option: str


# A static program runs in every instance of the same architecture, with any root filesystem.
C = Compiler("C", ("gcc", "-O2", "-fopenmp", "-static", "-std=gnu11"), "-dumpfullversion")
# A loader knows the maps by their types (BTF), which -g adds. Debian keeps some headers of the kernel apart.
BPF = Compiler(
    "BPF",
    (
        "clang", "-O2", "-g", "-std=gnu11", "-fdebug-compilation-dir=.", "--target=bpf",
        f"-I/usr/include/{platform.machine()}-linux-gnu", "-c",
    ),
    "-dumpversion",
)  # fmt: skip


def build_program(host: Host, name: str, remedy: str, *, compiler: Compiler = C, libraries: Sequence[str] = ()) -> str:
    """Return the path of the program `lastro-NAME`; compile it from `NAME.c` of this package if necessary.

    `libraries` are names for the linker, such as `m`.

    Raises: Unavailable, with `remedy`, when the host has no compiler or lacks a library."""
    source, name = _HERE / f"{name}.c", f"lastro-{name}"
    command, *options = compiler.argv
    if host.which(command) is None:
        raise Unavailable(
            f"{name} must be compiled on this host, which has no compiler for {compiler.language}", remedy
        )
    version = host.run([command, compiler.version_option]).text.strip()
    recipe = "\n".join([version, *options, *libraries, source.read_text(encoding="utf-8")])
    directory = STATE_DIR / "programs" / hashlib.sha256(recipe.encode()).hexdigest()[:12]
    program = directory / name
    if not program.is_file():
        directory.mkdir(parents=True, exist_ok=True)
        # Without the path of its source: the bytes of a program name the image that contains it.
        without_path = f"-ffile-prefix-map={_HERE}=."
        with tempfile.TemporaryDirectory(dir=directory) as work:
            new = Path(work) / name
            argv = [command, *options, without_path, "-o", str(new), str(source), *(f"-l{each}" for each in libraries)]
            try:
                host.run(argv, timeout_s=_COMPILE_S)
            except (CommandFailed, CommandTimeout) as error:
                raise Unavailable(f"{name} cannot be compiled here: {error.message}", remedy) from error
            new.rename(program)
    return str(program)
