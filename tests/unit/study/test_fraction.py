"""Fractions of a factorial, and what they measure together."""

from __future__ import annotations

from lastro.study.fraction import FULL, Fraction


def test_a_half_measures_each_effect_together_with_another_and_a_full_factorial_none() -> None:
    half = Fraction(("a", "b", "c"), (frozenset("abc"),))
    assert half.chains() == {"a": "b × c", "b": "a × c", "c": "a × b"}
    assert Fraction(("a", "b")).chains() == FULL.chains() == {}
