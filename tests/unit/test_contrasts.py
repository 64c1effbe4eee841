"""Weighted sums of cell means and their ratios: the classical tests as special cases, absence with reasons."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lastro.stats.contrasts import Contrast, linear, ratio_of_linears, share
from lastro.stats.ratios import paired_ratio, unpaired_ratio

finite = st.floats(-1e3, 1e3).map(lambda x: round(x, 3))
DIFFERENCE = {"a": 1.0, "b": -1.0}


def by_block(values: list[float], first: int = 1) -> dict[int, float]:
    return dict(enumerate(values, first))


@given(st.lists(st.tuples(finite, finite), min_size=2, max_size=8).filter(lambda p: len({a - b for a, b in p}) > 1))
@settings(deadline=None)
def test_a_difference_within_blocks_is_the_paired_t_test(pairs: list[tuple[float, float]]) -> None:
    a, b = ([pair[i] for pair in pairs] for i in (0, 1))
    found = linear(DIFFERENCE, {"a": by_block(a), "b": by_block(b)}, 0.95)
    expected = stats.ttest_rel(a, b)
    assert found.pairing == "paired" and found.n == len(a) and found.df == len(a) - 1
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    assert found.interval is not None
    assert found.interval.low == pytest.approx(expected.confidence_interval(0.95).low, rel=1e-6, abs=1e-6)


def test_a_difference_across_blocks_is_welchs_t_test() -> None:
    a, b = [3.1, 4.0, 5.2, 4.4], [1.0, 9.0, 2.5]
    found = linear(DIFFERENCE, {"a": by_block(a), "b": by_block(b, 10)}, 0.9)
    expected = stats.ttest_ind(a, b, equal_var=False)
    assert found.pairing == "unpaired" and found.n == 7
    assert (found.p, found.df) == (pytest.approx(expected.pvalue), pytest.approx(expected.df))
    assert found.interval is not None
    assert found.interval.high == pytest.approx(expected.confidence_interval(0.9).high)


def test_one_block_of_many_missing_leaves_the_pairing() -> None:
    cells = {"a": by_block([1.0, 2.0, 3.0, 5.0]), "b": by_block([0.0, 1.5, 2.0])}
    assert linear(DIFFERENCE, cells, 0.95).n == 3


def test_ratios_agree_with_the_module_of_ratios() -> None:
    a, b = [3.1, 4.0, 5.2, 4.4], [2.0, 2.4, 2.5, 2.1]
    paired = ratio_of_linears({"a": 1}, {"b": 1}, {"a": by_block(a), "b": by_block(b)}, 0.95)
    unpaired = ratio_of_linears({"a": 1}, {"b": 1}, {"a": by_block(a), "b": by_block(b, 10)}, 0.95)
    for found, expected in ((paired, paired_ratio(a, b, 0.95)), (unpaired, unpaired_ratio(a, b, 0.95))):
        assert found.value == pytest.approx(expected.value)
        assert found.interval is not None and expected.interval is not None
        assert found.interval.low == pytest.approx(expected.interval.low)
        assert found.interval.high == pytest.approx(expected.interval.high)
        assert found.pairing == expected.pairing


def test_a_cell_without_values_makes_the_contrast_absent_with_its_name() -> None:
    for cells in ({"a": by_block([1.0, 2.0])}, {"a": by_block([1.0, 2.0]), "b": {}}):
        assert linear(DIFFERENCE, cells, 0.95).absent_because == "no values of b"
    found = ratio_of_linears({("x", "y"): 1}, {("x", "z"): 1}, {("x", "z"): {1: 1.0}}, 0.95)
    assert found.value is None and found.absent_because == "no values of x, y"
    assert linear({"a": 0.0}, {"a": {1: 1.0}}, 0.95).absent_because == "no cell has a weight"


def test_one_value_in_a_cell_gives_a_value_without_interval() -> None:
    found = linear(DIFFERENCE, {"a": {1: 3.0}, "b": {1: 1.0}}, 0.95)
    assert (found.value, found.interval, found.p) == (2.0, None, None)
    assert found.absent_because
    ratio = share({"a": 1}, {"b": 1}, {"a": [3.0, 3.1], "b": [1.5]}, 0.95)
    assert ratio.value == pytest.approx(3.05 / 1.5) and ratio.interval is None and ratio.absent_because


def test_values_without_spread_are_as_certain_as_their_number_allows_and_rounding_is_no_difference() -> None:
    third = 1 / 3
    cells = {key: by_block([0.1, 0.1, 0.1]) for key in "abcd"}
    found = linear({"a": third, "b": third, "c": third, "d": -1.0}, cells, 0.95)
    assert (found.value, found.p) == (0.0, 1.0)
    for n in (2, 12):
        apart = linear(DIFFERENCE, {"a": by_block([0.7] * n), "b": by_block([0.6] * n)}, 0.95)
        assert (apart.value, apart.p) == (pytest.approx(0.1), 2.0 ** (1 - n))
    alone = linear(DIFFERENCE, {"a": {1: 2.0, 2: 2.0}, "b": {3: 1.0, 4: 1.0, 5: 1.0}}, 0.95)
    assert alone.pairing == "unpaired" and alone.p == pytest.approx(2 / 10)


def recovered(quiet: str, disturbed: str, protected: str, cells: dict[str, dict[int, float]]) -> Contrast:
    """How much of what a disturbance costs a protection recovers: 0 is nothing, 1 is all of it."""
    return ratio_of_linears({protected: 1.0, disturbed: -1.0}, {quiet: 1.0, disturbed: -1.0}, cells, 0.95)


def test_a_share_is_unbounded_where_the_disturbance_costs_nothing() -> None:
    cells = {
        "quiet": by_block([10.0, 10.4, 9.8, 10.1]),
        "disturbed": by_block([10.1, 10.2, 9.9, 10.0]),
        "protected": by_block([10.2, 10.1, 9.7, 10.3]),
    }
    found = recovered("quiet", "disturbed", "protected", cells)
    assert found.interval is None and "unbounded" in (found.absent_because or "")
    flat = {key: by_block([5.0, 5.0]) for key in cells}
    assert recovered("quiet", "disturbed", "protected", flat).value is None


def test_a_protection_that_gives_back_half_recovers_half() -> None:
    rng = random.Random(3)
    level = {"quiet": 100.0, "disturbed": 40.0, "protected": 70.0}
    shared = [rng.gauss(0, 20) for _ in range(8)]
    cells = {key: by_block([mean + s + rng.gauss(0, 1) for s in shared]) for key, mean in level.items()}
    found = recovered("quiet", "disturbed", "protected", cells)
    assert found.pairing == "paired" and found.interval is not None
    assert found.interval.holds(0.5) and found.interval.half_width < 0.05


@pytest.mark.parametrize("spread", [(1.0, 1.0, 1.0), (1.0, 3.0, 0.3)])
@pytest.mark.parametrize("paired", [True, False])
def test_the_intervals_cover_what_they_claim(spread: tuple[float, ...], paired: bool) -> None:
    rng = random.Random(17)
    held = {"linear": 0, "ratio": 0}
    rounds = 1500
    for _ in range(rounds):
        shared = [rng.gauss(0, 2 * paired) for _ in range(6)]
        cells = {
            key: {b if paired else 10 * i + b: mean + shared[b] + rng.gauss(0, sd) for b in range(6)}
            for i, (key, mean, sd) in enumerate(zip("qdp", (20.0, 8.0, 12.0), spread, strict=True))
        }
        difference = linear({"q": 0.5, "p": 0.5, "d": -1.0}, cells, 0.95).interval
        given_back = recovered("q", "d", "p", cells).interval
        held["linear"] += difference is not None and difference.holds(8.0)
        held["ratio"] += given_back is None or given_back.holds(1 / 3)
    for found in held.values():
        assert 0.93 <= found / rounds <= 0.985
