"""Variance components against a textbook's nested data, and plans that keep what they promise."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from lastro.stats.replication import optimum_repetitions, variance_components

# Wing lengths of mosquitoes: two measurements of four females in each of three cages (Sokal and Rohlf, Biometry).
WINGS = [
    [[58.5, 59.5], [77.8, 80.9], [84.0, 83.6], [70.1, 68.3]],
    [[69.8, 69.8], [56.0, 54.5], [50.7, 49.3], [63.8, 65.8]],
    [[56.6, 57.5], [77.8, 79.2], [69.9, 69.2], [62.1, 64.5]],
]


def test_components_of_the_wings() -> None:
    found = variance_components(WINGS)
    assert found.variances == pytest.approx((1.30, 94.94, 17.71), abs=5e-3)
    assert found.repetitions == pytest.approx((2, 4, 3)) and found.mean == pytest.approx(66.6333, abs=1e-4)


def test_components_of_the_paper() -> None:
    """The worked examples of Kalibera and Jones; their -5.7, an estimate of a variance, is given as the 0 it means."""
    three = [[[9.0, 5.0], [8.0, 3.0]], [[10.0, 6.0], [7.0, 11.0]], [[1.0, 12.0], [2.0, 4.0]]]
    assert variance_components(three).variances == pytest.approx((16.5, 0, 2.3), abs=0.05)
    two = [[value for unit in part for value in unit] for part in three]
    assert variance_components(two).variances == pytest.approx((12.7, 0.4), abs=0.05)
    assert variance_components(two).mean == 6.5


def test_components_are_freed_of_what_lies_below_and_never_negative() -> None:
    alternating = [[0.0, 10.0], [10.0, 0.0], [0.0, 10.0]]
    assert variance_components(alternating).variances == (50, 0)
    assert variance_components([1.0, 2.0, 3.0]).variances == (1,)


def test_components_of_uneven_units_are_unbiased() -> None:
    rng = random.Random(14)
    total = [0.0, 0.0]
    for _ in range(800):
        units = []
        for size in (1, 2, 3, 5, 4, 2):
            shift = rng.gauss(0, 2)
            units.append([shift + rng.gauss(0, 1) for _ in range(size)])
        observed = variance_components(units).variances
        total = [a + b for a, b in zip(total, observed, strict=True)]
    assert [t / 800 for t in total] == pytest.approx([1, 4], rel=0.1)


def test_data_that_cannot_be_taken_apart() -> None:
    with pytest.raises(ValueError, match="level 1 is never repeated"):
        variance_components([[1.0], [2.0]])
    with pytest.raises(ValueError, match="level 2 is never repeated"):
        variance_components([[1.0, 2.0]])
    with pytest.raises(ValueError, match="depths"):
        variance_components([[1.0, 2.0], 3.0])
    with pytest.raises(ValueError, match="depths"):
        variance_components([[1.0, 2.0], [[3.0, 4.0]]])
    with pytest.raises(ValueError, match="without values"):
        variance_components([[1.0, 2.0], []])


def cost(repetitions: tuple[int, ...], costs: list[float]) -> float:
    """Of one unit of the highest level."""
    inside = 0.0
    for level, price in enumerate(costs):
        inside = price + (repetitions[level - 1] * inside if level else 0.0)
    return inside


def variance_of_highest(variances: list[float], repetitions: tuple[int, ...]) -> float:
    """Of the mean of one unit of the highest level, with repetitions[i] units of level i + 1 in each unit above."""
    return math.fsum(v / math.prod(repetitions[level:]) for level, v in enumerate(variances))


@pytest.mark.parametrize(
    ("variances", "costs"),
    [([4.0, 1.0], [10.0, 60.0]), ([9.0, 4.0, 1.0], [1.0, 20.0, 100.0]), ([1.0, 0.0, 1.0], [1.0, 5.0, 11.0])],
)
def test_no_other_plan_is_more_precise_for_the_same_cost(variances: list[float], costs: list[float]) -> None:
    """At a given cost as many highest units are made as can be paid: variance times cost is what a plan is worth."""
    best = optimum_repetitions(variances, costs)

    def price(repetitions: tuple[int, ...]) -> float:
        return variance_of_highest(variances, repetitions) * cost(repetitions, costs)

    least = min(map(price, itertools.product(range(1, 31), repeat=len(variances) - 1)))
    assert price(best) <= 1.03 * least, "rounding up costs a little"


def test_repetitions_by_the_formula_and_at_its_edges() -> None:
    assert optimum_repetitions([4.0, 1.0], [10.0, 60.0]) == (math.ceil(math.sqrt(60 / 10 * 4)),)
    assert optimum_repetitions([0.7267, 0.2628, 0.7747], [3.0, 20.0, 100.0]) == (5, 2), "4.29 and 1.30, rounded up"
    assert optimum_repetitions([4.0, 1.0], [1.0, 1.0]) == (2,), "a whole number stays one"
    assert optimum_repetitions([0.0, 1.0], [1.0, 100.0]) == (1,)
    assert optimum_repetitions([1.0, 0.0], [1.0, 100.0], most=30) == (30,)
    assert optimum_repetitions([5.0], [1.0]) == ()
    with pytest.raises(ValueError, match="costs"):
        optimum_repetitions([1.0, 1.0], [1.0])
