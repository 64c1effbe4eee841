"""Decide whether values of several cells are compared block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

Pairing = Literal["paired", "unpaired"]


def blocks_to_pair(cells: Sequence[Mapping[int, float]]) -> list[int]:
    """Return the blocks within which to compare these cells, each {block: value}; empty to compare without pairs.

    Cells are paired if at least two blocks, and at least half of the blocks of each cell, have values of all cells:
    pairing within fewer blocks would discard more than the blocks explain."""
    common = sorted(set.intersection(*(set(cell) for cell in cells))) if cells else []
    return common if len(common) >= 2 and 2 * len(common) >= max(map(len, cells)) else []
