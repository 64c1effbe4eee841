"""Published studies as data: each a folder with its study file, and the claims of the paper where there are any. On the

command line they are `paper:NAME`."""

from __future__ import annotations

from pathlib import Path

from lastro.errors import InputError, did_you_mean

_HOME = Path(__file__).parent


def names() -> list[str]:
    """The papers whose study is here, in alphabetical order."""
    return sorted(file.parent.name for file in _HOME.glob("*/study.toml"))


def find(name: str) -> Path:
    """The study file of a paper.

    Raises: InputError when the paper is not known."""
    known = names()
    if name not in known:
        raise InputError(f"no paper is named '{name}'", did_you_mean(name, known))
    return _HOME / name / "study.toml"


def claims(name: str) -> Path | None:
    """The file of a paper's published claims, if the study is a paper's and has one."""
    file = _HOME / name / "claims.toml"
    return file if name in names() and file.is_file() else None
