"""Published studies as data: each a folder with its study file, and the claims of the paper where there are any. On the
command line they are `paper:NAME`.

A study has one scenario. A paper with several fronts therefore has several study files: NAME/FRONT.toml, which is
`paper:NAME/FRONT` and whose study is named NAME-FRONT, with its claims in NAME/claims/FRONT.toml. Together they are the
suite `paper:NAME`: its folder is one as a user's own can be, with its fronts in their order in NAME/suite.toml. A front
that is not named there runs by its own name alone."""

from __future__ import annotations

from pathlib import Path

from lastro.errors import InputError, did_you_mean

_HOME = Path(__file__).parent
_ONLY = "study"  # the file of a paper with one study
_NO_STUDIES = ("claims", "suite")


def names() -> list[str]:
    """The studies that are here, in alphabetical order: PAPER, or PAPER/FRONT."""
    files = [file for file in _HOME.glob("*/*.toml") if file.stem not in _NO_STUDIES]
    return sorted(file.parent.name if file.stem == _ONLY else f"{file.parent.name}/{file.stem}" for file in files)


def fronts(paper: str) -> list[str]:
    """The studies of a paper that has several, in alphabetical order; of any other none."""
    return [name for name in names() if name.startswith(f"{paper}/")]


def folder(paper: str) -> Path | None:
    """The folder of a paper with several studies, which is a suite; of any other none."""
    return _HOME / paper if fronts(paper) else None


def find(name: str) -> Path:
    """The study file of a paper, or of one of its fronts.

    Raises: InputError when there is none, or when the paper has several and none is named."""
    known = names()
    if name in known:
        paper, _, front = name.partition("/")
        return _HOME / paper / f"{front or _ONLY}.toml"
    if found := fronts(name):
        raise InputError(
            f"paper '{name}' has {len(found)} fronts, and each is a study",
            f"name one: {', '.join(f'paper:{each}' for each in found)}",
        )
    papers = {each.partition("/")[0] for each in known}
    near = fronts(name.partition("/")[0]) or papers  # a front that is misspelt, or the paper
    raise InputError(f"no paper is named '{name}'", did_you_mean(name, near))


def claims(study: str) -> Path | None:
    """The file of the published claims on a study, by the study's own name, if it is a paper's and has one."""
    for name in names():
        paper, _, front = name.partition("/")
        if study == name.replace("/", "-"):
            file = _HOME / paper / (f"claims/{front}.toml" if front else "claims.toml")
            return file if file.is_file() else None
    return None
