"""Moderated variances: where all are alike the worst is no accident, and where they differ each keeps its own."""

from __future__ import annotations

import math
import random

import pytest
from scipy.special import polygamma

from lastro.stats.moderation import _trigamma_inverse, moderated


def shown(rng: random.Random, truth: float, df: int) -> float:
    """A sample variance of so many degrees of freedom."""
    return truth * rng.gammavariate(df / 2, 2) / df


@pytest.mark.parametrize("df", [2, 4, 9])
def test_where_all_are_alike_the_greatest_of_many_is_near_the_truth(df: int) -> None:
    rng = random.Random(df)
    raw, found = [], []
    for _ in range(20):
        values = [shown(rng, 7.0, df) for _ in range(171)]
        raw.append(max(values) / 7.0)
        found.append(max(moderated(values, [df] * 171)) / 7.0)
    assert sum(found) / 20 < 1.6 and sum(raw) / 20 > 2.4
    assert min(found) > 0.8


def test_where_they_truly_differ_each_stays_near_its_own() -> None:
    rng = random.Random(5)
    truth = [math.exp(rng.gauss(0, 2)) for _ in range(60)]
    values = [shown(rng, one, 9) for one in truth]
    found = moderated(values, [9] * 60)
    assert all(one == pytest.approx(value, rel=0.5) for one, value in zip(found, values, strict=True) if value > 1)
    noisiest = values.index(max(values))
    assert found[noisiest] == max(found) > 0.7 * values[noisiest]


def test_it_errs_less_than_the_variances_themselves_and_less_than_one_for_all() -> None:
    rng = random.Random(8)
    truth = [4 * rng.gammavariate(4, 0.25) for _ in range(100)]
    values = [shown(rng, one, 4) for one in truth]

    def loss(found: tuple[float, ...] | list[float]) -> float:
        return math.fsum(math.log(one / right) ** 2 for one, right in zip(found, truth, strict=True))

    assert loss(moderated(values, [4] * 100)) < min(loss(values), loss([math.fsum(values) / 100] * 100))


def test_a_unit_changes_nothing_and_more_freedom_is_drawn_less() -> None:
    values, df = [1.0, 8.0, 0.2, 30.0], [4.0, 4.0, 4.0, 4.0]
    found = moderated(values, df)
    assert moderated([1e-12 * value for value in values], df) == pytest.approx([1e-12 * value for value in found])
    assert min(values) < min(found) and max(found) < max(values) and sorted(found) == [found[i] for i in (2, 0, 1, 3)]


def test_edges() -> None:
    assert moderated([], []) == () and moderated([3.0], [4]) == (3.0,)
    assert moderated([0.0, 0.0], [1, 1]) == (0.0, 0.0) and moderated([0.0, 2.0], [4, 4]) == (0.0, 2.0)
    assert moderated([2.0, 2.0, 2.0], [2, 3, 4]) == pytest.approx((2.0, 2.0, 2.0))
    for wrong in (([1.0], [1, 2]), ([-1.0, 1.0], [1, 1]), ([1.0, 1.0], [0, 1])):
        with pytest.raises(ValueError, match="variance"):
            moderated(*wrong)


@pytest.mark.parametrize("value", [1e-7, 1e-3, 0.5, 4.9, 300.0])
def test_the_inverse_of_trigamma(value: float) -> None:
    assert float(polygamma(1, _trigamma_inverse(value))) == pytest.approx(value, rel=1e-5)
