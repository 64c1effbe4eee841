"""Histories without their campaigns: a point for each mean of a treatment, written as `lastro history add` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lastro.results.history import add_points
from lastro.results.history_points import HistoryPoint, StoredSummary

from .campaigns import METRICS

SLOWER = (100.0, 101.0, 99.5, 100.5, 80.5, 79.5, 80.0, 81.0)  # from v5 on, by 20 %


def write_history(file: Path, means: Sequence[float] = SLOWER, facts: Sequence[Mapping[str, str]] = ()) -> Path:
    """Add a campaign of each day to the history in `file`, with its facts, and return the file.

    They are labelled v1, v2, …; a campaign without facts of its own has those of the last one that has some."""
    points = [
        HistoryPoint(
            f"c{day}", f"2026-10-{day:02d}T10:00:00Z", f"v{day}", "small", "chain", {"tcp_s": "15"}, "edge-7",
            facts[min(day, len(facts)) - 1] if facts else {}, METRICS[:1],
            (StoredSummary({"platform": "runc"}, METRICS[0].name, 5, mean, mean - 1, mean + 1),),
        )
        for day, mean in enumerate(means, 1)
    ]  # fmt: skip
    add_points(file, points)
    return file
