"""Built-in studies as data: a folder for each, with its study file and the claims of its paper, if it has one.

On the command line, the name of a study is the name of its folder.

A study has one scenario, so a paper may have several studies. Such a paper is a suite: a folder NAME like the suite of
a user. NAME/suite.toml has the order of its studies. The file NAME/STUDY.toml is the study NAME/STUDY, which is called
NAME-STUDY in campaigns; its claims are in NAME/claims/STUDY.toml. A study that suite.toml does not list does not run
with the suite, but only by its own name."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lastro.errors import InputError, did_you_mean

_HOME = Path(__file__).parent
_ONLY = "study"  # the file of a folder with one study
_NO_STUDIES = ("claims", "suite")
_FORMER_PREFIX = "paper:"  # of every built-in name; indexes of suites may have it
_NAME = re.compile(r"[a-z][a-z0-9-]{0,40}(/[a-z0-9-]{0,40})?")


def names() -> list[str]:
    """Return the names of all built-in studies in alphabetical order; a study of a suite is SUITE/STUDY."""
    files = [file for file in _HOME.glob("*/*.toml") if file.stem not in _NO_STUDIES]
    return sorted(file.parent.name if file.stem == _ONLY else f"{file.parent.name}/{file.stem}" for file in files)


def studies(suite: str) -> list[str]:
    """Return the names of the studies of a built-in suite, in alphabetical order; empty if it is not a suite."""
    return [name for name in names() if name.startswith(f"{suite}/")]


def folder(suite: str) -> Path | None:
    """Return the folder of a built-in suite; None if `suite` is not the name of one."""
    return _HOME / suite if studies(suite) else None


def built_in(word: str) -> str | None:
    """Return the name of the built-in study or suite that `word` names on the command line; None if `word` is a path.

    A built-in study takes precedence over a file or folder with the same name, which can be given as ./NAME. Raises:
    InputError if `word` has the form of a name, but neither a built-in study or suite nor a file has this name."""
    name = word.removeprefix(_FORMER_PREFIX)
    if name in names() or studies(name):
        return name
    if name == word and (not _NAME.fullmatch(word) or os.path.lexists(word)):
        return None
    raise _unknown(name)


def find(name: str) -> Path:
    """Return the file of a built-in study. Raises: InputError when no study has this name, or it names a suite."""
    if files := studies(name):
        raise InputError(f"{name} is a suite of {len(files)} studies", f"name one: {', '.join(files)}")
    if name not in names():
        raise _unknown(name)
    suite, _, study_name = name.partition("/")
    return _HOME / suite / f"{study_name or _ONLY}.toml"


@dataclass(frozen=True, slots=True)
class OnlyNamed:
    """A platform, tool or other thing that papers use and Lastro lacks: why it is absent, and which part is nearest."""

    kind: str
    name: str
    papers: tuple[str, ...]
    because: str
    nearest: str


def absent() -> list[OnlyNamed]:
    """Return all things that papers use and Lastro lacks, from the file absent.toml."""
    rows = tomllib.loads((_HOME / "absent.toml").read_text(encoding="utf-8"))["absent"]
    return [OnlyNamed(**{**row, "papers": tuple(row["papers"])}) for row in rows]


@dataclass(frozen=True, slots=True)
class Recommended:
    """What the source of a published study or suite recommends: {factor: levels}, why, and in which passage.

    `because` and `passage` are {code of a language: text}."""

    levels: Mapping[str, Sequence[str]]
    because: Mapping[str, str]
    passage: Mapping[str, str]


def recommended(paper: str) -> Recommended | None:
    """Return what the source of a built-in study or suite recommends; None if recommended.toml does not list it."""
    rows = tomllib.loads((_HOME / "recommended.toml").read_text(encoding="utf-8"))
    row = rows.get(paper.removeprefix(_FORMER_PREFIX))
    return Recommended(**row) if row else None


def recommended_by(study: str) -> Recommended | None:
    """Return what the source of the study that campaigns call `study` recommends; None if that is not known."""
    name = _built_in_named(study)
    return recommended(name.partition("/")[0]) if name else None


def _unknown(name: str) -> InputError:
    suites = {study.partition("/")[0] for study in names()}
    near = studies(name.partition("/")[0]) or suites | set(names())  # the study is misspelt, or the suite
    return InputError(f"there is no built-in study '{name}', and no such file", did_you_mean(name, near))


def claims(study: str) -> Path | None:
    """Return the file of published claims about the study that campaigns call `study`; None if it has no claims."""
    if (name := _built_in_named(study)) is None:
        return None
    paper, _, study_name = name.partition("/")
    file = _HOME / paper / (f"claims/{study_name}.toml" if study_name else "claims.toml")
    return file if file.is_file() else None


def _built_in_named(study: str) -> str | None:
    """Return the name of the built-in study that campaigns call `study`; None if there is none."""
    return next((name for name in names() if name.replace("/", "-") == study), None)
