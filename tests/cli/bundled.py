"""A campaign to bundle: small, with an invalid attempt, and with names of machines and users wherever there is text."""

from __future__ import annotations

import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

from ..support.campaigns import METRICS, PROVENANCE, Levels, make_campaign, make_study

OPTIONS = ("--author", "Ana Silva", "--license", "CC-BY-4.0")
HOST, USER, HOME = "edge-7.example.org", "aroeira", "/home/aroeira"
PRIVATE = {
    **PROVENANCE,
    "host": {**PROVENANCE["host"], "hostname": HOST},
    "kernel": {"command_line": "root=UUID=0b1c-77aa quiet"},
    "root_filesystem": {"sha256": "7c" * 32},
    "controller": {"hostname": HOST, "machine": "feedfacefeedface"},
    "machines": ["feedfacefeed0001"],
    "testbed": {
        "file": f"{HOME}/beds/three.toml", "shared_cpus": [],
        "roles": {"dut": {"reached": f"{USER}@lab-dut.example.org:22", "machine": {"hostname": "lab-dut"}}},
    },
}  # fmt: skip


def small(directory: Path) -> Path:
    """Two treatments of one metric, with an invalid attempt, and with names of a machine wherever there is text."""
    study = make_study(
        {"isolation": ("none", "cgroups")}, replicates=3, metrics=METRICS[:1], baseline={"isolation": "none"},
        file=f"{HOME}/studies/small.toml",
    )  # fmt: skip

    def doubts(levels: Levels, block: int, attempt: int) -> list[str]:
        return [f"no traffic on {HOST}, see {HOME}/log"] if (block, attempt) == (1, 1) else []

    make_campaign(directory, study, doubts=doubts, provenance=PRIVATE)
    with closing(sqlite3.connect(directory / "campaign.db")) as db, db:
        steps = [{"kind": "run", "argv": ["ssh", "-l", USER, HOST], "stdin": None, "returncode": 0}]
        db.execute("UPDATE attempt SET transcript = ?", (zlib.compress(json.dumps(steps).encode()),))
    return directory
