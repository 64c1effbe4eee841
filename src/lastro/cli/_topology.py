"""The topology of a trial: as text, as JSON, or as a figure in a file."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from lastro.analysis.topology import RecordedTopology, recorded_topology, tool_versions
from lastro.cli._terminal import print_document, terminal_width
from lastro.errors import InputError
from lastro.plain import json_text
from lastro.results.rows import Attempt, TrialRow
from lastro.results.store import Store

_SUFFIXES = (".svg", ".png", ".pdf")


def show_topology(args: argparse.Namespace, store: Store, trial: TrialRow, chosen: Attempt | None) -> None:
    """Print the topology of a trial, or write it to `args.output`. Raises: InputError when none was recorded."""
    topology = _recorded_topology(store, trial, chosen, only_that=args.attempt is not None)
    if args.output:
        from lastro.figures.topology import topology_picture
        from lastro.results.files import write_atomically

        suffix = Path(args.output).suffix.lower()
        if args.output != "-" and suffix not in _SUFFIXES:
            hint = f"use {', '.join(_SUFFIXES)}, or - for stdout"
            raise InputError(f"{args.output}: no figure format is named '{suffix}'", hint)
        title, tools = _title(trial, topology), tool_versions(store.provenance)
        picture = topology_picture(title, _levels(store, trial), topology.topology, tools)
        if args.output == "-":
            print_document(picture.svg())
            return
        forms: dict[str, Callable[[], str | bytes]] = {".svg": picture.svg, ".png": picture.png, ".pdf": picture.pdf}
        write_atomically(Path(args.output), forms[suffix]())
        print(args.output)
    elif args.json:
        print(json_text({"trial": topology.trial, "attempt": topology.attempt, **asdict(topology.topology)}))
    else:
        from lastro.words.topology import topology_lines

        width = terminal_width()
        head = [_title(trial, topology), *textwrap.wrap(_levels(store, trial), min(width, 80))]
        print(*head, "", *topology_lines(topology.topology, tool_versions(store.provenance), width), sep="\n")


def _recorded_topology(store: Store, trial: TrialRow, chosen: Attempt | None, *, only_that: bool) -> RecordedTopology:
    """Return the recorded topology of the attempt `chosen`, or else of another attempt of the trial's treatment.

    If `only_that` is true, other attempts do not count. Raises: InputError when none was recorded."""
    topology = recorded_topology([chosen]) if chosen else None
    if topology is None and not only_that:
        alike = [row.number for row in store.trials() if row.treatment == trial.treatment and row.attempts]
        places = [trial.number, *alike] if trial.number in alike else alike
        topology = next(filter(None, (recorded_topology(store.attempts(number)) for number in places)), None)
    if topology is not None:
        return topology
    if chosen is None:
        hint = "the topology is recorded during set-up: try again after one of these trials has run"
        message = f"trial {trial.number} has not run ({trial.state}), and no trial of its treatment has"
        raise InputError(message, hint)
    hint = "its links could not be set up, or an older Lastro ran it; --commands lists the commands that it ran"
    raise InputError(f"trial {trial.number} has no recorded topology", hint)


def _levels(store: Store, trial: TrialRow) -> str:
    levels = store.treatment_of(trial).treatment.levels
    return ", ".join(f"{name} = {level}" for name, level in levels.items())


def _title(trial: TrialRow, recorded: RecordedTopology) -> str:
    if recorded.trial == trial.number:
        return f"Topology of trial {trial.number}, as attempt {recorded.attempt} built it"
    return f"Topology of trial {trial.number}, as trial {recorded.trial} of the same treatment was built"
