"""Readings at the resolution of a tool: the interval of their mean covers the truth, however fine the noise is."""

from __future__ import annotations

import numpy as np
import pytest

from lastro.stats.intervals import describe
from lastro.stats.resolution import resolution, rounding, rounding_of_mean


def test_the_step_of_readings() -> None:
    assert resolution([41.25, 41.3, 42.0]) == 0.01
    assert resolution([1.0, 200.0, 4096.0]) == 1.0
    assert resolution([0.0, 0.0]) == 0.0, "no digits"
    assert resolution([1 / 3, 0.5]) == 0.0, "computed"


def test_equal_readings_are_known_to_half_a_step() -> None:
    found = describe([42.0] * 5, 0.95, 0.01)
    assert found.interval is not None and found.sd == 0.0
    assert (found.interval.low, found.interval.high) == pytest.approx((41.995, 42.005))
    exact = describe([42.0] * 5, 0.95)
    assert exact.interval is not None and exact.interval.half_width == 0.0


def test_noise_that_reaches_half_a_step_averages_rounding_out() -> None:
    readings = [42.0, 42.01, 42.0, 42.02, 42.01]
    assert describe(readings, 0.95, 0.01) == describe(readings, 0.95)
    assert rounding(0.004, 0.01) == 0.005 and rounding(0.005, 0.01) == 0.0
    assert rounding(np.array([0.004, 0.005]), np.array([0.01, 0.01])).tolist() == [0.005, 0.0]


@pytest.mark.parametrize(("n", "confidence"), [(2, 0.95), (3, 0.95), (4, 0.95), (2, 0.99), (6, 0.99)])
def test_few_equal_readings_say_less(n: int, confidence: float) -> None:
    """At the end of the interval, no noise makes all readings equal more often than stated, and one does as often."""
    from scipy.stats import norm

    away = rounding_of_mean(0.0, 1.0, n, confidence)
    assert 0.5 < away < 3
    noise = np.geomspace(0.01, 20, 4000)
    equal = (norm.cdf((0.5 - away) / noise) - norm.cdf((-0.5 - away) / noise)) ** n
    assert equal.max() == pytest.approx(1 - confidence, rel=1e-3)
    assert rounding_of_mean(0.0, 1.0, 8, confidence) == 0.5


@pytest.mark.parametrize("n", [2, 3, 5, 10])
@pytest.mark.parametrize("noise", [0.01, 0.1, 0.3, 0.5, 1.0, 3.0], ids=lambda sd: f"{sd} steps")
def test_the_mean_of_rounded_readings_is_covered(n: int, noise: float) -> None:
    rng, rounds, held = np.random.default_rng([n, int(100 * noise)]), 1500, 0
    for truth in 5 + rng.random(rounds):
        readings = np.round((truth + 0.1 * noise * rng.standard_normal(n)), 1).tolist()
        interval = describe(readings, 0.95, 0.1).interval
        held += interval is not None and interval.low - 1e-9 <= truth <= interval.high + 1e-9
    assert held / rounds >= 0.93
