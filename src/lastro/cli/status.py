"""Shows how many trials are done, how long the rest may take, what happened last, and the next command.

Works while the campaign runs; needs no root. For a suite, it shows each study and the total."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from lastro.app.status import STATES, status_of, status_of_suite
from lastro.campaign import suite as suites
from lastro.campaign.suite import Suite
from lastro.cli._common import campaign_argument
from lastro.cli._terminal import table
from lastro.plain import json_text, plain
from lastro.units import human_duration


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    if suites.is_suite(args.dir):
        suite = suites.read(args.dir)
        facts = status_of_suite(args.dir, suite)
        print(json_text(facts) if args.json else f"{suite_text(suite, facts)}\nnext: {facts['next']}")
    else:
        facts = status_of(args.dir)
        print(json_text(facts) if args.json else _text(facts))
    return 0


def _bar(counts: Mapping[str, int]) -> str:
    """Return a bar of the trials with a verdict among those that can run here, as the running campaign shows it."""
    done = counts["valid"] + counts["invalid"]
    trials = sum(counts.values()) - counts["unavailable"]
    share = done / trials if trials else 1.0
    return f"{'█' * int(30 * share)}{'░' * (30 - int(30 * share))}  {done:,} of {trials:,} trials ({share:.0%})"


def _text(facts: dict[str, Any]) -> str:
    counts = facts["counts"]
    title = facts["title"] or facts["study"]
    lines = [
        plain(f"{title} (profile {facts['profile']})" if facts["profile"] else title),
        *_of_guests([("", facts)]),
        _bar(counts),
        ", ".join(f"{n:,} {state}" for state, n in counts.items() if n),
    ]
    if facts["stopping"] == "sequential":
        lines.append(f"sequential: blocks are added until every ratio is precise, {facts['most_replicates']} at most")
    if facts["invalid_attempts"]:
        lines.append(f"{facts['invalid_attempts']:,} of {facts['attempts']:,} attempts were invalid and set aside")
    if testbeds := facts.get("testbeds"):
        lines += table([("testbed", "blocks", "valid", "now in block"), *map(_testbed_row, testbeds)])
    if facts["last_event"]:
        event = facts["last_event"]
        lines.append(plain(f"last event: {event['at_utc']} {event['kind']}: {event['text']}"))
    if running := facts["running"]:
        lines.append(f"running: process {running['pid']}, since {running['since_utc'][:16].replace('T', ' ')} UTC")
    if facts["remaining_s"]:
        lines.append(f"about {human_duration(facts['remaining_s'])} to go, if nothing is repeated")
    return "\n".join(lines if facts["running"] else [*lines, f"next: {facts['next']}"])


def _of_guests(measured: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Return in which guests campaigns are measured, from their names and statuses; empty for real hosts."""
    if not any(facts["guest"] for _, facts in measured):
        return []
    from lastro.analysis.campaign import MeasuredIn
    from lastro.report.guest_words import of_guests
    from lastro.report.language import ENGLISH

    places = [(name, MeasuredIn(**facts["guest"]) if facts["guest"] else None) for name, facts in measured]
    return [line for sentence in of_guests(places, ENGLISH) for line in textwrap.wrap(plain(sentence), 100)]


def _testbed_row(testbed: dict[str, Any]) -> tuple[str, ...]:
    now = str(testbed["block"] or "·")
    return testbed["name"], f"{testbed['blocks']:,}", f"{testbed['valid_trials']:,}", now


def suite_text(suite: Suite, facts: dict[str, Any]) -> str:
    """Return the status of a suite as text, without the next command."""
    profile = f" (profile {suite.profile})" if suite.profile else ""
    measured = [(member["front"], member) for member in facts["fronts"] if member["begun"]]
    lines = [plain(f"{suite.label}{profile}"), *_of_guests(measured), _bar(facts["counts"]), ""]
    rows = [("study", *STATES, ""), *(_row(member) for member in facts["fronts"])]
    lines += table(rows)
    lines += [plain(line) for member in facts["fronts"] for line in _why_stopped(member)]
    if facts["remaining_s"]:
        lines += ["", f"about {human_duration(facts['remaining_s'])} to go, if nothing is repeated"]
    return "\n".join(lines)


def _row(member: dict[str, Any]) -> tuple[str, ...]:
    left_s = member["remaining_s"]
    state = "finished" if member["finished"] else f"{human_duration(left_s)} to go" if left_s else "unfinished"
    if member["stopped"]:
        state = f"stopped, {state}" if member["midway"] else "could not run"
    elif member.get("running") and not member["finished"]:
        state = f"running, {state}"
    elif not member["begun"]:
        state = f"not begun, {state}"
    return (member["front"], *(str(member["counts"][name] or "·") for name in STATES), state)


def _why_stopped(member: dict[str, Any]) -> list[str]:
    if not member["stopped"]:
        return []
    words = "was ended by an error" if member["midway"] else "could not run"
    remedy = [f"  remedy: {member['remedy']}"] if member["remedy"] else []
    return [f"{member['front']} {words}: {member['stopped']}", *remedy]
