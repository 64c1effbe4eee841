"""Intervals of medians from order statistics against tables."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from lastro.stats.order import median_interval


def ranks(n: int) -> list[float]:
    return [float(x) for x in range(1, n + 1)]


# Le Boudec, Performance Evaluation of Computer and Communication Systems (2010), table A.1: the median at 95 %.
@pytest.mark.parametrize(("n", "low", "high", "achieved"), [(6, 1, 6, 0.969), (9, 2, 8, 0.961), (10, 2, 9, 0.979)])
def test_ranks_that_bracket_the_median(n: int, low: int, high: int, achieved: float) -> None:
    found = median_interval(ranks(n), 0.95)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == (low, high)
    assert found.interval.confidence == pytest.approx(achieved, abs=5e-4)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_no_interval_of_the_median_for_five_or_fewer(n: int) -> None:
    found = median_interval(ranks(n), 0.95)
    assert found.value == (n + 1) / 2 and found.interval is None
    assert found.absent_because is not None and f"n = {n}" in found.absent_because
    with pytest.raises(ValueError, match="no values"):
        median_interval([], 0.95)


def test_achieved_confidence_is_the_least_that_suffices() -> None:
    for n in range(6, 80):
        interval = median_interval(ranks(n), 0.95).interval
        assert interval is not None
        k = round(interval.low)
        tails = [Fraction(sum(math.comb(n, at) for at in range(i)), 2**n) for i in (k, k + 1)]
        assert 1 - 2 * tails[0] >= Fraction(95, 100) > 1 - 2 * tails[1]
        assert interval.confidence == pytest.approx(float(1 - 2 * tails[0]))
