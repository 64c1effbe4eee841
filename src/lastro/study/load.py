"""Load study files: from TOML text to the `Study` model. All problems of a file become one StudyError."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lastro.study.document import read_document, read_text
from lastro.study.model import ScenarioSchema, Study
from lastro.study.problems import FieldError, Problems, shown
from lastro.study.resolve import resolve
from lastro.study.root_change import with_absolute_rootfs
from lastro.study.schema import StudyFile, read_shape, without_unknown_keys


def load(path: Path, schemas: Mapping[str, ScenarioSchema]) -> Study:
    """Return the study in a file; `schemas` is {name of a scenario: its schema}.

    Raises: StudyError when the file cannot be read, or is not a valid study."""
    study = parse(read_text(path, "study", "`lastro new` writes a study file to start from"), str(path), schemas)
    folder = str(path.absolute().parent)
    return replace(
        study,
        functions=tuple(function.below(folder) for function in study.functions),
        variants={name: with_absolute_rootfs(changes, folder) for name, changes in study.variants.items()},
    )


def require_named(text: str, file: str, name: str) -> None:
    """Check that a text has the shape of a study file and is of the study `name`; its scenario may be unknown here.

    Raises: StudyError otherwise."""
    problems = Problems(file)
    shape = read_shape(read_document(text, problems), problems, StudyFile)
    with problems.at("study", "name"):
        if shape.study.name != name:
            raise FieldError(f"is {shown(shape.study.name)}, but this is the file of the study {shown(name)}")
    problems.raise_if_any()


def parse(text: str, file: str, schemas: Mapping[str, ScenarioSchema]) -> Study:
    """Return the study in a text; `file` is its name in errors.

    Raises: StudyError when the text is not a valid study."""
    problems = Problems(file)
    document = read_document(text, problems)
    shape = read_shape(without_unknown_keys(document, problems, StudyFile), problems, StudyFile)
    return replace(resolve(shape, schemas, problems), source=text, file=file)
