"""Shows what a trial measured, its topology, and the commands that it ran.

  lastro show DIR 17                           measurements, notes, each command with its duration
  lastro show DIR 17 --commands > trial-17.sh  a shell script: every command in order, with its input
  lastro show DIR 17 --commands --trust        the same for a campaign from another machine or user
  lastro show DIR 17 --topology                instances, links, addresses, neighbour, witnesses
  lastro show DIR 17 --topology -o chain.svg   the same as a figure: .svg, .png or .pdf

The topology is recorded while a trial is set up. For a trial that has not run, it shows the topology of another trial
of the same treatment."""

from __future__ import annotations

import argparse
import base64
import json
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lastro.app.campaign_dirs import open_campaign
from lastro.builders.data.encoder import encode, pick
from lastro.campaign.script import reverting_steps, shell_script
from lastro.cli._common import campaign_argument
from lastro.cli._terminal import print_document
from lastro.cli._topology import show_topology
from lastro.errors import InputError
from lastro.host import facts
from lastro.plain import json_text
from lastro.results.columns import Record
from lastro.results.database import DB_NAME
from lastro.results.export import HOST, measured_in
from lastro.results.provenance import HostFacts
from lastro.results.rows import Attempt, TrialRow
from lastro.results.store import Store
from lastro.results.topology import TOPOLOGY
from lastro.units import human_duration, significant

if TYPE_CHECKING:
    from lastro.results.hdr import NamedHistogram

_ARGV_WIDTH = 150


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    campaign_argument(parser)
    add("trial", type=int, metavar="TRIAL", help="number of the trial, from 1 in running order")
    add("--attempt", type=int, metavar="N", help="an attempt of the trial; default: the last")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--commands", action="store_true", help="print a shell script that repeats the trial with the raw tools"
    )
    what.add_argument("--topology", action="store_true", help="draw the topology of the trial, as text")
    add(
        "--trust", action="store_true",
        help="with --commands: also if the campaign is from another machine or user (read its commands first); "
        "with -o: also into a directory that other users own or can change",
    )  # fmt: skip
    add("-o", "--output", metavar="FILE", help="with --topology: write a figure, .svg, .png or .pdf; -: SVG to stdout")
    add("--json", action="store_true", help="print everything as JSON, series and transcript included, or the topology")


def run(args: argparse.Namespace) -> None:
    if args.output and not args.topology:
        raise InputError("--output writes a figure of the topology", "add --topology")
    if args.trust and not (args.commands or args.output):
        raise InputError("--trust applies only to --commands and -o", "add --commands, or -o FILE")
    with open_campaign(args.dir) as store:
        trial = store.trial(args.trial)
        attempts = store.attempts(args.trial)
        chosen = attempts[-1] if attempts else None
        if args.attempt is not None:
            chosen = next((attempt for attempt in attempts if attempt.attempt == args.attempt), None)
            if chosen is None:
                raise InputError(f"trial {trial.number} has no attempt {args.attempt}", f"it has {len(attempts)}")
        if args.commands:
            print_document(_script(store, trial, chosen, trusted=args.trust))
        elif args.topology:
            show_topology(args, store, trial, chosen)
        elif args.json:
            document = {
                "trial": trial.number,
                **pick(trial, "block state"),
                "levels": _levels(store, trial),
                "attempts": [_attempt_document(store, attempt) for attempt in attempts],
            }
            print(json_text(encode(document, {})))
        else:
            print("\n".join(_lines(store, trial, attempts, chosen)))


def _levels(store: Store, trial: TrialRow) -> dict[str, Any]:
    return dict(store.treatment_of(trial).treatment.levels)


def _script(store: Store, trial: TrialRow, attempt: Attempt | None, *, trusted: bool) -> str:
    """Return the shell script that repeats an attempt.

    Raises: InputError if the trial has not run, or another user or machine recorded it and `trusted` is false."""
    if attempt is None:
        raise InputError(f"trial {trial.number} has not run ({trial.state})", "there are no commands to repeat")
    records = store.transcript(trial.number, attempt.attempt)
    if (origin := _foreign(store)) and not trusted:
        hint = "review them with `lastro show --json`; --trust prints the script, which is to be run as root"
        raise InputError(f"the commands of {store.directory} cannot be trusted: {origin}", hint)
    levels = ", ".join(f"{name} {level}" for name, level in _levels(store, trial).items())
    title = f"{store.study.name}: trial {trial.number}, attempt {attempt.attempt}: {levels}"
    undo = reverting_steps(record for record in records if record.get("prepares"))
    return shell_script(records, title, undo=undo, origin=origin)


def _foreign(store: Store) -> str:
    """Return why a campaign is foreign: it is another user's, or another machine recorded it; empty if it is not.

    Earlier versions of Lastro did not record the controller. Their campaigns are identified by the measured host."""
    for place in (store.directory, store.directory / DB_NAME):
        if (owner := place.stat().st_uid) not in {0, os.geteuid()}:
            return f"{place} belongs to user {owner}"
    here, recorded = facts.controller(), store.provenance
    there = recorded.host if recorded.controller == HostFacts() else recorded.controller
    if there.machine and here["machine"]:
        same = there.machine == here["machine"]
    else:
        same = bool(here["hostname"]) and there.hostname == here["hostname"]
    return "" if same else f"it was recorded on {there.hostname or 'a machine without a name'!r}, not here"


def _attempt_document(store: Store, attempt: Attempt) -> dict[str, Any]:
    place = attempt.trial, attempt.attempt
    series, histograms = store.series(*place), store.histograms(*place)
    return {
        **({"testbed": attempt.testbed} if attempt.testbed else {}),
        **({"measured_in": where} if (where := _measured_in(store, attempt)) != HOST else {}),
        **pick(attempt, "attempt started_utc duration_s valid reasons measurements notes"),
        "series": {stored.name: {"unit": stored.unit, "values": list(stored.values)} for stored in series},
        **({"histograms": {stored.name: _histogram_document(stored) for stored in histograms}} if histograms else {}),
        "transcript": store.transcript(*place),
    }


def _measured_in(store: Store, attempt: Attempt) -> str:
    """Return where an attempt was measured: 'host', 'guest' or 'emulated guest', as in exported rows."""
    of_bed = (row.provenance for row in store.testbeds() if row.name == attempt.testbed)
    name = store.study.config(_levels(store, store.trial(attempt.trial))).get("guest", "")
    return measured_in(next(of_bed, store.provenance), str(name))


def _histogram_document(histogram: NamedHistogram) -> dict[str, Any]:
    from lastro.results import hdr  # loads numpy

    encoded = base64.b64encode(hdr.encode(histogram.histogram)).decode()
    return {"unit": histogram.unit, "lost": histogram.histogram.lost, "hdr": encoded}


def _lines(store: Store, trial: TrialRow, attempts: list[Attempt], chosen: Attempt | None) -> list[str]:
    row = store.treatment_of(trial)
    lines = [f"trial {trial.number}   block {trial.block}   treatment {row.treatment.id}   {trial.state}"]
    lines += _columns([(name, str(level)) for name, level in row.treatment.levels.items()])
    if row.unavailable:
        lines += ["", f"unavailable here: {row.unavailable}", *([f"remedy: {row.remedy}"] if row.remedy else [])]
    for attempt in attempts:
        verdict = "valid" if attempt.valid else "invalid: " + "; ".join(attempt.reasons)
        on, took = f"testbed {attempt.testbed}   " if attempt.testbed else "", human_duration(attempt.duration_s)
        lines += ["", f"attempt {attempt.attempt}   {on}{attempt.started_utc}   {took}   {verdict}"]
    if chosen is not None:
        lines += _measurements(store, chosen)
        lines += ["", "notes"] if chosen.notes else []
        for name, value in chosen.notes.items():
            text = "see --topology" if name == TOPOLOGY else value
            one_line = isinstance(text, str) and text.isprintable()
            lines.append(f"  {name}: {text if one_line else json.dumps(text, ensure_ascii=False)}")
        lines += ["", "commands (--commands prints a script that repeats them)"]
        lines += map(_step_line, store.transcript(chosen.trial, chosen.attempt))
    return lines


def _columns(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Return indented lines, with each column as wide as its widest cell; `right` are the right-aligned columns."""
    from lastro.console import grid

    return [f"  {line.plain}" for line in grid(rows, right)] if rows else []


def _measurements(store: Store, attempt: Attempt) -> list[str]:
    units = {metric.name: metric.unit for metric in store.study.all_metrics}
    rows = [(name, significant(value), units.get(name, "")) for name, value in attempt.measurements.items()]
    place = {"guest": ", in a guest", "emulated guest": ", in an emulated guest"}.get(_measured_in(store, attempt), "")
    lines = ["", f"measurements{place}", *_columns(rows, right={1})]
    for series in store.series(attempt.trial, attempt.attempt):
        lines.append(f"  series {series.name}: {len(series.values)} samples in {series.unit}")
    for histogram in store.histograms(attempt.trial, attempt.attempt):
        lost = f", {histogram.histogram.lost} lost" if histogram.histogram.lost else ""
        lines.append(f"  histogram {histogram.name}: {histogram.histogram.n} samples in {histogram.unit}{lost}")
    return lines


def _step_line(record: Record) -> str:
    words = " ".join(record.get("argv") or [record.get("path") or " ".join(record.get("paths", ()))])
    cost = f"{record['duration_s'] * 1000:7.1f} ms" if "duration_s" in record else " " * 10
    code = f" -> {record['returncode']}" if record.get("returncode") else ""
    shown = " ".join(words.split())
    return f"  {record['kind']:<5} {cost}  {shown[:_ARGV_WIDTH]}{'…' if len(shown) > _ARGV_WIDTH else ''}{code}"
