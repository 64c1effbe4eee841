"""Two campaigns of the same thing on different days: how often they differ, without and with the measured spread."""

from __future__ import annotations

import numpy as np
import pytest

from lastro.stats.families import holm
from lastro.stats.margins import GateCandidate, gate, ratio_test
from lastro.stats.ratios import ratio_of_means
from lastro.stats.sampled_mean import CampaignSpread, SampledMean, spread_between

CELLS = 9
NOISE = 0.03


def test_the_spread_is_the_variance_of_the_logarithms_over_treatments_that_all_have() -> None:
    found = spread_between([{0: 100.0, 1: 10.0}, {0: 110.0, 1: 10.0, 2: 7.0}, {0: 105.0, 1: 12.0}])
    expected = np.mean([np.var(np.log(each), ddof=1) for each in ([100, 110, 105], [10, 10, 12])])
    assert found is not None and found == CampaignSpread(pytest.approx(expected), 2)
    assert spread_between([{0: 100.0}]) is None and spread_between([{0: 100.0}, {1: 100.0}]) is None


def test_the_spread_joins_both_means_with_all_its_degrees_of_freedom_once() -> None:
    mean = SampledMean.of([100.0, 100.0, 100.0], between=CampaignSpread(0.0004, 4))
    assert (mean.variance, mean.df) == (pytest.approx(4.0), pytest.approx(2))
    assert ratio_test(mean, mean, 1.0, "either").df == pytest.approx(4)
    assert SampledMean.of([0.0, 0.0], between=CampaignSpread(0.0004, 4)).variance == 0


@pytest.mark.parametrize(("blocks", "campaigns", "before"), [(5, 3, 0.38), (10, 5, 0.5)])
def test_a_shifted_host_differs_at_the_stated_rate(blocks: int, campaigns: int, before: float) -> None:
    """A shift of 3 % for each campaign. Without the spread, 40 to 50 % of tests call that a difference."""
    rng, n, most = np.random.default_rng([blocks, campaigns]), 400, 0.085
    naive = alone = family = covered = wrongly_shown = 0
    for _ in range(n):
        shifts = rng.normal(0, 0.03, campaigns + 2)
        aa = np.exp(shifts[2:]) * (1 + NOISE * rng.standard_normal((2 * blocks, campaigns))).mean(axis=0)
        spread = spread_between([{0: float(mean)} for mean in aa])
        values = np.exp(shifts[:2, None, None]) * (1 + NOISE * rng.standard_normal((2, CELLS, blocks)))
        a, b = ([SampledMean.of(cell, between=spread) for cell in each.tolist()] for each in values)
        p = [ratio_test(y, x, 1.0, "either").p for x, y in zip(a, b, strict=True)]
        naive += ratio_test(*(SampledMean.of(each[0].tolist()) for each in values), limit=1.0, side="either").p < 0.05
        alone += p[0] < 0.05
        family += any(each is not None and each < 0.05 for each in holm(p))
        interval = ratio_of_means(b[0], a[0], 0.95).interval
        covered += interval is None or interval.holds(1.0)
        worse = ratio_of_means(SampledMean.of((1.05 * values[1, 0]).tolist(), between=spread), a[0], 0.95).interval
        wrongly_shown += worse is not None and worse.high < 1.05
    assert naive / n > before - 0.07
    assert alone / n < most and family / n < 0.06
    assert covered / n > 1 - most
    assert wrongly_shown / n < 0.05


def test_a_gate_can_see_less_where_campaigns_differ() -> None:
    a, b = ([100.0, 101.0, 99.0, 100.5, 99.5], [100.2, 99.1, 100.9, 99.8, 100.4])
    blind, honest = (
        gate(
            [GateCandidate(SampledMean.of(b, between=spread), SampledMean.of(a, between=spread), "lower")], 0.05, 0.05
        )[0]
        for spread in (None, CampaignSpread(0.0009, 4))
    )
    assert 0.05 < blind.least_found < 0.08 < honest.least_found
