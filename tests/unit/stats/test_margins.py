"""The one-sided test of a ratio against a margin, and the gate made of many."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.stats import margins
from lastro.stats.margins import GateCandidate, RatioTest, gate, worse_than
from lastro.stats.ratios import unpaired_ratio
from lastro.stats.sampled_mean import SampledMean
from lastro.stats.student import Side

from ...support.products import combinations

SAMPLES = st.lists(st.floats(50, 150), min_size=3, max_size=12)


def ratio_test(values: Sequence[float], baseline: Sequence[float], limit: float, side: Side) -> RatioTest:
    return margins.ratio_test(SampledMean.of(values), SampledMean.of(baseline), limit, side)


def candidate(values: Sequence[float], baseline: Sequence[float], better: Literal["higher", "lower"]) -> GateCandidate:
    return GateCandidate(SampledMean.of(values), SampledMean.of(baseline), better)


def normal(rng: random.Random, n: int, mean: float = 100.0, sd: float = 8.0) -> list[float]:
    return [rng.gauss(mean, sd) for _ in range(n)]


def test_at_a_ratio_of_one_it_is_welchs_test() -> None:
    """scipy's `ttest_ind` with unequal variances says the same."""
    from scipy.stats import ttest_ind

    rng = random.Random(1)
    a, b = normal(rng, 7, 100, 5), normal(rng, 11, 104, 12)
    for side, alternative in (("either", "two-sided"), ("above", "greater"), ("below", "less")):
        theirs = ttest_ind(b, a, equal_var=False, alternative=alternative)
        ours = ratio_test(b, a, 1.0, side)  # type: ignore[arg-type]
        assert ours.t == pytest.approx(theirs.statistic) and ours.p == pytest.approx(theirs.pvalue)


@given(SAMPLES, SAMPLES, st.floats(0.8, 1.25))
def test_it_is_welchs_test_against_the_baseline_stretched_by_the_limit(
    b: list[float], a: list[float], limit: float
) -> None:
    stretched = [limit * value for value in a]
    ours, theirs = ratio_test(b, a, limit, "above"), ratio_test(b, stretched, 1.0, "above")
    assert ours.p == pytest.approx(theirs.p, abs=1e-6)


def test_the_ends_of_fiellers_interval_are_where_the_test_is_undecided() -> None:
    """With Satterthwaite's degrees of freedom at the end, not at the estimate, they differ in the third digit."""
    rng = random.Random(2)
    a, b = normal(rng, 20), normal(rng, 20, 110)
    interval = unpaired_ratio(b, a, 0.95).interval
    assert interval is not None
    assert ratio_test(b, a, interval.low, "above").p == pytest.approx(0.025, abs=5e-4)
    assert ratio_test(b, a, interval.high, "below").p == pytest.approx(0.025, abs=5e-4)


@given(SAMPLES, SAMPLES)
def test_the_two_sides_share_all_probability(b: list[float], a: list[float]) -> None:
    above, below = ratio_test(b, a, 1.05, "above"), ratio_test(b, a, 1.05, "below")
    if above.t != 0 and math.isfinite(above.t):
        assert above.p + below.p == pytest.approx(1)


def test_constant_samples_are_as_certain_as_their_number_allows() -> None:
    """Of two and two values one way in six to share them out is as extreme; of ten and ten, one in 184,756."""
    assert ratio_test([3.0, 3.0], [2.0, 2.0], 1.05, "above").p == pytest.approx(1 / 6)
    assert ratio_test([3.0, 3.0], [2.0, 2.0], 1.05, "below").p == 1
    assert ratio_test([2.0, 2.0], [2.0, 2.0], 1.05, "above").p == 1
    assert ratio_test([2.1, 2.1], [2.0, 2.0], 1.05, "above").p == 1, "at the margin, but for rounding"
    assert ratio_test([0.1] * 3, [0.1] * 2, 1.0, "either").p == 1
    assert ratio_test([2.0, 2.0], [3.0, 3.0], 1.0, "either").p == pytest.approx(1 / 3)
    assert ratio_test([3.0] * 10, [2.0] * 10, 1.05, "above").p == pytest.approx(1 / 184_756)


def test_tiny_values_do_not_underflow() -> None:
    found = ratio_test([1e-90, 2e-90], [3e-90, 5e-90], 1, "either")
    assert found.p == pytest.approx(ratio_test([1.0, 2.0], [3.0, 5.0], 1, "either").p)


@pytest.mark.parametrize(("b", "a"), [([1.0], [1.0, 2.0]), ([1.0, 2.0], [3.0]), ([1.0], [0.0])])
def test_one_value_cannot_be_tested(b: list[float], a: list[float]) -> None:
    with pytest.raises(ValueError, match="n = 1"):
        ratio_test(b, a, 1.05, "above")


def test_from_nothing_any_loss_is_more_than_the_margin() -> None:
    nothing, something, negative = [0.0] * 6, [0.4, 0.5, 0.6, 0.5, 0.4, 0.6], [-1.0, -1.1, -0.9, -1.0, -1.1, -0.9]
    assert worse_than(candidate(something, nothing, "lower"), 0.05).p < 0.001
    assert worse_than(candidate(nothing, nothing, "lower"), 0.05).p == 1
    assert worse_than(candidate(negative, nothing, "higher"), 0.05).p < 0.001
    assert worse_than(candidate(something, nothing, "higher"), 0.05).p > 0.99


def test_the_margin_of_a_mean_below_zero_is_a_share_of_its_size() -> None:
    a = [-100.0, -101.0, -99.0]
    for by, found in ((10.0, True), (1.0, False)):
        assert (worse_than(candidate([x + by for x in a], a, "lower"), 0.05).p < 0.05) == found
        assert (worse_than(candidate([x - by for x in a], a, "higher"), 0.05).p < 0.05) == found


def test_a_margin_is_a_share() -> None:
    for margin in (-0.1, 1.0, math.nan):
        with pytest.raises(ValueError, match="margin"):
            worse_than(candidate([1.0, 2.0], [1.0, 2.0], "lower"), margin)


def test_worse_is_up_where_lower_is_better_and_down_where_higher_is() -> None:
    a, more, less = [100.0, 101.0, 99.0], [120.0, 121.0, 119.0], [80.0, 81.0, 79.0]
    assert worse_than(candidate(more, a, "lower"), 0.05).p < 0.01 < worse_than(candidate(less, a, "lower"), 0.05).p
    assert worse_than(candidate(less, a, "higher"), 0.05).p < 0.01 < worse_than(candidate(more, a, "higher"), 0.05).p
    assert worse_than(candidate(more, a, "higher"), 0.05).limit == 0.95


def test_a_gate_with_nothing_to_judge_judges_nothing() -> None:
    assert gate([], 0.05, 0.05) == ()


# Does it cry wolf, and does it bite?


def share_of_alarms(
    *,
    n: int,
    cells: int,
    margin: float,
    ratio: float,
    gates: int,
    skewed: bool = False,
    better: Literal["higher", "lower"] = "lower",
) -> float:
    """Of so many gates over campaigns whose true ratio is `ratio` in every cell, how many find a regression."""
    rng = random.Random(f"{n}:{cells}:{margin}:{ratio}:{skewed}:{better}")

    def draw(mean: float, sd: float) -> list[float]:
        if skewed:
            return [mean * rng.lognormvariate(0, sd / 100) for _ in range(n)]
        return normal(rng, n, mean, sd)

    alarms = 0
    for _ in range(gates):
        spreads = [rng.choice((2.0, 5.0, 20.0)) for _ in range(cells)]
        found = gate([candidate(draw(100 * ratio, sd), draw(100, sd), better) for sd in spreads], margin, 0.05)
        alarms += any(judged.regressed for judged in found)
    return alarms / gates


GATES = 1500
MOST = 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / GATES)  # 0.05, and what chance adds to a rate of 0.05 in 99.5 % of cases


@pytest.mark.parametrize(("n", "cells"), [(2, 1), (2, 8), (2, 60), (3, 1), (3, 8), (3, 60), (5, 8), (5, 60)])
def test_values_of_few_steps_keep_the_rate(n: int, cells: int) -> None:
    """A/A campaigns whose values are 10 or 11 by chance: often nothing varies on either side, and t is infinite."""
    rng, alarms, gates = random.Random(f"{n}:{cells}"), 0, 300
    for _ in range(gates):
        drawn = [[[float(rng.choice((10, 11))) for _ in range(n)] for _ in "ab"] for _ in range(cells)]
        alarms += any(judged.regressed for judged in gate([candidate(b, a, "lower") for a, b in drawn], 0.05, 0.05))
    assert alarms / gates <= 0.05


@pytest.mark.parametrize(("size", "skewed"), combinations(((3, 6), (5, 1), (5, 24), (12, 24)), (False, True)))
def test_a_gate_without_margin_cries_wolf_at_its_stated_rate_at_most(size: tuple[int, int], skewed: bool) -> None:
    """A/A campaigns at the hardest margin, none: normal and log-normal, spreads of 2, 5 and 20 %."""
    assert share_of_alarms(n=size[0], cells=size[1], margin=0.0, ratio=1.0, gates=GATES, skewed=skewed) <= MOST


def test_a_truth_at_the_margin_itself_is_called_a_regression_at_the_stated_rate_at_most() -> None:
    assert share_of_alarms(n=6, cells=8, margin=0.05, ratio=1.05, gates=GATES) <= MOST
    assert share_of_alarms(n=6, cells=8, margin=0.05, ratio=0.95, gates=GATES, better="higher") <= MOST


def test_cells_that_share_their_blocks_keep_the_rate() -> None:
    """What disturbs a block disturbs every treatment in it: tests of one campaign depend on each other."""
    rng, alarms = random.Random(8), 0
    for _ in range(GATES):
        before, after = ([rng.gauss(0, 6) for _ in range(6)] for _ in "ab")
        cells = [
            candidate([value + x for value, x in zip(normal(rng, 6, 100, 3), after, strict=True)],
                      [value + x for value, x in zip(normal(rng, 6, 100, 3), before, strict=True)], "lower")
            for _ in range(8)
        ]  # fmt: skip
        alarms += any(judged.regressed for judged in gate(cells, 0.0, 0.05))
    assert alarms / GATES <= MOST


def test_one_cell_reaches_its_stated_rate() -> None:
    """A gate that never alarms would keep the rate too: this one uses it up."""
    assert share_of_alarms(n=10, cells=1, margin=0.0, ratio=1.0, gates=GATES) >= 0.035


def test_two_runs_of_the_same_thing_hardly_ever_pass_a_margin_above_the_noise() -> None:
    rng = random.Random(5)
    alarms = 0
    for _ in range(500):
        cells = [candidate(normal(rng, 10, 100, 4), normal(rng, 10, 100, 4), "lower") for _ in range(24)]
        alarms += any(judged.regressed for judged in gate(cells, 0.05, 0.05))
    assert alarms == 0


def test_a_true_regression_in_one_cell_of_many_is_found() -> None:
    """15 % worse where the margin is 5 %, with 10 blocks of 4 % spread, among 23 cells that are as they were."""
    rng = random.Random(6)
    found = 0
    for _ in range(200):
        cells = [candidate(normal(rng, 10, 100, 4), normal(rng, 10, 100, 4), "lower") for _ in range(23)]
        cells.append(candidate(normal(rng, 10, 115, 4), normal(rng, 10, 100, 4), "lower"))
        judged = gate(cells, 0.05, 0.05)
        found += judged[-1].regressed and not any(other.regressed for other in judged[:-1])
    assert found >= 190


@pytest.mark.parametrize(
    ("walk", "n", "most"),
    [(0.0, 3, 0.035), (0.0, 8, 0.035), (0.01, 3, 0.05), (0.01, 8, 0.1), (0.02, 3, 0.07), (0.02, 8, 0.17)],
)
def test_a_pass_that_is_called_conclusive_is_wrong_as_often_as_the_docs_say(walk: float, n: int, most: float) -> None:
    """The true loss is the margin itself. `walk` is the step of a host whose speed wanders from block to block."""
    chance, wrong, gates = random.Random(1), 0, 2000

    def campaign(mean: float) -> list[float]:
        level, values = 0.0, []
        for _ in range(n):
            level = 0.7 * level + chance.gauss(0, walk) if walk else 0.0
            values.append(mean * (1 + chance.gauss(0, 0.02) + level))
        return values

    for _ in range(gates):
        interval = unpaired_ratio(campaign(95.0), campaign(100.0), 0.95).interval
        wrong += interval is not None and 1 - interval.low <= 0.05
    assert wrong / gates <= most
    assert not walk or n == 3 or wrong / gates > 0.05, "a host that wanders is no footnote"
