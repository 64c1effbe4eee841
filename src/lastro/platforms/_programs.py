"""Programs that a study may choose by their path, instead of those in the PATH, to compare two builds of a program."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lastro.errors import InputError, Unavailable
from lastro.host.base import Host
from lastro.host.shell import ONLY_ROOT_CAN_CHANGE, quoted
from lastro.study.model import Level, Setting

PROGRAM = "program"  # the name of the option for the platform's main program
_VERSION_S = 20.0


def program_option(what: str, prints: str, name: str = PROGRAM) -> Setting[str]:
    """Return the option `name`, whose level is the path of a program; `what` is the program in the option's summary.

    The regular expression `prints` must match the beginning of what the program prints for `--version`."""
    summary = f"path of {what} on the host; empty: the one in the PATH"
    return Setting(name, "", summary, check=_absolute, prints=prints)


def chosen_programs(options: Iterable[Setting[Any]], chosen: Mapping[str, Level]) -> dict[str, str]:
    """Return the programs that were chosen by their path, as {name of the option: path}."""
    names = (option.name for option in options if option.prints)
    return {name: str(chosen[name]) for name in names if chosen.get(name)}


def suffix(paths: Mapping[str, str]) -> str:
    """Return a suffix for directory names that identifies the programs in `paths`; empty if there are none.

    `paths` is {name of the option: path}, as `chosen_programs` returns it."""
    return f"-{zlib.crc32(repr(sorted(paths.items())).encode()):08x}" if paths else ""


def require_program(host: Host, option: Setting[Any], path: str) -> None:
    """Raise Unavailable unless `path` is the program that `option` stands for, and only root can change it."""
    name = Path(path).name
    done = host.run(["sh", "-c", ONLY_ROOT_CAN_CHANGE, path], check=False)
    if done.returncode:
        raise Unavailable(done.error_text.strip(), f"as root: install -D YOUR-{name} /opt/{name}-new/{name}")
    done = host.run([path, "--version"], check=False, timeout_s=_VERSION_S)
    lines = (done.text + done.error_text).strip().splitlines() or ["nothing"]
    if done.returncode:
        raise Unavailable(
            f"{path} does not start: {path} --version ended with exit code {done.returncode}: {lines[-1]}",
            "is it built for this machine, and are its libraries here?",
        )
    if not re.match(option.prints, lines[0]):
        what = option.summary.partition(" on the host")[0].removeprefix("path of ")
        raise Unavailable(
            f"{path} is not {what}: its --version prints '{lines[0]}'", "give the path of another program"
        )


def link_script(paths: Mapping[str, str], directory: Path, siblings: Iterable[str] = ()) -> str:
    """Return a shell script that fills `directory`, for the PATH, with a link to each program of `paths`, {name: path}.

    A program that is named in `siblings`, and is in the same directory as a program of `paths`, is linked, too."""
    (bin_directory,) = quoted(directory)
    lines = [f"mkdir -p {bin_directory}"]
    for name, path in paths.items():
        program, link = quoted(path, directory / name)
        lines.append(f"ln -sfn {program} {link}")
        for sibling_name in siblings:
            sibling, sibling_link = quoted(Path(path).with_name(sibling_name), directory / sibling_name)
            lines.append(f"[ ! -x {sibling} ] || ln -sfn {sibling} {sibling_link}")
    return "\n".join(lines) + "\n"


def _absolute(text: str) -> None:
    if text and not text.startswith("/"):
        raise InputError(f"'{text}' is not an absolute path", "write it as /opt/runc-1.2/runc")
