"""Trials that resemble their neighbours in time: how often that is found, and what it does to two campaigns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from lastro.stats.autocorrelation import (
    _expected_ratio,
    _von_neumann_ratio,
    autocorrelation,
    p_within_blocks,
    variance_factor,
)
from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import compare
from lastro.stats.margins import ratio_test
from lastro.stats.sampled_mean import SampledMean

from ..support.products import combinations

Values = npt.NDArray[np.float64]


def noises(rng: np.random.Generator, rows: int, n: int, lag1: float) -> Values:
    """Stationary first-order autoregressions of variance 1, one in each row."""
    found = rng.standard_normal((rows, n + 1))
    found[:, 1:] *= np.sqrt(1 - lag1**2)
    for at in range(1, n + 1):
        found[:, at] += lag1 * found[:, at - 1]
    return found[:, 1:]


def noise(rng: np.random.Generator, n: int, lag1: float) -> Values:
    return noises(rng, 1, n, lag1)[0]


def order(rng: np.random.Generator, treatments: int, blocks: int) -> list[int]:
    return [int(each) for _ in range(blocks) for each in rng.permutation(treatments)]


@pytest.mark.parametrize(("treatments", "blocks"), combinations((1, 4, 9), (5, 10)))
def test_independent_trials_are_rarely_said_to_resemble_each_other(treatments: int, blocks: int) -> None:
    rng, n = np.random.default_rng([treatments, blocks]), 1000
    found = [
        autocorrelation(rng.standard_normal(treatments * blocks).tolist(), order(rng, treatments, blocks))
        for _ in range(n)
    ]
    if treatments * blocks < 8:
        assert found == [None] * n
        return
    assert 0.03 < sum(each is not None and each.p < 0.05 for each in found) / n < 0.08


@pytest.mark.parametrize("vary", [0.0, 1.0, 3.0], ids=lambda sd: f"blocks vary {sd} times as trials")
@pytest.mark.parametrize(("treatments", "blocks"), [(1, 10), (2, 10), (3, 5), (4, 5), (9, 5)])
def test_nor_are_they_where_blocks_differ(treatments: int, blocks: int, vary: float) -> None:
    """Without the blocks taken out, 26 to 93 % would be where blocks vary as much as trials, or three times as much."""
    rng, n, found = np.random.default_rng([treatments, blocks]), 400, 0
    of_block = [block for block in range(blocks) for _ in range(treatments)]
    for _ in range(n):
        values = rng.standard_normal(treatments * blocks) + vary * rng.standard_normal(blocks)[of_block]
        p = p_within_blocks(values.tolist(), order(rng, treatments, blocks), of_block)
        assert p is not None
        found += p < 0.05
    assert 0.02 < found / n < 0.09


def test_slow_noise_is_found_within_blocks_of_many_treatments() -> None:
    rng, of_block = np.random.default_rng(6), [block for block in range(5) for _ in range(9)]
    found = [p_within_blocks(noise(rng, 45, 0.95).tolist(), order(rng, 9, 5), of_block) for _ in range(60)]
    assert sum(p is not None and p < 0.05 for p in found) > 50
    assert p_within_blocks([1.0, 2.0] * 4, [0, 1] * 4, [0, 0, 1, 1, 2, 2, 3, 3]) is None, "three degrees of freedom"
    assert p_within_blocks([7.0] * 45, order(rng, 9, 5), of_block) is None


@pytest.mark.parametrize("lag1", [0.0, 0.5, 0.95])
def test_the_expected_ratio_is_that_of_simulated_campaigns(lag1: float) -> None:
    rng = np.random.default_rng(3)
    treatments = order(rng, 4, 5)
    groups = [[at for at, name in enumerate(treatments) if name == own] for own in treatments]
    centre = np.eye(20) - np.array([[(b in group) / 5 for b in range(20)] for group in groups])
    left = noises(rng, 20_000, 20, lag1) @ centre.T
    found = _von_neumann_ratio(np.sum(np.diff(left) ** 2, axis=1).mean(), np.sum(left**2, axis=1).mean(), 20)
    assert _expected_ratio(groups)(lag1) == pytest.approx(found, abs=0.01)


def test_the_variance_of_a_mean_is_that_of_simulated_trials() -> None:
    rng, places = np.random.default_rng(4), [0, 3, 9, 12]
    found = noises(rng, 20_000, 13, 0.9)[:, places]
    estimated = found.var(axis=1, ddof=1).mean() / 4
    assert variance_factor(0.9, places) == pytest.approx(found.mean(axis=1).var() / estimated, rel=0.05)
    assert variance_factor(0.0, places) == variance_factor(0.9, [5]) == 1.0
    assert SampledMean.of((1.0, 2.0, 6.0), 4.0).variance == pytest.approx(4 * 7 / 3)


@pytest.mark.parametrize(
    ("treatments", "lag1", "without", "most"), [(9, 0.0, 0.03, 0.07), (9, 0.95, 0.25, 0.14), (4, 0.95, 0.4, 0.2)]
)
def test_two_campaigns_of_the_same_thing_seldom_differ(
    treatments: int, lag1: float, without: float, most: float
) -> None:
    """Five blocks, noise of 1 %. Where it lasts, a third to a half of the uncorrected comparisons differ."""
    rng, n = np.random.default_rng([7, treatments, int(100 * lag1)]), 150
    naive = wide = 0
    for _ in range(n):
        sides = []
        for _ in range(2):
            places = order(rng, treatments, 5)
            values = 100 + noise(rng, 5 * treatments, lag1)
            found = autocorrelation(values.tolist(), places)
            assert found is not None
            sides.append((values, np.array(places), found.lag1 if found.p < 0.05 else 0.0))
        for name in range(treatments):
            own = [tuple(values[places == name].tolist()) for values, places, _ in sides]
            factors = [variance_factor(lag1, np.flatnonzero(places == name).tolist()) for _, places, lag1 in sides]
            naive += ratio_test(*map(SampledMean.of, own), limit=1.0, side="either").p < 0.05
            wide += ratio_test(*map(SampledMean.of, own, factors), limit=1.0, side="either").p < 0.05
    assert naive / (n * treatments) > without
    assert wide / (n * treatments) < most


@pytest.mark.parametrize(
    ("treatments", "blocks"),
    [pytest.param(2, 5, marks=pytest.mark.slow), (9, 5), pytest.param(9, 10, marks=pytest.mark.slow)],
)
def test_differences_within_blocks_keep_their_rate(treatments: int, blocks: int) -> None:
    """Of one campaign: the order inside each block is random, so noise that lasts favours no treatment."""
    rng, n = np.random.default_rng([1, treatments, blocks]), 300
    alone = family = 0
    for _ in range(n):
        places = np.array(order(rng, treatments, blocks))
        values = 100 + noise(rng, treatments * blocks, 0.95)
        model = BlockModel.of({name: dict(enumerate(values[places == name].tolist())) for name in range(treatments)})
        assert model is not None
        found = compare(model, [({name: 1.0}, {0: 1.0}) for name in range(1, treatments)], 0.95)
        alone += sum(one.p is not None and one.p < 0.05 for one in found)
        family += any(one.differs(0.05) for one in found)
    assert 0.02 < alone / (n * (treatments - 1)) < 0.07
    assert 0.02 < family / n < 0.08
