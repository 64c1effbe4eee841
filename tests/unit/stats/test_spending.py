"""The levels of looks: published boundaries, and how often a random walk crosses them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from lastro.stats.spending import nominal_level, spent


def levels(n_looks: int, alpha: float) -> list[float]:
    fractions = tuple((at + 1) / n_looks for at in range(n_looks))
    return [nominal_level(fractions[: at + 1], alpha) for at in range(n_looks)]


def test_boundaries_are_those_of_lan_and_demets() -> None:
    """Five looks, as `bounds(1:5/5, iuse = 2, alpha = 0.025)` of the R package ldbounds prints them."""
    published = [2.4380, 2.4268, 2.4101, 2.3966, 2.3859]
    assert [-norm.ppf(level) for level in levels(5, 0.025)] == pytest.approx(published, abs=5e-4)


def test_one_look_has_the_whole_error_and_all_of_it_is_spent_at_the_end() -> None:
    assert nominal_level((1.0,), 0.05) == pytest.approx(0.05)
    assert spent(1.0, 0.05) == pytest.approx(0.05) and spent(0.5, 0.05) == pytest.approx(0.031, abs=5e-4)
    assert sum(levels(12, 0.05)) > 0.05, "looks at the same data do not err independently"


@pytest.mark.parametrize("fractions", [(0.2, 0.25, 0.3, 1.0), (1 / 6, 1 / 4, 1 / 3, 1 / 2)])
def test_a_walk_crosses_as_often_as_is_spent(fractions: tuple[float, ...]) -> None:
    rng = np.random.default_rng(1983)
    steps = rng.standard_normal((200_000, len(fractions))) * np.sqrt(np.diff((0.0, *fractions)))
    z = np.cumsum(steps, axis=1) / np.sqrt(fractions)
    bounds = [-norm.ppf(nominal_level(fractions[: at + 1], 0.05)) for at in range(len(fractions))]
    assert (z > bounds).any(axis=1).mean() == pytest.approx(spent(fractions[-1], 0.05), abs=0.0015)


@pytest.mark.parametrize("fractions", [(0.5, 0.5), (0.5, 0.4), (0.0, 1.0), (1.1,)])
def test_fractions_must_grow_to_one_at_most(fractions: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="grow to 1"):
        nominal_level(fractions, 0.05)
