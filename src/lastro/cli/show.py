"""With --commands, what comes out is a shell script: every command of the trial in order, with its input.

lastro show DIR 17 --commands > trial-17.sh"""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

from lastro.campaign.script import shell_script, undoing
from lastro.cli._common import campaign_argument, open_campaign
from lastro.errors import InputError
from lastro.results.store import Attempt, Store, TrialRow
from lastro.units import human_duration, significant

_ARGV_WIDTH = 150


def configure(parser: argparse.ArgumentParser) -> None:
    campaign_argument(parser)
    parser.add_argument("trial", type=int, metavar="TRIAL", help="number of the trial, from 1 in running order")
    parser.add_argument("--attempt", type=int, metavar="N", help="an attempt of the trial; default: the last")
    parser.add_argument("--commands", action="store_true", help="print a shell script that repeats the trial by hand")
    parser.add_argument("--json", action="store_true", help="print everything as JSON, series and transcript included")


def run(args: argparse.Namespace) -> int:
    with open_campaign(args.dir) as store:
        trial = store.trial(args.trial)
        attempts = store.attempts(args.trial)
        chosen = _choose(attempts, args.attempt, trial)
        if args.commands:
            print(_script(store, trial, chosen), end="")
        elif args.json:
            print(json.dumps(_finite(_document(store, trial, attempts)), indent=2, allow_nan=False))
        else:
            print("\n".join(_lines(store, trial, attempts, chosen)))
    return 0


def _choose(attempts: list[Attempt], wanted: int | None, trial: TrialRow) -> Attempt | None:
    if wanted is None:
        return attempts[-1] if attempts else None
    found = next((attempt for attempt in attempts if attempt.attempt == wanted), None)
    if found is None:
        raise InputError(f"trial {trial.number} has no attempt {wanted}", f"it has {len(attempts)}")
    return found


def _levels(store: Store, trial: TrialRow) -> dict[str, Any]:
    return dict(store.treatments()[trial.treatment].treatment.levels)


def _script(store: Store, trial: TrialRow, attempt: Attempt | None) -> str:
    if attempt is None:
        raise InputError(f"trial {trial.number} has not run ({trial.state})", "there are no commands to repeat")
    records = store.transcript(trial.number, attempt.attempt)
    levels = ", ".join(f"{name} {level}" for name, level in _levels(store, trial).items())
    title = f"{store.study.name}: trial {trial.number}, attempt {attempt.attempt}: {levels}"
    return shell_script(records, title, undo=undoing(record for record in records if record.get("prepares")))


def _document(store: Store, trial: TrialRow, attempts: list[Attempt]) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "block": trial.block,
        "state": trial.state,
        "levels": _levels(store, trial),
        "attempts": [_attempt_document(store, attempt) for attempt in attempts],
    }


def _finite(value: Any) -> Any:
    """JSON has no word for what is not a finite number: null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _attempt_document(store: Store, attempt: Attempt) -> dict[str, Any]:
    series = store.series(attempt.trial, attempt.attempt)
    return {
        "attempt": attempt.attempt,
        "started_utc": attempt.started_utc,
        "duration_s": attempt.duration_s,
        "valid": attempt.valid,
        "reasons": list(attempt.reasons),
        "measurements": attempt.measurements,
        "notes": attempt.notes,
        "series": {each.name: {"unit": each.unit, "values": list(each.values)} for each in series},
        "transcript": store.transcript(attempt.trial, attempt.attempt),
    }


def _lines(store: Store, trial: TrialRow, attempts: list[Attempt], chosen: Attempt | None) -> list[str]:
    row = store.treatments()[trial.treatment]
    lines = [f"trial {trial.number}   block {trial.block}   treatment {row.treatment.id}   {trial.state}"]
    lines += [f"  {name:<14} {level}" for name, level in row.treatment.levels.items()]
    if row.unavailable:
        lines += ["", f"unavailable here: {row.unavailable}", *([f"remedy: {row.remedy}"] if row.remedy else [])]
    for attempt in attempts:
        verdict = "valid" if attempt.valid else "invalid: " + "; ".join(attempt.reasons)
        lines += [
            "",
            f"attempt {attempt.attempt}   {attempt.started_utc}   {human_duration(attempt.duration_s)}   {verdict}",
        ]
    if chosen is not None:
        lines += _measurements(store, trial, chosen) + _notes(chosen) + _commands(store, trial, chosen)
    return lines


def _measurements(store: Store, trial: TrialRow, attempt: Attempt) -> list[str]:
    units = {metric.name: metric.unit for metric in store.study.all_metrics}
    lines = ["", "measurements"]
    lines += [
        f"  {name:<16} {significant(value):>10} {units.get(name, '')}" for name, value in attempt.measurements.items()
    ]
    for series in store.series(trial.number, attempt.attempt):
        lines.append(f"  series {series.name}: {len(series.values)} samples in {series.unit}")
    return lines


def _notes(attempt: Attempt) -> list[str]:
    lines = ["", "notes"] if attempt.notes else []
    for name, value in attempt.notes.items():
        lines.append(f"  {name}: {json.dumps(value) if not isinstance(value, str) else value}")
    return lines


def _commands(store: Store, trial: TrialRow, attempt: Attempt) -> list[str]:
    lines = ["", "commands (--commands prints a script that repeats them)"]
    for record in store.transcript(trial.number, attempt.attempt):
        words = " ".join(record.get("argv") or [record.get("path") or " ".join(record.get("paths", ()))])
        cost = f"{record['duration_s'] * 1000:7.1f} ms" if "duration_s" in record else " " * 10
        code = f" -> {record['returncode']}" if record.get("returncode") else ""
        shown = " ".join(words.split())
        lines.append(
            f"  {record['kind']:<5} {cost}  {shown[:_ARGV_WIDTH]}{'…' if len(shown) > _ARGV_WIDTH else ''}{code}"
        )
    return lines
