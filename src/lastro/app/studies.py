"""Load the study, suite or testbed that a user names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.app.messages import say
from lastro.errors import InputError, did_you_mean
from lastro.study.model import ScenarioSchema, Study
from lastro.study.selection import WHOLE_STUDY, Selection, name_in

if TYPE_CHECKING:
    from lastro.campaign.suite import Folder
    from lastro.host.fleet_file import FleetFile
    from lastro.host.testbed_file import TestbedFile
    from lastro.results.store import Store


def load_testbed(file: Path | None) -> TestbedFile | None:
    """Load a testbed file; None without a file. Raises: StudyError when the file is not valid."""
    if file is None:
        return None
    from lastro.host.testbed_file import load

    return load(file)


def load_fleet(file: Path | None) -> FleetFile | None:
    """Load a fleet file, with its testbed files; None without a file. Raises: StudyError when one is not valid."""
    if file is None:
        return None
    from lastro.host.fleet_file import load

    return load(file)


def testbed_of(store: Store) -> TestbedFile | None:
    """Load the testbed file with which a campaign began; None if it began without one.

    Raises: StudyError when the file is not valid, or belongs to another user."""
    return named_testbed(store.provenance.testbed.file)


def named_testbed(place: str | None) -> TestbedFile | None:
    """Load the testbed file that a campaign or a suite names; None if it names none. Raises: as `testbed_of`."""
    if not place:
        return None
    from lastro.host.testbed_file import load_named

    return load_named(Path(place))


def named_fleet(place: str) -> FleetFile | None:
    """Load the fleet file that a suite names; None if it names none. Raises: as `testbed_of`."""
    if not place:
        return None
    from lastro.host.fleet_file import load_named

    return load_named(Path(place))


def load_study(name: str, selection: Selection = WHOLE_STUDY) -> Study:
    """Load a study from a file, or a built-in study by its name; apply the selection, and print its notes.

    Raises: InputError when there is no such study or the selection does not fit; StudyError when the file is not a
    valid study."""
    from lastro import papers

    built_in = papers.built_in(name)
    study, schema = _read(papers.find(built_in) if built_in else Path(name))
    return selection.of(study, schema)


def load_member(file: Path, selection: Selection) -> Study:
    """Load a study of a suite, and apply those parts of a selection that name factors and settings of this study.

    Raises: as `load_study`."""
    study, schema = _read(file)
    return selection.within(study, schema).of(study, schema)


def _read(file: Path) -> tuple[Study, ScenarioSchema]:
    from lastro.scenarios.base import schemas
    from lastro.study.load import load

    known = schemas()
    study = load(file, known)
    for note in study.notes:
        say(note)
    return study, known[study.scenario]


@dataclass(frozen=True, slots=True)
class GivenSuite:
    """A suite as the user typed it, its folder, and its studies in running order, with the selection applied."""

    source: str
    folder: Folder
    studies: tuple[Study, ...]
    selection: Selection = WHOLE_STUDY


def suite_of(name: str, selection: Selection = WHOLE_STUDY) -> GivenSuite | None:
    """Load a suite and all its studies, and apply a selection to each; None if `name` is a single study.

    Raises: InputError when the folder contains no studies, or is a campaign, or when the selection names a factor or
    setting that no study of the suite has; StudyError when a study is not valid."""
    from lastro import papers
    from lastro.campaign import suite
    from lastro.results.database import holds_campaign

    built_in = papers.built_in(name)
    path = papers.folder(built_in) if built_in else Path(name)
    try:
        if path is None or not path.is_dir():
            return None
    except OSError:  # an impossible name: reading the file reports it
        return None
    if holds_campaign(path) or suite.is_suite(path):
        hint = f"continue it with `lastro resume {path}`, or name a study file"
        raise InputError(f"{path} holds a campaign or a suite, not a study", hint)
    folder = suite.read_folder(path).with_profile(selection.profile)
    studies = tuple(load_member(file, selection) for file in folder.files)
    applied = {word for study in studies for word in study.changes}
    factors = {factor.name for study in studies for factor in study.factors}
    constants = {constant for study in studies for constant in study.settings}
    for option, texts, what, known in (
        ("--only", selection.only, "factor", factors),
        ("--set", selection.settings, "constant", constants),
    ):
        for wrong in (name_in(text) for text in texts if text not in applied):
            raise InputError(f"{option}: no study of {name} has a {what} '{wrong}'", did_you_mean(wrong, known))
    return GivenSuite(name, folder, studies, selection)
