"""Shows each claim of a claims file with the published value, the value that this campaign measured, and a verdict with
its reason: reproduced, same direction (with another size, or too imprecise), contradicted, not distinguishable here, or
untestable here. The rule for the verdicts is in docs/explanation-claims.md.

  lastro claims DIR                         DIR/claims.toml, or else those of the paper that published the study
  lastro claims DIR --claims mine.toml      your own file
  lastro claims DIR --json                  one JSON document
  lastro claims DIR --blocks                also the verdicts after the first 2, 3, ... blocks
  lastro claims DIR --fail-on contradicted  exit code 4 when a claim has this verdict

For a suite, the claims of all studies follow each other; each study is judged as a campaign of its own. Several
campaigns of one study, such as those of levels that require different kernels, are judged together:
lastro claims DIR DIR ...

Needs no root. A verdict is not an error: without --fail-on the exit code is 0."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lastro.app.campaign_dirs import refuse_suite
from lastro.app.contents import claims_of, find_claims, judge_claims, load_data, load_together
from lastro.campaign import suite as suites
from lastro.campaign.suite import Suite
from lastro.cli._common import campaigns_argument, language_argument
from lastro.cli._terminal import print_answer
from lastro.errors import InputError
from lastro.words.claims import source_text
from lastro.words.language import Language, language

if TYPE_CHECKING:
    from lastro.analysis.claims import Judgement
    from lastro.builders.claims import JudgedClaims

_SUITE_FORMAT = "lastro-suite-claims/1"
_SAME_DIRECTION = ("same direction, another size", "same direction, too imprecise")
_GATES = {
    "contradicted": {"contradicted"},
    "not-reproduced": {"contradicted", *_SAME_DIRECTION, "not distinguishable here", "untestable here"},
}


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    campaigns_argument(parser)
    add("--claims", metavar="FILE", type=Path, help="a claims file (default: DIR/claims.toml, or a paper's)")
    add("--blocks", action="store_true", help="add the verdicts after the first blocks of the campaign")
    add("--json", action="store_true", help="print one JSON document instead of the table")
    language_argument(parser, "table")
    add("--fail-on", choices=_GATES, help="exit with 4 when any claim has this verdict")


def run(args: argparse.Namespace) -> int:
    first, *others = args.dirs
    if not others and suites.is_suite(first):
        return _run_suite(args, first)
    from lastro.builders.claims import claims_blocks
    from lastro.builders.data.claims import claims_document

    data = load_together(args.dirs)
    result = judge_claims(data, args.claims or find_claims(first, data.study.name), by_blocks=args.blocks)
    title = source_text(result.claims.source) or result.claims.file
    as_json = partial(claims_document, result, language(args.lang))
    print_answer(args, as_json, partial(claims_blocks, title, {"": result}))
    return _exit_code(args.fail_on, result.judgements)


def _run_suite(args: argparse.Namespace, directory: Path) -> int:
    if args.claims:
        refuse_suite(directory, "--claims FILE")
    suite = suites.read(directory)
    judged_by_study: dict[str, JudgedClaims] = {}
    waiting: list[str] = []  # studies that have claims but no campaign yet
    for member in suite.studies:
        file = claims_of(directory / member.name, member.study)
        if file is None:
            continue
        if not suites.has_campaign(directory, member):
            waiting.append(member.name)
        else:
            judged_by_study[member.name] = judge_claims(load_data(directory / member.name), file, by_blocks=args.blocks)
    if not judged_by_study and not waiting:
        raise InputError(
            f"no study of {directory} has claims",
            f"put them into {directory}/STUDY/claims.toml, or before the run into"
            " claims/STUDY.toml next to the study files; docs/explanation-claims.md explains how to write one",
        )
    from lastro.builders.claims import claims_blocks

    print_answer(
        args,
        lambda: _suite_document(directory, suite, judged_by_study, waiting, language(args.lang)),
        partial(claims_blocks, suite.label, judged_by_study, suite=True, waiting=waiting),
    )
    judgements = [judgement for result in judged_by_study.values() for judgement in result.judgements]
    return _exit_code(args.fail_on, judgements, unjudged=bool(waiting))


def _suite_document(
    directory: Path, suite: Suite, judged_by_study: dict[str, JudgedClaims], waiting: list[str], say: Language
) -> dict[str, Any]:
    """Return the claims of a suite as JSON-serializable data.

    `claims` has the claims of all studies, each with the name of its study. `studies` has the rest of each study's
    document. `judged_by_study` is {study: its judged claims}; `waiting` are studies with claims but without a
    campaign."""
    from lastro.builders.data.claims import claims_document

    documents = {name: claims_document(study_claims, say) for name, study_claims in judged_by_study.items()}
    tallies = [document["tally"] for document in documents.values()]
    return {
        "format": _SUITE_FORMAT,
        "directory": str(directory),
        "suite": suite.name,
        "tally": {verdict: sum(tally[verdict] for tally in tallies) for verdict in (tallies[0] if tallies else ())},
        "not_begun": waiting,
        "studies": [
            {"suite_study": name, **{key: value for key, value in document.items() if key not in ("format", "claims")}}
            for name, document in documents.items()
        ],
        "claims": [
            {"suite_study": name, **claim} for name, document in documents.items() for claim in document["claims"]
        ],
    }


def _exit_code(fail_on: str | None, judgements: Iterable[Judgement], *, unjudged: bool = False) -> int:
    """Return 4 if a verdict fails the gate --fail-on, otherwise 0.

    `unjudged` means that a study with claims has no campaign yet, which fails the gate `not-reproduced`."""
    if fail_on is None:
        return 0
    failed = any(judgement.verdict in _GATES[fail_on] for judgement in judgements) or (
        unjudged and fail_on == "not-reproduced"
    )
    return 4 if failed else 0
