"""The description of a bundle, as an RO-Crate: https://w3id.org/ro/crate/1.1.

Lastro writes this JSON itself. The library `rocrate` would add a quarter of a second to the start of the command, and
seven packages (a client for HTTP among them), to write the same few entities; the tests read bundles with it."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from lastro.analysis.campaign import MeasuredIn
from lastro.errors import InputError
from lastro.plain import json_text
from lastro.results.provenance import Provenance

METADATA = "ro-crate-metadata.json"
HOME = "https://w3id.org/ro/crate/1.1"
# The context of RO-Crate 1.1 lacks this term of schema.org.
_CONTEXT = [f"{HOME}/context", {"sha256": "http://schema.org/sha256"}]
_LASTRO = "#software-lastro"
_SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
_URL = re.compile(r"https?://[^\s<>\"]+")
_AUTHOR = re.compile(
    r"(?P<name>[^<>]*[^<>\s])\s*(?:<(?:https://orcid\.org/)?(?P<orcid>\d{4}-\d{4}-\d{4}-\d{3}[\dX])>)?"
)
_TYPES = {
    ".db": "application/vnd.sqlite3", ".toml": "application/toml", ".md": "text/markdown", ".tex": "application/x-tex",
    ".cff": "application/yaml", ".csv": "text/csv", ".json": "application/json", ".html": "text/html",
    ".svg": "image/svg+xml",
}  # fmt: skip
_NAMES = {
    "campaign.db": "The campaign: study, provenance, schedule, results, raw series and transcripts, in SQLite",
    "study.toml": "The study, as its author wrote it",
    "suite.json": "The studies of the suite, in running order",
    "claims.toml": "The claims on which the report has verdicts",
    "report.html": "The report",
    "report.md": "The report in Markdown",
    "report.tex": "The tables of the report in LaTeX",
    "trials.csv": "Every value of every attempt, one in each row",
    "results.json": "The results with their analysis, for programs",
    "provenance.json": "Provenance of the host, calibrations and events",
    "README.md": "What this bundle is, and how to read and verify it",
    "CITATION.cff": "How to cite these data",
    "SHA256SUMS": "The SHA-256 of every other file",
}
_TRANSCRIPTS = "record/transcripts/"


@dataclass(frozen=True, slots=True)
class Author:
    """A person or a group that made a study. `orcid` has the form 0000-0002-1825-0097, or is empty."""

    name: str
    orcid: str = ""

    @property
    def url(self) -> str:
        return f"https://orcid.org/{self.orcid}" if self.orcid else ""


def author(text: str) -> Author:
    """Read 'Ana Silva' or 'Ana Silva <0000-0002-1825-0097>'. Raises: InputError for any other form."""
    match = _AUTHOR.fullmatch(text.strip())
    if match is None or not text.isprintable():
        raise InputError(
            f"--author {text!r} is not a name",
            "such as 'Ana Silva', or with an ORCID: 'Ana Silva <0000-0002-1825-0097>'",
        )
    return Author(match["name"], match["orcid"] or "")


def licence_url(text: str) -> str:
    """Return the URL of a licence. Raises: InputError unless it has the form of an SPDX identifier or of a URL."""
    if _URL.fullmatch(text):
        return text
    if _SPDX.fullmatch(text):
        return f"https://spdx.org/licenses/{text}"
    raise InputError(
        f"--license {text!r} is neither an SPDX identifier nor a URL",
        "write an identifier from https://spdx.org/licenses, such as CC-BY-4.0, or a URL",
    )


@dataclass(frozen=True, slots=True)
class CrateFile:
    """A file of a bundle, with its size in bytes and its hash.

    SHA256SUMS has neither, because it contains the hash of the description made here."""

    name: str
    size: int | None = None
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class CrateCampaign:
    """A campaign of a bundle."""

    folder: str  # directory of its database in the bundle
    name: str
    title: str
    trials: int
    valid: int
    waiting: int
    began: str  # UTC time; empty if no trial ran; `ended` alike
    ended: str
    provenance: Provenance
    guest: MeasuredIn | None = None  # the virtual machine in which it ran; None for a real host


@dataclass(frozen=True, slots=True)
class Crate:
    """A bundle: one campaign, or all of a suite. `versions` is {Lastro or a library: version}."""

    name: str
    title: str
    description: str
    campaigns: tuple[CrateCampaign, ...]
    versions: Mapping[str, str]
    lang: str
    anonymous: bool = False
    authors: tuple[Author, ...] = ()
    licence: str = ""  # as the user gave it

    @property
    def published(self) -> str:
        """The date of publication: the day on which the last attempt ended, which makes the bundle reproducible."""
        return max(campaign.ended for campaign in self.campaigns)[:10]


def metadata(crate: Crate, files: Sequence[CrateFile]) -> str:
    """Return the text of ro-crate-metadata.json; `files` are all other files of the bundle."""
    graph = [
        {"@id": METADATA, "@type": "CreativeWork", "about": _ref("./"), "conformsTo": _ref(HOME)},
        _root(crate, files),
        *_authors(crate),
        _licence(crate),
        *_files(files),
        *_software(crate),
        *_actions(crate, files),
    ]
    return json_text({"@context": _CONTEXT, "@graph": graph}) + "\n"


def _ref(name: str) -> dict[str, str]:
    return {"@id": name}


def _refs(names: Sequence[str]) -> Any:
    """Return a list of references to entities; for a single entity, only its reference.

    Source: RO-Crate 1.1, section 'JSON-LD', which recommends a single value without a list."""
    references = [_ref(name) for name in names]
    return references[0] if len(references) == 1 else references


def _id(name: str) -> str:
    """Return the identifier of a file: its name, with characters escaped that a URI must not contain."""
    return quote(name, safe="/")


def _root(crate: Crate, files: Sequence[CrateFile]) -> dict[str, Any]:
    parts = [*_folders(files), *(_id(file.name) for file in _described_files(files))]
    dataset = {
        "@id": "./",
        "@type": "Dataset",
        "name": crate.title or crate.name,
        "description": crate.description or f"The study {crate.name}: its results and its report",
        "datePublished": crate.published,
        "license": _ref(_licence(crate)["@id"]),
        "inLanguage": crate.lang,
        "keywords": "NFV, benchmark, virtualization, isolation, Lastro",
        "hasPart": _refs(parts),
        "mentions": _refs([action["@id"] for action in _actions(crate, files)]),
    }
    return dataset | _by_authors(crate, "author")


def _by_authors(crate: Crate, key: str) -> dict[str, Any]:
    return {key: _refs([entity["@id"] for entity in _authors(crate)])} if crate.authors else {}


def _authors(crate: Crate) -> list[dict[str, Any]]:
    return [
        {"@id": author.url or f"#author-{number}", "@type": "Person", "name": author.name}
        for number, author in enumerate(crate.authors, 1)
    ]


def _licence(crate: Crate) -> dict[str, Any]:
    if not crate.licence:
        words = "The authors did not state a licence for these data. Ask them before you publish or change the data."
        return {"@id": "#no-licence", "@type": "CreativeWork", "name": "No licence stated", "description": words}
    url = licence_url(crate.licence)
    return {"@id": url, "@type": "CreativeWork", "name": crate.licence, "description": f"The terms of use: {url}"}


def _described_files(files: Sequence[CrateFile]) -> list[CrateFile]:
    """Return all files except transcripts: there may be thousands, so only their directories are described."""
    return [file for file in files if _TRANSCRIPTS not in file.name]


def _folders(files: Sequence[CrateFile]) -> list[str]:
    names = (file.name for file in files)
    parents = {name.partition(_TRANSCRIPTS)[0] for name in names if _TRANSCRIPTS in name}
    return sorted(_id(parent + _TRANSCRIPTS) for parent in parents)


def _files(files: Sequence[CrateFile]) -> Iterator[dict[str, Any]]:
    for folder in _folders(files):
        name = "Every command of every attempt, with its output and its duration"
        yield {"@id": folder, "@type": "Dataset", "name": name}
    for file in _described_files(files):
        path = PurePosixPath(file.name)
        kind = _TYPES.get(path.suffix) or mimetypes.types_map.get(path.suffix, "text/plain")
        name = _NAMES.get(path.name, path.stem)
        entity = {"@id": _id(file.name), "@type": "File", "name": name, "encodingFormat": kind}
        yield entity | ({} if file.size is None else {"contentSize": str(file.size), "sha256": file.sha256})


def _software(crate: Crate) -> Iterator[dict[str, Any]]:
    for name, version in crate.versions.items():
        entity = {"@id": software_id(name), "@type": "SoftwareApplication", "name": name, "version": version}
        yield entity | ({"license": "Apache-2.0"} if name == "Lastro" else {})
    recorded: dict[str, dict[str, Any]] = {}
    for campaign in crate.campaigns:
        for entity in _recorded(campaign):
            recorded.setdefault(entity["@id"], entity)
    yield from recorded.values()


def software_id(name: str) -> str:
    return f"#software-{name.lower()}"


def _recorded(campaign: CrateCampaign) -> Iterator[dict[str, Any]]:
    """Yield entities for the tools and the root filesystem that the provenance of a campaign records."""
    for name, tool in campaign.provenance.tools.items():
        if tool.sha256:
            entity = {"@id": f"#tool-{_id(name)}-{tool.sha256[:12]}", "@type": "SoftwareApplication", "name": name}
            yield entity | {"version": tool.version, "sha256": tool.sha256}
    root = campaign.provenance.root_filesystem
    if root.sha256:
        name = "The root filesystem that every platform ran"
        snapshot = root.debian_snapshot or "that of the day of its build"
        entity = {"@id": f"#root-filesystem-{root.sha256[:12]}", "@type": "SoftwareApplication", "name": name}
        yield entity | {"sha256": root.sha256, "description": f"Debian, snapshot: {snapshot}"}


def _actions(crate: Crate, files: Sequence[CrateFile]) -> list[dict[str, Any]]:
    """Return the actions that made the data, as entities: the run of each campaign, and the making of the reports."""
    names = {file.name for file in files}
    agents = _by_authors(crate, "agent")
    actions: list[dict[str, Any]] = []
    for number, campaign in enumerate(crate.campaigns, 1):
        tools = [entity["@id"] for entity in _recorded(campaign)]
        waiting = f"; not run: {campaign.waiting}" if campaign.waiting else ""
        actions.append(
            {
                "@id": f"#run-{number}",
                "@type": "CreateAction",
                "name": f"The campaign of the study {campaign.name}",
                "description": f"{campaign.valid} of {campaign.trials} trials are valid{waiting}",
                "startTime": campaign.began,
                "endTime": campaign.ended,
                "instrument": _refs([_LASTRO, *tools]),
                "object": _ref(_id(f"{campaign.folder}/study.toml")),
                "result": _ref(_id(f"{campaign.folder}/campaign.db")),
                **agents,
            }
        )
    reports = [_id(name) for name in sorted(names) if name.startswith("report/")]
    stores = [_id(f"{campaign.folder}/campaign.db") for campaign in crate.campaigns]
    actions.append(
        {
            "@id": "#report",
            "@type": "CreateAction",
            "name": "The reports, tables and figures, made from the campaign alone",
            "instrument": _refs([software_id(name) for name in crate.versions]),
            "object": _refs(stores),
            "result": _refs(reports),
            **agents,
        }
    )
    return actions
