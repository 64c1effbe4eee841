"""Pooling over hosts, against numbers that metafor publishes, and its coverage where the truth is known."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from lastro.stats.contrasts import UNBOUNDED, ZERO_DENOMINATOR
from lastro.stats.pooling import Estimator, MeasuredEffect, pool
from lastro.stats.recovery import estimate_recovery

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))
bench = importlib.import_module("pooling")

# Colditz and others, JAMA 271 (1994) 698-702: tuberculosis yes and no, with the BCG vaccine and without. It is the
# data set `dat.bcg` of metafor.
BCG = (
    (4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619), (33, 5036, 47, 5761),
    (180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892), (29, 7470, 45, 7232), (17, 1699, 65, 1600),
    (186, 50448, 141, 27197), (5, 2493, 3, 2338), (27, 16886, 29, 17825),
)  # fmt: skip
# Collins and others, BMJ 290 (1985) 17-23: cases and women, with diuretics and without. `dat.collins1985b` of metafor.
PRE_ECLAMPSIA = (
    (14, 131, 14, 136), (21, 385, 17, 134), (14, 57, 24, 48), (6, 38, 18, 40), (12, 1011, 35, 760),
    (138, 1370, 175, 1336), (15, 506, 20, 524), (6, 108, 2, 103), (65, 153, 40, 102),
)  # fmt: skip


def risk_ratios() -> list[MeasuredEffect]:
    return [
        MeasuredEffect(math.log(a / (a + b) / (c / (c + d))), math.sqrt(1 / a - 1 / (a + b) + 1 / c - 1 / (c + d)), 1e9)
        for a, b, c, d in BCG
    ]


def odds_ratios() -> list[MeasuredEffect]:
    return [
        MeasuredEffect(math.log(a * (m - c) / (n - a) / c), math.sqrt(1 / a + 1 / (n - a) + 1 / c + 1 / (m - c)), 1e9)
        for a, n, c, m in PRE_ECLAMPSIA
    ]


def studies(values: Sequence[float], variances: Sequence[float]) -> list[MeasuredEffect]:
    return [MeasuredEffect(y, math.sqrt(v), 1e9) for y, v in zip(values, variances, strict=True)]


def test_bcg_by_restricted_likelihood() -> None:
    """Viechtbauer, J. Stat. Softw. 36(3) (2010), section 3.1 (tau squared, mean, Q); Q profile: metafor's own test
    tests/testthat/test_misc_confint.r. The interval of Knapp and Hartung is `rma(yi, vi, test="knha")`."""
    found = pool(risk_ratios(), 0.95)
    assert found.tau.value**2 == pytest.approx(0.3132, abs=5e-5) and found.estimate.value == pytest.approx(
        -0.7145, abs=5e-5
    )
    assert (
        found.q == pytest.approx(152.2330, abs=5e-5) and found.q_p < 1e-4 and (found.df, found.estimate.n) == (12, 13)
    )
    profile = [end**2 for end in (found.tau.interval.low, found.tau.interval.high)]
    assert profile == pytest.approx([0.1197, 1.1115], abs=5e-5)
    assert [found.estimate.interval.low, found.estimate.interval.high] == pytest.approx([-1.1084, -0.3206], abs=5e-5)
    assert found.error == pytest.approx(0.1808, abs=5e-5) and found.estimate.p == pytest.approx(0.0019, abs=5e-5)


def test_pre_eclampsia_by_restricted_likelihood() -> None:
    """Viechtbauer, Statist. Med. 26 (2007) 37-52, table II, with the digits of metafor's test of this example."""
    found = pool(odds_ratios(), 0.95)
    assert found.tau.value**2 == pytest.approx(0.301, abs=5e-4)
    assert [found.tau.interval.low**2, found.tau.interval.high**2] == pytest.approx([0.072, 2.203], abs=5e-4)


def test_bcg_by_paule_and_mandel() -> None:
    """metafor: `rma(yi, vi, method="EB")`, the same estimator by another way. At this tau squared, Q is as expected."""
    effects = risk_ratios()
    found = pool(effects, 0.95, "paule-mandel")
    assert found.tau.value**2 == pytest.approx(0.3181, abs=5e-5)
    weights = [1 / (one.error**2 + found.tau.value**2) for one in effects]
    assert math.fsum(
        w * (e.value - found.estimate.value) ** 2 for w, e in zip(weights, effects, strict=True)
    ) == pytest.approx(12)


def test_four_studies_by_paule_and_mandel() -> None:
    """metafor: `rma.uni(y, v, method="PM", test="knha")`."""
    found = pool(studies((0.40, -0.20, 0.55, 0.10), (0.05, 0.06, 0.04, 0.05)), 0.95, "paule-mandel")
    assert (found.estimate.value, found.tau.value**2) == pytest.approx((0.22957, 0.05930), abs=5e-6)


def test_ten_studies_by_restricted_likelihood() -> None:
    """Data of Riley, Higgins and Deeks, BMJ 342 (2011) d549; results of `pima(y, se, method="HK")` of pimeta 1.1.3."""
    y = (0.0, 0.1, -0.4, -0.8, -0.63, 0.22, -0.34, -0.51, 0.03, -0.81)
    errors = (0.42347717, 0.21939179, 0.02551067, 0.19898325, 0.30102594, 0.30102594, 0.07142988, 0.10204269,
              0.12245123, 0.30102594)  # fmt: skip
    found = pool(studies(y, [error**2 for error in errors]), 0.95)
    assert (found.estimate.value, found.tau.value**2) == pytest.approx((-0.32874, 0.06995), abs=1e-5)


def test_the_interval_of_a_new_host_is_the_mixture_that_it_claims_to_be() -> None:
    """Draw what Nagashima, Noma and Furukawa (2019) draw, with the distribution of tau squared by the Q profile."""
    effects = odds_ratios()
    y, v = np.array([one.value for one in effects]), np.array([one.error**2 for one in effects])
    rng, n, grid = np.random.default_rng(5), 100_000, np.concatenate([[0.0], np.geomspace(1e-5, 1e3, 20_000)])
    w = 1 / (v + grid[:, None])
    q = (w * (y - ((w @ y) / w.sum(axis=1))[:, None]) ** 2).sum(axis=1)
    tau2 = np.interp(-rng.chisquare(len(y) - 1, n), -q, grid)
    w = 1 / (v + tau2[:, None])
    means = (w @ y) / w.sum(axis=1)
    spread = np.maximum(1.0, (w * (y - means[:, None]) ** 2).sum(axis=1) / (len(y) - 1))
    drawn = means + np.sqrt(tau2) * rng.standard_normal(n)
    drawn += np.sqrt(spread / w.sum(axis=1)) * rng.standard_t(len(y) - 1, n)
    found = pool(effects, 0.95).prediction
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.03)


def test_a_new_host_after_exact_effects_lies_as_a_new_value_of_a_normal_sample() -> None:
    """Without error, it is at least t sd sqrt(1 + 1/n) wide, and little more: mean and spread are taken as apart."""
    y = np.array([-0.3, -0.1, 0.0, 0.15, 0.25])
    found = pool(studies(y, [1e-10] * 5), 0.95).prediction
    half = 2.776445 * float(y.std(ddof=1)) * math.sqrt(1.2)
    assert (found.low + found.high) / 2 == pytest.approx(0.0, abs=1e-3)
    assert 1.0 <= found.half_width / half <= 1.08


@pytest.mark.parametrize("estimator", ["reml", "paule-mandel"])
def test_hosts_that_agree_have_no_spread_and_an_interval_of_some_width(estimator: Estimator) -> None:
    found = pool([MeasuredEffect(0.1, 0.02, 1e9)] * 3, 0.95, estimator)
    assert found.tau.value == 0 and (found.tau.interval.low, found.tau.interval.high) == (0, 0)
    assert found.error == pytest.approx(0.02 / math.sqrt(3)), "not zero, as the distances of the hosts would have it"


def test_the_spread_allows_for_errors_of_few_degrees_of_freedom() -> None:
    few, exact = (
        [MeasuredEffect(y, e, df) for y in (0.0, 0.1, 0.3)] for e, df in ((0.1, 4), (0.1 * 2.776445 / 1.959964, 1e9))
    )
    assert pool(few, 0.95).tau.interval.high == pytest.approx(pool(exact, 0.95).tau.interval.high, rel=1e-5)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("estimator", ["reml", "paule-mandel"])
def test_the_unit_of_the_effects_does_not_matter(unit: float, estimator: Estimator) -> None:
    one = pool(risk_ratios(), 0.95, estimator)
    other = pool([MeasuredEffect(unit * e.value, unit * e.error, e.df) for e in risk_ratios()], 0.95, estimator)
    assert other.tau.value == pytest.approx(unit * one.tau.value, rel=1e-6)
    assert other.prediction.high == pytest.approx(unit * one.prediction.high, rel=1e-6)


def test_two_hosts_and_an_effect_without_error_are_refused() -> None:
    with pytest.raises(ValueError, match="2 hosts cannot show"):
        pool(risk_ratios()[:2], 0.95)
    with pytest.raises(ValueError, match="not above zero"):
        pool([*risk_ratios()[:2], MeasuredEffect(0.1, 0.0, 4)], 0.95)


@pytest.mark.parametrize(
    ("tau", "unequal"),
    [
        (0.03, True),
        *(
            pytest.param(tau, unequal, marks=pytest.mark.slow)
            for tau in (0.0, 0.01, 0.03, 0.1)
            for unequal in (False, True)
            if (tau, unequal) != (0.03, True)
        ),
    ],
)
def test_at_five_hosts_the_intervals_hold_what_they_should(tau: float, unequal: bool) -> None:
    """`benches/pooling.py` has more of them; docs/explanation-pool.md has its table."""
    rates = bench.covered(5, tau, unequal=unequal, repeats=150)
    assert rates.mean >= 0.93 and rates.new_host >= 0.93 and rates.tau >= 0.9


def test_at_five_hosts_the_intervals_by_paule_and_mandel_hold_as_much() -> None:
    rates = bench.covered(5, 0.03, unequal=True, repeats=150, estimator="paule-mandel")
    assert rates.mean >= 0.93 and rates.new_host >= 0.93 and rates.tau >= 0.9


def test_the_recovered_fraction_of_three_hosts_by_hand() -> None:
    """Gains 0.2, 0.25, 0.3: mean 0.25, sd 0.05, t = 8.6603 with 2 degrees of freedom. Fieller's ends are the roots r of
    (a - r b)^2 = 4.3027^2 var(gain - r loss) / 3, here with losses 0.4, 0.5, 0.45."""
    found = estimate_recovery((0.4, 0.5, 0.45), (0.2, 0.25, 0.3), 0.95)
    assert found.gain.value == pytest.approx(0.25) and found.gain.p == pytest.approx(0.013072, abs=1e-6)
    assert found.loss.value == pytest.approx(0.45) and found.loss.p == pytest.approx(0.004090, abs=1e-6)
    assert found.fraction.value == pytest.approx(0.25 / 0.45) and found.fraction.interval is not None
    for end in (found.fraction.interval.low, found.fraction.interval.high):
        apart = [gain - end * loss for gain, loss in ((0.2, 0.4), (0.25, 0.5), (0.3, 0.45))]
        assert abs(np.mean(apart)) == pytest.approx(4.302653 * np.std(apart, ddof=1) / math.sqrt(3), rel=1e-6)


def test_hosts_without_spread_or_without_a_loss_have_no_interval_of_what_they_recover() -> None:
    same = estimate_recovery((0.4, 0.4, 0.4), (0.2, 0.2, 0.2), 0.95)
    assert same.gain.p == 0.25 and same.fraction.interval is None and same.fraction.value == pytest.approx(0.5)
    none = estimate_recovery((0.1, -0.1, 0.0), (0.1, 0.2, 0.3), 0.95)
    assert none.fraction.interval is None and none.fraction.absent_because == ZERO_DENOMINATOR
    hardly = estimate_recovery((0.1, -0.1, 0.06), (0.1, 0.2, 0.3), 0.95)
    assert hardly.fraction.interval is None and hardly.fraction.absent_because == UNBOUNDED
    with pytest.raises(ValueError, match="two hosts"):
        estimate_recovery((0.2,), (0.1,), 0.95)


@pytest.mark.parametrize(("hosts", "spread"), [(3, 0.1), (5, 0.3), (10, 0.0)])
@pytest.mark.parametrize(("times", "unequal"), [(False, False), (True, True)])
def test_the_interval_of_a_recovered_fraction_holds_it_and_a_gain_is_seldom_significant_without_one(
    hosts: int, spread: float, times: bool, unequal: bool
) -> None:
    kind = {"times": times, "unequal": unequal, "repeats": 1000}
    held, unbounded, _ = bench.recoveries(hosts, spread, 0.6, **kind)
    *_, significant = bench.recoveries(hosts, spread, 0.0, **kind)
    assert 0.93 <= held <= 0.99 and 0.01 <= significant <= 0.07
    assert unbounded < (0.5 if hosts == 3 else 0.1)
