"""What to expect next: textbook cases, and how often trials and campaigns that follow lie in their intervals."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from scipy import stats

from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import NO_SPREAD, ONE_VALUE, compare_one, replicated
from lastro.stats.prediction import next_trial

from ..support.products import combinations

Cells = dict[str, dict[int, float]]


def fitted(cells: Cells) -> BlockModel:
    found = BlockModel.of(cells)
    assert found is not None
    return found


def test_the_trials_of_one_treatment_have_the_interval_of_hahn_and_meeker() -> None:
    """Five readings with a mean of 50.10 and s = 1.31: the next one lies within 3.04 s."""
    values = [51.4, 49.5, 48.7, 49.3, 51.6]
    found = next_trial(values, 0.95)
    half = stats.t.ppf(0.975, 4) * math.sqrt(1 + 1 / 5) * np.std(values, ddof=1)
    assert half / np.std(values, ddof=1) == pytest.approx(3.04, abs=0.005)
    assert np.std(values, ddof=1) == pytest.approx(1.31, abs=0.005) and found.value == pytest.approx(50.1)
    assert found.interval is not None and found.interval.half_width == pytest.approx(half)


@pytest.mark.parametrize("log", [False, True])
def test_another_campaign_has_the_confidence_interval_of_twice_the_variance(log: bool) -> None:
    rng = random.Random(3)
    means = {"a": 40.0, "b": 20.0, "c": 400.0}
    cells = {c: {b: m + (m / 100 if log else 0.2) * rng.gauss(0, 1) for b in range(6)} for c, m in means.items()}
    model = fitted(cells)
    now, then = compare_one(model, {"a": 1.0}, {"b": 1.0}, 0.95), replicated(model, {"a": 1.0}, {"b": 1.0}, 0.95)
    assert model.log == log and then.value == now.ratio.value and then.p is None
    assert now.ratio.interval is not None and then.interval is not None
    if log:
        widths = [math.log(each.high / each.low) for each in (now.ratio.interval, then.interval)]
        assert widths[1] == pytest.approx(math.sqrt(2) * widths[0])
    assert then.interval.half_width == pytest.approx(math.sqrt(2) * now.ratio.interval.half_width, rel=0.01)


def test_coarse_readings_and_exact_counts() -> None:
    trial = next_trial([42.01] * 5, 0.95, 0.01).interval
    assert trial is not None and (trial.low, trial.high) == pytest.approx((42.0, 42.02)), "half a step twice"
    assert next_trial([42.01] * 2, 0.95, 0.01).interval is None, "two readings may be equal by chance"
    exact = next_trial([5.0] * 7, 0.95).interval
    assert exact is not None and (exact.low, exact.high) == (5.0, 5.0)
    few = next_trial([5.0] * 6, 0.95)
    assert few.value == 5.0 and few.interval is None and few.absent_because == NO_SPREAD
    coarse = fitted({"a": dict.fromkeys(range(7), 42.01), "b": dict.fromkeys(range(7), 84.0)})
    ratio = replicated(coarse, {"b": 1.0}, {"a": 1.0}, 0.95).interval
    assert ratio is not None and (ratio.low, ratio.high) == pytest.approx((83.99 / 42.02, 84.01 / 42.0))


def test_seven_equal_values_are_followed_by_another_one_in_less_than_5_percent_whatever_its_probability() -> None:
    often = np.linspace(0, 1, 100_001)
    assert (often**7 * (1 - often)).max() < 0.05 < (often**6 * (1 - often)).max()


def test_a_treatment_with_one_value_has_no_interval() -> None:
    assert next_trial([4.0], 0.95).absent_because == ONE_VALUE
    model = fitted({"a": {1: 1.0, 2: 1.5, 3: 1.2}, "b": {1: 31.0, 2: 31.4, 3: 30.9}, "c": {1: 4.0}})
    found = replicated(model, {"c": 1.0}, {"a": 1.0}, 0.95)
    assert found.interval is None and found.absent_because == ONE_VALUE


def test_effects_that_multiply_are_predicted_on_logarithms() -> None:
    values = [100.0, 120.0, 90.0, 130.0]
    found, logs = next_trial(values, 0.95, log=True), next_trial([math.log(value) for value in values], 0.95)
    assert found.interval is not None and logs.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx(
        tuple(map(math.exp, (logs.interval.low, logs.interval.high)))
    )
    assert found.value == pytest.approx(stats.gmean(values))


@pytest.mark.parametrize("blocks", [2, 3, 5, 10])
@pytest.mark.parametrize("step", [0.0, 0.3, 1.0, 10.0], ids=lambda step: f"steps of {step} times the noise")
def test_the_next_trial_lies_in_its_interval(blocks: int, step: float) -> None:
    """Whatever the noise of a treatment and of blocks, since only their sum matters; several trials follow each."""
    rng, rounds, held, made = np.random.default_rng([blocks, int(10 * step)]), 1000, 0.0, 0
    for truth in 50 + 10 * rng.random(rounds):
        values = truth + rng.standard_normal(blocks + 10)
        values = np.round(values / step) * step if step else values
        found = next_trial(values[:blocks].tolist(), 0.95, step).interval
        if found is not None:
            further = values[blocks:]
            held += float(np.mean((found.low - 1e-9 <= further) & (further <= found.high + 1e-9)))
            made += 1
    assert held / made >= 0.935 and (made == rounds or blocks == 2)


@pytest.mark.parametrize(("blocks", "between"), combinations((2, 3, 5, 10), (0.0, 1.0, 5.0)))
def test_the_ratio_of_the_next_campaign_lies_in_its_interval(blocks: int, between: float) -> None:
    rng, rounds, held = np.random.default_rng([blocks, int(between)]), 150, 0.0
    for _ in range(rounds):
        now, later = (100 + between * rng.standard_normal(blocks) + rng.standard_normal((4, blocks)) for _ in range(2))
        model = fitted({name: dict(enumerate(row)) for name, row in zip("abcd", now.tolist(), strict=True)})
        means = np.exp(np.log(later).mean(axis=1)) if model.log else later.mean(axis=1)
        for at, name in enumerate("bcd", 1):
            ratio = replicated(model, {name: 1.0}, {"a": 1.0}, 0.95).interval
            assert ratio is not None
            held += ratio.holds(float(means[at] / means[0])) / 3
    assert held / rounds >= 0.92
