"""The claims of all studies of a suite, in one table or as one JSON document."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from lastro.campaign import suite as suites
from lastro.campaign.suite import Suite
from lastro.cli import claims as single
from lastro.cli._common import refuse_suite
from lastro.cli._terminal import print_laid_out
from lastro.cli.claims import Judged
from lastro.cli.results import loaded
from lastro.errors import InputError
from lastro.plain import json_text
from lastro.report.language import Language, language

FORMAT = "lastro-suite-claims/1"


def run(args: argparse.Namespace) -> int:
    if args.claims:
        refuse_suite(args.dir, "--claims FILE")
    suite = suites.read(args.dir)
    found: dict[str, Judged] = {}
    waiting: list[str] = []  # studies that have claims but no campaign yet
    for front in suite.fronts:
        file = single.claims_of(args.dir / front.name, front.study)
        if file is None:
            continue
        if not suites.begun(args.dir, front):
            waiting.append(front.name)
        else:
            found[front.name] = single.judged(loaded(args.dir / front.name), file)
    if not found and not waiting:
        raise InputError(
            f"no front of {args.dir} has claims",
            f"put them into {args.dir}/FRONT/claims.toml, or before the run into"
            " claims/FRONT.toml next to the study files; docs/explanation-claims.md explains how to write one",
        )
    if args.json:
        print(json_text(_document(args.dir, suite, found, waiting, language(args.lang))))
    else:
        _print(suite, found, waiting, language(args.lang))
    judgements = [one for judged in found.values() for one in judged.judgements]
    return single.exit_code(args.fail_on, judgements, unjudged=bool(waiting))


def _print(suite: Suite, found: dict[str, Judged], waiting: list[str], say: Language) -> None:
    from lastro.report.claims_table import render_suite_claims

    rows = {front: (judged.judgements, judged.report) for front, judged in found.items()}
    print_laid_out(lambda _: [render_suite_claims(suite.label, rows, waiting, say)])


def _document(
    directory: Path, suite: Suite, found: dict[str, Judged], waiting: list[str], say: Language
) -> dict[str, Any]:
    """Return the document: as of a campaign, plus the study of each claim; what differs by study is in `fronts`."""
    from lastro.report.claims_document import claims_document

    documents = {
        front: claims_document(each.claims, each.judgements, each.report, say) for front, each in found.items()
    }
    tallies = [document["tally"] for document in documents.values()]
    return {
        "format": FORMAT,
        "directory": str(directory),
        "suite": suite.name,
        "tally": {verdict: sum(tally[verdict] for tally in tallies) for verdict in (tallies[0] if tallies else ())},
        "not_begun": waiting,
        "fronts": [
            {"front": front, **{key: value for key, value in document.items() if key not in ("format", "claims")}}
            for front, document in documents.items()
        ],
        "claims": [{"front": front, **claim} for front, document in documents.items() for claim in document["claims"]],
    }
