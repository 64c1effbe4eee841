"""The progress of a suite: each study in a line, and the total."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lastro import registry
from lastro.campaign import suite as suites
from lastro.campaign.duration import forecast, missing, missing_trials
from lastro.campaign.suite import Front, Suite
from lastro.cli import status as single
from lastro.cli._study import load_front
from lastro.plain import json_text, plain
from lastro.results.store import Store
from lastro.study import design
from lastro.units import human_duration

FORMAT = "lastro-suite-status/1"
_STATES = ("valid", "invalid", "unavailable", "running", "pending")


def run(args: argparse.Namespace) -> int:
    suite = suites.read(args.dir)
    facts = _facts(args.dir, suite)
    print(json_text(facts) if args.json else f"{_text(suite, facts)}\nnext: {facts['next']}")
    return 0


def summary(directory: Path) -> str:
    """Return what `lastro status` shows, without the next command."""
    suite = suites.read(directory)
    return _text(suite, _facts(directory, suite))


def _facts(directory: Path, suite: Suite) -> dict[str, Any]:
    gone = set[str]()
    for front in suite.fronts:
        if suites.begun(directory, front):
            with Store.open(directory / front.name, readonly=True) as store:
                gone |= missing(store)
    fronts = [_front(directory, suite, front, gone) for front in suite.fronts]
    finished = all(front["finished"] for front in fronts)
    command = "report" if finished else "status" if any(front.get("running") for front in fronts) else "resume"
    left = [front["remaining_s"] for front in fronts]
    return {
        "format": FORMAT,
        "suite": suite.name,
        "title": suite.title,
        "profile": suite.profile,
        "counts": {state: sum(front["counts"][state] for front in fronts) for state in _STATES},
        "trials": sum(front["trials"] for front in fronts),
        "finished": finished,
        "remaining_s": None if None in left else sum(left),
        "next": f"lastro {command} {shlex.quote(str(directory))}",
        "fronts": fronts,
    }


def _front(directory: Path, suite: Suite, front: Front, gone: set[str]) -> dict[str, Any]:
    """Return the status of a study: that of its campaign, or, before it begins, all trials pending.

    The remaining time is then that of its plan, without platforms that other studies found missing."""
    head = {
        "front": front.name,
        "begun": suites.begun(directory, front),
        "stopped": front.stopped,
        "remedy": front.remedy,
        "midway": front.stopped is not None and suites.can_run(directory, front),
    }
    if head["begun"]:
        return {**head, **single.facts_of(directory / front.name)}
    study = load_front(suites.study_file(directory, front), suite.profile)
    trials = len(design.treatments(study)) * study.design.replicates
    return {
        **head,
        "study": study.name,
        "title": study.title,
        "counts": {state: trials if state == "pending" else 0 for state in _STATES},
        "trials": trials,
        "finished": False,
        "remaining_s": forecast(study, registry.get("scenario", study.scenario), missing_trials(study, gone)).total_s,
    }


def _text(suite: Suite, facts: dict[str, Any]) -> str:

    profile = f" (profile {suite.profile})" if suite.profile else ""
    lines = [plain(f"{suite.label}{profile}"), single.bar(facts["counts"]), ""]
    rows = [("front", *_STATES, ""), *(_row(front) for front in facts["fronts"])]
    lines += table(rows)
    lines += [plain(line) for front in facts["fronts"] for line in _why_stopped(front)]
    if facts["remaining_s"]:
        lines += ["", f"about {human_duration(facts['remaining_s'])} to go, if nothing is repeated"]
    return "\n".join(lines)


def _row(front: dict[str, Any]) -> tuple[str, ...]:
    left_s = front["remaining_s"]
    state = "finished" if front["finished"] else f"{human_duration(left_s)} to go" if left_s else "unfinished"
    if front["stopped"]:
        state = f"stopped, {state}" if front["midway"] else "could not run"
    elif front.get("running") and not front["finished"]:
        state = f"running, {state}"
    elif not front["begun"]:
        state = f"not begun, {state}"
    return (front["front"], *(str(front["counts"][name] or "·") for name in _STATES), state)


def _why_stopped(front: dict[str, Any]) -> list[str]:
    if not front["stopped"]:
        return []
    words = "was ended by an error" if front["midway"] else "could not run"
    remedy = [f"  remedy: {front['remedy']}"] if front["remedy"] else []
    return [f"{front['front']} {words}: {front['stopped']}", *remedy]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: names left-aligned, numbers right-aligned, the last column as it is."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(w) for cell, w in zip(row[1:-1], widths[1:-1], strict=True)),
                row[-1],
            ]
        ).rstrip()
        for row in rows
    ]
