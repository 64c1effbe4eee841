"""A name is what `lastro plan`, `lastro run` and `lastro new --from` take. That of a suite runs its studies one after
the other. A file or folder of the same name is ./NAME.

  lastro run kagami2017 --profile quick
  lastro run trindade2018/disk
  lastro new --from eiras2018/loops mine.toml    writes the file of a study, to read or to edit"""

from __future__ import annotations

import argparse
import json
import tomllib
from typing import Any

from lastro import papers


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> None:
    studies = dict[str, dict[str, Any]]()  # each suite before its first study
    for name in papers.names():
        suite, _, member = name.partition("/")
        if member and suite not in studies:
            folder = papers.folder(suite)
            assert folder
            title = tomllib.loads((folder / "suite.toml").read_text(encoding="utf-8"))["title"]
            studies[suite] = {"name": suite, "title": title, "scenario": None, "profiles": (), "claims": False}
        document = tomllib.loads(papers.find(name).read_text(encoding="utf-8"))
        study, has_claims = document["study"], papers.claims(document["study"]["name"]) is not None
        more = {"profiles": tuple(document.get("profiles", ())), "claims": has_claims}
        studies[name] = {"name": name, "title": study["title"], "scenario": study["scenario"], **more}
    if args.json:
        print(json.dumps(list(studies.values()), indent=2))
        return
    width = max(map(len, studies))
    for name, listed in studies.items():
        print(f"{name:<{width}}  {listed['scenario'] or 'suite':<11}  {listed['title']}")
