"""Lines whose coefficients are certified, and what the intervals promise."""

from __future__ import annotations

import random

import numpy as np
import pytest

from lastro.stats.intervals import t_quantile
from lastro.stats.scaling import fit_bend, fit_line

# NIST, Statistical Reference Datasets, linear regression: Norris (observed data, 36 points), as pairs of y and x.
NORRIS = """
0.1 0.2  338.8 337.4  118.1 118.2  888.0 884.6  9.2 10.1  228.1 226.5  668.5 666.3  998.5 996.3  449.1 448.6
778.9 777.0  559.2 558.2  0.3 0.4  0.1 0.6  778.1 775.5  668.8 666.9  339.3 338.0  448.9 447.5  10.8 11.6
557.7 556.0  228.3 228.1  998.0 995.8  888.8 887.6  119.6 120.2  0.3 0.3  0.6 0.3  557.6 556.8  339.3 339.1
888.0 887.2  998.5 999.0  778.9 779.0  10.2 11.1  117.6 118.3  228.9 229.2  668.4 669.1  449.2 448.9  0.2 0.5
"""
SLOPE, SLOPE_SD = 1.00211681802045, 0.429796848199937e-3
INTERCEPT, INTERCEPT_SD = -0.262323073774029, 0.232818234301152
R2 = 0.999993745883712


def test_norris() -> None:
    values = [float(word) for word in NORRIS.split()]
    line = fit_line(values[1::2], values[0::2], 0.95)
    assert line is not None and line.slope_interval is not None and line.intercept_interval is not None
    assert line.n == 36
    assert (line.slope, line.intercept, line.r2) == pytest.approx((SLOPE, INTERCEPT, R2), rel=1e-12)
    t = t_quantile(0.95, 34)
    assert line.slope_interval.half_width == pytest.approx(t * SLOPE_SD, rel=1e-10)
    assert line.intercept_interval.half_width == pytest.approx(t * INTERCEPT_SD, rel=1e-10)
    assert line.grows


def test_the_interval_of_the_slope_covers_what_it_promises() -> None:
    rng = random.Random(11)
    x = [1.0, 2.0, 4.0, 8.0, 16.0] * 2
    lines = [fit_line(x, [3 + 0.5 * at + rng.gauss(0, 2) for at in x], 0.95) for _ in range(3000)]
    held = sum(
        line is not None and line.slope_interval is not None and line.slope_interval.holds(0.5) for line in lines
    )
    assert held / len(lines) == pytest.approx(0.95, abs=0.02)


def test_what_is_no_line() -> None:
    assert fit_line([], [], 0.95) is None
    assert fit_line([2.0, 2.0, 2.0], [1.0, 2.0, 3.0], 0.95) is None, "x does not vary"
    through_two = fit_line([1.0, 3.0], [5.0, 9.0], 0.95)
    assert through_two is not None and (through_two.slope, through_two.intercept) == (2.0, 3.0)
    assert through_two.slope_interval is None and not through_two.grows
    flat = fit_line([1.0, 2.0, 3.0], [7.0, 7.0, 7.0], 0.95)
    assert flat is not None and (flat.slope, flat.r2, flat.grows) == (0.0, None, False)
    with pytest.raises(ValueError, match="3 values of x and 2 of y"):
        fit_line([1, 2, 3], [1, 2], 0.95)


def test_a_bend_is_the_coefficient_of_the_square_with_its_interval() -> None:
    rng = random.Random(5)
    x = [6.0, 9.0, 16.0, 25.0] * 3
    y = [3 + 2 * at + 0.1 * at * at + rng.gauss(0, 4) for at in x]
    bend, fit = fit_bend(x, y, 0.9), np.polyfit(x, y, 2, cov=True)
    assert bend is not None and (bend.low + bend.high) / 2 == pytest.approx(fit[0][0], rel=1e-9)
    assert bend.half_width == pytest.approx(t_quantile(0.9, 9) * fit[1][0][0] ** 0.5, rel=1e-9)


def test_a_line_without_noise_does_not_bend_and_too_few_points_tell_nothing() -> None:
    x = [9.0, 16.0, 25.0, 9.0, 16.0, 25.0]
    assert all((bend := fit_bend(x, [0.1 + a * at for at in x], 0.95)) and bend.holds(0) for a in (0.0, 0.1, 1 / 3, 7))
    assert fit_bend(x[:3], x[:3], 0.95) is None and fit_bend([9.0, 16.0] * 4, [1.0] * 8, 0.95) is None
