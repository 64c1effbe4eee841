"""The topology of a trial: as text, as JSON, or as a figure in a file."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from dataclasses import asdict
from pathlib import Path

from lastro.analysis.topology import RecordedTopology, recorded_topology, tool_versions
from lastro.cli._terminal import print_document
from lastro.errors import InputError
from lastro.plain import json_text
from lastro.results.rows import Attempt, TrialRow
from lastro.results.store import Store

_SUFFIXES = (".svg", ".png", ".pdf")
_LEAST_WIDTH = 60


def show_topology(args: argparse.Namespace, store: Store, trial: TrialRow, chosen: Attempt | None) -> None:
    """Print the topology of a trial, or write it to `args.output`. Raises: InputError when none was recorded."""
    topology = _recorded_topology(store, trial, chosen, only_that=args.attempt is not None)
    if args.output:
        _write(args.output, store, trial, topology)
    elif args.json:
        print(json_text({"trial": topology.trial, "attempt": topology.attempt, **asdict(topology.topology)}))
    else:
        from lastro.words.topology_text import topology_lines

        width = max(_LEAST_WIDTH, shutil.get_terminal_size((80, 24)).columns)
        head = [_as_built(trial, topology), *textwrap.wrap(_levels(store, trial), min(width, 80))]
        print(*head, "", *topology_lines(topology.topology, tool_versions(store.provenance), width), sep="\n")


def _recorded_topology(store: Store, trial: TrialRow, chosen: Attempt | None, *, only_that: bool) -> RecordedTopology:
    """Return the recorded topology of the attempt `chosen`.

    If it has none, or `chosen` is None, return that of another attempt of the trial's treatment, unless `only_that`.
    Raises: InputError when none was recorded."""
    topology = recorded_topology([chosen]) if chosen else None
    if topology is None and not only_that:
        alike = [row.number for row in store.trials() if row.treatment == trial.treatment and row.attempts]
        places = [trial.number, *alike] if trial.number in alike else alike
        topology = next(filter(None, (recorded_topology(store.attempts(number)) for number in places)), None)
    if topology is not None:
        return topology
    if chosen is None:
        raise InputError(
            f"trial {trial.number} has not run ({trial.state}), and no trial of its treatment has",
            "the topology is recorded during set-up: try again after one of these trials has run",
        )
    raise InputError(
        f"trial {trial.number} has no recorded topology",
        "its links could not be set up, or an older Lastro ran it; --commands lists the commands that it ran",
    )


def _levels(store: Store, trial: TrialRow) -> str:
    levels = store.treatment_of(trial).treatment.levels
    return ", ".join(f"{name} = {level}" for name, level in levels.items())


def _as_built(trial: TrialRow, recorded: RecordedTopology) -> str:
    if recorded.trial == trial.number:
        return f"Topology of trial {trial.number}, as attempt {recorded.attempt} built it"
    return f"Topology of trial {trial.number}, as trial {recorded.trial} of the same treatment was built"


def _write(output: str, store: Store, trial: TrialRow, recorded: RecordedTopology) -> None:
    """Write the topology as a figure, in the format of the suffix of `output`; for "-", print it as SVG."""
    from lastro.figures.topology import topology_picture
    from lastro.results.files import write_atomically

    suffix = Path(output).suffix.lower()
    if output != "-" and suffix not in _SUFFIXES:
        raise InputError(
            f"{output}: no figure format is named '{suffix}'", f"use {', '.join(_SUFFIXES)}, or - for stdout"
        )
    picture = topology_picture(
        _as_built(trial, recorded), _levels(store, trial), recorded.topology, tool_versions(store.provenance)
    )
    if output == "-":
        print_document(picture.svg())
        return
    drawn = picture.svg() if suffix == ".svg" else picture.png() if suffix == ".png" else picture.pdf()
    write_atomically(Path(output), drawn)
    print(output)
