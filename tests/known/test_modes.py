"""A second mode is rarely reported where there is none, and nearly always found where there is one."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lastro.stats.modes import SecondMode, second_mode

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
bench = importlib.import_module("second_mode")
Values = NDArray[np.float64]

CAMPAIGNS = 30


@pytest.mark.parametrize(("treatments", "blocks"), [(3, 10), (9, 5)])
def test_noise_with_one_mode_is_rarely_taken_for_two(treatments: int, blocks: int) -> None:
    """`benches/second_mode.py` has more campaigns: at most 4.2 % of any kind of noise and design."""
    rates = {name: bench.reported(noise, treatments, blocks, CAMPAIGNS) for name, noise in bench.NOISES.items()}
    assert max(rates.values()) <= 0.14, rates  # 5 of 30 have a probability of 2 %, where 5 % is true
    assert sum(rates.values()) / len(rates) <= 0.03


def test_a_sixth_of_the_trials_far_away_is_found() -> None:
    assert bench.found(0.8, 9, 10, CAMPAIGNS) >= 0.93
    assert bench.found(1.2, 9, 10, CAMPAIGNS) >= 0.8
    assert 0.5 < bench.found(0.8, 9, 5, CAMPAIGNS) < 0.9


def values(seed: int = 1, treatments: int = 6, blocks: int = 12) -> Values:
    return np.asarray(bench.drawn(np.random.default_rng(seed), bench.NOISES["normal"], treatments, blocks))


def found_in(own: Values) -> SecondMode[int] | None:
    return second_mode(bench.by_cell(own))


def test_the_trials_apart_are_known_with_their_distance() -> None:
    own, apart = values(), {0: {2, 5}, 3: {0, 1, 7, 11}, 4: {9}}
    assert found_in(own) is None
    for cell, blocks in apart.items():
        own[cell, list(blocks)] *= 0.75
    mode = found_in(own)
    assert mode is not None and mode.trials == apart and mode.n == 7
    assert mode.relative and mode.distance == pytest.approx(0.75, abs=0.02) and mode.sds > 6


def test_values_of_either_sign_are_compared_by_differences() -> None:
    own = np.random.default_rng(2).normal(np.linspace(-100, 100, 6)[:, None], 5, (6, 12))
    own[[0, 2, 2, 5], [1, 1, 4, 8]] += 60
    mode = found_in(own)
    assert mode is not None and not mode.relative and mode.distance == pytest.approx(60, abs=10)
    assert mode.trials == {0: {1}, 2: {1, 4}, 5: {8}}


def test_missing_trials_change_little() -> None:
    own, apart = values(), {0: {2, 5}, 3: {0, 1, 7, 11}}
    for cell, blocks in apart.items():
        own[cell, list(blocks)] *= 0.75
    cells = {
        cell: {block: value for block, value in enumerate(row) if (cell + block) % 7}
        for cell, row in enumerate(own.tolist())
    }
    mode = second_mode(cells)
    assert mode is not None
    left = {cell: frozenset(b for b in blocks if (cell + b) % 7) for cell, blocks in apart.items()}
    assert mode.trials == {cell: blocks for cell, blocks in left.items() if blocks}


def test_a_treatment_that_is_mostly_in_the_second_mode_is_low_and_its_others_are_apart() -> None:
    own = values()
    own[0] *= 0.75
    own[0, [3, 4, 8]] /= 0.75
    mode = found_in(own)
    assert mode is not None and mode.trials == {0: {3, 4, 8}} and mode.distance == pytest.approx(1 / 0.75, abs=0.05)


@pytest.mark.parametrize("decimals", [0, -1, 1])
def test_rounding_makes_no_modes(decimals: int) -> None:
    rng = np.random.default_rng(3)
    assert not any(
        found_in(np.round(100 + rng.uniform(0, 2) * 10.0**-decimals * rng.standard_normal((6, 10)), decimals))
        for _ in range(40)
    )


def test_blocks_are_no_modes() -> None:
    own = values(treatments=9, blocks=5) * np.array([1, 1, 0.7, 1, 0.7])
    assert found_in(own) is None


def test_few_values_or_values_that_never_vary_have_no_second_mode() -> None:
    assert second_mode({}) is None
    assert second_mode({1: {1: 5.0, 2: 7.0, 3: 5.0}}) is None
    assert second_mode({cell: dict.fromkeys(range(10), 1 / 3) for cell in range(4)}) is None
    assert second_mode({cell: dict.fromkeys(range(10), 7.0) for cell in range(4)}) is None
    assert second_mode({cell: dict.fromkeys(range(10), 0.0) for cell in range(4)}) is None


def test_two_modes_without_noise_are_found() -> None:
    cells = {cell: {block: 2 / 3 if (cell, block) in {(0, 1), (2, 3), (3, 7)} else 1 / 3 for block in range(10)}
             for cell in range(4)}  # fmt: skip
    mode = second_mode(cells)
    assert mode is not None and mode.distance == pytest.approx(2) and mode.trials == {0: {1}, 2: {3}, 3: {7}}


def test_a_second_mode_that_is_near_does_not_matter() -> None:
    rng = np.random.default_rng(4)
    own = 100 * (1 + 1e-4 * rng.standard_normal((6, 10)))
    own[[0, 1, 2, 3], [1, 2, 3, 4]] *= 1.005
    assert found_in(own) is None
