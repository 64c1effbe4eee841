"""Load the study, suite or testbed that a user names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.errors import InputError, did_you_mean
from lastro.study.model import Study

if TYPE_CHECKING:
    from lastro.campaign.suite import Folder
    from lastro.host.testbed_file import TestbedFile
    from lastro.results.store import Store


def load_testbed(file: Path | None) -> TestbedFile | None:
    """Load a testbed file; None without a file. Raises: StudyError when the file is not valid."""
    if file is None:
        return None
    from lastro.host.testbed_file import load

    return load(file)


def testbed_of(store: Store) -> TestbedFile | None:
    """Load the testbed file with which a campaign began; None if it began without one.

    Raises: StudyError when the file is not valid, or belongs to another user."""
    began = store.provenance.get("testbed", {}).get("file")
    if not began:
        return None
    from lastro.host.testbed_file import load_named

    return load_named(Path(began))


def load_study(name: str, profile: str | None) -> Study:
    """Load a study from a file, or from a paper if the name is paper:NAME, and apply a profile.

    Raises: InputError when there is no such paper or profile; StudyError when the file is not a valid study."""
    from lastro import papers

    kind, _, paper = name.rpartition(":")
    return load_file(papers.find(paper) if kind == "paper" else Path(name), profile)


def load_file(file: Path, profile: str | None) -> Study:
    """Load a study from a file, and apply a profile. Raises: as `load_study`."""
    from lastro.scenarios.base import schemas
    from lastro.study.load import load

    study = load(file, schemas())
    if profile is None:
        return study
    if profile not in study.profiles:
        hint = did_you_mean(profile, study.profiles) if study.profiles else "this study has no profiles"
        raise InputError(f"{study.file} has no profile '{profile}'", hint)
    return study.with_profile(profile)


@dataclass(frozen=True, slots=True)
class GivenSuite:
    """A suite as the user typed it, its folder, and its studies in running order, with the profile applied."""

    source: str
    folder: Folder
    studies: tuple[Study, ...]


def suite_of(name: str, profile: str | None) -> GivenSuite | None:
    """Load a suite and all its studies, and apply a profile to each; None if the name is that of a single study.

    Raises: InputError when the folder contains no studies, or a campaign; StudyError when a study is not valid."""
    from lastro import papers
    from lastro.campaign import suite
    from lastro.results.database import DB_NAME

    kind, _, paper = name.rpartition(":")
    path = papers.folder(paper) if kind == "paper" else Path(name)
    try:
        if path is None or not path.is_dir():
            return None
    except OSError:  # an impossible name: reading the file reports it
        return None
    if (path / DB_NAME).exists() or suite.is_suite(path):
        raise InputError(
            f"{path} holds a campaign or a suite, not a study",
            f"continue it with `lastro resume {path}`, or name a study file",
        )
    folder = suite.read_folder(path)
    return GivenSuite(name, folder, tuple(load_file(file, profile) for file in folder.files))
