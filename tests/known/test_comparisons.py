"""Tukey's HSD against R and scipy, and the distribution that it stands on."""

from __future__ import annotations

import math

import pytest

from lastro.stats.comparisons import PairComparison, tukey_from_model
from lastro.stats.intervals import sample_covariance, sample_mean
from lastro.stats.studentized_range import range_quantile, range_sf

# Dried weight of plants under a control and two treatments (Dobson 1983), which R ships as `PlantGrowth`.
PLANTS = {
    "ctrl": [4.17, 5.58, 5.18, 6.11, 4.50, 4.61, 5.17, 4.53, 5.33, 5.14],
    "trt1": [4.81, 4.17, 4.41, 3.59, 5.87, 3.83, 6.03, 4.89, 4.32, 4.69],
    "trt2": [6.31, 5.12, 5.54, 5.50, 5.37, 5.29, 4.92, 6.15, 5.80, 5.26],
}
UNEQUAL = {"a": [1.0, 2.0, 4.0], "b": [2.5, 9.0, 5.0, 7.0, 1.0], "c": [8.0, 8.5], "d": [6.0, 6.5, 7.5, 7.0]}


def tukey_hsd(groups: dict[str, list[float]], confidence: float) -> tuple[PairComparison, ...]:
    """Compare independent groups of one variance."""
    sizes = {name: len(values) for name, values in groups.items()}
    df = sum(sizes.values()) - len(sizes)
    mean_square = sum(sample_covariance(values, values) * (len(values) - 1) for values in groups.values()) / df
    means = {name: sample_mean(values) for name, values in groups.items()}
    return tukey_from_model(means, sizes, mean_square, df, confidence)


def test_plant_growth_as_r_prints_it() -> None:
    """R: TukeyHSD(aov(weight ~ group, PlantGrowth))."""
    expected = {
        ("trt1", "ctrl"): (-0.371, -1.0622161, 0.3202161, 0.3908711),
        ("trt2", "ctrl"): (0.494, -0.1972161, 1.1852161, 0.1979960),
        ("trt2", "trt1"): (0.865, 0.1737839, 1.5562161, 0.0120064),
    }
    found = tukey_hsd(PLANTS, 0.95)
    assert [(pair.first, pair.second) for pair in found] == list(expected)
    for pair in found:
        assert pair.interval is not None and pair.p is not None
        numbers = (pair.difference, pair.interval.low, pair.interval.high, pair.p)
        assert numbers == pytest.approx(expected[pair.first, pair.second], abs=5e-7)


@pytest.mark.parametrize("groups", [PLANTS, UNEQUAL])
def test_pairs_against_scipy(groups: dict[str, list[float]]) -> None:
    from scipy import stats

    names = list(groups)
    reference = stats.tukey_hsd(*groups.values())
    ends = reference.confidence_interval(0.95)
    for pair in tukey_hsd(groups, 0.95):
        at = names.index(pair.first), names.index(pair.second)
        assert pair.difference == pytest.approx(reference.statistic[at])
        assert pair.p == pytest.approx(reference.pvalue[at], abs=1e-5)
        assert (pair.interval.low, pair.interval.high) == pytest.approx((ends.low[at], ends.high[at]), rel=1e-4)


@pytest.mark.parametrize(
    ("k", "df", "q"), [(3, 27, 3.506), (2, 2, 6.085), (3, 1, 26.98), (5, 10, 4.654), (10, 20, 5.008), (20, 120, 5.126)]
)
def test_quantiles_of_the_range_against_tables(k: int, df: float, q: float) -> None:
    assert range_quantile(0.95, k, df) == pytest.approx(q, abs=0.0055)
    assert range_sf(range_quantile(0.95, k, df), k, df) == pytest.approx(0.05, rel=1e-9)


@pytest.mark.parametrize("df", [1, 2, 3.7, 27, 2000])
@pytest.mark.parametrize("k", [2, 6, 40])
def test_the_range_against_adaptive_quadrature(k: int, df: float) -> None:
    from scipy.stats import studentized_range

    for q in (0.3, 2.0, 5.0, 20.0):
        assert range_sf(q, k, df) == pytest.approx(float(studentized_range.sf(q, k, df)), abs=1e-8)


def test_of_two_means_the_range_is_students_t() -> None:
    from scipy.special import stdtr

    for t in (0.5, 2.0, 6.0, 15.0):
        assert range_sf(t * math.sqrt(2), 2, 8) == pytest.approx(2 * float(stdtr(8, -t)), rel=1e-4)
    assert (range_sf(0.0, 2, 8), range_sf(1e4, 2, 8)) == pytest.approx((1, 0), abs=1e-13)
    with pytest.raises(ValueError, match="two means"):
        range_sf(1.0, 1, 8)


def test_a_model_with_blocks_narrows_the_pairs() -> None:
    blocks = [0.0, 10.0, 20.0, 30.0]
    noise = [0.1, -0.1, -0.1, 0.1]
    groups = {"a": blocks, "b": [1 + b + e for b, e in zip(blocks, noise, strict=True)]}
    means = {name: sum(values) / 4 for name, values in groups.items()}
    alone = tukey_hsd(groups, 0.95)[0]
    modelled = tukey_from_model(means, {"a": 4, "b": 4}, 0.04 / 6, 3, 0.95)[0]
    assert alone.interval.holds(0) and not modelled.interval.holds(0)
    assert modelled.difference == pytest.approx(alone.difference)


def test_without_spread_p_is_the_least_that_so_few_blocks_can_give() -> None:
    for n in (2, 8):
        constant = tukey_from_model({"a": 1.0, "b": 1.0, "c": 2.0}, dict.fromkeys("abc", n), 0.0, 2 * n - 2, 0.95)
        assert [pair.p for pair in constant] == [1, 2.0 ** (1 - n), 2.0 ** (1 - n)]
