"""The lock files in requirements/: complete, exact, with hashes, and in agreement with pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
KINDS = ("run", "dev", "build")
_ENTRY = re.compile(r"(\S+)==(\S+)(?: ; [^\\]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")


def pyproject() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def text(kind: str) -> str:
    lines = (ROOT / "requirements" / f"{kind}.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#"))


def versions(kind: str) -> dict[str, str]:
    return {match[1]: match[2] for match in _ENTRY.finditer(text(kind))}


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_has_one_version_and_hashes_and_nothing_else_is_there(kind: str) -> None:
    """Neither the address of an index, nor a file or a repository, which no hash pins."""
    assert _ENTRY.sub("", text(kind)) == "" and versions(kind)


@pytest.mark.parametrize("kind", ["run", "build"])
def test_what_a_user_gets_is_what_tests_ran_with(kind: str) -> None:
    dev = versions("dev")
    alone = {"editables", "uv"}  # only a build and an installation have them
    assert {name for name, version in versions(kind).items() if dev.get(name) != version} <= alone


@pytest.mark.parametrize("kind", KINDS)
def test_every_dependency_is_locked_at_a_version_that_fits(kind: str) -> None:
    project, locked = pyproject()["project"], versions(kind)
    extras = project["optional-dependencies"]
    wanted = {
        "run": project["dependencies"],
        "dev": project["dependencies"] + extras["dev"] + extras["docs"],
        "build": pyproject()["build-system"]["requires"],
    }[kind]
    found = {each: locked.get(canonicalize_name(each.name), "") for each in map(Requirement, wanted)}
    assert [str(each) for each, version in found.items() if not version or version not in each.specifier] == []


def test_the_build_backend_is_one_version() -> None:
    (backend,) = map(Requirement, pyproject()["build-system"]["requires"])
    assert str(backend.specifier) == f"=={versions('build')[backend.name]}"
