"""The schedule is the one that was drawn at the start; the trial in flight when it stopped runs again, whole.

Trials of one campaign are compared with each other, so it goes on only on the host and the root filesystem with which
it began; --changed-host goes on all the same, and says so in the report."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

from lastro import registry
from lastro.campaign.runner import utc_now
from lastro.campaign.sequential import decision
from lastro.cli._campaign import run_here
from lastro.cli._common import campaign_argument, open_campaign, require_root
from lastro.cli._host import scenario_on_host
from lastro.cli.run import conclude, identity
from lastro.errors import InputError
from lastro.host.ledger import Ledger
from lastro.results.store import Store

_IDENTITY = (
    ("host", "hostname"),
    ("host", "kernel"),
    ("host", "cpu_model"),
    ("host", "cpus"),
    ("root_filesystem", "sha256"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    parser.add_argument("--wait", action="store_true", help="wait for another campaign on this host to end")
    parser.add_argument("--changed-host", action="store_true", help="go on although the host or the image has changed")
    parser.add_argument("--no-report", action="store_true", help="do not write the HTML report at the end")


def run(args: argparse.Namespace) -> int:
    with open_campaign(args.dir, readonly=False) as store:
        if registry.get("scenario", store.study.scenario).needs_root:
            require_root("resume")
        before = store.counts()
        if store.next_trial() is None and not before["unavailable"] and not _wants_more(store):
            _tidy(store)
        else:  # what was unavailable may be available by now: a remedy was applied
            _carry_on(store, wait=args.wait, changed_host=args.changed_host)
        if store.counts() == before:
            print(f"{args.dir}: nothing is left to run")
    return conclude(args.dir, report=not args.no_report)


def _wants_more(store: Store) -> bool:
    """A sequential campaign may have been killed before it decided on its next block."""
    found = decision(store)
    return found is not None and not found.stop


def _tidy(store: Store) -> None:
    """The last trial may be safe, and the process have been killed before it had withdrawn everything."""
    if registry.get("scenario", store.study.scenario).needs_root:
        with closing(Ledger()) as ledger:
            ledger.clean()


def _carry_on(store: Store, *, wait: bool, changed_host: bool) -> None:
    study = store.study
    with scenario_on_host(study, f"campaign {store.directory.resolve()}", wait=wait) as scenario:
        if changes := changes_between(store.provenance, identity(scenario)):
            if not changed_host:
                raise InputError(
                    f"{store.directory} was begun under other conditions: {'; '.join(changes)}",
                    "run the study anew here, or mix the two knowingly with --changed-host",
                )
            store.log(utc_now(), "changed host", "; ".join(changes))
        run_here(store, scenario, "resumed")


def changes_between(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What would make trials of two sessions or campaigns incomparable, from their provenance."""
    found = []
    for chapter, key in _IDENTITY:
        was, is_ = (facts.get(chapter, {}).get(key) for facts in (before, now))
        if was != is_:
            found.append(f"{key.replace('_', ' ')} was {was}, is {is_}")
    return found
