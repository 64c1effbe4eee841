"""Select the values of a treatment and its baseline to compare, block by block or not: one rule for all contrasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Pairing = Literal["paired", "unpaired"]


@dataclass(frozen=True, slots=True)
class BaselinePairing:
    """Values of a treatment and of its baseline; when paired, values[i] and baseline[i] come from one block."""

    pairing: Pairing
    values: tuple[float, ...]
    baseline: tuple[float, ...]


def blocks_to_pair(cells: Sequence[Mapping[int, float]]) -> list[int]:
    """Return the blocks within which to compare these cells, each {block: value}; empty if they are not to be paired.

    They are paired if at least two blocks, and at least half of the blocks of each cell, have values of all cells:
    pairing within fewer blocks would discard more than the blocks explain."""
    common = sorted(set.intersection(*(set(cell) for cell in cells))) if cells else []
    return common if len(common) >= 2 and 2 * len(common) >= max(map(len, cells)) else []


def match_blocks(by_block: Mapping[int, float], baseline_by_block: Mapping[int, float]) -> BaselinePairing | None:
    """Match a treatment and its baseline, both {block: value}; None when either has no value.

    They are paired within the blocks of `blocks_to_pair`. If there are none, all values are used, unpaired."""
    if not by_block or not baseline_by_block:
        return None
    if blocks := blocks_to_pair([by_block, baseline_by_block]):
        return BaselinePairing(
            "paired", tuple(by_block[b] for b in blocks), tuple(baseline_by_block[b] for b in blocks)
        )
    return BaselinePairing("unpaired", tuple(by_block.values()), tuple(baseline_by_block.values()))
