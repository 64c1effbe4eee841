"""A suite: several studies of one question, which run one after the other, each as a separate campaign.

The source of a suite is a folder of study files, NAME.toml, with optional claims in claims/NAME.toml. Studies run in
alphabetical order, or in the order of the list `studies` in `suite.toml`; with the profile `published`, only the
studies in its list `published` run. The results of a suite are in a directory DIR, with a campaign for each study in
DIR/NAME and the index DIR/suite.json. Study files are copied there, so that a suite continues with the studies with
which it began."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lastro.errors import InputError, StoreError, StudyError, did_you_mean
from lastro.files import read_regular
from lastro.results.database import holds_campaign
from lastro.results.files import sync_directory, write_atomically
from lastro.results.store import Store
from lastro.shapes import from_plain, parse_json
from lastro.study.document import read_document, read_text
from lastro.study.model import Study
from lastro.study.problems import Problems, shown
from lastro.study.selection import WHOLE_STUDY, Selection

INDEX = "suite.json"
HEAD = "suite.toml"
FORMAT = "lastro-suite/1"
_KEYS = {"title": str, "description": str, "studies": list, "published": list}
_NO_STUDIES = ("claims.toml", HEAD)
_MOST_BYTES = 16 * 2**20  # of an index; a larger one is read only in part, and so is not JSON


@dataclass(frozen=True, slots=True)
class SuiteStudy:
    """One study of a suite."""

    name: str  # name of its file, without the suffix
    study: str  # the name inside the file
    title: str
    seed: int
    stopped: str | None = None  # why its last run ended early
    remedy: str | None = None  # what to do about it
    digest: str = ""  # SHA-256 of the text of the file; empty in indexes of versions that did not store it

    def is_of(self, text: str) -> bool:
        """Return whether `text` equals the study file with which the suite began; true if no digest was stored."""
        return self.digest in ("", _digest(text))


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite as its index stores it.

    `testbed` and `fleet` are the testbed file and the fleet file with which the suite began: absolute paths, or the
    word `guest`; empty without one."""

    name: str
    title: str
    description: str
    source: str  # a built-in name or a folder, as the user typed it
    profile: str | None
    studies: tuple[SuiteStudy, ...]
    only: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    replicates: int | None = None
    testbed: str = ""
    fleet: str = ""

    @property
    def selection(self) -> Selection:
        """The selection of studies and settings that the command line made when the suite began."""
        return Selection(self.profile, self.only, self.settings, self.replicates)

    @property
    def label(self) -> str:
        return self.title or self.name


@dataclass(frozen=True, slots=True)
class Folder:
    """The source of a suite: its study files in running order, and the title and description in `suite.toml`."""

    path: Path
    title: str
    description: str
    files: tuple[Path, ...]
    published: tuple[str, ...] = ()  # the names of the studies that the profile `published` runs; empty: all

    @property
    def name(self) -> str:
        return self.path.resolve().name

    def with_profile(self, name: str | None) -> Folder:
        """Return the folder with only the studies that run with the profile `name`."""
        if name != "published" or not self.published:
            return self
        return replace(self, files=tuple(file for file in self.files if file.stem in self.published))

    def claims(self, name: str) -> Path | None:
        file = self.path / "claims" / f"{name}.toml"
        return file if os.path.lexists(file) else None


# The source of a suite


def read_folder(path: Path) -> Folder:
    """Read the suite in a folder. Raises: InputError when it has no study files; StudyError for a bad suite.toml."""
    try:
        files = {file.stem: file for file in sorted(path.glob("*.toml")) if file.name not in _NO_STUDIES}
        has_head = (path / HEAD).exists()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", "check its name and permissions") from error
    head = _head(path / HEAD, sorted(files)) if has_head else {}
    chosen = [files[name] for name in head.get("studies", files)]
    if not chosen:
        raise InputError(f"{path} is a directory without study files", "`lastro new` writes a study file to start from")
    words = (head.get("title", ""), head.get("description", ""))
    return Folder(path, *words, tuple(chosen), tuple(head.get("published", ())))


def _head(file: Path, known: Sequence[str]) -> dict[str, Any]:
    text = read_text(file, "suite", f"without {HEAD}, all study files of the folder run")
    document = read_document(text, Problems(str(file)))

    def wrong(where: str, message: str, hint: str | None = None) -> StudyError:
        return StudyError(message, file=str(file), where=where, hint=hint)

    for key, value in document.items():
        if key not in _KEYS:
            raise wrong(key, "is not a valid key", did_you_mean(key, _KEYS))
        if not isinstance(value, _KEYS[key]):
            raise wrong(key, f"must be {'a list' if _KEYS[key] is list else 'a string'}, and is {shown(value)}")
    for key in ("studies", "published"):
        for index, name in enumerate(names := document.get(key, ())):
            if name not in known:
                hint = did_you_mean(str(name), known)
                raise wrong(f"{key}[{index}]", f"this folder has no study {shown(name)}", hint)
            if name in names[:index]:
                raise wrong(f"{key}[{index}]", f"{shown(name)} is already listed")
    return document


# The directory in which a suite runs


def is_suite(directory: Path) -> bool:
    return os.path.lexists(directory / INDEX)


def has_campaign(directory: Path, member: SuiteStudy) -> bool:
    """Return whether a study of the suite in `directory` already has a campaign."""
    return holds_campaign(directory / member.name)


def can_run(directory: Path, member: SuiteStudy) -> bool:
    """Return whether a study has a campaign in which at least one trial is not unavailable on this host."""
    if not has_campaign(directory, member):
        return False
    with Store.open(directory / member.name, readonly=True) as store:
        counts = store.counts()
    return counts["unavailable"] < sum(counts.values())


def study_file(directory: Path, member: SuiteStudy) -> Path:
    """Return the path of the suite's copy of a study file, which is read and checked first. Raises: as `study_text`."""
    study_text(directory, member)
    return _copy(directory, member)


def study_text(directory: Path, member: SuiteStudy) -> str:
    """Return the text of the suite's copy of a study file.

    Raises: StudyError when the copy cannot be read, or is a link; InputError when it has changed since the suite
    began."""
    file = _copy(directory, member)
    text = read_text(file, "study", "restore the study file", base=directory)
    if not member.is_of(text):
        hint = f"restore it, or run the changed study in a new suite: {directory} would mix both"
        raise InputError(f"{file} has changed since the suite began", hint)
    return text


def _copy(directory: Path, member: SuiteStudy) -> Path:
    return directory / member.name / "study.toml"


def _require_own(directory: Path, suite: Suite, member: SuiteStudy) -> None:
    """Raise InputError when the campaign in the directory of a study belongs to another study."""
    with Store.open(directory / member.name, readonly=True) as store:
        study = store.study
    wanted = (member.study, member.seed, suite.profile)
    if (study.name, study.design.seed, study.profile) != wanted or not member.is_of(study.source):
        raise InputError(
            f"the campaign in {directory / member.name} is not that of study '{member.name}' of the suite in"
            f" {directory}",
            f"move it away and restore the study as {_copy(directory, member)}; then run `lastro resume {directory}`",
        )


def create(
    directory: Path,
    folder: Folder,
    source: str,
    studies: Sequence[Study],
    published: Callable[[str], Path | None],
    selection: Selection = WHOLE_STUDY,
    *,
    testbed: str = "",
    fleet: str = "",
) -> Suite:
    """Create a suite in `directory` from the studies of a folder, without running it.

    `studies` are the studies in the files of `folder`, in the same order. `published` maps the name of a study to the
    built-in file with a paper's claims on it, or None. Such claims are not copied: they are read from the built-in file
    when they are needed. Other claims in the folder are copied. `testbed` and `fleet` are as in `Suite`.

    Raises: StoreError when the directory cannot be written; StudyError for a claims file that is not valid, or is a
    link, since the folder may be from another user."""
    from lastro.analysis.claims.load import claims_copy

    members, texts = list[SuiteStudy](), dict[Path, str]()
    for file, study in zip(folder.files, studies, strict=True):
        members.append(SuiteStudy(file.stem, study.name, study.title, study.design.seed, digest=_digest(study.source)))
        claims = folder.claims(file.stem)
        if claims is not None and claims != published(study.name):
            copied = claims_copy(claims, folder.path)
            texts |= {directory / file.stem / name: text for name, text in copied.items()}
        texts[_copy(directory, members[-1])] = study.source
    for place, text in texts.items():
        write_atomically(place, text, durable=True)
    sync_directory(directory)  # the directories of the studies must exist before the index names them
    head = (folder.name, folder.title, folder.description, source, selection.profile)
    suite = Suite(*head, tuple(members), selection.only, selection.settings, selection.replicates, testbed, fleet)
    write(directory, suite)  # last, so that a suite is complete or does not exist
    return suite


def write(directory: Path, suite: Suite) -> None:
    """Write the index of a suite. Raises: StoreError when it cannot be written."""
    document = {"format": FORMAT, **asdict(suite)}
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    write_atomically(directory / INDEX, text, durable=True)


def read(directory: Path) -> Suite:
    """Read the suite in a directory.

    Raises: StoreError when its index is damaged or from a newer version; InputError when the directory of a study
    contains the campaign of another study."""
    file = directory / INDEX
    try:
        document = parse_json(read_regular(file, _MOST_BYTES, base=directory).decode().strip())
        version = document.pop("format")
        if version != FORMAT:
            message = f"{file} has format {shown(version)}, but this Lastro reads only format {FORMAT}"
            raise StoreError(message, "update Lastro")
        suite: Suite = from_plain(Suite, document)
        names = [member.name for member in suite.studies]
        if not names or any(Path(n).name != n or n in ("", "..") or "\0" in n for n in names):
            raise ValueError("the name of a study is not a valid directory name")
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error.strerror}", "check its permissions") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        hint = "restore it from a copy, or run the suite again"
        raise StoreError(f"{file} is not a readable index of a suite: {error}", hint) from error
    for member in suite.studies:
        if (place := directory / member.name).is_symlink():  # which may lead out of the suite
            message = f"{place} is a symbolic link, and a suite holds the campaigns of its studies itself"
            raise StoreError(message, "put the directory in its place")
        if has_campaign(directory, member):
            _require_own(directory, suite, member)
    return suite


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def note_stop(directory: Path, name: str, reason: str | None, remedy: str | None = None) -> None:
    """Record in the index why a study could not run to its end; `reason` is None if it did."""
    suite = read(directory)
    members = tuple(
        replace(each, stopped=reason, remedy=remedy) if each.name == name else each for each in suite.studies
    )
    if members != suite.studies:
        write(directory, replace(suite, studies=members))
