"""What the commands that read a study share: its arguments, and loading it under a profile."""

from __future__ import annotations

import argparse
from pathlib import Path

from lastro.errors import InputError, did_you_mean
from lastro.study.model import Study


def study_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", metavar="STUDY", help="a study file, or paper:NAME or paper:NAME/FRONT, published")
    parser.add_argument("--profile", metavar="P", help="one of the study's profiles: quick, standard or paper")


def load_study(args: argparse.Namespace) -> Study:
    """The study that the arguments name, under the profile that they name.

    Raises: InputError when there is no such paper or profile; StudyError when the file is no sound study."""
    from lastro import papers
    from lastro.scenarios.base import schemas
    from lastro.study.load import load

    kind, _, name = args.study.rpartition(":")
    study = load(papers.find(name) if kind == "paper" else Path(args.study), schemas())
    if args.profile is None:
        return study
    if args.profile not in study.profiles:
        hint = did_you_mean(args.profile, study.profiles) if study.profiles else "this study has no profiles"
        raise InputError(f"{study.file} has no profile '{args.profile}'", hint)
    return study.with_profile(args.profile)
