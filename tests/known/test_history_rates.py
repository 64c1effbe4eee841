"""What `lastro history` promises, in fewer worlds than benches/history_rates.py has."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from benches import history_rates as bench

from lastro.stats.change_points import change_points

pytestmark = pytest.mark.computes


@pytest.mark.parametrize(("n_series", "worlds"), [(1, 6000), (20, 1500)])
def test_false_changes_are_as_rare_as_the_documentation_states(n_series: int, worlds: int) -> None:
    text = (Path(__file__).parents[2] / "docs" / "howto-history.md").read_text(encoding="utf-8")
    (stated,) = re.findall(rf"^\| normal \| {n_series} \| ([\d.]+) \|$", text, re.MULTILINE)
    seen = bench.false_changes(np.random.default_rng(1), "normal", worlds, n_series)
    assert seen <= 1.0
    assert seen == pytest.approx(float(stated), rel=0.25), "some 100 to 400 false changes: twice their standard error"


def test_the_documentation_states_the_sizes_of_the_bench() -> None:
    text = " ".join((Path(__file__).parents[2] / "docs" / "howto-history.md").read_text(encoding="utf-8").split())
    normal, heavy, dependent = (
        {f"{1000 * share * n_series:,}" for kind, n_series, share in bench.FAMILIES if kind == noise}
        for noise in ("normal", "heavy tails", "depends on the last")
    )
    (sizes,) = re.findall(r"([\d,]+) series of 100 campaigns, ([\d,]+) with heavy tails, ([\d,]+) that depend", text)
    assert [normal, heavy, dependent] == [{size} for size in sizes]


def test_no_change_is_missed_by_looking_only_where_one_may_be() -> None:
    rng = np.random.default_rng(5)
    values = np.array([bench.series(rng, 20, 0.01, "depends on the last") for _ in range(300)])
    seen = [at for at, each in enumerate(values) if change_points(each.tolist(), 0.05, 0.95)]
    assert len(seen) > 20 and set(seen) <= set(bench.may_change(values, 0.05))


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
