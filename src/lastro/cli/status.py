"""How many trials are done, how long the rest may take, what happened last, and what to type next.

May be asked while the campaign runs; needs no root."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from lastro.cli._common import campaign_argument, open_campaign


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    from lastro.report.model import build_report
    from lastro.results.read import load_campaign

    with open_campaign(args.dir) as store:
        report = build_report(load_campaign(store))
    progress = report.progress
    states = ("valid", "invalid", "unavailable", "running", "pending")
    facts: dict[str, Any] = {
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
        "remaining_s": _remaining_s(progress.counts, progress.measured_s, progress.n_attempts),
        "last_event": dict(zip(("at_utc", "kind", "text"), report.events[-1], strict=True)) if report.events else None,
        "next": f"lastro {'report' if progress.finished else 'resume'} {shlex.quote(str(args.dir))}",
    }
    print(_as_json(facts) if args.json else _as_text(facts))
    return 0


def _remaining_s(counts: Any, measured_s: float, n_attempts: int) -> float | None:
    """Seconds for the trials that have no verdict yet, at the mean duration of the attempts so far."""
    left = counts.get("pending", 0) + counts.get("running", 0)
    if not left:
        return 0.0
    return float(left * measured_s / n_attempts) if n_attempts else None


def _as_json(facts: dict[str, Any]) -> str:
    import json

    return json.dumps(facts, indent=2, ensure_ascii=False)


def _as_text(facts: dict[str, Any]) -> str:
    from lastro.report.terminal import plain
    from lastro.units import human_duration

    counts, trials = facts["counts"], facts["trials"]
    done = trials - counts["pending"] - counts["running"]
    share = done / trials if trials else 1.0
    title = facts["title"] or facts["study"]
    lines = [
        plain(f"{title} (profile {facts['profile']})" if facts["profile"] else title),
        f"{'█' * int(30 * share)}{'░' * (30 - int(30 * share))}  {done:,} of {trials:,} trials ({share:.0%})",
        ", ".join(f"{n:,} {state}" for state, n in counts.items() if n),
    ]
    if facts["stopping"] == "sequential":
        lines.append(f"sequential: blocks are added until every ratio is precise, {facts['most_replicates']} at most")
    if facts["invalid_attempts"]:
        lines.append(f"{facts['invalid_attempts']:,} of {facts['attempts']:,} attempts were invalid and set aside")
    if facts["last_event"]:
        event = facts["last_event"]
        lines.append(plain(f"last event: {event['at_utc']} {event['kind']}: {event['text']}"))
    if facts["remaining_s"]:
        lines.append(f"about {human_duration(facts['remaining_s'])} to go, if nothing is repeated")
    return "\n".join([*lines, f"next: {facts['next']}"])
