"""The Universal Scalability Law against the SPEC SDM91 data, and what it must not claim."""

from __future__ import annotations

import random

import pytest

from lastro.stats.usl import fit_usl

# SPEC SDM91 on a SPARCcenter 2000 (Gunther 2007, chapter 5; `specsdm91` in R's package usl).
LOAD = [1, 18, 36, 72, 108, 144, 216]
THROUGHPUT = [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2]


def test_specsdm91_as_r_fits_it() -> None:
    """R: summary(usl(throughput ~ load, specsdm91)), usl 2.0 and later, where lambda is free and called gamma."""
    fit = fit_usl(LOAD, THROUGHPUT, 0.95)
    assert fit is not None and fit.peak is not None
    assert fit.sigma.value == pytest.approx(0.0277285, abs=5e-8)
    assert fit.sigma.standard_error == pytest.approx(0.0091217, abs=5e-8)
    assert fit.kappa.value == pytest.approx(0.0001044, abs=5e-8)
    assert fit.kappa.standard_error == pytest.approx(0.0000199, abs=5e-8)
    assert fit.lambda_.value == pytest.approx(89.9952330, abs=1e-5)
    assert fit.lambda_.standard_error == pytest.approx(14.2134894, abs=1e-5)
    assert (min(fit.residuals), max(fit.residuals)) == pytest.approx((-81.7, 111.1), abs=0.05)
    assert fit.peak.n == pytest.approx(96.51956, rel=1e-6)
    assert fit.peak.throughput == pytest.approx(fit.throughput(96.51956))
    assert fit.peak.interval.low < 96.51956 < fit.peak.interval.high < 216 and fit.no_peak_because is None


def test_no_peak_beyond_the_data() -> None:
    def law(n: float) -> float:
        return 100 * n / (1 + 0.02 * (n - 1) + 0.0001 * n * (n - 1))

    loads = [1.0, 5.0, 10.0, 20.0, 40.0, 80.0]
    exact = fit_usl(loads, [law(n) * (1 + 1e-6 * (-1) ** at) for at, n in enumerate(loads)], 0.95)
    assert exact is not None and exact.peak is None and exact.no_peak_because == "beyond the measured range"
    assert (exact.sigma.value, exact.kappa.value) == pytest.approx((0.02, 0.0001), rel=1e-3)


def test_no_peak_where_coherency_may_be_zero() -> None:
    amdahl = fit_usl([1, 2, 4, 8, 16], [10, 15.1, 19.9, 23.2, 25.8], 0.95)
    assert amdahl is not None and amdahl.peak is None
    assert amdahl.no_peak_because == "coherency may be zero"


def test_nothing_is_negative_and_bounds_have_no_interval() -> None:
    linear = fit_usl([1, 2, 4, 8, 16], [10, 20, 39.9, 80, 160.2], 0.95)
    assert linear is not None
    assert (linear.sigma.value, linear.kappa.value) == (0, 0)
    assert linear.sigma.at_bound and linear.sigma.interval is None
    assert linear.lambda_.interval is not None and linear.lambda_.interval.holds(10)
    superlinear = fit_usl([1, 2, 4, 8], [10, 25, 59, 150], 0.95)
    assert superlinear is not None and superlinear.sigma.value == superlinear.kappa.value == 0
    flat = fit_usl([1, 2, 4, 8], [10, 10, 10, 10], 0.95)
    assert flat is not None and (flat.sigma.value, flat.sigma.at_bound) == (1, True)
    assert flat.lambda_.value == pytest.approx(10)


def test_units_of_load_and_throughput_change_nothing() -> None:
    fit = fit_usl(LOAD, [1e9 * x for x in THROUGHPUT], 0.95)
    assert fit is not None and fit.peak is not None
    assert (fit.sigma.value, fit.kappa.value) == pytest.approx((0.0277285, 0.000104365), rel=1e-5)
    assert fit.lambda_.value == pytest.approx(89.9952330e9)


def test_what_is_no_fit() -> None:
    assert fit_usl([1, 2, 2, 1], [10, 20, 21, 11], 0.95) is None, "two different loads"
    assert fit_usl([0, 1, 2], [1, 2, 3], 0.95) is None
    assert fit_usl([1, 2, 3], [0, 0, 0], 0.95) is None
    assert fit_usl([], [], 0.95) is None
    three = fit_usl([1, 2, 4], [10, 15, 19], 0.95)
    assert three is not None and three.residual_sd is None and three.kappa.interval is None and three.peak is None
    with pytest.raises(ValueError, match="3 loads and 2 throughputs"):
        fit_usl([1, 2, 3], [1, 2], 0.95)


def test_intervals_cover_what_they_promise() -> None:
    rng = random.Random(96)
    loads = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0] * 2
    truth = {"lambda_": 50, "sigma": 0.1, "kappa": 0.005}
    held = dict.fromkeys([*truth, "peak"], 0)
    for _ in range(300):
        exact = [50 * n / (1 + 0.1 * (n - 1) + 0.005 * n * (n - 1)) for n in loads]
        fit = fit_usl(loads, [x + rng.gauss(0, 8) for x in exact], 0.95)
        assert fit is not None
        for name, value in truth.items():
            interval = getattr(fit, name).interval
            held[name] += interval is not None and interval.holds(value)
        held["peak"] += fit.peak is not None and fit.peak.interval.holds((0.9 / 0.005) ** 0.5)
    assert min(held.values()) / 300 > 0.91, "300 draws know the coverage to 2.5 points"


def test_the_band_covers_the_law_as_often_as_it_promises() -> None:
    def law(n: float) -> float:
        return 100 * n / (1 + 0.03 * (n - 1) + 0.0005 * n * (n - 1))

    rng = random.Random(5)
    loads = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0] * 3
    inside, tries = 0, 300
    for _ in range(tries):
        fit = fit_usl(loads, [law(n) + rng.gauss(0, 20) for n in loads], 0.95)
        assert fit is not None
        band = fit.interval(20, 0.95)
        assert band is not None
        inside += band.holds(law(20))
    assert 0.92 <= inside / tries <= 0.98
    exact = fit_usl([1, 2, 4], [10, 15, 20], 0.95)
    assert exact is not None and exact.interval(2, 0.95) is None
