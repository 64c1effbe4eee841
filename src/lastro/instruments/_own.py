"""Programs without a Debian package: our own in C, compiled on the host at first use, or provided by the user.

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
    """Return the path of the program `lastro-SOURCE`, which is compiled from `programs/SOURCE.c` if necessary.

    Raises: Unavailable, with the remedy, when the host has no compiler or lacks a library."""
    if host.which("gcc") is None:
        raise Unavailable(f"lastro-{source} must be compiled on this host, which has no C compiler", remedy)
    file = SOURCES / f"{source}.c"
    version = host.run(["gcc", "-dumpfullversion"]).text.strip()
    recipe = "\n".join([version, *_FLAGS, *libraries, file.read_text(encoding="utf-8")])
    place = STATE_DIR / "programs" / hashlib.sha256(recipe.encode()).hexdigest()[:12]
    program = place / f"lastro-{source}"
    if not program.is_file():
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place) as work:
            made = Path(work) / program.name
            argv = ["gcc", *_FLAGS, "-o", str(made), str(file), *(f"-l{name}" for name in libraries)]
            try:
                host.run(argv, timeout_s=_COMPILE_S)
            except (CommandFailed, CommandTimeout) as error:
                raise Unavailable(f"lastro-{source} cannot be compiled here: {error.message}", remedy) from error
            made.rename(program)
    return str(program)


def gather_files(host: Host, name: str, parts: Mapping[str, Path]) -> str:
    """Return the path of a directory `lastro-NAME` with copies of the user's files and directories.

    `parts` maps a name in it to the original. After a change of an original, a new directory is made."""
    states = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in _files(parts.values())]
    digest = hashlib.sha256("\n".join([*parts, *states]).encode()).hexdigest()[:12]
    place = STATE_DIR / "programs" / f"{name}-{digest}" / f"lastro-{name}"
    if not place.is_dir():
        made, part = quoted(place, place.with_suffix(".part"))  # so that an interrupted copy is not kept
        pairs = (quoted(source, target) for target, source in parts.items())
        copies = [f"cp -a {source} {part}/{target}" for source, target in pairs]
        script = "; ".join([f"rm -rf {part}", f"mkdir -p {part}", *copies, f"mv {part} {made}"])
        host.run(["sh", "-ec", script], timeout_s=_COPY_S)
    return str(place)


def _files(sources: Iterable[Path]) -> Iterator[Path]:
    for source in sources:
        yield from sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
