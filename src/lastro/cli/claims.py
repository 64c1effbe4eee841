"""Each claim of a claims file with what was published, what this campaign measured, and a verdict: reproduced, same
direction only, contradicted, not distinguishable here, or untestable here, and why. The rule of the verdicts is in
docs/explanation-claims.md.

  lastro claims DIR                         DIR/claims.toml, else the claims of the paper whose study this is
  lastro claims DIR --claims mine.toml      your own
  lastro claims DIR --json                  one JSON document
  lastro claims DIR --fail-on contradicted  exit code 4 when a claim has this verdict

Needs no root. A verdict is no error: without --fail-on the exit code is 0."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from lastro.cli._common import campaign_argument, open_campaign
from lastro.report.language import LANGUAGES, language

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lastro.report.claims import Judgement
    from lastro.report.model import Report
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


def run(args: argparse.Namespace) -> int:
    from lastro.report.claims import judge
    from lastro.report.claims_document import claims_text
    from lastro.report.model import build_report
    from lastro.results.read import load_campaign
    from lastro.study.load_claims import load_claims

    with open_campaign(args.dir) as store:
        data = load_campaign(store)
    claims = load_claims(args.claims or find_claims(args.dir, data.study.name), data.study)
    report = build_report(data, all_metrics=True)
    judgements = judge(claims, report, language(args.lang))
    if args.json:
        print(claims_text(claims, judgements, report))
    else:
        _print_table(claims, judgements, report, args.lang)
    failed = args.fail_on and any(one.verdict in _GATES[args.fail_on] for one in judgements)
    return 4 if failed else 0


def find_claims(directory: Path, study: str) -> Path:
    """The claims file of a campaign that names none: its own, else that of the paper with the study's name.

    Raises: InputError when there is neither."""
    from lastro import papers
    from lastro.errors import InputError

    own = directory / "claims.toml"
    found = own if own.is_file() else papers.claims(study)
    if found is None:
        raise InputError(
            f"there is no {own}, and no paper with claims has a study named {study}",
            "name a file with --claims; docs/explanation-claims.md tells how to write one",
        )
    return found


def _print_table(claims: Claims, judgements: Sequence[Judgement], report: Report, code: str) -> None:
    import shutil

    from rich.console import Console

    from lastro.report.claims_table import render_claims

    width = max(60, shutil.get_terminal_size((100, 24)).columns)
    console = Console(width=width, highlight=False, markup=False, emoji=False)
    console.print(render_claims(claims, judgements, report, language(code)))
