"""Shows how many trials are done, how long the rest may take, what happened last, and the next command.

Works while the campaign runs; needs no root. For a suite, it shows each study and the total."""

from __future__ import annotations

import argparse

from lastro.app.status import status_of, status_of_suite
from lastro.campaign import suite as suites
from lastro.cli._common import campaign_argument, language_argument
from lastro.cli._terminal import print_answer
from lastro.document import CommandLine, Document
from lastro.words.language import Language


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    language_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    whole = suites.is_suite(args.dir)
    facts = status_of_suite(args.dir, suites.read(args.dir)) if whole else status_of(args.dir)

    def blocks(say: Language) -> Document:
        from lastro.builders.status import status_blocks, suite_status_blocks

        if not whole:
            return status_blocks(facts, say)
        return [*suite_status_blocks(facts, say), CommandLine(say("next"), facts["next"])]

    print_answer(args, lambda: facts, blocks)
    return 0
