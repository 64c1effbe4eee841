"""Checks of residuals: they pass what the model assumes at the rate they state, and see what it does not."""

from __future__ import annotations

import random

import pytest
from scipy import stats

from lastro.stats.anova import anova
from lastro.stats.residual_checks import LOGS_FIT_BETTER, ResidualChecks, check_residuals, log_advantage

GROUPS = [[3.1, 4.0, 5.2, 4.4, 2.0], [1.0, 9.0, 2.5, 6.1], [7.0, 7.5, 7.1, 6.9, 9.9, 7.2]]


def check_groups(groups: list[list[float]]) -> ResidualChecks:
    """Checks of independent samples, around the mean of each."""
    labels = [at for at, group in enumerate(groups) for _ in group]
    return check_residuals(anova([value for group in groups for value in group], {"group": labels}))


def test_shapiro_is_of_the_residuals_and_not_of_the_values() -> None:
    residuals = [value - sum(group) / len(group) for group in GROUPS for value in group]
    found = check_groups(GROUPS)
    assert found.shapiro_p == pytest.approx(stats.shapiro(residuals).pvalue)


@pytest.mark.parametrize(("shift", "scale"), [(0, 1e-12), (1e6, 1.0), (0, 1e12)])
def test_neither_a_constant_nor_a_unit_changes_the_checks(shift: float, scale: float) -> None:
    moved = check_groups([[shift + scale * value for value in group] for group in GROUPS])
    same = check_groups(GROUPS)
    assert moved.shapiro_p == pytest.approx(same.shapiro_p, rel=1e-5)


def test_points_of_the_quantile_plot_rise_and_are_symmetric() -> None:
    points = check_groups(GROUPS).points
    assert len(points) == 15
    assert list(points) == sorted(points)
    assert [x for x, _ in points] == pytest.approx([-x for x, _ in reversed(points)])
    assert points[7][0] == pytest.approx(0)


def test_heavy_tails_are_seen() -> None:
    rng = random.Random(2)
    tails = check_groups([[rng.lognormvariate(0, 1) for _ in range(40)] for _ in range(3)])
    assert tails.looks_normal is False and tails.outliers


def test_an_outlier_is_named_by_its_position() -> None:
    rng = random.Random(4)
    values = [rng.gauss(0, 1) for _ in range(30)]
    values[17] = 12.0
    table = anova(values, {"A": [i % 2 for i in range(30)]})
    assert check_residuals(table).outliers == (17,)


def test_normal_residuals_of_a_factorial_with_blocks_pass_at_the_stated_rate() -> None:
    rng = random.Random(6)
    rows = [(block, a, b) for block in range(6) for a in range(3) for b in range(2)]
    rounds, normal, outliers = 800, 0, 0
    for _ in range(rounds):
        values = [rng.gauss(3 * block + a * b, 1) for block, a, b in rows]
        factors = {"A": [a for _, a, _ in rows], "B": [b for _, _, b in rows]}
        checks = check_residuals(anova(values, factors, block=[r[0] for r in rows]))
        normal += checks.looks_normal is False
        outliers += bool(checks.outliers)
    assert normal / rounds < 0.07 and outliers / rounds < 0.07


@pytest.mark.parametrize(
    ("groups", "note"),
    [
        ([[1.0, 1.0], [2.0, 2.0]], "the residuals do not vary"),
        ([[1.0, 2.0]], "3 to 5000 residuals, and there are 2"),
    ],
)
def test_what_cannot_be_checked_is_none_and_says_why(groups: list[list[float]], note: str) -> None:
    found = check_groups(groups)
    assert any(note in text for text in found.notes)
    assert found.shapiro_p is None and found.looks_normal is None


def test_a_constant_campaign_is_not_checked() -> None:
    table = anova([0.1, 0.1, 0.7, 0.7], {"A": list("xxyy")})
    checks = check_residuals(table)
    assert checks.looks_normal is None and checks.points == () and checks.notes


def test_more_residuals_than_the_test_is_made_for_leave_the_plot() -> None:
    rng = random.Random(1)
    found = check_groups([[rng.gauss(0, 1) for _ in range(5001)]])
    assert found.shapiro_p is None and len(found.points) == 5001 and found.looks_normal is None


def crossed(rng: random.Random, multiplies: bool) -> tuple[list[float], dict[str, list[int]], list[int]]:
    rows = [(block, a, b) for block in range(5) for a in range(3) for b in range(3)]
    values = [
        3.0**a * 2.0**b * rng.lognormvariate(0, 0.2) if multiplies else 100 + 40 * a + 25 * b + rng.gauss(0, 5)
        for _, a, b in rows
    ]
    return values, {"A": [a for _, a, _ in rows], "B": [b for _, _, b in rows]}, [block for block, _, _ in rows]


def advantage(values: list[float], factors: dict[str, list[int]], block: list[int] | None = None) -> float | None:
    plain, of_logs = (anova(values, factors, block=block, order=1, log=log) for log in (False, True))
    return log_advantage(plain, of_logs, values)


@pytest.mark.parametrize("seed", range(5))
def test_logarithms_are_advised_where_effects_multiply_and_only_there(seed: int) -> None:
    rng = random.Random(seed)
    values, factors, block = crossed(rng, multiplies=True)
    assert (advantage(values, factors, block) or 0) > LOGS_FIT_BETTER
    values, factors, block = crossed(rng, multiplies=False)
    assert (advantage(values, factors, block) or 0) < -LOGS_FIT_BETTER


def test_the_advantage_of_logarithms_is_box_and_coxs_profile_and_free_of_units() -> None:
    rng = random.Random(9)
    values = [rng.lognormvariate(1, 0.6) for _ in range(40)]
    expected = stats.boxcox_llf(0, values) - stats.boxcox_llf(1, values)
    assert advantage(values, {}) == pytest.approx(float(expected))
    assert advantage([1e-9 * value for value in values], {}) == pytest.approx(float(expected))


def test_the_advantage_of_logarithms_is_absent_where_nothing_is_left_to_explain() -> None:
    assert advantage([2.0, 2.0, 2.0, 2.0], {"A": [1, 1, 2, 2]}) is None
