"""Contrasts from a fit of cells and blocks with a variance for each cell: special cases and coverage."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy import stats

from lastro.stats._cell_fit import CellFit

DIFFERENCE = {"a": 1.0, "b": -1.0}


def test_without_blocks_it_is_welchs_error() -> None:
    a, b = [3.1, 4.0, 5.2, 4.4], [1.0, 9.0, 2.5]
    found = CellFit.of([*a, *b], ["a"] * 4 + ["b"] * 3, [0] * 7).separate(DIFFERENCE)
    assert found.error == pytest.approx(np.sqrt(np.var(a, ddof=1) / 4 + np.var(b, ddof=1) / 3))
    assert found.df == pytest.approx(stats.ttest_ind(a, b, equal_var=False).df)


def test_within_complete_blocks_it_is_the_paired_t_test() -> None:
    a, b = [3.1, 14.0, 25.2, 34.4], [1.0, 13.0, 22.5, 34.0]
    found = CellFit.of([*a, *b], list("aaaabbbb"), [1, 2, 3, 4] * 2).separate(DIFFERENCE)
    differences = np.subtract(a, b)
    assert found.value == pytest.approx(differences.mean())
    assert found.error == pytest.approx(stats.sem(differences))
    assert found.df == pytest.approx(3)
    flat = CellFit.of([1.0] * 4 + [3.0] * 4, list("aaaabbbb"), [1, 2, 3, 4] * 2).separate(DIFFERENCE)
    assert (flat.value, flat.error, flat.df) == (-2.0, 0.0, pytest.approx(3))


@pytest.mark.parametrize("seed", range(5))
def test_error_and_freedom_agree_with_the_whole_projection(seed: int) -> None:
    rng = random.Random(seed)
    rows = [(c, b) for c in "abcd" for b in range(6) if rng.random() < 0.7]
    y = np.array([rng.gauss(10 * b, 1 + 3 * (c == "a")) for c, b in rows])
    found = CellFit.of(y.tolist(), [c for c, _ in rows], [b for _, b in rows]).separate(DIFFERENCE)
    x = np.array([[c == k for k in "abcd"] + [b == k for k in range(1, 6)] for c, b in rows], dtype=float)
    inverse = np.linalg.pinv(x.T @ x)
    rest = np.eye(len(rows)) - x @ inverse @ x.T
    weight = np.array([1, -1, 0, 0, 0, 0, 0, 0, 0]) @ inverse @ x.T
    counted = np.abs(weight) > 1e-9
    q = np.where(counted, weight**2 / np.where(counted, np.diag(rest), 1), 0)
    parts = q * (rest @ y) ** 2
    cells = np.array([c for c, _ in rows])
    by_cell = [(parts[cells == c].sum(), np.diag(rest)[cells == c].sum()) for c in "abcd"]
    satterthwaite = parts.sum() ** 2 / sum(part**2 / free for part, free in by_cell if part)
    assert found.value == pytest.approx(weight @ y)
    assert found.error == pytest.approx(np.sqrt(parts.sum()))
    assert found.df == pytest.approx(satterthwaite)


def test_a_cell_with_one_value_has_no_error() -> None:
    fit = CellFit.of([1.0, 2.0, 3.0, 5.0, 4.0], list("aabbc"), [1, 2, 1, 2, 1])
    assert fit.separate({"a": 1.0, "c": -1.0}).error is None
    assert fit.separate(DIFFERENCE).error is not None


def test_parts_that_share_no_blocks_are_apart_but_for_what_lies_in_one_part() -> None:
    fit = CellFit.of([1.0, 2.0, 3.0, 5.0, 4.0, 4.5, 7.0, 9.0], list("abababcd"), [1, 1, 2, 2, 3, 3, 4, 4])
    assert fit.separate({"a": 1.0, "c": -1.0}).apart
    assert not fit.separate(DIFFERENCE).apart


@pytest.mark.parametrize("spreads", [(1, 1, 1, 1), (4, 1, 1, 1), (1, 1, 4, 4)])
@pytest.mark.parametrize("n_blocks", [4, 8])
def test_intervals_cover_where_trials_are_missing_and_spreads_differ(spreads: tuple[int, ...], n_blocks: int) -> None:
    rng, rounds, held = random.Random(31), 1500, 0
    everywhere = [(c, b) for c in range(4) for b in range(n_blocks)]
    for _ in range(rounds):
        gone = {*rng.sample(range(n_blocks), n_blocks // 2)}
        rows = [(c, b) for c, b in everywhere if not (b in gone and c == b % 4)]
        shared = [rng.gauss(0, 5) for _ in range(n_blocks)]
        values = [shared[b] + rng.gauss(0, spreads[c]) for c, b in rows]
        found = CellFit.of(values, [c for c, _ in rows], [b for _, b in rows]).separate(
            {0: 0.5, 1: 0.5, 2: -0.5, 3: -0.5}
        )
        assert found.error is not None and found.df is not None
        held += abs(found.value) <= stats.t.ppf(0.975, found.df) * found.error
    assert held / rounds >= 0.93
