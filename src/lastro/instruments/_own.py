"""Programs without a Debian package: ours in C, compiled on the host at first use, and those of the user.

A static program runs in every instance of the same architecture, with any root filesystem. It is compiled for the
baseline processor of the architecture, since a virtual machine may have another model than the host."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from lastro.errors import CommandFailed, CommandTimeout, Unavailable
from lastro.host.base import Host
from lastro.host.ledger import STATE_DIR
from lastro.host.shell import quoted

SOURCES = Path(__file__).with_name("programs")
_FLAGS = ("-O2", "-fopenmp", "-static", "-std=gnu11")
_COMPILE_S = 120.0
_COPY_S = 600.0


def build_program(host: Host, source: str, libraries: Sequence[str], remedy: str) -> str:
    """Return the path of the program `lastro-SOURCE`; compile it from `programs/SOURCE.c` if necessary.

    `source` is SOURCE. `libraries` are names for the linker, such as `m`.

    Raises: Unavailable, with `remedy`, when the host has no compiler or lacks a library."""
    if host.which("gcc") is None:
        raise Unavailable(f"lastro-{source} must be compiled on this host, which has no C compiler", remedy)
    file = SOURCES / f"{source}.c"
    version = host.run(["gcc", "-dumpfullversion"]).text.strip()
    recipe = "\n".join([version, *_FLAGS, *libraries, file.read_text(encoding="utf-8")])
    directory = STATE_DIR / "programs" / hashlib.sha256(recipe.encode()).hexdigest()[:12]
    program = directory / f"lastro-{source}"
    if not program.is_file():
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory) as work:
            new = Path(work) / program.name
            argv = ["gcc", *_FLAGS, "-o", str(new), str(file), *(f"-l{name}" for name in libraries)]
            try:
                host.run(argv, timeout_s=_COMPILE_S)
            except (CommandFailed, CommandTimeout) as error:
                raise Unavailable(f"lastro-{source} cannot be compiled here: {error.message}", remedy) from error
            new.rename(program)
    return str(program)


def gather_files(host: Host, name: str, parts: Mapping[str, Path]) -> str:
    """Copy the user's files and directories into a directory `lastro-NAME`, and return its path.

    `parts` is {name of the copy in this directory: path of the original}. A directory that was made from the same
    originals, by path, size and time of change, is reused."""
    states = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in _files(parts.values())]
    digest = hashlib.sha256("\n".join([*parts, *states]).encode()).hexdigest()[:12]
    directory = STATE_DIR / "programs" / f"{name}-{digest}" / f"lastro-{name}"
    if not directory.is_dir():
        complete, part = quoted(directory, directory.with_suffix(".part"))  # so that an interrupted copy is not used
        pairs = (quoted(source, target) for target, source in parts.items())
        copies = [f"cp -a {source} {part}/{target}" for source, target in pairs]
        script = "; ".join([f"rm -rf {part}", f"mkdir -p {part}", *copies, f"mv {part} {complete}"])
        host.run(["sh", "-ec", script], timeout_s=_COPY_S)
    return str(directory)


def _files(sources: Iterable[Path]) -> Iterator[Path]:
    for source in sources:
        if source.is_dir():
            yield from sorted(path for path in source.rglob("*") if path.is_file())
        else:
            yield source
