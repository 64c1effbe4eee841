"""Moderated variances: nearer to the truth than their own, and where they truly differ each keeps its own."""

from __future__ import annotations

import math
import random

import pytest
from scipy.special import polygamma

from lastro.stats.moderation import _trigamma_inverse, moderated_variances


def shown(rng: random.Random, truth: float, df: int) -> float:
    """A sample variance of so many degrees of freedom."""
    return truth * rng.gammavariate(df / 2, 2) / df


def test_where_they_truly_differ_each_stays_near_its_own() -> None:
    rng = random.Random(5)
    truth = [math.exp(rng.gauss(0, 2)) for _ in range(60)]
    values = [shown(rng, one, 9) for one in truth]
    found = moderated_variances(values, [9] * 60)[0]
    assert all(one == pytest.approx(value, rel=0.5) for one, value in zip(found, values, strict=True) if value > 5)
    noisiest = values.index(max(values))
    assert found[noisiest] == max(found) > 0.7 * values[noisiest]


def test_it_errs_less_than_the_variances_themselves() -> None:
    rng = random.Random(8)
    truth = [4 * rng.gammavariate(4, 0.25) for _ in range(100)]
    values = [shown(rng, one, 4) for one in truth]

    def loss(found: list[float]) -> float:
        return math.fsum(math.log(one / right) ** 2 for one, right in zip(found, truth, strict=True))

    assert loss(moderated_variances(values, [4] * 100)[0]) < loss(values)


def test_a_unit_changes_nothing_and_the_mean_stays() -> None:
    values, df = [1.0, 8.0, 0.2, 30.0], [4.0, 4.0, 4.0, 4.0]
    found = moderated_variances(values, df)[0]
    small = moderated_variances([1e-12 * value for value in values], df)[0]
    assert small == pytest.approx([1e-12 * value for value in found])
    assert min(values) < min(found) and max(found) < max(values) and sorted(found) == [found[i] for i in (2, 0, 1, 3)]
    assert math.fsum(found) == pytest.approx(math.fsum(values))


def test_edges() -> None:
    assert moderated_variances([3.0], [4])[0] == [3.0]
    assert moderated_variances([0.0, 0.0], [1, 1])[0] == [0.0, 0.0]
    assert moderated_variances([0.0, 2.0], [4, 4])[1] == [4, 4], "one spread shows nothing of another"
    assert moderated_variances([2.0, 2.0, 2.0], [2, 3, 4])[0] == pytest.approx([2.0, 2.0, 2.0])
    for wrong in (([1.0], [1, 2]), ([-1.0, 1.0], [1, 1]), ([1.0, 1.0], [0, 1])):
        with pytest.raises(ValueError, match="variance"):
            moderated_variances(*wrong)


@pytest.mark.parametrize("value", [math.pi**2 / 6, 4.9, 300.0])
def test_the_inverse_of_trigamma(value: float) -> None:
    assert float(polygamma(1, _trigamma_inverse(value))) == pytest.approx(value, rel=1e-5)
