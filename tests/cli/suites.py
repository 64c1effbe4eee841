"""Folders of study files for tests of suites, and the claims on one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .conftest import rows, study_text

PROFILES = "[profiles.quick]\nreplicates = 1\n"
CLAIMS = """
[source]
title = "A synthetic paper"
year = 2026
[[claim]]
id = "b-is-faster"
says = "b is faster than a"
compare = { metric = "speed", of = { level = "b" }, to = { level = "a" } }
direction = "higher"
[[claim]]
id = "b-is-slower"
says = "b is slower than a"
compare = { metric = "speed", of = { level = "b" }, to = { level = "a" } }
direction = "lower"
"""

LEVELS = {"level": ["a", "b"]}
SuiteFile = tuple[Mapping[str, list[Any]], Mapping[str, Any]]
GOOD: Mapping[str, SuiteFile] = {
    "cpu": (LEVELS, {"replicates": 6, "baseline": {"level": "a"}}),
    "disk": ({"level": ["a", "b", "c"], "fault": ["none", "unavailable"]}, {"baseline": {"level": "a"}}),
    "uplink": ({"step": [1, 2]}, {}),
}
WITH_A_GAP = {**GOOD, "memory": ({"fault": ["unavailable"]}, {})}  # a study that cannot run here at all


def write_folder(
    folder: Path,
    members: Mapping[str, SuiteFile] = GOOD,
    *,
    order: Sequence[str] = (),
    claims: str = CLAIMS,
    **more: Any,
) -> Path:
    """A folder with the study files, claims on `cpu`, and `suite.toml` where an order is wished."""
    (folder / "claims").mkdir(parents=True)
    for name, (factors, options) in members.items():
        (folder / f"{name}.toml").write_text(study_text(factors, **options, **more) + PROFILES)
    if claims:
        (folder / "claims" / "cpu.toml").write_text(claims)
    if order:
        listed = ", ".join(f'"{name}"' for name in order)
        (folder / "suite.toml").write_text(f'title = "A suite of tests"\nstudies = [{listed}]\n')
    return folder


def n_done(directory: Path) -> int:
    """Trials of a suite with a final state."""
    found = [rows(database.parent) for database in directory.glob("*/campaign.db")]
    return sum(row[3] in ("valid", "invalid") for trials in found for row in trials)
