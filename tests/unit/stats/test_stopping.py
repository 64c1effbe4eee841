"""The rule for sequential campaigns: what it decides, and what it does to the coverage of the last interval."""

from __future__ import annotations

import math

import pytest

from lastro.stats.intervals import Interval
from lastro.stats.stopping import StoppingDecision, StoppingRule, decide_to_stop, relative_half_width


def test_decisions() -> None:
    rule = StoppingRule(target=0.05, most_blocks=30)
    narrow, wide = {"a": 0.01, "b": 0.05}, {"a": 0.01, "b": 0.06}
    assert decide_to_stop(rule, 9, narrow) == StoppingDecision(False, "too few blocks", 9, "b", 0.05)
    assert decide_to_stop(rule, 10, narrow) == StoppingDecision(True, "narrow enough", 10, "b", 0.05)
    assert decide_to_stop(rule, 10, wide) == StoppingDecision(False, "too wide", 10, "b", 0.06)
    assert decide_to_stop(rule, 30, wide) == StoppingDecision(True, "cap reached", 30, "b", 0.06)
    assert decide_to_stop(rule, 31, narrow).reason == "narrow enough"
    assert decide_to_stop(rule, 12, {"a": 0.01, "b": math.inf}).reason == "too wide"
    assert decide_to_stop(rule, 12, {}) == StoppingDecision(False, "too wide", 12, None, None)
    assert decide_to_stop(rule, 30, {}).stop


def test_contrasts_without_interval_are_not_narrow() -> None:
    assert relative_half_width(2.0, Interval(1.9, 2.1, 0.95)) == pytest.approx(0.05)
    assert relative_half_width(-2.0, Interval(-2.1, -1.9, 0.95)) == pytest.approx(0.05)
    assert relative_half_width(2.0, None) == relative_half_width(None, None) == math.inf
    assert relative_half_width(0.0, Interval(-0.1, 0.1, 0.95)) == math.inf


@pytest.mark.parametrize(("target", "least", "most"), [(0, 10, 20), (0.1, 9, 20), (0.1, 20, 19), (math.nan, 10, 20)])
def test_rules_that_are_none(target: float, least: int, most: int) -> None:
    with pytest.raises(ValueError):
        StoppingRule(target, most, least)


@pytest.mark.parametrize("typical_blocks", [10, 15, 25, 60, 200])
@pytest.mark.parametrize("log_sd", [None, 0.3])
def test_the_last_interval_still_covers(typical_blocks: int, log_sd: float | None) -> None:
    """Differences within blocks around a mean of 1, stopped by the rule; spreads such that it takes so many blocks."""
    import numpy as np
    from scipy.special import stdtrit

    draws, most = 4000, 300
    sd, target = 0.3, float(stdtrit(typical_blocks - 1, 0.975)) * 0.3 / math.sqrt(typical_blocks)
    rng = np.random.default_rng(typical_blocks)
    if log_sd is None:
        values = rng.normal(1, sd, (draws, most))
    else:
        values = rng.lognormal(0, log_sd, (draws, most))
        values /= math.exp(log_sd**2 / 2)
    n = np.arange(1, most + 1)
    mean = values.cumsum(axis=1) / n
    variance = np.maximum((values**2).cumsum(axis=1) / n - mean**2, 0) * n / np.maximum(n - 1, 1)
    half = np.concatenate([[0], stdtrit(n[1:] - 1, 0.975)]) * np.sqrt(variance / n)
    rule = StoppingRule(target=target, most_blocks=most)
    stop = (half / abs(mean) <= rule.target) & (n >= rule.least_blocks) | (n == rule.most_blocks)
    last = stop.argmax(axis=1)
    row = np.arange(draws)
    for at in range(0, draws, 400):
        decision = decide_to_stop(rule, int(n[last[at]]), {"only": float(half[at, last[at]] / mean[at, last[at]])})
        assert decision.stop
    covered = (abs(mean[row, last] - 1) <= half[row, last]).mean()
    assert covered >= 0.92
