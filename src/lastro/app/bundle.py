"""Write a campaign or a suite as a bundle that can be archived, published and verified."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from hashlib import file_digest, sha256
from importlib.metadata import version
from pathlib import Path

from lastro import __version__
from lastro.analysis.campaign import MeasuredIn
from lastro.analysis.claims.load import claims_copy
from lastro.app.contents import claims_of
from lastro.app.documents import documents
from lastro.app.private import cleaned_provenance, redact
from lastro.builders import crate_readme as crate_words
from lastro.builders.crate import METADATA, Author, Crate, CrateCampaign, CrateFile, metadata
from lastro.campaign import suite as suites
from lastro.campaign.suite import SuiteStudy
from lastro.errors import InputError, OutputError
from lastro.files import open_directory
from lastro.results.bundle_archive import MANIFEST, write_zip
from lastro.results.database import IN_BUNDLE
from lastro.results.provenance import Provenance, common_provenance
from lastro.results.published_copy import copy_store
from lastro.results.read import load_campaign
from lastro.results.rows import Attempt
from lastro.results.store import Store
from lastro.study.load import require_named
from lastro.words.campaign import when
from lastro.words.language import language

_LIBRARIES = ("numpy", "scipy", "matplotlib", "jinja2")  # what a report depends on


@dataclass(frozen=True, slots=True)
class BundleOptions:
    """The options of `lastro bundle`. `licence` is an SPDX identifier or the address (URL) of a licence."""

    authors: tuple[Author, ...] = ()
    licence: str = ""
    lang: str = "en"
    anonymous: bool = False


@dataclass(frozen=True, slots=True)
class FinishedBundle:
    """A bundle that has been written. `sha256` is the hash of the zip or, for a directory, of its list of hashes.

    `waiting` is the number of trials that have not run yet."""

    place: Path
    files: int
    size: int
    sha256: str
    waiting: int
    licence: str


def versions() -> dict[str, str]:
    """Return {name: version} of the software that determines a report's contents: Lastro, Python and libraries."""
    libraries = {name: version(name) for name in _LIBRARIES}
    return {"Lastro": __version__, "Python": f"{platform.python_version()} ({platform.machine()})", **libraries}


def place_for_bundle(directory: Path) -> Path:
    """Return the default file of a campaign's bundle, next to its directory: DIR.crate.zip."""
    name = f"{directory.resolve().name}.crate.zip"
    return Path(name) if directory.name in ("", "..") else directory.parent / name


def write_bundle(directory: Path, output: Path, wanted: BundleOptions) -> FinishedBundle:
    """Write the bundle of a campaign or a suite: a zip if `output` ends with .zip, otherwise a directory.

    Raises: InputError when there is no campaign, no trial has run, a campaign is running, or `output` exists and is not
    a zip; StoreError when a database is damaged; OutputError when the bundle cannot be written."""
    as_zip = output.suffix.lower() == ".zip"
    _check_output(output, as_zip=as_zip)
    with _staging_directory(output) as stage:
        root = stage / "crate"
        members: Sequence[SuiteStudy | None] = suites.read(directory).studies if suites.is_suite(directory) else [None]
        copies = [_copy(directory, member, root / IN_BUNDLE, wanted) for member in members]
        campaigns = [copy for copy in copies if copy is not None]
        if suites.is_suite(directory):
            _copy_index(directory, root / IN_BUNDLE, wanted)
        crate = _crate(directory, campaigns, wanted)
        files = _fill(root, crate)
        size = sum((root / name).stat().st_size for name in files)
        if as_zip:
            digest = write_zip(root, files, stage / "bundle.zip")
            size = (stage / "bundle.zip").stat().st_size
            (stage / "bundle.zip").replace(output)
        else:
            digest = sha256((root / MANIFEST).read_bytes()).hexdigest()
            root.replace(output)
    waiting = sum(campaign.waiting for campaign in campaigns)
    return FinishedBundle(output, len(files), size, digest, waiting, wanted.licence)


def _check_output(output: Path, *, as_zip: bool) -> None:
    """Raise InputError if `output` exists and must not be replaced, OutputError if this cannot be determined.

    Only an existing file is replaced, and only by a zip."""
    try:
        exists = output.is_dir() if as_zip else os.path.lexists(output)
    except OSError as error:
        raise OutputError(f"{output} cannot be written: {error.strerror}", "name another file with -o") from error
    if exists and as_zip:
        raise InputError(f"{output} is a directory, but its name is that of a zip", "name another file with -o")
    if exists:
        raise InputError(f"{output} already exists", "name a new directory with -o, or a file that ends with .zip")


@contextmanager
def _staging_directory(output: Path) -> Iterator[Path]:
    """Yield a new temporary directory next to `output`, on the same disk; remove it after the block.

    Its subdirectory `crate` is for the bundle. Raises: OutputError when writing fails; InputError when root would write
    where other users can interfere."""
    stage = None
    try:
        os.close(open_directory(output.parent, make=True))
        stage = Path(tempfile.mkdtemp(prefix=".lastro-", suffix=".new", dir=output.parent))
        (stage / "crate").mkdir()
        yield stage
    except (OSError, sqlite3.OperationalError) as error:
        reason = getattr(error, "strerror", None) or error
        hint = "check the disk space and permissions, or name another file with -o"
        raise OutputError(f"{output} cannot be written: {reason}", hint) from error
    finally:
        if stage is not None:
            shutil.rmtree(stage, ignore_errors=True)


def _copy(directory: Path, member: SuiteStudy | None, target: Path, wanted: BundleOptions) -> CrateCampaign | None:
    """Copy a campaign and its claims to the bundle in `target`, and return the campaign's description.

    `member` is the study in a suite; None for a single campaign. If the study has no campaign yet, copy only the study
    and its claims, and return None. Raises: InputError when the campaign is running."""
    source = directory / member.name if member else directory
    target = target / member.name if member else target
    target.mkdir(parents=True)
    if member and not suites.has_campaign(directory, member):
        text = suites.study_text(directory, member)
        require_named(text, str(source / "study.toml"), member.study)
        _copy_study(directory, source, member.study, text, target)
        return None
    with Store.open(source, readonly=True) as store:
        if running := store.runner():
            hint = "wait for its end, or interrupt it with Ctrl-C and continue it later with `lastro resume`"
            raise InputError(f"{source} is running, by process {running.pid} since {when(running.since_utc)} UTC", hint)
        data = load_campaign(store)
        places, testbeds = _places(source, store), store.testbeds()
        facts = redact(
            store.provenance, places, anonymous=wanted.anonymous, testbeds=testbeds, segments=store.segments()
        )
        copy_store(store, target / "campaign.db", facts.clean, facts.provenance, facts.testbeds)
    _copy_study(directory, source, data.study.name, data.study.source, target)
    clean, states = facts.clean, [trial.state for trial in data.trials]
    return CrateCampaign(
        folder=f"{IN_BUNDLE}/{member.name}" if member else IN_BUNDLE,
        name=data.study.name,
        title=data.study.title,
        trials=len(states),
        valid=states.count("valid"),
        waiting=states.count("pending") + states.count("running"),
        began=data.attempts[0].started_utc if data.attempts else "",
        ended=_end_utc(data.attempts[-1]) if data.attempts else "",
        provenance=facts.provenance | common_provenance([row.provenance for row in facts.testbeds.values()]),
        guest=MeasuredIn.of_data(
            cleaned_provenance(data.provenance, clean),
            [replace(each, provenance=cleaned_provenance(each.provenance, clean)) for each in data.members],
        ),
    )


def _end_utc(attempt: Attempt) -> str:
    """Return the UTC time at which an attempt ended; if its recorded start is not a valid time, return that text."""
    try:
        began = datetime.fromisoformat(attempt.started_utc)
        return (began + timedelta(seconds=attempt.duration_s)).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        return attempt.started_utc


def _places(directory: Path, store: Store) -> dict[str, str]:
    """Return {absolute path that the campaign's records may contain: the name that replaces it in the bundle}."""
    floor = (store.noise_floor() or {}).get("directory", "")
    recorded = (store.provenance, *(row.provenance for row in store.testbeds()))
    files = [place.file for provenance in recorded for place in (provenance.testbed, provenance.fleet)]
    named = (store.study.file, floor, *files)
    places = {place: Path(place).name for place in map(str, named) if Path(place).is_absolute()}
    return places | {str(directory.resolve()): IN_BUNDLE, str(directory.absolute()): IN_BUNDLE}


def _copy_study(whole: Path, source: Path, name: str, text: str, target: Path) -> None:
    """Write the study `name`, whose file has this `text`, and the claims of the campaign in `source` to `target`.

    No symbolic link below `whole`, the directory that is bundled, is followed. Raises: InputError when the claims file
    is a link, or is not a file."""
    claims = claims_of(source, name)
    texts = {} if claims is None else claims_copy(claims, whole)
    texts["study.toml"] = text  # last, so that no claims file of this name replaces it
    for file, content in texts.items():
        (target / file).write_text(content, encoding="utf-8")


def _copy_index(directory: Path, target: Path, wanted: BundleOptions) -> None:
    """Write the index of a suite to the bundle in `target`, with private words replaced."""
    suite = suites.read(directory)
    cleaners = [redact(Provenance(), {str(directory.resolve()): IN_BUNDLE}, anonymous=wanted.anonymous)]
    for member in suite.studies:
        if suites.has_campaign(directory, member):
            with Store.open(directory / member.name, readonly=True) as store:
                cleaners.append(redact(store.provenance, {}, anonymous=wanted.anonymous))

    def clean(text: str | None) -> str | None:
        return text and reduce(lambda words, cleaner: cleaner.clean(words), cleaners, text)

    studies = tuple(
        replace(member, stopped=clean(member.stopped), remedy=clean(member.remedy)) for member in suite.studies
    )
    source, testbed, fleet = (Path(place).name for place in (suite.source, suite.testbed, suite.fleet))
    suites.write(target, replace(suite, source=source, testbed=testbed, fleet=fleet, studies=studies))


def _crate(directory: Path, campaigns: Sequence[CrateCampaign], wanted: BundleOptions) -> Crate:
    """Return the description of a bundle. Raises: InputError if no trial has run."""
    ran = tuple(campaign for campaign in campaigns if campaign.ended)
    if not ran:
        raise InputError(f"{directory} has no results: no trial has run", f"run it with `lastro resume {directory}`")
    if suites.is_suite(directory):
        suite = suites.read(directory)
        name, title, description = suite.name, suite.title, suite.description
    else:
        with Store.open(directory, readonly=True) as store:
            name, title, description = store.study.name, store.study.title, store.study.description
    authors = () if wanted.anonymous else wanted.authors
    return Crate(name, title, description, ran, versions(), wanted.lang, wanted.anonymous, authors, wanted.licence)


def _fill(root: Path, crate: Crate) -> list[str]:
    """Write all files of the bundle in `root` except its campaigns, which are there; return the names of all files.

    The names are in the order that they have in the zip."""
    for name, text in documents(root, language(crate.lang)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text)
    (root / "README.md").write_text(crate_words.readme(crate), encoding="utf-8")
    (root / "CITATION.cff").write_text(crate_words.citation(crate), encoding="utf-8")
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    files = [_file_entry(root, name) for name in names]
    (root / METADATA).write_text(metadata(crate, [*files, CrateFile(MANIFEST)]), encoding="utf-8")
    files.append(_file_entry(root, METADATA))
    lines = "".join(f"{file.sha256}  {file.name}\n" for file in sorted(files, key=lambda file: file.name))
    (root / MANIFEST).write_text(lines, encoding="utf-8")
    return [METADATA, "README.md", MANIFEST, *(name for name in names if name != "README.md")]


def _file_entry(root: Path, name: str) -> CrateFile:
    with (root / name).open("rb") as file:
        return CrateFile(name, (root / name).stat().st_size, file_digest(file, "sha256").hexdigest())
