"""The schedule is the one that was drawn at the start; the trial in flight when it stopped runs again, whole."""

from __future__ import annotations

import argparse

from lastro import registry
from lastro.cli._campaign import carry_on
from lastro.cli._common import campaign_argument, open_campaign, require_root
from lastro.cli.run import conclude


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    parser.add_argument("--wait", action="store_true", help="wait for another campaign on this host to end")
    parser.add_argument("--no-report", action="store_true", help="do not write the HTML report at the end")


def run(args: argparse.Namespace) -> int:
    with open_campaign(args.dir, readonly=False) as store:
        if registry.get("scenario", store.study.scenario).needs_root:
            require_root("resume")
        if store.next_trial() is None:
            print(f"{args.dir}: nothing is left to run")
        else:
            carry_on(store, "resumed", wait=args.wait)
    return conclude(args.dir, report=not args.no_report)
