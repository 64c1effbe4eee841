"""Lines whose coefficients are certified, and how often the interval of the cost of a hop holds the truth.

benches/statistics_promises.py measures the same for more noises."""

from __future__ import annotations

import random

import numpy as np
import pytest
from benches import statistics_promises as promises

from lastro.stats.weights import bend_weights, intercept_weights, slope_weights

# NIST, Statistical Reference Datasets, linear regression: Norris (observed data, 36 points), as pairs of y and x.
NORRIS = """
0.1 0.2  338.8 337.4  118.1 118.2  888.0 884.6  9.2 10.1  228.1 226.5  668.5 666.3  998.5 996.3  449.1 448.6
778.9 777.0  559.2 558.2  0.3 0.4  0.1 0.6  778.1 775.5  668.8 666.9  339.3 338.0  448.9 447.5  10.8 11.6
557.7 556.0  228.3 228.1  998.0 995.8  888.8 887.6  119.6 120.2  0.3 0.3  0.6 0.3  557.6 556.8  339.3 339.1
888.0 887.2  998.5 999.0  778.9 779.0  10.2 11.1  117.6 118.3  228.9 229.2  668.4 669.1  449.2 448.9  0.2 0.5
"""
SLOPE, INTERCEPT = 1.00211681802045, -0.262323073774029


def test_norris() -> None:
    values = np.array([float(word) for word in NORRIS.split()])
    x, y = values[1::2].tolist(), values[0::2]
    found = (float(np.dot(slope_weights(x), y)), float(np.dot(intercept_weights(x), y)))
    assert found == pytest.approx((SLOPE, INTERCEPT), rel=1e-12)


def test_a_bend_is_the_coefficient_of_the_square() -> None:
    rng = random.Random(5)
    x = [6.0, 9.0, 16.0, 25.0]
    y = [3 + 2 * at + 0.1 * at * at + rng.gauss(0, 4) for at in x]
    assert float(np.dot(bend_weights(x), y)) == pytest.approx(np.polyfit(x, y, 2)[0], rel=1e-9)
    assert np.dot(bend_weights(x), [7 + 3 * at for at in x]) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("noise", "n_blocks"), [("normal", 3), ("half 3 times as noisy", 5)])
def test_the_interval_of_the_cost_of_a_hop_holds_the_truth(noise: str, n_blocks: int) -> None:
    """Also where the means bend: it is then that of the line that lies nearest to them, and the bend is reported."""
    for dearer in (1.0, 2.0):
        missed, bent = promises.of_chains(noise, dearer, n_blocks, 100)
        assert missed <= 0.07 + 3 * (0.05 * 0.95 / 300) ** 0.5
        assert bent <= 0.09 if dearer == 1.0 else bent > 0.5
