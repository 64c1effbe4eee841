"""Completion as the shells do it: a real line editor on a pseudo-terminal, with the script that Lastro prints."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from lastro import papers, registry
from lastro.cli import COMMANDS, _shell, command_parser

from ..campaigns import make_campaign
from .conftest import is_error, lastro

NAMES = {name for group in COMMANDS.values() for name in group}
OWN_PLATFORMS = {i.name for i in registry.parts("platform").values() if i.origin.startswith("lastro.")}
SHELLS = tuple(_shell.COMPLETIONS)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A place with studies, campaigns, a suite and what is none of these."""
    make_campaign(tmp_path / "before", stop_after=1)
    make_campaign(tmp_path / "work" / "c1", stop_after=1)
    make_campaign(tmp_path / "work" / "c two", stop_after=1)
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "suite.json").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "study.toml").write_text('[study]\n[profiles.short]\n[[profiles.short.exclude]]\n[profiles."x"]\n')
    (tmp_path / "notes.txt").touch()
    return tmp_path


# The scripts


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed_with_how_to_install_it(shell: str) -> None:
    done = lastro("completion", shell)
    assert (done.code, done.err) == (0, "")
    head = done.out.splitlines()[:4]
    assert any(line.startswith(f"# Install: lastro completion {shell} > ") for line in head)
    assert done.out == _shell.COMPLETIONS[shell].read_text(encoding="utf-8")
    registration = {
        "bash": "\ncomplete -o bashdefault -F _lastro lastro\n",
        "zsh": "#compdef lastro\n",
        "fish": "\ncomplete -c lastro ",
    }
    assert registration[shell] in "\n" + done.out
    for name in NAMES:
        assert name in done.out
    for study in papers.names():
        assert f"paper:{study}" in done.out


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shutil.which(shell)])
def test_the_shell_finds_no_error_in_its_script(shell: str) -> None:
    done = subprocess.run([shell, "-n", _shell.COMPLETIONS[shell]], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_another_shell_is_an_error() -> None:
    done = lastro("completion", "tcsh")
    assert done.code == 2 and "invalid choice: 'tcsh'" in done.err


def test_every_option_is_in_every_script() -> None:
    for shell, file in _shell.COMPLETIONS.items():
        text = file.read_text(encoding="utf-8")
        for name in NAMES:
            for action in command_parser(name)[0]._actions:
                for option in action.option_strings:
                    shown = f"-l {option[2:]}" if shell == "fish" and option.startswith("--") else option
                    shown = f"-s {option[1:]}" if shell == "fish" and not option.startswith("--") else shown
                    assert shown in text, (shell, name, option)


# Real shells


def typed(home: Path, argv: list[str], prepare: str, line: str, keys: str) -> str:
    """Type a line and keys into an interactive shell, and return the line as it stands then."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(home)
        os.environ |= {"PS1": "", "TERM": "dumb", "LC_ALL": "C.UTF-8", "HOME": str(home), "COLUMNS": "4000"}
        os.execvp(argv[0], argv)
    try:
        os.write(terminal, f"stty -echo columns 4000; {prepare}; printf 'rea''dy\\n'\n".encode())
        _read_until(terminal, "ready\r?\n")
        # The line becomes an argument of printf: a comment sign and quotes would be lost otherwise.
        os.write(terminal, f"{line}{keys}".encode())
        time.sleep(0.3)
        os.write(b"" and 0 or terminal, b"\x01printf '<%s>' \x05; printf 'e''nd\\n'\n")
        found = _read_until(terminal, "end\r?\n")
        return found
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def _read_until(terminal: int, pattern: str) -> str:
    text, deadline = "", time.monotonic() + 30
    while not re.search(pattern, text):
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"waited in vain for {pattern}: {text!r}"
        text += os.read(terminal, 65536).decode(errors="replace")
    return text
