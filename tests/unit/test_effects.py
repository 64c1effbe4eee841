"""Main effects, simple effects and interactions: what they average over, their intervals, and when they are absent."""

from __future__ import annotations

import itertools
import math
import random
from typing import Literal

import numpy as np
import pytest
from scipy import stats

from lastro.stats.anova import anova
from lastro.stats.effects import CellMeans, Spread

Rows = list[tuple[str, str, int]]
CELLS = tuple(itertools.product("abc", "xy"))
ROWS: Rows = [(a, b, block) for block in range(5) for a, b in CELLS]
SPREADS: tuple[Spread, ...] = ("separate", "pooled")


def arranged(rows: Rows, values: list[float], spread: Spread = "separate", log: bool = False) -> CellMeans:
    factors = {"A": [a for a, _, _ in rows], "B": [b for _, b, _ in rows]}
    return CellMeans.of(values, factors, block=[block for _, _, block in rows], spread=spread, log=log)


def truth(a: str, b: str, block: int) -> float:
    """b adds 2 to a and c adds 5; y adds 10, and 3 more beside c; blocks differ."""
    return 100 + {"a": 0, "b": 2, "c": 5}[a] + (b == "y") * (10 + 3 * (a == "c")) + block


@pytest.mark.parametrize("spread", SPREADS)
def test_effects_without_noise_are_the_truth(spread: Spread) -> None:
    found = arranged(ROWS, [truth(*row) for row in ROWS], spread)
    main = {effect.level: effect.contrast.value for effect in found.main_effects("A", "a")}
    assert main == {"b": pytest.approx(2), "c": pytest.approx(6.5)}
    simple = {(effect.level, effect.at["B"]): effect.contrast.value for effect in found.simple_effects("A", "a")}
    expected = {("b", "x"): 2, ("c", "x"): 5, ("b", "y"): 2, ("c", "y"): 8}
    assert simple == {key: pytest.approx(value) for key, value in expected.items()}
    both = {effect.levels: effect.contrast.value for effect in found.interactions("A", "a", "B", "x")}
    assert both == {("b", "y"): pytest.approx(0, abs=1e-9), ("c", "y"): pytest.approx(3)}
    assert found.means("B")["x"].value == pytest.approx(100 + 7 / 3 + 2)


@pytest.mark.parametrize("spread", SPREADS)
def test_trials_that_are_missing_do_not_bend_effects(spread: Spread) -> None:
    """Blocks differ by 1 each and cells lose different ones, so raw means of cells would be off."""
    rows = [row for i, row in enumerate(ROWS) if i not in {1, 2, 9, 17, 28}]
    found = arranged(rows, [truth(*row) for row in rows], spread)
    assert found.main_effects("A", "a")[1].contrast.value == pytest.approx(6.5)


def test_a_main_effect_averages_only_over_cells_with_both_levels() -> None:
    rows = [row for row in ROWS if row[:2] != ("c", "y")]
    effect = arranged(rows, [truth(*row) for row in rows]).main_effects("A", "a")[1]
    assert (effect.level, effect.contrast.value) == ("c", pytest.approx(5))
    assert (effect.strata, effect.possible) == (1, 2)


def test_levels_that_never_meet_have_no_contrast_and_a_reason() -> None:
    rows = [row for row in ROWS if (row[0] == "c") == (row[1] == "y")]
    found = arranged(rows, [truth(*row) for row in rows])
    effect = found.main_effects("A", "a")[1]
    assert effect.contrast.value is None and effect.strata == 0
    assert effect.contrast.absent_because == "no combination of the other factors has both c and a"
    assert all(each.contrast.absent_because for each in found.interactions("A", "a", "B", "x"))


def test_effects_of_a_log_model_are_ratios() -> None:
    rng = random.Random(1)
    values = [
        2.0 ** "abc".index(a) * 1.5 ** (b == "y") * 3**block * rng.lognormvariate(0, 0.01) for a, b, block in ROWS
    ]
    found = arranged(ROWS, values, log=True)
    for effect, expected in zip(found.main_effects("A", "a"), (2, 4), strict=True):
        assert effect.contrast.interval is not None and effect.contrast.interval.holds(expected)
        assert effect.contrast.interval.half_width < 0.2
    assert found.interactions("A", "a", "B", "x")[0].contrast.value == pytest.approx(1, abs=0.05)
    assert found.means("A")["a"].value == pytest.approx(9 * math.sqrt(1.5), rel=0.05)


def by_least_squares(rows: Rows, values: list[float], weights: dict[tuple[str, str], float]) -> tuple[float, float]:
    """The contrast and its standard error from the whole table of indicator columns: the other way to derive it."""
    cells, blocks = sorted({row[:2] for row in rows}), sorted({row[2] for row in rows})[1:]
    x = np.array([[row[:2] == c for c in cells] + [row[2] == b for b in blocks] for row in rows], dtype=float)
    beta, rss, rank, _ = np.linalg.lstsq(x, np.array(values), rcond=None)
    w = np.array([weights.get(cell, 0.0) for cell in cells] + [0.0] * len(blocks))
    return float(w @ beta), math.sqrt(float(rss[0]) / (len(rows) - rank) * float(w @ np.linalg.pinv(x.T @ x) @ w))


@pytest.mark.parametrize("seed", range(4))
def test_pooled_contrasts_agree_with_another_derivation(seed: int) -> None:
    rng = random.Random(seed)
    rows = [row for row in ROWS if rng.random() < 0.8]
    values = [truth(*row) + rng.gauss(0, 1) for row in rows]
    weights = {("b", "x"): 0.5, ("b", "y"): 0.5, ("a", "x"): -0.25, ("a", "y"): -0.75}
    found = arranged(rows, values, "pooled").contrast(weights)
    value, error = by_least_squares(rows, values, weights)
    assert found.value == pytest.approx(value) and found.df is not None and found.interval is not None
    assert found.interval.half_width == pytest.approx(stats.t.ppf(0.975, found.df) * error)
    table = anova(values, {"A": [r[0] for r in rows], "B": [r[1] for r in rows]}, block=[r[2] for r in rows])
    assert found.df == table.residual.df


def test_pooled_effects_of_two_groups_are_students_t_test() -> None:
    a, b = [3.1, 4.0, 5.2, 4.4], [1.0, 9.0, 2.5]
    found = CellMeans.of([*a, *b], {"A": ["a"] * 4 + ["b"] * 3}, spread="pooled").main_effects("A", "b")[0].contrast
    expected = stats.ttest_ind(a, b)
    assert (found.p, found.df, found.pairing) == (pytest.approx(expected.pvalue), 5, "unpaired")


def test_separate_effects_of_two_groups_are_welchs_t_test() -> None:
    a, b = [3.1, 4.0, 5.2, 4.4], [1.0, 9.0, 2.5]
    found = CellMeans.of([*a, *b], {"A": ["a"] * 4 + ["b"] * 3}).main_effects("A", "b")[0].contrast
    assert found.p == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)


def test_pooled_effects_across_blocks_that_share_nothing_are_absent() -> None:
    found = CellMeans.of([1.0, 2.0, 3.0, 5.0], {"A": list("aabb")}, block=[1, 2, 3, 4], spread="pooled")
    assert (
        found.main_effects("A", "a")[0].contrast.absent_because
        == "the cells share no blocks, not even by way of others"
    )


@pytest.mark.parametrize("spread", SPREADS)
def test_one_trial_of_each_gives_a_value_without_interval(spread: Spread) -> None:
    found = CellMeans.of([1.0, 3.0], {"A": list("ab")}, spread=spread).main_effects("A", "a")[0].contrast
    assert (found.value, found.interval, found.p) == (2.0, None, None)
    assert found.absent_because


@pytest.mark.parametrize("spread", SPREADS)
def test_values_that_never_vary_have_no_effect(spread: Spread) -> None:
    found = arranged(ROWS, [0.1] * len(ROWS), spread)
    for effect in (*found.main_effects("A", "a"), *found.interactions("A", "a", "B", "x")):
        assert (effect.contrast.value, effect.contrast.p) == (0.0, 1.0)


def test_one_block_is_as_good_as_none() -> None:
    one, none = (CellMeans.of([1.0, 2.0, 4.0, 5.0], {"A": list("aabb")}, block=block) for block in ([1] * 4, None))
    assert one.main_effects("A", "a") == none.main_effects("A", "a")
    assert one.main_effects("A", "a")[0].contrast.pairing == "unpaired"


def test_two_trials_of_a_cell_in_one_block_are_both_used() -> None:
    values = [1.0, 2.0, 4.0, 5.0, 11.0, 12.5, 14.0, 15.0]
    found = CellMeans.of(values, {"A": list("aabb") * 2}, block=[1] * 4 + [2] * 4).main_effects("A", "a")[0].contrast
    assert found.n == 2 and found.value == pytest.approx(np.mean([4, 5, 14, 15]) - np.mean([1, 2, 11, 12.5]))
    assert found.interval is not None and found.interval.half_width < 2, "the ten between the blocks is no noise"


def test_unknown_names_are_refused_with_what_exists() -> None:
    found = arranged(ROWS, [truth(*row) for row in ROWS])
    with pytest.raises(ValueError, match="C is not among the factors A, B"):
        found.main_effects("C", "a")
    with pytest.raises(ValueError, match="nothing was measured at z of A"):
        found.main_effects("A", "z")
    with pytest.raises(ValueError, match="itself"):
        found.interactions("A", "a", "A", "b")
    with pytest.raises(ValueError, match="above 0"):
        CellMeans.of([0.0], {"A": ["a"]}, log=True)
    with pytest.raises(ValueError):
        CellMeans.of([], {})


@pytest.mark.parametrize("noise", ["equal", "unequal", "lognormal"])
def test_the_intervals_cover_the_truth(noise: Literal["equal", "unequal", "lognormal"]) -> None:
    """Within two points of the nominal 95 %, or above; pooled ones are asked only where their assumption holds."""
    rng, rounds = random.Random(23), 800
    held: dict[tuple[Spread, str], int] = {}
    for _ in range(rounds):
        shared = [rng.gauss(0, 0.5) for _ in range(5)]
        logs = {row: 0.1 * "abc".index(row[0]) + rng.gauss(0, 0.2) + shared[row[2]] for row in ROWS}
        sd = {row: 4.0 if noise == "unequal" and row[0] == "b" else 1.0 for row in ROWS}
        values = [
            math.exp(logs[row]) if noise == "lognormal" else truth(*row) + shared[row[2]] + rng.gauss(0, sd[row])
            for row in ROWS
        ]
        expected = (math.exp(0.1), 1.0) if noise == "lognormal" else (2.0, 0.0)
        for spread in SPREADS[: 1 if noise == "unequal" else 2]:
            means = arranged(ROWS, values, spread, log=noise == "lognormal")
            main = means.main_effects("A", "a")[0].contrast.interval
            both = means.interactions("A", "a", "B", "x")[0].contrast.interval
            for name, interval, value in (("main", main, expected[0]), ("both", both, expected[1])):
                assert interval is not None
                held[spread, name] = held.get((spread, name), 0) + interval.holds(value)
    for key, count in held.items():
        assert 0.93 <= count / rounds <= 0.975, (key, count / rounds)
