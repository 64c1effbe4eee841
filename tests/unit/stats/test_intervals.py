"""Intervals against known values, and the coverage of the intervals by simulation."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from lastro.stats.intervals import Interval, describe, t_quantile
from lastro.stats.ratios import paired_ratio, unpaired_ratio


@pytest.mark.parametrize(("df", "t"), [(1, 12.7062), (4, 2.7764), (10, 2.2281), (11, 2.2010), (30, 2.0423)])
def test_t_quantile_against_tables(df: int, t: float) -> None:
    assert t_quantile(0.95, df) == pytest.approx(t, abs=5e-5)


def test_interval_of_a_known_sample() -> None:
    """R: t.test(1:5)$conf.int."""
    interval = describe([1.0, 2.0, 3.0, 4.0, 5.0], 0.95).interval
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((1.036757, 4.963243), abs=1e-6)
    assert interval.half_width == pytest.approx(1.963243, abs=1e-6)


def test_one_value_has_no_interval_and_no_spread() -> None:
    summary = describe([7.0], 0.95)
    assert (summary.n, summary.mean, summary.sd, summary.interval) == (1, 7.0, None, None)
    with pytest.raises(ValueError, match="no values"):
        describe([], 0.95)


def test_large_means_cost_no_digits() -> None:
    summary = describe([1e9 + 1, 1e9 + 2, 1e9 + 3], 0.95)
    assert (summary.mean, summary.sd) == (1e9 + 2, 1.0)


Sampler = Callable[[random.Random], tuple[list[float], list[float]]]


def _coverage(interval_of: Callable[[random.Random], Interval | None], truth: float, trials: int = 4000) -> float:
    rng = random.Random(20171)
    found = [interval_of(rng) for _ in range(trials)]
    return sum(interval is not None and interval.holds(truth) for interval in found) / trials


@pytest.mark.parametrize("n", [5, 10])
def test_t_interval_covers_what_it_promises(n: int) -> None:
    covered = _coverage(lambda rng: describe([rng.gauss(10, 2) for _ in range(n)], 0.95).interval, 10)
    assert covered == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("n", [5, 10])
@pytest.mark.parametrize(("sd_treated", "sd_baseline"), [(0.1, 0.1), (0.2, 0.02), (0.02, 0.2)])
def test_unpaired_ratio_covers_what_it_promises(n: int, sd_treated: float, sd_baseline: float) -> None:
    def draw(rng: random.Random) -> Interval | None:
        treated = [rng.gauss(0.8, sd_treated) for _ in range(n)]
        return unpaired_ratio(treated, [rng.gauss(1, sd_baseline) for _ in range(n)], 0.95).interval

    assert _coverage(draw, 0.8) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("n", [5, 10])
def test_paired_ratio_covers_what_it_promises(n: int) -> None:
    def draw(rng: random.Random) -> Interval | None:
        blocks = [rng.gauss(1, 0.2) for _ in range(n)]
        treated = [0.8 * block + rng.gauss(0, 0.1) for block in blocks]
        return paired_ratio(treated, [block + rng.gauss(0, 0.1) for block in blocks], 0.95).interval

    assert _coverage(draw, 0.8) == pytest.approx(0.95, abs=0.02)
