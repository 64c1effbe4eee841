"""The manual page is what its generator writes, and sound; every argument says how it is completed."""

from __future__ import annotations

import importlib.util
import os
import pty
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

from lastro.cli import COMMANDS, _shell, command_parser
from lastro.cli._completion import COMPLETERS

from .conftest import ENVIRONMENT, command, lastro

ROOT = Path(__file__).parents[2]
NAMES = [name for group in COMMANDS.values() for name in group]


def test_the_page_is_that_of_the_commands() -> None:
    spec = importlib.util.spec_from_file_location("manual_page", ROOT / "tools" / "manual_page.py")
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert _shell.MANUAL.read_text(encoding="utf-8") == generator.manual(), "run `make manual`"


def test_every_argument_with_a_value_says_how_it_is_completed() -> None:
    taken = set()
    for name in NAMES:
        for action in command_parser(name)[0]._actions:
            if action.nargs != 0 and not action.choices:
                keys = {(name, action.dest), action.dest} & set(COMPLETERS)
                assert keys, f"lastro {name}, {action.dest}: give it a line in COMPLETERS of cli/_completion.py"
                taken |= keys
    assert taken == set(COMPLETERS), "a line of an argument that is gone"


def test_the_wheel_brings_the_page_to_where_man_looks() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    shared = document["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert {ROOT / file: place for file, place in shared.items()} == {_shell.MANUAL: "share/man/man1/lastro.1"}


# The manual page


def test_the_page_has_every_command_option_and_exit_code() -> None:
    page = _shell.MANUAL.read_text(encoding="utf-8")
    assert page.isascii() and page.startswith(".TH LASTRO 1 ")
    plain = page.replace("\\-", "-")
    for name in NAMES:
        start = re.search(rf"^\.SS lastro {name} ", plain, re.MULTILINE)
        assert start, name
        section = re.split(r"^\.S[SH] ", plain[start.end() :], maxsplit=1, flags=re.MULTILINE)[0]
        for action in command_parser(name)[0]._actions:
            if "--help" not in action.option_strings:
                words = action.option_strings or [str(action.metavar)]
                assert all(f"{word}\\fR" in section for word in words), (name, words)
    for code in (0, 1, 2, 3, 4, 5, 6, 130, 143):
        assert f"\n.B {code}\n" in page


def test_the_page_has_no_line_that_roff_would_misread() -> None:
    requests = {"TH", "SH", "SS", "PP", "TP", "RS", "RE", "EX", "EE", "B", "I", "RI", "BI", "IB"}
    lines = _shell.MANUAL.read_text(encoding="utf-8").splitlines()
    found = {match[1] for line in lines if (match := re.match(r"[.'](\w*)", line))}
    assert found <= requests
    assert lines.count(".EX") == lines.count(".EE") and lines.count(".RS 4") == lines.count(".RE")
    if shutil.which("groff"):
        done = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8", _shell.MANUAL], capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_into_a_pipe_goes_the_source() -> None:
    for words in (["man"], ["man", "--roff"]):
        done = lastro(*words)
        assert (done.code, done.out, done.err) == (0, _shell.MANUAL.read_text(encoding="utf-8"), "")


def test_on_a_terminal_the_page_is_shown(tmp_path: Path) -> None:
    """`man` is a stand-in that prints its arguments: the real one may be missing, or wait in a pager."""
    viewer = tmp_path / "man"
    viewer.write_text('#!/bin/sh\necho "man $*"\n')
    viewer.chmod(0o755)
    ours, theirs = pty.openpty()
    environment = {**ENVIRONMENT, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(command("man"), stdout=theirs, env=environment, timeout=60)
    assert done.returncode == 0
    assert os.read(ours, 4096).decode().split() == ["man", "-l", str(_shell.MANUAL)]
    os.close(ours)
    os.close(theirs)
