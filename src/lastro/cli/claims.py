"""Shows each claim of a claims file with what was published, what this campaign measured, and a verdict: reproduced,
same direction only, contradicted, not distinguishable here, or untestable here, and why. The rule for the verdicts is
in docs/explanation-claims.md.

  lastro claims DIR                         DIR/claims.toml, or else those of the paper that published the study
  lastro claims DIR --claims mine.toml      your own
  lastro claims DIR --json                  one JSON document
  lastro claims DIR --fail-on contradicted  exit code 4 when a claim has this verdict

For a suite: the claims of all studies in one table; those of each study are judged like those of one campaign.

Needs no root. A verdict is not an error: without --fail-on the exit code is 0."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.campaign.suite import is_suite
from lastro.cli._common import campaign_argument
from lastro.cli._terminal import print_laid_out
from lastro.cli.results import loaded
from lastro.report.language import LANGUAGES, language

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lastro.analysis.campaign import Report
    from lastro.analysis.claims import Judgement
    from lastro.results.read import CampaignData
    from lastro.study.claims import Claims

_GATES = {
    "contradicted": {"contradicted"},
    "not-reproduced": {"contradicted", "same direction only", "not distinguishable here", "untestable here"},
}


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    parser.add_argument(
        "--claims", metavar="FILE", type=Path, help="a claims file (default: DIR/claims.toml, or a paper's)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    parser.add_argument("--lang", choices=LANGUAGES, default="en", help="the language of the table (default: en)")
    parser.add_argument("--fail-on", choices=_GATES, help="exit with 4 when any claim has this verdict")


@dataclass(frozen=True, slots=True)
class Judged:
    """The claims on one campaign and their verdicts."""

    claims: Claims
    judgements: tuple[Judgement, ...]
    report: Report


def run(args: argparse.Namespace) -> int:
    if is_suite(args.dir):
        from lastro.cli import _suite_claims

        return _suite_claims.run(args)
    from lastro.report.claims_document import claims_text
    from lastro.report.claims_table import render_claims

    data = loaded(args.dir)
    say = language(args.lang)
    found = judged(data, args.claims or find_claims(args.dir, data.study.name))
    if args.json:
        print(claims_text(found.claims, found.judgements, found.report, say))
    else:
        print_laid_out(lambda _: [render_claims(found.claims, found.judgements, found.report, say)])
    return exit_code(args.fail_on, found.judgements)


def judged(data: CampaignData, file: Path) -> Judged:
    """Judge the claims in a file. Raises: StudyError when it is not a valid claims file of this study."""
    from lastro.analysis.campaign import build_report
    from lastro.analysis.claims import judge
    from lastro.study.load_claims import load_claims

    claims = load_claims(file, data.study)
    report = build_report(data, all_metrics=True)
    return Judged(claims, judge(claims, report), report)


def exit_code(fail_on: str | None, judgements: Iterable[Judgement], *, unjudged: bool = False) -> int:
    """Return 4 when a verdict fails the gate, else 0. `unjudged`: a study with claims has no campaign yet."""
    if fail_on is None:
        return 0
    failed = any(one.verdict in _GATES[fail_on] for one in judgements) or (unjudged and fail_on == "not-reproduced")
    return 4 if failed else 0


def find_claims(directory: Path, study: str) -> Path:
    """Return the claims file of a campaign: its own, else that of the paper with the study's name.

    Raises: InputError when there is neither."""
    from lastro.errors import InputError

    found = claims_of(directory, study)
    if found is None:
        raise InputError(
            f"there is no {directory / 'claims.toml'}, and no paper with claims has a study named {study}",
            "name a file with --claims; docs/explanation-claims.md explains how to write one",
        )
    return found


def claims_of(directory: Path, study: str) -> Path | None:
    """Return the same as `find_claims`, but None when there is neither."""
    from lastro import papers

    own = directory / "claims.toml"
    return own if own.is_file() else papers.claims(study)
