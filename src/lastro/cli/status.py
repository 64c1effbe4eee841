"""Shows how many trials are done, how long the rest may take, what happened last, and the next command.

Works while the campaign runs; needs no root. For a suite, it shows each study and the total."""

from __future__ import annotations

import argparse
from functools import partial

from lastro.app.status import facts_of
from lastro.cli._common import campaign_argument, language_argument
from lastro.cli._terminal import print_answer


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    language_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> None:
    from lastro.builders.status import status_document

    facts = facts_of(args.dir)
    print_answer(args, lambda: facts, partial(status_document, facts))
