"""Shows how many trials are done, how long the rest may take, what happened last, and the next command.

Works while the campaign runs; needs no root. For a suite, it shows each study and the total."""

from __future__ import annotations

import argparse

from lastro.app.status import facts_of
from lastro.cli._common import campaign_argument, language_argument
from lastro.cli._terminal import print_answer
from lastro.document import Document
from lastro.words.language import Language


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    language_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> None:
    facts = facts_of(args.dir)

    def blocks(say: Language) -> Document:
        from lastro.builders.status import status_document

        return status_document(facts, say)

    print_answer(args, lambda: facts, blocks)
