"""Trend over a campaign against scipy, and that neither treatments nor blocks pass for one."""

from __future__ import annotations

import random

import pytest

from lastro.stats import drift as module
from lastro.stats.drift import drift


def test_slope_and_tau_against_scipy() -> None:
    from scipy import stats

    rng = random.Random(3)
    hours = sorted(rng.uniform(0, 12) for _ in range(80))
    values = [10 + 0.3 * hour + rng.gauss(0, 1) for hour in hours]
    found = drift(values, hours, ["one"] * 80, 0.95)
    sen, kendall = stats.theilslopes(values, hours, 0.95), stats.kendalltau(hours, values)
    assert found.tau == pytest.approx(kendall.statistic)
    slope, *ends = found.slope_per_hour.spread
    assert slope == pytest.approx(sen.slope) and ends == pytest.approx([sen.low_slope, sen.high_slope], rel=0.02)
    assert found.slope_per_hour.p == pytest.approx(kendall.pvalue, rel=0.1)


def test_small_samples_are_counted_out() -> None:
    from scipy import stats

    hours, values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 3.0, 2.0, 4.0, 6.0, 5.0]
    found = drift(values, hours, ["one"] * 6, 0.95)
    assert found.slope_per_hour.p == pytest.approx(stats.kendalltau(hours, values, method="exact").pvalue)
    rising = drift(hours, hours, ["one"] * 6, 0.95)
    slope = rising.slope_per_hour
    assert slope.interval is not None and (rising.tau, slope.value) == pytest.approx((1, 1))
    assert slope.p == pytest.approx(2 / 720)
    four = drift(hours[:4], hours[:4], ["one"] * 4, 0.95).slope_per_hour
    assert four.p is four.value is None and "n = 4" in str(four.absent_because)


def test_ties_against_scipy() -> None:
    from scipy import stats

    rng = random.Random(8)
    hours = [float(at // 2) for at in range(70)]
    values = [float(rng.randint(0, 6)) for _ in hours]
    found = drift(values, hours, ["one"] * 70, 0.95)
    kendall = stats.kendalltau(hours, values)
    assert found.tau == pytest.approx(kendall.statistic)
    assert found.slope_per_hour.p == pytest.approx(kendall.pvalue, abs=0.01), "scipy does not correct for continuity"


def campaign(
    rng: random.Random, slope: float, block_sd: float
) -> tuple[list[float], list[float], list[str], list[int]]:
    """Twelve blocks of four treatments of very different size, a quarter of an hour each, with 5 % noise."""
    values, hours, treatments, blocks = [], [], [], []
    for block in range(12):
        shift = rng.gauss(0, block_sd)
        for at, treatment in enumerate(rng.sample(range(4), 4)):
            hour = block + at / 4
            values.append(10**treatment * (1 + slope * hour + shift + rng.gauss(0, 0.05)))
            hours.append(hour)
            treatments.append(f"t{treatment}")
            blocks.append(block)
    return values, hours, treatments, blocks


def test_false_alarms_of_drift_keep_to_their_rate() -> None:
    rng = random.Random(21)
    alone, with_blocks = 0, 0
    for _ in range(600):
        values, hours, treatments, blocks = campaign(rng, 0.0, 0.05)
        with_blocks += (
            drift(values, hours, treatments, 0.95, blocks=blocks, relative=True).slope_per_hour.p or 1
        ) < 0.05
        values, hours, treatments, blocks = campaign(rng, 0.0, 0.0)
        alone += (drift(values, hours, treatments, 0.95, relative=True).slope_per_hour.p or 1) < 0.05
    assert with_blocks / 600 < 0.07 and alone / 600 < 0.07


def test_a_drift_of_one_percent_an_hour_is_found_and_its_slope_held() -> None:
    rng = random.Random(22)
    campaigns = (campaign(rng, 0.01, 0.01) for _ in range(200))
    found = [drift(v, h, t, 0.95, blocks=b, relative=True).slope_per_hour for v, h, t, b in campaigns]
    assert sum((one.p or 1) < 0.05 for one in found) / 200 > 0.8
    # The share is of the treatment's mean, taken half way through.
    held = sum(one.interval is not None and one.interval.holds(0.01 / (1 + 0.01 * 5.875)) for one in found)
    assert held / 200 > 0.93


def test_treatments_with_one_value_say_nothing_of_time() -> None:
    values, hours = [1.0, 50.0, 2.0, 99.0, 3.0, 4.0, 5.0], [float(hour) for hour in range(7)]
    found = drift(values, hours, list("abacaaa"), 0.95)
    assert found.slope_per_hour.n == 5 and found.slope_per_hour.value == pytest.approx(2 / 3)
    assert (
        drift([1.0, 2.0], [0.0, 1.0], ["a", "b"], 0.95).slope_per_hour.absent_because
        == "n = 0 points in time: a trend needs 5 or more"
    )
    zero = drift([1.0, -1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0], ["a", "a", "b", "b"], 0.95, relative=True)
    assert zero.slope_per_hour.n == 2, "nothing is a share of a mean of zero"


def test_constant_values_and_times() -> None:
    constant = drift([5.0] * 8, [float(h) for h in range(8)], ["a"] * 8, 0.95)
    assert (constant.tau, constant.slope_per_hour.p, constant.slope_per_hour.value) == (0, 1, 0)
    at_once = drift([1.0, 2.0, 3.0, 4.0, 5.0], [1.0] * 5, ["a"] * 5, 0.95).slope_per_hour
    assert at_once.p is None and at_once.absent_because == "all points are at the same time"
    with pytest.raises(ValueError, match="one length"):
        drift([1.0], [1.0, 2.0], ["a"], 0.95)


def test_many_points_are_averaged_with_their_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_POINTS", 50)
    hours = [at / 10 for at in range(101)]
    found = drift([3 * hour for hour in hours], hours, ["a"] * 101, 0.95)
    assert found.slope_per_hour.n == 34 and found.slope_per_hour.value == pytest.approx(3)
