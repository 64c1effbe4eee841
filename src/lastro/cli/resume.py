"""Continues with the schedule drawn at the start. The trial that was running when the campaign stopped runs again.

Trials of one campaign are compared with each other, so it continues only on the host and with the root filesystem with
which it began; --changed-host continues anyway, and the report says so. --invalid also repeats the trials that were
given up as invalid; their earlier attempts are kept and reported.

A suite continues with the study that was interrupted and those that had not begun. When nothing is left, what was
unavailable in any study is tried again."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lastro import registry
from lastro.campaign.progress import Place, alone
from lastro.campaign.runner import utc_now
from lastro.campaign.sequential import decision
from lastro.campaign.suite import is_suite
from lastro.cli._campaign import run_here
from lastro.cli._common import campaign_argument, fail_invalid_argument, most_invalid, open_campaign, require_root
from lastro.cli._host import require_runnable, scenario_on_host
from lastro.cli._study import load_testbed, testbed_argument, testbed_of
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
    testbed_argument(parser)
    parser.add_argument("--wait", action="store_true", help="wait for another campaign on this host to end")
    parser.add_argument(
        "--changed-host", action="store_true", help="continue even if the host or the image has changed"
    )
    parser.add_argument(
        "--invalid",
        action="store_true",
        help="also repeat trials given up as invalid; earlier attempts are kept",
    )
    parser.add_argument("--no-report", action="store_true", help="do not write the HTML report at the end")
    fail_invalid_argument(parser)


def run(args: argparse.Namespace) -> int:
    if is_suite(args.dir):
        from lastro.cli import _suite_run

        return _suite_run.resume(args)
    most = most_invalid(args)
    how = How(wait=args.wait, changed_host=args.changed_host, invalid=args.invalid, testbed=args.testbed)
    if not go_on(args.dir, how):
        print(f"{args.dir}: nothing is left to run")
    return conclude(args.dir, report=not args.no_report, most_invalid=most)


@dataclass(frozen=True, slots=True)
class How:
    """How to resume a campaign: the options of the command. `invalid`: repeat the trials that were given up."""

    wait: bool = False
    changed_host: bool = False
    invalid: bool = False
    testbed: Path | None = None


def go_on(directory: Path, how: How, place: Place = alone) -> bool:
    """Run what is left of a campaign, and try again what was unavailable; return whether anything changed."""
    with open_campaign(directory, readonly=False) as store:
        if registry.get("scenario", store.study.scenario).needs_root:
            require_root("resume")
        require_runnable(store)
        before, n_attempts = store.counts(), len(store.durations())
        if is_unfinished(store) or before["unavailable"] or (how.invalid and before["invalid"]):
            _carry_on(store, how, place)
        else:
            _tidy(store)
        return store.counts() != before or len(store.durations()) != n_attempts


def is_unfinished(store: Store) -> bool:
    """Whether a trial is left. A sequential campaign may have been killed before it decided on its next block."""
    found = decision(store) if store.next_trial() is None else None
    return store.next_trial() is not None or (found is not None and not found.stop)


def _tidy(store: Store) -> None:
    """Clean up after a process that was killed when its last trial was saved, but not yet torn down."""
    if registry.get("scenario", store.study.scenario).needs_root:
        with closing(Ledger()) as ledger:
            ledger.clean()


def _carry_on(store: Store, how: How, place: Place) -> None:
    """Run what is left, on the testbed of the given file, or else the one with which the campaign began."""
    study, file = store.study, load_testbed(how.testbed) or testbed_of(store)
    with scenario_on_host(study, f"campaign {store.directory.resolve()}", wait=how.wait, file=file) as scenario:
        if changes := changes_between(store.provenance, identity(scenario)):
            if not how.changed_host:
                raise InputError(
                    f"{store.directory} was started under different conditions: {'; '.join(changes)}",
                    "run the study again here, or continue anyway with --changed-host",
                )
            store.log(utc_now(), "changed host", "; ".join(changes))
        if how.invalid and (reopened := store.reopen_invalid()):
            store.log(utc_now(), "reopened", f"{reopened} invalid trials are tried again")
        run_here(store, scenario, "resumed", place)


def changes_between(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the differences of provenance that make trials of two sessions or campaigns incomparable."""
    found = []
    for chapter, key in _IDENTITY:
        was, is_ = (facts.get(chapter, {}).get(key) for facts in (before, now))
        if was != is_:
            found.append(f"{key.replace('_', ' ')} was {was}, is {is_}")
    return found
