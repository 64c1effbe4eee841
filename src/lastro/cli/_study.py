"""Shared by the commands that read studies: their arguments, and loading a study or a suite under a profile."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.errors import InputError, did_you_mean
from lastro.study.model import Study

if TYPE_CHECKING:
    from lastro.campaign.suite import Folder
    from lastro.host.testbed_file import TestbedFile
    from lastro.results.store import Store


def study_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "study",
        metavar="STUDY",
        help="a study file; a published study: paper:NAME or paper:NAME/FRONT; a suite: a folder of studies or a paper",
    )
    testbed_argument(parser)
    parser.add_argument("--profile", metavar="P", help="one of the study's profiles: quick, standard or paper")


def testbed_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--testbed",
        type=Path,
        metavar="FILE",
        help="a file that places client, DUT and server; default: all on this machine",
    )


def load_testbed(file: Path | None) -> TestbedFile | None:
    """Load a testbed file, if there is one. Raises: StudyError when it is not a valid testbed."""
    if file is None:
        return None
    from lastro.host.testbed_file import load

    return load(file)


def testbed_of(store: Store) -> TestbedFile | None:
    """Return the testbed file of a campaign. Raises: StudyError when it is invalid, or not the caller's."""
    began = store.provenance.get("testbed", {}).get("file")
    if not began:
        return None
    from lastro.host.testbed_file import load_named

    return load_named(Path(began))


def load_study(args: argparse.Namespace) -> Study:
    """Load the study that the arguments name, under the profile that they name.

    Raises: InputError when there is no such paper or profile; StudyError when the file is not a valid study."""
    from lastro import papers

    kind, _, name = args.study.rpartition(":")
    return _load(papers.find(name) if kind == "paper" else Path(args.study), args.profile)


def _load(file: Path, profile: str | None) -> Study:
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
    """A suite as the user named it, its folder, and its studies in running order, under the profile."""

    source: str
    folder: Folder
    studies: tuple[Study, ...]


def suite_of(args: argparse.Namespace) -> GivenSuite | None:
    """Load the suite that the arguments name, with all its studies; None when they name a single study.

    Raises: InputError when a folder holds no studies, or holds a campaign; StudyError when a study is invalid."""
    from lastro import papers
    from lastro.campaign import suite
    from lastro.results.database import DB_NAME

    kind, _, name = args.study.rpartition(":")
    path = papers.folder(name) if kind == "paper" else Path(args.study)
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
    return GivenSuite(args.study, folder, tuple(_load(file, args.profile) for file in folder.files))


def load_front(file: Path, profile: str | None) -> Study:
    """Load a study of a suite from the copy that the suite keeps."""
    return _load(file, profile)
