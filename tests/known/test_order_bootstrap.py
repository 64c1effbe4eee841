"""Intervals of medians and quantiles from order statistics against tables, and the bootstrap against scipy."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from lastro.stats.bootstrap import bca_interval
from lastro.stats.order import median_interval, quantile_interval
from lastro.stats.quantiles import least_n_for


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


@pytest.mark.parametrize(("q", "n"), [(0.9, 29), (0.99, 299), (0.999, 2995), (0.01, 299)])
def test_quantiles_are_estimable_from_where_the_sample_reaches_their_tail(q: float, n: int) -> None:
    assert least_n_for(max(q, 1 - q)) == n
    short = quantile_interval(ranks(n - 1), q, 0.95)
    assert (short.value, short.interval) == (None, None)
    assert short.absent_because == f"not estimable: n = {n - 1}, needs {n}"
    found = quantile_interval(ranks(n), q, 0.95)
    assert found.value is not None and found.interval is not None and found.interval.holds(found.value)
    assert 0.95 <= found.interval.confidence < 0.96


def test_no_narrower_ranks_bracket_a_quantile() -> None:
    n, q = 60, 0.8
    interval = quantile_interval(ranks(n), q, 0.95).interval
    assert interval is not None

    def confidence(low: int, high: int) -> float:
        return sum(math.comb(n, b) * q**b * (1 - q) ** (n - b) for b in range(low, high))

    low, high = round(interval.low), round(interval.high)
    assert interval.confidence == pytest.approx(confidence(low, high))
    width = high - low
    assert all(confidence(at, at + width - 1) < 0.95 for at in range(1, n - width + 2))
    assert all(confidence(at, at + width) <= interval.confidence + 1e-12 for at in range(1, n - width + 1))


def test_a_quantile_may_be_known_without_an_interval() -> None:
    found = quantile_interval(ranks(5), 0.5, 0.95)
    assert found.value == 3 and found.interval is None and "93.8 %" in str(found.absent_because)


def test_bootstrap_against_scipy() -> None:
    import numpy as np
    from scipy import stats

    rng = random.Random(5)
    values = [rng.lognormvariate(0, 0.7) for _ in range(60)]
    found = bca_interval(values, lambda rows: rows.mean(axis=-1), 0.95, seed=1, resamples=20_000)
    reference = stats.bootstrap((values,), np.mean, confidence_level=0.95, n_resamples=20_000, rng=2)
    assert found.interval is not None and found.value == pytest.approx(sum(values) / 60)
    ends = reference.confidence_interval
    assert (found.interval.low, found.interval.high) == pytest.approx((ends.low, ends.high), rel=0.01)


def test_bootstrap_only_from_thirty_and_the_same_for_the_same_seed() -> None:
    import numpy as np

    def median(rows):
        return np.median(rows, axis=-1)

    short = bca_interval(ranks(29), median, 0.95, seed=1)
    assert short.value == 15 and short.interval is None and "30" in str(short.absent_because)
    once, again = (bca_interval(ranks(30), median, 0.95, seed=7) for _ in range(2))
    assert once == again and once.interval is not None and once.interval.holds(15.5)
    constant = bca_interval([2.0] * 30, median, 0.95, seed=7)
    assert constant.interval is not None and constant.interval.half_width == 0
    with pytest.raises(ValueError, match="no values"):
        bca_interval([], median, 0.95, seed=1)
