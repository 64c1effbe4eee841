"""Interactions: the contrasts by which they are judged, also in designs with missing treatments and in fractions."""

from __future__ import annotations

import itertools

import pytest
from benches import statistics_promises as promises

from lastro.analysis.factorial import contrasts_of
from lastro.analysis.metric_values import MetricValues

LEVELS = {"a": "012", "b": "01", "c": "01"}


def values(*missing: tuple[str, str, str], once: tuple[str, str, str] | None = None) -> MetricValues:
    """A 3 × 2 × 2 design in two blocks without some treatments, and with one value of another."""
    rows = [row for row in itertools.product(*LEVELS.values()) if row not in missing]
    cells = {at: {1: 1.0} if row == once else {1: 1.0, 2: 2.0} for at, row in enumerate(rows)}
    levels = {at: dict(zip(LEVELS, row, strict=True)) for at, row in enumerate(rows)}
    factors = {name: tuple(own) for name, own in LEVELS.items()}
    return MetricValues(cells, levels, factors, dict.fromkeys(LEVELS, "0"), 0.95)


def contrasts(data: MetricValues, first: str, second: str) -> list[dict[tuple[str, ...], float]]:
    found = contrasts_of(data, first, second)
    return [{tuple(data.levels[cell].values()): weight for cell, weight in weights.items()} for weights in found]


def test_a_contrast_is_the_difference_of_two_differences() -> None:
    for row, own in zip("12", contrasts(values(), "a", "b"), strict=True):
        one, two = (row, "1"), (row, "0")
        assert own == {
            **{(*one, c): 0.5 for c in "01"}, **{(*two, c): -0.5 for c in "01"},
            **{("0", "1", c): -0.5 for c in "01"}, **{("0", "0", c): 0.5 for c in "01"},
        }  # fmt: skip


@pytest.mark.parametrize("lost", [{"missing": ("0", "1", "0")}, {"once": ("0", "1", "0")}])
def test_only_conditions_with_all_four_treatments_count(lost: dict[str, tuple[str, str, str]]) -> None:
    data = values(lost["missing"]) if "missing" in lost else values(once=lost["once"])
    for own in contrasts(data, "a", "b"):
        assert set(own) == {(a, b, "1") for a, b, _ in own} and sorted(own.values()) == [-1, -1, 1, 1]


def test_without_the_reference_levels_meet_an_earlier_level() -> None:
    data = values(("0", "0", "0"), ("0", "0", "1"))
    (own,) = contrasts(data, "a", "b")
    assert {row[0] for row in own} == {"1", "2"}


def test_a_fraction_is_averaged_over_the_factors_that_it_halves() -> None:
    rows = promises.treatments(promises.FRACTIONS["half of 2^4"])
    data = promises.of_fraction(promises.FRACTIONS["half of 2^4"], promises.np.ones((len(rows), 2)))
    (own,) = contrasts_of(data, "a", "b")
    assert sorted(own.values()) == [-0.5] * 4 + [0.5] * 4
    for cell, weight in own.items():
        assert (weight > 0) == (rows[cell]["a"] == rows[cell]["b"])


def test_one_noisy_treatment_makes_few_false_interactions() -> None:
    """By the F test of an analysis of variance, which has one variance for all treatments, 14.5 % had one."""
    assert promises.of_factorial("one 5 times as noisy", (4, 3), 0.0, 5, 60) <= 0.1
    assert promises.of_factorial("one 5 times as noisy", (4, 3), 0.1, 5, 30) >= 0.4
