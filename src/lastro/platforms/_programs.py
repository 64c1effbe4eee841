"""Programs that a study may choose by their path, in place of those in the PATH, to compare two builds of one."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lastro.errors import InputError, Unavailable
from lastro.host.base import Host
from lastro.host.shell import ROOTS_ALONE, quoted
from lastro.study.model import Level, Setting

PROGRAM = "program"  # the option of the program by which a platform is known
_VERSION_S = 20.0


def program_option(what: str, prints: str, name: str = PROGRAM) -> Setting[str]:
    """Return an option for the path of a program. `prints` is a pattern at which its version begins."""
    summary = f"path of {what} on the host; empty: the one in the PATH"
    return Setting(name, "", summary, check=_absolute, prints=prints)


def chosen_programs(options: Iterable[Setting[Any]], chosen: Mapping[str, Level]) -> dict[str, str]:
    """Return the path of each program that was chosen, by the name of its option."""
    return {each.name: str(chosen[each.name]) for each in options if each.prints and chosen.get(each.name)}


def suffix(paths: Mapping[str, str]) -> str:
    """Return a short text for names of directories, which differs between choices of programs; empty for none."""
    return f"-{zlib.crc32(repr(sorted(paths.items())).encode()):08x}" if paths else ""


def require_program(host: Host, option: Setting[Any], path: str) -> None:
    """Raise Unavailable unless a path is that of a program that only root can change, and prints the right version."""
    name = Path(path).name
    done = host.run(["sh", "-c", ROOTS_ALONE, path], check=False)
    if done.returncode:
        raise Unavailable(done.error_text.strip(), f"as root: install -D YOUR-{name} /opt/{name}-new/{name}")
    done = host.run([path, "--version"], check=False, timeout_s=_VERSION_S)
    words = (done.text + done.error_text).strip().splitlines() or ["nothing"]
    if done.returncode:
        raise Unavailable(
            f"{path} does not start: {path} --version ended with exit code {done.returncode}: {words[-1]}",
            "is it built for this machine, and are its libraries here?",
        )
    if not re.match(option.prints, words[0]):
        what = option.summary.partition(" on the host")[0].removeprefix("path of ")
        raise Unavailable(
            f"{path} is not {what}: its --version prints '{words[0]}'", "give the path of another program"
        )


def linked(paths: Mapping[str, str], directory: Path, siblings: Iterable[str] = ()) -> str:
    """Return a script that makes a directory with a link of the right name to each program, as a part of the PATH.

    Programs named in `siblings` are linked, too, if they lie beside one of them."""
    (own,) = quoted(directory)
    lines = [f"mkdir -p {own}"]
    for name, path in paths.items():
        program, link = quoted(path, directory / name)
        lines.append(f"ln -sfn {program} {link}")
        for other in siblings:
            beside, second = quoted(Path(path).with_name(other), directory / other)
            lines.append(f"[ ! -x {beside} ] || ln -sfn {beside} {second}")
    return "\n".join(lines) + "\n"


def _absolute(text: str) -> None:
    if text and not text.startswith("/"):
        raise InputError(f"'{text}' is not an absolute path", "write it as /opt/runc-1.2/runc")
