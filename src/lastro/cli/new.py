"""Comments in the file explain each line. Then:

  lastro plan study.toml
  sudo lastro run study.toml --profile quick

`lastro plan` needs no root. To start from a built-in study (`lastro studies`); published claims stay with it while it
keeps its name:

  lastro new --from kagami2017 mine.toml
  lastro new --from trindade2018 mine       a suite: a folder with all of its studies

  lastro new --ask edge.toml                five questions; the study ends with a decision, and fits your time

With --part, FILE is the name of a part: the command writes a working example to parts/, and a test of its contract.

  lastro new --part anomaly timers    writes parts/anomalies/timers.py and parts/tests/test_timers.py"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from lastro.cli._terminal import print_document
from lastro.errors import InputError, OutputError
from lastro.results.files import write_atomically
from lastro.study.levels import NONE
from lastro.study.model import NAME_PATTERN

_TEMPLATE_NAME = "my-study"
_FILE = "study.toml"
# Kinds with a template in lastro/testing/templates.
_PARTS = ("anomaly", "attachment", "function", "instrument", "isolation", "meter")


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", nargs="?", default=_FILE, metavar="FILE", help="where to write it; - is standard output")
    add("--from", dest="source", metavar="NAME", help="write a built-in study, or the folder of a built-in suite")
    add("--ask", action="store_true", help="ask what runs, where, beside what, what must hold, how long")
    add("--part", choices=_PARTS, help="write a part of this kind; FILE is its name")
    add("--name", help="the study's name; default: the file's name without its extension")
    add("--force", action="store_true", help="overwrite the file if it exists")


def run(args: argparse.Namespace) -> None:
    from lastro import papers

    if args.ask:
        if args.part or args.source:
            raise InputError("--ask writes a study from your answers", "leave out --part and --from")
        _ask(args)
    elif args.part:
        if args.source:
            raise InputError("--part and --from exclude each other", "write the part and the study one after the other")
        _write_part(args.part, args.file, overwrite=args.force)
    elif args.source and (folder := papers.folder(papers.built_in(args.source) or "")):
        _write_suite(args, sorted(folder.glob("*.toml")))
    else:
        text = built_in_text(args.source, args.name) if args.source else study_text(_name(args))
        if args.file == "-":
            print_document(text)
        else:
            _write(Path(args.file), text, overwrite=args.force)
            print(f"wrote {args.file}; see what it would run with `lastro plan {args.file}`")


def _ask(args: argparse.Namespace) -> None:
    from lastro.app import first_study as first
    from lastro.units import human_duration, parse_duration_s

    if args.file != "-" and os.path.lexists(args.file) and not args.force:  # before the user answers
        raise InputError(f"{args.file} already exists", "choose another name, or overwrite it with --force")
    name = _name(args)
    answers = (
        _ask_for("What runs? `lastro parts function` lists functions.", "firewall",
               partial(first.parts_named, "function")),
        _ask_for("On what could it run? `lastro doctor --quick` says what this host has.", "native, docker",
               partial(first.parts_named, "platform")),
        _ask_for("Who is next to it? `lastro parts anomaly` lists neighbours.", "memory",
               lambda text: tuple(dict.fromkeys((NONE, *first.parts_named("anomaly", text))))),
        _ask_for("What must hold?", "throughput >= 2 Gbit/s, latency_p95 < 1 ms", first.levels_named),
    )  # fmt: skip
    designed = _ask_for(
        "How long may it take?", "15 min",
        lambda text: first.first_study(name, first.Answers(*answers, parse_duration_s(text))),
    )  # fmt: skip
    if args.file == "-":
        print_document(designed.text)
    else:
        _write(Path(args.file), designed.text, overwrite=args.force)
        took = human_duration(designed.expected_s)
        print(f"wrote {args.file}; it is expected to take {took}: `lastro run {args.file}`")
    for what in designed.left_out:
        print(f"left out for the time: {what}", file=sys.stderr)


T = TypeVar("T")


def _ask_for(question: str, usual: str, read: Callable[[str], T]) -> T:
    """Ask a question on standard error, and return `read(answer)`; for an empty answer, return `read(usual)`.

    On a terminal, ask again after an invalid answer. Raises: InputError for an invalid answer if standard input is not
    a terminal, and at the end of the input."""
    while True:
        print(f"{question} [{usual}] ", end="" if sys.stdin.isatty() else "\n", file=sys.stderr, flush=True)
        try:
            line = sys.stdin.readline()
        except UnicodeDecodeError as error:
            raise InputError("the answer is not UTF-8 text", "answer in a terminal that writes UTF-8") from error
        if not line:
            hint = "answer each question with a line; an empty one takes what is in [ ]"
            raise InputError("there is no answer", hint)
        try:
            return read(line.strip() or usual)
        except InputError as error:
            if not sys.stdin.isatty():
                raise
            print("\n  ".join(filter(None, (error.message, error.hint))), file=sys.stderr)


def study_text(name: str) -> str:
    """Return the text of a new study file with comments, for a study with this name.

    Raises: InputError when no study can have this name."""
    template = Path(__file__).parents[1] / "study" / "template.toml"
    return _renamed(template.read_text(encoding="utf-8"), name)


def built_in_text(source: str, name: str | None) -> str:
    """Return the text of a built-in study. If `name` is given, it becomes the name of the study.

    Raises: InputError when there is no such study, or no study can have this name."""
    from lastro import papers

    built_in = papers.built_in(source)
    if built_in is None:
        raise InputError(f"{source} is not a built-in study", "see them with `lastro studies`, or copy the file")
    text = papers.find(built_in).read_text(encoding="utf-8")
    return text if name is None else _renamed(text, name)


def _write_suite(args: argparse.Namespace, members: list[Path]) -> None:
    """Write the files of a built-in suite to a new folder.

    Raises: InputError when the folder exists or is not given, or --name is given."""
    if args.name or args.file in ("-", _FILE):
        raise InputError(f"{args.source} is a suite of studies", "name a folder for them, and leave --name out")
    folder = Path(args.file)
    if os.path.lexists(folder) and not args.force:
        raise InputError(f"{folder} already exists", "choose another name, or overwrite its files with --force")
    for file in members:
        _write(folder / file.name, file.read_text(encoding="utf-8"), overwrite=args.force, folders=True)
    print(f"wrote {len(members)} files to {folder}; see what they would run with `lastro plan {folder}`")


def _renamed(text: str, name: str) -> str:
    _check_name(name)
    return re.sub(r'^name = "[^"]*"', f'name = "{name}"', text, count=1, flags=re.MULTILINE)


def _write_part(kind: str, name: str, *, overwrite: bool) -> None:
    """Write a part and its test. Raises: InputError when the name is invalid or taken, or a file exists."""
    from lastro import registry

    templates = Path(__file__).parents[1] / "testing" / "templates"
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise InputError(f"'{name}' is not a valid part name", "use a-z, 0-9 and '-', and begin with a letter")
    words, module = name.split("-"), name.replace("-", "_")
    part, test = Path("parts", registry.KINDS[kind], f"{module}.py"), Path("parts", "tests", f"test_{module}.py")
    known = registry.parts(kind).get(name)
    if known and Path(known.origin).absolute() != part.absolute():
        raise InputError(f"{kind} '{name}' already exists", "choose another name")
    class_name = "".join(word.capitalize() for word in words)
    text = (templates / f"{kind}.py").read_text(encoding="utf-8")
    contents = {
        part: text.replace("MyPart", class_name).replace("my-part", name),
        test: _CONTRACT.format(kind=kind, name=name, class_name=class_name, contract=f"{kind.capitalize()}Contract"),
    }
    for file in contents:
        if file.exists() and not overwrite:
            raise InputError(f"{file} already exists", "choose another name, or overwrite it with --force")
    for file, content in contents.items():
        _write(file, content, overwrite=overwrite, folders=True)
    print(f"wrote {part} and {test}")
    print(f"after `export LASTRO_PARTS=parts`, studies can use {kind} '{name}'; test it as root: `pytest {test}`")


_CONTRACT = '''"""The contract of {kind} '{name}', on real instances: root, and `pip install lastro[testing]`."""

from lastro.testing import {contract}, pool, testbed

__all__ = ["pool", "testbed"]


class Test{class_name}({contract}):
    {kind} = "{name}"
'''


def _check_name(name: str) -> None:
    if not re.fullmatch(NAME_PATTERN, name):
        hint = "use a-z, 0-9, '.', '_' and '-', and begin with a letter or digit"
        raise InputError(f"'{name}' is not a valid study name", hint)


def _name(args: argparse.Namespace) -> str:
    """Return the name of the study: --name, else the stem of the file. Raises: InputError for an invalid --name."""
    if args.name is not None:
        _check_name(args.name)
        return str(args.name)
    stem = Path(args.file).stem
    return stem if stem != "study" and re.fullmatch(NAME_PATTERN, stem) else _TEMPLATE_NAME


def _write(path: Path, text: str, *, overwrite: bool, folders: bool = False) -> None:
    """Write a file; with `folders`, create missing directories. Raises: InputError when it cannot be written."""
    if os.path.lexists(path) and not overwrite:
        raise InputError(f"{path} already exists", "choose another name, or overwrite it with --force")
    try:
        if not folders:
            path.parent.stat()
        write_atomically(path, text)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", "choose another place") from error
    except OutputError as error:
        raise InputError(error.message, "choose another place") from error
