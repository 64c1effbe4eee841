"""Contrasts of many cells where single trials are missing: blocks are still taken out, and intervals still cover."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Literal

import pytest

from lastro.stats.contrasts import Contrast, linear, ratio_of_linears

Cells = dict[str, dict[int, float]]
A_CELLS, B_CELLS = ("a1", "a2", "a3", "a4"), ("b1", "b2", "b3", "b4")
UP, DOWN = dict.fromkeys(A_CELLS, 0.25), dict.fromkeys(B_CELLS, 0.25)
DIFFERENCE: Mapping[str, float] = UP | dict.fromkeys(B_CELLS, -0.25)


def campaign(rng: random.Random, n_blocks: int, gone: float, block_sd: float, noise: Mapping[str, float]) -> Cells:
    """Cells a are 20 and cells b 10 on average; with probability `gone` a trial is missing, but two per cell stay."""
    shared = [rng.gauss(0, block_sd) for _ in range(n_blocks)]
    cells: Cells = {}
    for key in (*A_CELLS, *B_CELLS):
        stay = {*rng.sample(range(n_blocks), 2)}
        level = 20.0 if key in A_CELLS else 10.0
        cells[key] = {
            block: level + shared[block] + rng.gauss(0, noise[key])
            for block in range(n_blocks)
            if block in stay or rng.random() >= gone
        }
    return cells


def blocks_of(cells: Cells) -> list[set[int]]:
    return [set(cell) for cell in cells.values()]


def test_a_missing_trial_here_and_there_does_not_let_blocks_into_the_difference() -> None:
    cells = campaign(random.Random(4), 6, 0.3, 50.0, dict.fromkeys((*A_CELLS, *B_CELLS), 0.1))
    assert len(set.intersection(*blocks_of(cells))) < 3
    found = linear(DIFFERENCE, cells, 0.95)
    assert found.pairing == "paired" and found.n == 6 and found.interval is not None
    assert found.interval.holds(10) and found.interval.half_width < 0.3


def test_cells_without_a_common_block_stay_unpaired() -> None:
    cells = {key: {10 * i + j: float(i + j) for j in range(3)} for i, key in enumerate((*A_CELLS, *B_CELLS))}
    assert linear(DIFFERENCE, cells, 0.95).pairing == "unpaired"
    assert ratio_of_linears(UP, DOWN, cells, 0.95).pairing == "unpaired"


def test_two_cells_that_hardly_share_blocks_stay_unpaired() -> None:
    cells = {"x": {1: 1.0, 2: 2.0, 3: 4.0, 4: 2.0, 5: 3.0}, "y": {5: 1.0, 6: 2.0, 7: 4.0, 8: 2.5}}
    assert linear({"x": 1, "y": -1}, cells, 0.95).pairing == "unpaired"


@pytest.mark.parametrize("n_blocks", [5, 10])
@pytest.mark.parametrize("block_sd", [0.0, 3.0])
@pytest.mark.parametrize("noise", ["equal", "unequal"])
def test_differences_and_ratios_cover_the_truth(
    n_blocks: int, block_sd: float, noise: Literal["equal", "unequal"]
) -> None:
    """Blocks are a sample: the ratio that counts is of the means over all blocks there could be."""
    rng, rounds, held = random.Random(12), 600, {"difference": 0, "ratio": 0}
    sd = {key: 3.0 if noise == "unequal" and key in {"a1", "b2"} else 1.0 for key in (*A_CELLS, *B_CELLS)}
    for _ in range(rounds):
        cells = campaign(rng, n_blocks, 0.25, block_sd, sd)
        found: dict[str, tuple[Contrast, float]] = {
            "difference": (linear(DIFFERENCE, cells, 0.95), 10.0),
            "ratio": (ratio_of_linears(UP, DOWN, cells, 0.95), 2.0),
        }
        for name, (contrast, truth) in found.items():
            held[name] += contrast.interval is None or contrast.interval.holds(truth)
    assert all(count / rounds >= 0.93 for count in held.values()), held
