"""Statistics of values of which some are only lower bounds: what is told of them holds wherever the truth lies."""

from __future__ import annotations

import random

import pytest

from lastro.stats.censored import (
    BOTH_ARE_BOUNDS,
    END_IS_BOUND,
    MEDIAN_IS_BOUND,
    RATIO_IS_BOUND,
    describe_bounded,
    median_of_bounded,
    ratio_of_bounded,
)
from lastro.stats.intervals import describe
from lastro.stats.order import median_interval
from lastro.stats.ratios import unpaired_ratio


def test_without_a_bound_nothing_changes() -> None:
    values, exact = [3.0, 5.0, 9.0, 4.0, 4.0, 8.0], [False] * 6
    assert describe_bounded(values, exact, 0.95) == describe(values, 0.95)
    assert median_of_bounded(values, exact, 0.95) == median_interval(values, 0.95)
    ratio = unpaired_ratio(values, [2.0, 3.0], 0.95)
    assert ratio_of_bounded(ratio, of=False, to=False) == ratio


def test_a_mean_with_a_bound_has_neither_spread_nor_interval() -> None:
    """Four searches that the study ended at 64 are alike for that alone: ± 0 would be a lie."""
    found = describe_bounded([64.0] * 4, [True] * 4, 0.95)
    assert (found.n, found.mean, found.sd, found.interval, found.bounded) == (4, 64.0, None, None, 4)
    assert describe_bounded([37.0, 64.0], [False, True], 0.95).bounded == 1


@pytest.mark.parametrize(
    ("values", "bounded", "known"),
    [
        ([36, 37, 38, 64, 64], [0, 0, 0, 1, 1], True),  # fewer than half, and above
        ([36, 37, 64, 64, 64], [0, 0, 1, 1, 1], False),
        ([5, 36, 37, 38, 39], [1, 0, 0, 0, 0], False),  # time was up early: the truth may lie above the median
        ([36, 37, 64, 64], [0, 0, 1, 1], False),  # half of it is a bound
        ([36, 37, 37, 37, 40], [0, 0, 0, 1, 0], True),
        ([64], [1], False),
    ],
)
def test_a_median_is_exact_where_no_bound_could_move_it(values: list[float], bounded: list[int], known: bool) -> None:
    found = median_of_bounded(values, [bool(each) for each in bounded], 0.95)
    assert found.value == median_interval(values, 0.95).value and (found.bound == "≥") is not known
    if not known:
        assert found.interval is None and found.absent_because and found.absent_because.message == MEDIAN_IS_BOUND


def test_an_interval_of_the_median_stands_where_its_upper_end_is_known() -> None:
    values = [30.0, 31, 32, 33, 34, 35, 36, 37, 64, 64]
    few = median_of_bounded(values, [False] * 9 + [True], 0.95)
    assert few == median_interval(values, 0.95) and few.interval and few.interval.high == 64
    both = median_of_bounded(values, [False] * 8 + [True] * 2, 0.95)
    assert both.value == 34.5 and not both.bound and both.interval is None
    assert both.absent_because and both.absent_because.message == END_IS_BOUND


def test_what_is_told_holds_wherever_the_truth_lies() -> None:
    rng = random.Random(5)
    for _ in range(300):
        truth = [rng.gauss(100, 20) for _ in range(rng.randint(1, 9))]
        limits = [rng.gauss(110, 20) for _ in truth]
        seen = [min(pair) for pair in zip(truth, limits, strict=True)]
        bounded = [true > limit for true, limit in zip(truth, limits, strict=True)]
        median, whole = median_of_bounded(seen, bounded, 0.95), median_interval(truth, 0.95)
        assert median.value is not None and whole.value is not None
        assert median.value <= whole.value + 1e-9 if median.bound else median.value == whole.value
        assert describe_bounded(seen, bounded, 0.95).mean <= describe(truth, 0.95).mean + 1e-9
        if median.interval:
            assert whole.interval and median.interval.high == whole.interval.high
            assert median.interval.low <= whole.interval.low


def test_a_ratio_to_or_of_a_bound_is_one() -> None:
    ratio = unpaired_ratio([64.0, 64.0, 63.0], [37.0, 38.0, 36.0], 0.95)
    above, below = ratio_of_bounded(ratio, of=True, to=False), ratio_of_bounded(ratio, of=False, to=True)
    assert (above.bound, below.bound) == ("≥", "≤") and above.value == below.value == ratio.value
    for bound in (above, below):
        assert bound.interval is None and not bound.differs
        assert bound.absent_because and bound.absent_because.message == RATIO_IS_BOUND
    both = ratio_of_bounded(ratio, of=True, to=True)
    assert both.value is None and both.absent_because and both.absent_because.message == BOTH_ARE_BOUNDS
