"""A name is what `lastro plan`, `lastro run` and `lastro new --from` take. That of a suite runs its studies one after
the other. A file or folder of the same name is ./NAME.

  lastro run kagami2017 --profile quick
  lastro run trindade2018/disk
  lastro new --from eiras2018/loops mine.toml    writes the file of a study, to read or to edit"""

from __future__ import annotations

import argparse
import json
import tomllib
from dataclasses import asdict, dataclass

from lastro import papers


@dataclass(frozen=True, slots=True)
class ListedStudy:
    """A built-in study or suite, as `lastro studies` lists it; a suite has no scenario."""

    name: str
    title: str
    scenario: str | None
    profiles: tuple[str, ...]
    claims: bool  # whether the paper's claims judge its campaigns


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> None:
    studies = _built_in_studies()
    if args.json:
        print(json.dumps([asdict(study) for study in studies], indent=2))
        return
    width = max(len(study.name) for study in studies)
    for study in studies:
        print(f"{study.name:<{width}}  {study.scenario or 'suite':<11}  {study.title}")


def _built_in_studies() -> list[ListedStudy]:
    """Return the built-in studies and suites; each suite comes before its first study."""
    studies = list[ListedStudy]()
    for name in papers.names():
        suite, _, member = name.partition("/")
        if member and not any(entry.name == suite for entry in studies):
            folder = papers.folder(suite)
            assert folder
            table = tomllib.loads((folder / "suite.toml").read_text(encoding="utf-8"))
            studies.append(ListedStudy(suite, table["title"], None, (), False))
        document = tomllib.loads(papers.find(name).read_text(encoding="utf-8"))
        study = document["study"]
        profiles = tuple(document.get("profiles", ()))
        has_claims = papers.claims(study["name"]) is not None
        studies.append(ListedStudy(name, study["title"], study["scenario"], profiles, has_claims))
    return studies
