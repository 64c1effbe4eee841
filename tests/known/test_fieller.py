"""Fieller's interval against the textbook example, against exact arithmetic, and where it does not exist."""

from __future__ import annotations

import math

import pytest

from lastro.stats.intervals import t_quantile
from lastro.stats.ratios import ends_of_ratio, paired_ratio, ratio_to_baseline, unpaired_ratio


def sample(mean: float, sd: float, n: int = 6) -> list[float]:
    """n values with exactly this mean and standard deviation."""
    step = sd * math.sqrt((n - 1) / n)
    return [mean + (step if at % 2 else -step) for at in range(n)]


def test_textbook_example_to_four_decimals() -> None:
    """14 and 7 with standard deviations 3 and 2, six values each; n_a + n_b - 2 degrees of freedom."""
    ends = ends_of_ratio(14, 7, (3**2 / 6, 2**2 / 6, 0.0), t_quantile(0.95, 10), (0.0, 0.0))
    assert ends is not None and [round(end, 4) for end in ends] == [1.4566, 2.8332]


def test_satterthwaite_widens_the_textbook_example() -> None:
    ratio = unpaired_ratio(sample(14, 3), sample(7, 2), 0.95)
    assert ratio.value == pytest.approx(2.0) and ratio.interval is not None
    assert ratio.interval.low < 1.4566 < 2.8332 < ratio.interval.high


def test_the_ends_solve_fiellers_equation() -> None:
    treated, baseline = [9.1, 8.7, 9.9, 9.4, 8.8], [10.2, 9.9, 10.8, 10.1, 9.7]
    interval = paired_ratio(treated, baseline, 0.95).interval
    assert interval is not None
    t = 2.7764451051977987  # Student's t, 4 degrees of freedom
    for end in (interval.low, interval.high):
        differences = [a - end * b for a, b in zip(treated, baseline, strict=True)]
        mean = math.fsum(differences) / 5
        variance = math.fsum((d - mean) ** 2 for d in differences) / 4
        assert abs(mean) / math.sqrt(variance / 5) == pytest.approx(t, rel=1e-9)


def test_pairing_removes_what_blocks_share() -> None:
    baseline = [10.0, 20.0, 30.0, 40.0]
    treated = [8.1, 15.9, 24.1, 31.9]
    paired, unpaired = paired_ratio(treated, baseline, 0.95), unpaired_ratio(treated, baseline, 0.95)
    assert paired.interval is None or paired.interval.half_width < 0.1
    assert unpaired.interval is None or unpaired.interval.half_width > 0.5


def test_unbounded_when_the_baseline_may_be_zero() -> None:
    ratio = unpaired_ratio([5.0, 6.0, 7.0], [-1.0, 0.5, 2.0], 0.95)
    assert ratio.unbounded and ratio.interval is None
    assert ratio.absent_because is not None and "zero" in ratio.absent_because
    exact = paired_ratio([1.0, 2.0], [0.0, 0.0], 0.95)
    assert exact.value is None and exact.unbounded and not exact.differs


@pytest.mark.parametrize("function", [paired_ratio, unpaired_ratio])
def test_one_value_gives_a_ratio_without_interval(function) -> None:
    ratio = function([3.0], [4.0], 0.95)
    assert (ratio.value, ratio.interval, ratio.unbounded) == (0.75, None, False)
    assert "n = 1" in ratio.absent_because


@pytest.mark.parametrize("function", [paired_ratio, unpaired_ratio])
def test_constant_values_give_an_interval_of_no_width(function) -> None:
    interval = function([3.0] * 4, [4.0] * 4, 0.95).interval
    assert (interval.low, interval.high) == pytest.approx((0.75, 0.75))


def test_pairs_are_taken_from_common_blocks() -> None:
    ratio = ratio_to_baseline({1: 2.0, 2: 4.2, 3: 5.8, 5: 9.0}, {1: 1.0, 2: 2.0, 3: 3.0, 4: 100.0}, 0.95)
    assert ratio is not None
    assert (ratio.pairing, ratio.n, ratio.sides) == ("paired", 3, (3, 3))
    assert ratio.value == pytest.approx(2.0)


def test_unpaired_when_few_blocks_are_common() -> None:
    ratio = ratio_to_baseline({1: 2.0, 2: 2.1, 3: 1.9}, {3: 1.0, 4: 1.1, 5: 0.9}, 0.95)
    assert ratio is not None and ratio.pairing == "unpaired"
    assert ratio_to_baseline({}, {1: 1.0}, 0.95) is None
