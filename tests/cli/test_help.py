"""Help is complete and quick, and nothing heavy is imported before it is used."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys

import pytest

from lastro.cli import COMMANDS, module_name

from .conftest import ENVIRONMENT, is_error, lastro

NAMES = [name for group in COMMANDS.values() for name in group]
HEAVY = ("pydantic", "rich", "numpy", "matplotlib", "scipy", "duckdb", "jinja2", "sqlite3", "asyncio", "pandas")


def imported_by(*words: str) -> set[str]:
    """Top-level modules that a command has imported when it ends."""
    code = (
        "import json, sys, lastro.cli\n"
        f"code = lastro.cli.main({list(words)!r})\n"
        "sys.stderr.write(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
    return set(json.loads(done.stderr))


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["help"], []])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    assert imported_by(*words) & {*HEAVY, "argparse", "typing"} == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_commands_help_imports_neither_figures_nor_statistics(name: str) -> None:
    assert imported_by(name, "--help") & {"numpy", "matplotlib", "scipy", "duckdb", "pandas"} == set()


def test_help_names_every_command() -> None:
    for words in (["--help"], ["-h"], ["help"]):
        done = lastro(*words)
        assert (done.code, done.err) == (0, "")
        assert all(f"  {name} " in done.out for name in NAMES)
        assert "Exit codes" in done.out
        assert max(len(line) for line in done.out.splitlines()) <= 100
    bare = lastro()
    assert bare.code == 0 and "usage: lastro COMMAND" in bare.out


@pytest.mark.parametrize("name", NAMES)
def test_a_commands_help_names_its_options(name: str) -> None:
    module = importlib.import_module(f"lastro.cli.{module_name(name)}")
    parser = argparse.ArgumentParser()
    module.configure(parser)
    done = lastro(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"usage: lastro {name} ")
    for action in parser._actions:
        for option in action.option_strings:
            assert option in done.out
        assert action.help, f"{action.dest} says nothing about itself"
    assert module.__doc__ and module.__doc__.splitlines()[0] in done.out


def test_version() -> None:
    for word in ("--version", "-V"):
        done = lastro(word)
        assert done.code == 0 and done.out.startswith("lastro ")


@pytest.mark.parametrize(
    ("word", "hint"),
    [("rum", "did you mean 'run'?"), ("resutls", "did you mean 'results'?"), ("xyzzy", "valid names: ")],
)
def test_an_unknown_command(word: str, hint: str) -> None:
    is_error(lastro(word), 2, f"no command '{word}'", hint)


def test_an_unknown_global_option() -> None:
    is_error(lastro("--wat"), 2, "no option '--wat'")


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_of_a_command(name: str) -> None:
    done = lastro(name, *(["x"] * 2 if name in ("show", "compare") else []), "--wat")
    assert done.code == 2 and f"lastro {name}: error:" in done.err
    assert done.out == ""
