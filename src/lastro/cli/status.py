"""Shows how many trials are done, how long the rest may take, what happened last, and the next command.

Works while the campaign runs; needs no root. For a suite, it shows each study and the total."""

from __future__ import annotations

import argparse

from lastro.app.status import status_of, status_of_suite
from lastro.campaign import suite as suites
from lastro.cli._common import campaign_argument, language_argument
from lastro.cli._terminal import print_blocks
from lastro.plain import json_text
from lastro.words.language import language


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    language_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    whole = suites.is_suite(args.dir)
    facts = status_of_suite(args.dir, suites.read(args.dir)) if whole else status_of(args.dir)
    if args.json:
        print(json_text(facts))
        return 0
    from lastro.builders.status import status_blocks, suite_status_blocks
    from lastro.document import CommandLine

    say = language(args.lang)
    if whole:
        print_blocks([*suite_status_blocks(facts, say), CommandLine(say("next"), facts["next"])], say)
    else:
        print_blocks(status_blocks(facts, say), say)
    return 0
