"""Advised numbers of blocks: exact where theory has a formula, and enough as often as they say in simulations."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import fdtr

from lastro.stats.blocks_needed import MOST, BlocksNeeded, PilotInterval, blocks_needed
from lastro.stats.intervals import t_quantile

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))

from advice_promises import ASSURANCES, PILOTS, PROBABLE, rates


def advised(n: int, *errors: float, half_width: float = 0.05, rounding: float = 0.0) -> BlocksNeeded:
    """The advice after a pilot of `n` blocks, with these errors of n - 1 degrees of freedom each."""
    critical = t_quantile(0.95, n - 1)
    intervals = [PilotInterval(error, n - 1, critical, rounding) for error in errors]
    return blocks_needed(intervals, n, half_width, ASSURANCES, PROBABLE)


@pytest.mark.parametrize("n", [2, 5, 20])
def test_the_probability_for_one_interval_is_that_of_an_f_distribution(n: int) -> None:
    """The variance that a campaign of m blocks shows, over that of the pilot, is F with m - 1 and n - 1 df."""
    for enough in advised(n, 0.05).enough:
        assert enough.blocks is not None

        def exact(m: int) -> float:
            return float(fdtr(m - 1, n - 1, m / n / t_quantile(0.95, m - 1) ** 2))

        assert enough.reached == pytest.approx(exact(enough.blocks)) and enough.reached >= enough.assurance
        assert exact(enough.blocks - 1) < enough.assurance


def test_a_larger_pilot_knows_the_number_more_precisely() -> None:
    small, large = (advised(n, *[0.1 / n**0.5] * 6) for n in (3, 30))
    assert small.low and small.high and large.low and large.high
    assert small.low < large.low <= large.high < small.high
    assert (small.enough[1].blocks or 0) > 1.5 * (large.enough[1].blocks or 0)


def test_more_intervals_need_more_blocks_and_the_noisiest_decides() -> None:
    few, many = (advised(10, *[0.05] * n) for n in (1, 20))
    assert few.enough[1].blocks and many.enough[1].blocks and many.enough[1].blocks > 1.3 * few.enough[1].blocks
    assert advised(10, 0.02, 0.02, 0.08, 0.02).widest == 2


def test_where_no_number_is_enough() -> None:
    coarse = advised(5, 0.001, rounding=0.1)
    assert coarse.low is None and coarse.high is None
    assert all(enough.blocks is None and enough.reached == 0 for enough in coarse.enough), "rounding alone is wider"
    with pytest.raises(ValueError, match="above zero"):
        advised(5, 0.05, half_width=0.0)


def test_what_rounding_adds_needs_blocks_too() -> None:
    exact, rounded = (advised(10, 0.05, rounding=rounding).enough[0].blocks or MOST for rounding in (0.0, 0.02))
    assert rounded == pytest.approx(exact / 0.6**2, rel=0.1)


def least(stated: float, repeats: int) -> float:
    """Three points, and twice the standard error of a simulated rate, below what is stated."""
    return stated - 0.03 - 2 * float(np.sqrt(stated * (1 - stated) / repeats))


@pytest.mark.parametrize(("ratios", "blocks", "repeats"), [pytest.param(1, 5, 60, marks=pytest.mark.slow), (6, 3, 25)])
def test_the_number_is_enough_as_often_as_it_says(ratios: int, blocks: int, repeats: int) -> None:
    """`benches/advice_promises.py` has more campaigns."""
    found, held = rates(ratios, blocks, "lognormal", repeats)
    assert all(one.kept > least(one.stated, repeats) for one in found) and held > least(PROBABLE, repeats)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ratios", "noises"),
    [*((n, "lognormal") for n in (1, 3, 6, 20)), (6, "equal"), (6, "evenly to 5 times"), (6, "the baseline 5 times")],
)
def test_the_number_is_enough_as_often_as_it_says_in_full(ratios: int, noises: str) -> None:
    found, held = zip(*(rates(ratios, blocks, noises, 100) for blocks in PILOTS), strict=True)
    for each in zip(*found, strict=True):
        kept, stated = (float(np.mean([getattr(one, name) for one in each])) for name in ("kept", "stated"))
        assert kept > least(stated, 100 * len(PILOTS))
    assert np.mean(held) > least(PROBABLE, 100 * len(PILOTS))
