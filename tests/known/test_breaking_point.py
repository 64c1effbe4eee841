"""At which dose a limit breaks: known answers, and the coverage of a planted threshold under several shapes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from lastro.stats.breaking_point import breaking_points
from lastro.stats.cell_means import MetricTrials

from .test_simultaneous import autocorrelated, in_random_order

DOSES = (0.0, 25.0, 50.0, 75.0, 100.0)


def trials(values: np.ndarray) -> MetricTrials:  # type: ignore[type-arg]
    """Values by (candidate, dose, block)."""
    return MetricTrials(
        {(a, b): dict(enumerate(map(float, own))) for a, of in enumerate(values) for b, own in enumerate(of)}
    )


def curves(*means: tuple[float, ...]) -> MetricTrials:
    noise = np.array([-0.002, 0.001, 0.002, -0.001])
    return trials(np.array(means)[..., None] * (1 + noise))


def test_the_pair_of_doses_between_which_a_mean_crosses_the_limit_is_found() -> None:
    falls, holds, broken, back = breaking_points(
        curves((10, 9, 8, 6, 5), (10, 9.9, 9.8, 9.7, 9.6), (5, 4, 3, 2, 1), (10, 8, 9, 6, 5)), DOSES, 4, 7.0, True, 0.05
    )
    assert falls.spread == (pytest.approx(62.5, abs=0.5), 50.0, 75.0)
    assert holds.spread == (math.inf, 100.0, math.inf)
    assert broken.spread == (-math.inf, -math.inf, 0.0)
    assert back is not None and back.spread[1:] == (50.0, 75.0)  # 8 and 9 are 8.5: means fall or stay


def test_a_limit_from_above_is_the_mirror_image() -> None:
    (rises,) = breaking_points(curves((1, 2, 4, 8, 16)), DOSES, 1, 6.0, False, 0.05)
    assert rises.spread == (pytest.approx(62.5, abs=0.5), 50.0, 75.0)


def test_what_was_not_measured_at_every_dose_or_is_only_bounded_has_none() -> None:
    whole = curves((10, 9, 8, 6, 5), (10, 9, 8, 6, 5))
    part = MetricTrials({cell: own for cell, own in whole.cells.items() if cell != (0, 2)}, frozenset({(1, 3)}))
    assert breaking_points(part, DOSES, 2, 7.0, True, 0.05) == [None, None]


@pytest.mark.parametrize(
    "shape",
    [lambda x: 1 - 0.4 * x, lambda x: 1 - 0.5 / (1 + np.exp(-12 * (x - 0.5))), lambda x: np.where(x < 0.4, 1.0, 0.8)],
    ids=["line", "sigmoid", "step"],
)
def test_a_planted_threshold_is_covered(shape: Callable[[np.ndarray], np.ndarray]) -> None:  # type: ignore[type-arg]
    """In 93 % of 150 worlds: three blocks, whose trials differ by 5 % and in every other world depend on each other."""
    rng = np.random.default_rng(48)
    x, fine = np.array(DOSES) / 100, np.linspace(0, 1, 2001)
    inside = 0
    for number in range(150):
        limit = rng.uniform(float(shape(np.array(1.0))) - 0.1, 1.1)
        means = shape(x)
        noise = rng.normal(0, 0.03, 3) + rng.normal(0, 0.05, (len(x), 3))
        if number % 2:
            noise = 2.5 * in_random_order(rng, autocorrelated(rng, 3 * len(x)), 3)
        (found,) = breaking_points(trials((means[:, None] * np.exp(noise))[None]), DOSES, 1, limit, True, 0.05)
        assert found is not None
        broken = shape(fine) < limit
        truth = math.inf if not broken.any() else -math.inf if broken[0] else 100 * fine[broken.argmax()]
        inside += found.interval.holds(truth)
    assert inside / 150 >= 0.93
