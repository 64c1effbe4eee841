"""Estimates how many blocks the next campaign needs. A study with service levels asks which candidate keeps them: then
the advice is how many more blocks decide on each that is still open. With --precision, and in a study without service
levels, the intervals of all ratios to the baseline are to be as narrow as desired (by default, as the margins of the
study, or ±5%): for each metric, it shows two numbers of blocks, which are enough with a probability of 50 % and of 80
%; limits for the number that the true noise requires; and the time that the blocks take here. If the study has claims,
it also says how many blocks decide on each that is still open.

  lastro advise-replicates DIR                    for the service levels of its study, or else as with 5%
  lastro advise-replicates DIR --precision 2%

Use a pilot campaign of at least five blocks. Needs no root."""

from __future__ import annotations

import argparse
import itertools
from functools import partial

from lastro.app.contents import claims_of, judge_claims, load_data
from lastro.cli._common import campaign_argument, language_argument, share
from lastro.cli._terminal import print_answer


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    parser.add_argument(
        "--precision", metavar="P", help="desired half width of the intervals, relative to each ratio: 5%% or 0.05"
    )
    language_argument(parser)
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> None:
    from lastro.analysis import advice
    from lastro.analysis.build import build_report
    from lastro.analysis.claims.advice import advise_on_claims
    from lastro.analysis.decision import decision_of
    from lastro.builders.advice import (
        advice_blocks,
        claim_advice_blocks,
        decision_advice_blocks,
        decision_advice_document,
        document,
    )

    precision = share(args.precision, "--precision", above_zero=True) if args.precision else None
    data = load_data(args.dir)
    report = build_report(data)
    file = claims_of(args.dir, data.study.name)
    judgements = judge_claims(data, file).judgements if file else ()
    claims = advise_on_claims(judgements, report.study.design.alpha)
    if not args.precision and (decision := decision_of(report)):
        on_decision = advice.advise_on_decision(decision)
        as_json = partial(decision_advice_document, on_decision, claims)
        blocks = partial(decision_advice_blocks, on_decision)
    else:
        on_precision = advice.advise(report, precision)
        as_json, blocks = partial(document, on_precision, claims), partial(advice_blocks, on_precision)
    print_answer(args, as_json, lambda say: itertools.chain(blocks(say), claim_advice_blocks(claims, say)))
