"""Shows how many trials are done, how long the rest may take, what happened last, and the next command.

Works while the campaign runs; needs no root. For a suite: each study, and the total."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lastro.campaign.duration import pace_of, scenario_of
from lastro.campaign.suite import is_suite
from lastro.cli._common import campaign_argument, open_campaign
from lastro.plain import json_text, plain


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    if is_suite(args.dir):
        from lastro.cli import _suite_status

        return _suite_status.run(args)
    facts = facts_of(args.dir)
    print(json_text(facts) if args.json else _as_text(facts))
    return 0


def facts_of(directory: Path) -> dict[str, Any]:
    """Return the progress of one campaign as JSON-able data."""
    from lastro.analysis.campaign import build_report
    from lastro.results.read import load_campaign

    with open_campaign(directory) as store:
        report = build_report(load_campaign(store))
        pace, runner = pace_of(store, scenario_of(report.study)), store.runner()
    progress = report.progress
    command = "report" if progress.finished else "status" if runner else "resume"
    states = ("valid", "invalid", "unavailable", "running", "pending")
    return {
        "study": report.study.name,
        "title": report.study.title,
        "profile": report.study.profile,
        "stopping": report.study.design.stopping,
        "most_replicates": report.study.design.most_blocks,
        "counts": {state: progress.counts.get(state, 0) for state in states},
        "trials": progress.n_trials,
        "attempts": progress.n_attempts,
        "invalid_attempts": progress.n_invalid_attempts,
        "finished": progress.finished,
        "running": asdict(runner) if runner else None,
        "remaining_s": pace.remaining_s if pace.knows else None,
        "last_event": dict(zip(("at_utc", "kind", "text"), report.events[-1], strict=True)) if report.events else None,
        "next": f"lastro {command} {shlex.quote(str(directory))}",
    }


def bar(counts: Mapping[str, int]) -> str:
    """Return a bar of the trials with a verdict among those that can run here, as the running campaign shows it."""
    done = counts["valid"] + counts["invalid"]
    trials = sum(counts.values()) - counts["unavailable"]
    share = done / trials if trials else 1.0
    return f"{'█' * int(30 * share)}{'░' * (30 - int(30 * share))}  {done:,} of {trials:,} trials ({share:.0%})"


def _as_text(facts: dict[str, Any]) -> str:
    from lastro.units import human_duration

    counts = facts["counts"]
    title = facts["title"] or facts["study"]
    lines = [
        plain(f"{title} (profile {facts['profile']})" if facts["profile"] else title),
        bar(counts),
        ", ".join(f"{n:,} {state}" for state, n in counts.items() if n),
    ]
    if facts["stopping"] == "sequential":
        lines.append(f"sequential: blocks are added until every ratio is precise, {facts['most_replicates']} at most")
    if facts["invalid_attempts"]:
        lines.append(f"{facts['invalid_attempts']:,} of {facts['attempts']:,} attempts were invalid and set aside")
    if facts["last_event"]:
        event = facts["last_event"]
        lines.append(plain(f"last event: {event['at_utc']} {event['kind']}: {event['text']}"))
    if running := facts["running"]:
        lines.append(f"running: process {running['pid']}, since {running['since_utc'][:16].replace('T', ' ')} UTC")
    if facts["remaining_s"]:
        lines.append(f"about {human_duration(facts['remaining_s'])} to go, if nothing is repeated")
    return "\n".join(lines if facts["running"] else [*lines, f"next: {facts['next']}"])
