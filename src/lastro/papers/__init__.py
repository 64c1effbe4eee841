"""Published studies as data: a folder for each paper, with its study file and claims. On the command line, the name of
a study is `paper:NAME`.

A study has one scenario, so a paper may have several studies. Such a paper is a suite, `paper:NAME`: a folder like the
suite of a user, with the order of its studies in NAME/suite.toml. NAME/STUDY.toml is `paper:NAME/STUDY`. The study is
named NAME-STUDY, and its claims are in NAME/claims/STUDY.toml. A study that suite.toml does not list runs only by its
own name."""

from __future__ import annotations

from pathlib import Path

from lastro.errors import InputError, did_you_mean

_HOME = Path(__file__).parent
_ONLY = "study"  # the file of a paper with one study
_NO_STUDIES = ("claims", "suite")


def names() -> list[str]:
    """Return the names of all published studies, in alphabetical order: PAPER, or PAPER/STUDY."""
    files = [file for file in _HOME.glob("*/*.toml") if file.stem not in _NO_STUDIES]
    return sorted(file.parent.name if file.stem == _ONLY else f"{file.parent.name}/{file.stem}" for file in files)


def studies(paper: str) -> list[str]:
    """Return the names of the studies of a paper that has several, in alphabetical order; otherwise none."""
    return [name for name in names() if name.startswith(f"{paper}/")]


def folder(paper: str) -> Path | None:
    """Return the folder of a paper with several studies, which is a suite; otherwise None."""
    return _HOME / paper if studies(paper) else None


def find(name: str) -> Path:
    """Return the study file of a paper, or of one of its studies.

    Raises: InputError when there is none, or when the paper has several and none is named."""
    known = names()
    if name in known:
        paper, _, study_name = name.partition("/")
        return _HOME / paper / f"{study_name or _ONLY}.toml"
    if found := studies(name):
        raise InputError(
            f"paper '{name}' has {len(found)} studies",
            f"name one: {', '.join(f'paper:{each}' for each in found)}",
        )
    papers = {each.partition("/")[0] for each in known}
    near = studies(name.partition("/")[0]) or papers  # the study is misspelt, or the paper
    raise InputError(f"no paper is named '{name}'", did_you_mean(name, near))


def claims(study: str) -> Path | None:
    """Return the file of the published claims on a study, by the study's name; None if there are no claims."""
    for name in names():
        paper, _, study_name = name.partition("/")
        if study == name.replace("/", "-"):
            file = _HOME / paper / (f"claims/{study_name}.toml" if study_name else "claims.toml")
            return file if file.is_file() else None
    return None
