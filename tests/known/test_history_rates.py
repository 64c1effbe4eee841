"""What `lastro history` promises, in fewer worlds than benches/history_rates.py has."""

from __future__ import annotations

import numpy as np
import pytest
from benches import history_rates as bench

from lastro.stats.change_points import change_points

pytestmark = pytest.mark.computes


def test_at_most_one_false_change_in_a_thousand_campaigns() -> None:
    rng = np.random.default_rng(1)
    assert bench.false_changes(rng, "normal", 60) <= 1.0
    assert bench.false_changes(rng, "normal", 3, n_series=20) <= 1.0


def test_a_step_is_found_within_three_campaigns() -> None:
    seen = list(bench.found(np.random.default_rng(2), 0.009, 10, 3, 300))
    assert sum(each is not None for each in seen) >= 0.95 * len(seen)
    known = [each for each in seen if each is not None]
    assert sum(each.first <= 10 <= each.last for each in known) >= 0.95 * len(known)
    assert sum(bool(each.ratio.interval and each.ratio.interval.holds(1.05)) for each in known) >= 0.9 * len(known)


def test_two_steps_are_told_apart() -> None:
    rng = np.random.default_rng(3)
    values = [100 * level * (1 + 0.005 * rng.standard_normal()) for level in [1.0] * 12 + [1.05] * 8 + [0.97] * 9]
    found = change_points(values, 0.01, 0.95)
    assert [each.at for each in found] == [12, 20]
    assert [round(each.before / 100, 2) for each in found] == [1.0, 1.05]


def test_an_outlier_and_the_newest_two_are_no_change() -> None:
    rng = np.random.default_rng(4)
    values = (100 + 0.5 * rng.standard_normal(20)).tolist()
    assert not change_points([*values[:10], 180.0, *values[10:]], 0.01, 0.95)
    assert not change_points([*values, 150.0, 150.1], 0.01, 0.95)
    assert [each.at for each in change_points([*values, 150.0, 150.1, 149.8], 0.01, 0.95)] == [20]


@pytest.mark.parametrize("values", [[], [1.0], [5.0] * 30, [1e30] * 12, [0.0] * 12])
def test_nothing_changes_where_nothing_varies(values: list[float]) -> None:
    assert change_points(values, 0.01, 0.95) == ()


def test_without_any_noise_a_change_needs_as_many_values_as_chance_would() -> None:
    """Quantised values are easily equal: the p of three equal values is not 0, but that of a permutation."""
    assert not change_points([3.0] * 10 + [4.0] * 3, 0.001, 0.95)
    (found,) = change_points([3.0] * 20 + [4.0] * 20, 0.001, 0.95)
    assert (found.at, found.first, found.last, found.before, found.after) == (20, 20, 20, 3.0, 4.0)
