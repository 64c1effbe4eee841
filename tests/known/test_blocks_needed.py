"""Advised numbers of blocks: exact where theory has a formula, and enough as often as they say in simulations."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import fdtr

from lastro.stats.block_model import BlockModel
from lastro.stats.blocks_needed import MOST, BlocksNeeded, blocks_needed
from lastro.stats.contrasts import compare
from lastro.stats.future_widths import MeanIntervals, RatioIntervals, model_noise
from lastro.stats.intervals import t_quantile
from lastro.stats.noise_posterior import SPREAD, Residuals, drawn_noise

from ..support.products import combinations

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))

from advice_promises import ASSURANCES, PILOTS, PROBABLE, drawn_population, rates


def logs(*steps: float) -> RatioIntervals:
    """The ratios of logarithms of all further cells to the first, given the resolution of each."""
    return RatioIntervals(range(1, len(steps)), [0] * (len(steps) - 1), None, 0.0, np.array(steps), 0.95)


def pilot(noises: list[float], n: int, shown: float = 0.0) -> Residuals:
    """Residuals of `n` blocks of cells with these noises; if `shown`, scaled to this standard deviation on average."""
    rng, cells = np.random.default_rng([n, len(noises)]), len(noises)
    values = np.array(noises)[:, None] * rng.standard_normal((cells, n))
    values -= values.mean(axis=0) + values.mean(axis=1, keepdims=True) - values.mean()
    freedom = np.full(cells, (n - 1) * (1 - 1 / cells))
    scale = shown / math.sqrt((values**2).sum() / freedom.sum()) if shown else 1.0
    return Residuals.in_blocks(scale * values, np.ones_like(values), freedom, np.ones(cells))


def advised(shown: Residuals, intervals: RatioIntervals | MeanIntervals, precision: float = 0.05) -> BlocksNeeded:
    return blocks_needed(shown, intervals, precision, ASSURANCES, PROBABLE)


@pytest.mark.parametrize("n", [2, 5, 20])
def test_the_probability_for_one_ratio_is_that_of_an_f_distribution(n: int) -> None:
    """The variance that a campaign of m blocks shows, over that of the pilot, is F with m - 1 and n - 1 df."""
    for enough in advised(pilot([1.0, 1.0], n, 0.05), logs(0.0, 0.0)).enough:
        assert enough.blocks is not None

        def exact(m: int) -> float:
            return float(fdtr(m - 1, n - 1, m * math.asinh(0.05) ** 2 / (2 * 0.05**2 * t_quantile(0.95, m - 1) ** 2)))

        assert enough.reached == pytest.approx(exact(enough.blocks), abs=0.03) and enough.reached >= enough.assurance
        assert exact(enough.blocks - 1) < enough.assurance + 0.03


def test_the_probability_for_one_mean_is_that_of_an_f_distribution() -> None:
    shown = Residuals(np.array([4.0 * 9]), np.array([9.0]), np.array([50.0]))
    for enough in advised(shown, MeanIntervals(np.array([50.0]), np.zeros(1), 0.95), 0.02).enough:
        m = enough.blocks or MOST
        exact = float(fdtr(m - 1, 9, m * (0.02 * 50) ** 2 / (4.0 * t_quantile(0.95, m - 1) ** 2)))
        assert enough.reached == pytest.approx(exact, abs=0.03)


@pytest.mark.parametrize(("log", "cells", "blocks"), combinations((True, False), (2, 3, 7, 21, 35), (2, 3, 10)))
def test_widths_are_those_of_a_report(log: bool, cells: int, blocks: int) -> None:
    rng, off = np.random.default_rng([log, cells, blocks]), []
    pairs = [(cell, 0) for cell in range(1, cells)]
    for _ in range(5):
        noise = 0.02 * np.minimum(drawn_population(cells, rng), 5)
        values = rng.uniform(50, 100, cells)[:, None] * np.exp(noise[:, None] * rng.standard_normal((cells, blocks)))
        values *= 1 + 0.05 * rng.standard_normal(blocks)
        model = BlockModel.of({cell: dict(enumerate(row)) for cell, row in enumerate(values.tolist())}, log=log)
        assert model is not None and model.log == log
        shown = model.residuals
        found = compare(model, [({a: 1.0}, {b: 1.0}) for a, b in pairs], 0.95, planned=cells <= 21)
        fraction = sum(one.differs(0.05) for one in found) / len(found)
        n, squares = np.array([[float(blocks)]]), (shown.squares / shown.freedom)[None]
        widths = RatioIntervals.of_model(model, pairs, 0.95, fraction).half_widths(squares, n)[0]
        for one, width in zip(found, widths, strict=True):
            if one.ratio.interval and one.ratio.value and one.ratio.interval.half_width < one.ratio.value:
                off.append(width / (one.ratio.interval.half_width / one.ratio.value) - 1)
        assert model_noise(squares, n)[0][0] == pytest.approx(
            model.blocked.variances * (model.blocked.data.scale / model.unit) ** 2, rel=0.05
        )
    assert off and abs(np.mean(off)) < 0.02 and np.percentile(np.abs(off), 90) < 0.05


def test_noise_is_drawn_from_what_the_pilot_knows() -> None:
    rng = np.random.default_rng(3)
    truth, freedom = np.array([1.0, 2.0, 5.0, 0.5]), np.full(4, 400.0)
    known = Residuals(truth**2 * freedom, freedom, np.ones(4))
    assert np.median(drawn_noise(known, 500, rng), axis=0) == pytest.approx(truth, rel=0.03)
    freedom = np.array([400.0, 400.0, 400.0, 0.0])
    unknown = Residuals(truth**2 * freedom, freedom, np.ones(4))
    last = np.log(drawn_noise(unknown, 500, rng)[:, 3])
    assert 0.4 < np.std(last) < 2 * SPREAD, "a cell without residuals may be as any other"
    with pytest.raises(ValueError, match="do not vary"):
        drawn_noise(Residuals(np.zeros(2), np.ones(2), np.ones(2)), 10, rng)


def test_the_likelihood_is_that_of_the_differences_within_blocks() -> None:
    """Of normal values with these covariances, less one cell in each block; and the means of the cells are fitted."""
    rng, n = np.random.default_rng(5), 6
    values = rng.standard_normal((4, n))
    values -= values.mean(axis=0) + values.mean(axis=1, keepdims=True) - values.mean()
    shown = Residuals.in_blocks(values, np.ones_like(values), np.full(4, (n - 1) * 0.75), np.ones(4))
    variances = rng.gamma(1, 1, (3, 4))
    for row, determinant, squares in zip(variances, *shown.fit(variances), strict=True):
        differ = np.eye(3, 4) - np.eye(4)[3]
        covariance = differ @ np.diag(row) @ differ.T
        assert determinant == pytest.approx((n - 1) * np.linalg.slogdet(covariance)[1])
        assert squares == pytest.approx(np.sum((differ @ values) * np.linalg.solve(covariance, differ @ values)))


def test_beside_one_noisy_cell_all_others_know_no_more_of_it_than_one() -> None:
    """Its noise is as uncertain as that of one sample, however many quiet cells share its blocks."""
    rng, freedom = np.random.default_rng(9), 7
    drawn = drawn_noise(pilot([1.0] * 11 + [300.0], freedom + 1), 2000, rng)[:, -1]
    certain = 1 / math.sqrt(2 * freedom)
    assert np.std(np.log(drawn)) == pytest.approx(certain, rel=0.25)


def test_a_lost_trial_costs_what_it_showed() -> None:
    rng = np.random.default_rng(2)
    values = {cell: {block: math.exp(0.05 * rng.standard_normal()) for block in range(12)} for cell in range(4)}
    lacking = {cell: {at: value for at, value in own.items() if (cell, at) != (2, 5)} for cell, own in values.items()}
    found = [BlockModel.of(cells, log=True) for cells in (values, lacking)]
    whole, less = (drawn_noise(model.residuals, 2000, np.random.default_rng(1)) for model in found if model)
    assert np.median(less, axis=0) == pytest.approx(np.median(whole, axis=0), rel=0.25)


def test_a_larger_pilot_knows_the_number_more_precisely() -> None:
    small, large = (advised(pilot([1.0] * 7, n, 0.05), logs(*[0.0] * 7)) for n in (3, 30))
    assert small.low and small.high and large.low and large.high
    assert small.low < large.low <= large.high < small.high
    assert (small.enough[1].blocks or 0) > 1.5 * (large.enough[1].blocks or 0)


def test_more_ratios_need_more_blocks_and_the_noisiest_decides() -> None:
    few, many = (advised(pilot([1.0] * cells, 10, 0.05), logs(*[0.0] * cells)) for cells in (2, 21))
    assert few.enough[1].blocks and many.enough[1].blocks and many.enough[1].blocks > 1.3 * few.enough[1].blocks
    noisy = pilot([0.02, 0.02, 0.02, 0.08, 0.02], 10)
    assert advised(noisy, logs(*[0.0] * 5)).widest == 2, "the third ratio is that of the fourth cell"


def test_where_no_number_is_enough() -> None:
    coarse = advised(pilot([1.0, 1.0], 5, 0.001), logs(0.2, 0.2))
    assert coarse.low is None and coarse.high is None
    assert all(enough.blocks is None and enough.reached == 0 for enough in coarse.enough), "rounding alone is wider"
    with pytest.raises(ValueError, match="above zero"):
        advised(pilot([1.0, 1.0], 5), logs(0.0, 0.0), 0.0)


def test_fieller_widens_ratios_of_a_noisy_baseline() -> None:
    variances, n = np.full((1, 2), 4.0), np.array([[5.0]])
    wide, wider = (RatioIntervals([1], [0], np.array([base, 10.0]), 0.0, np.zeros(2), 0.95) for base in (100.0, 8.0))
    assert wide.half_widths(variances, n)[0, 0] < wider.half_widths(variances, n)[0, 0] < math.inf
    unbounded = RatioIntervals([1], [0], np.array([0.5, 10.0]), 0.0, np.zeros(2), 0.95)
    assert math.isinf(unbounded.half_widths(variances, n)[0, 0])


def near(stated: float, repeats: int) -> object:
    """Three points, and twice the standard error of a simulated rate."""
    return pytest.approx(stated, abs=0.03 + 2 * math.sqrt(stated * (1 - stated) / repeats))


@pytest.mark.parametrize(("ratios", "blocks", "repeats"), [pytest.param(1, 5, 60, marks=pytest.mark.slow), (6, 3, 25)])
def test_the_number_is_enough_as_often_as_it_says(ratios: int, blocks: int, repeats: int) -> None:
    """On average over treatments as assumed. `benches/advice_promises.py` has more campaigns."""
    found, held = rates(ratios, blocks, "as assumed", repeats)
    assert all(one.kept == near(one.stated, repeats) for one in found) and held == near(PROBABLE, repeats)


@pytest.mark.slow
@pytest.mark.parametrize("ratios", [1, 3, 6, 20])
def test_the_number_is_enough_as_often_as_it_says_in_full(ratios: int) -> None:
    found, held = zip(*(rates(ratios, blocks, "as assumed", 100) for blocks in PILOTS), strict=True)
    for each in zip(*found, strict=True):
        kept, stated = (np.mean([getattr(one, name) for one in each]) for name in ("kept", "stated"))
        assert kept == near(float(stated), 100 * len(PILOTS))
    assert np.mean(held) == near(PROBABLE, 100 * len(PILOTS))


@pytest.mark.slow
@pytest.mark.parametrize("noises", ["equal", "evenly to 5 times"])
def test_the_larger_number_is_enough_where_noises_are_equal_or_spread_evenly(noises: str) -> None:
    found, _ = rates(6, 5, noises, 200)
    assert found[1].kept > found[1].stated - 0.03 - 2 * math.sqrt(0.8 * 0.2 / 200)
