"""What holds of every analysis of variance: shares that add up, an independent derivation, honest notes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lastro.stats.anova import Anova, Effect, anova
from lastro.stats.notes import Note

Rows = list[tuple[int, ...]]


def crossed(*sizes: int, blocks: int) -> Rows:
    """Block, then one level of each factor."""
    return [(block, *cell) for block in range(blocks) for cell in itertools.product(*map(range, sizes))]


def factors_of(rows: Rows) -> dict[str, list[str]]:
    return {"ABCD"[i - 1]: [f"level {row[i]}" for row in rows] for i in range(1, len(rows[0]))}


def fit(rows: Rows, values: Sequence[float], order: int | None = None, block: bool = True) -> Anova:
    return anova(values, factors_of(rows), block=[row[0] for row in rows] if block else None, order=order)


def noisy(rows: Rows, rng: random.Random) -> list[float]:
    return [rng.gauss(50 + 3 * row[0] + 5 * row[1] - 2 * row[1] * row[2], 2) for row in rows]


def close(first: Anova, second: Anova, scale: float = 1.0) -> None:
    pairs = zip((*first.effects, first.residual), (*second.effects, second.residual), strict=True)
    for a, b in pairs:
        assert (a.factors, a.df) == (b.factors, b.df)
        assert b.ss == pytest.approx(a.ss * scale**2, rel=1e-6, abs=1e-9 * first.total_ss * scale**2)
        assert (a.f is None) == (b.f is None)


@given(st.integers(0, 2**32), st.integers(2, 4), st.integers(2, 3), st.integers(2, 3), st.integers(2, 4))
@settings(deadline=None, max_examples=30)
def test_in_balanced_designs_shares_add_up(seed: int, a: int, b: int, c: int, blocks: int) -> None:
    rows = crossed(a, b, c, blocks=blocks)
    values = noisy(rows, random.Random(seed))
    table = fit(rows, values)
    assert sum(effect.explained for effect in (*table.effects, table.residual)) == pytest.approx(1)
    assert table.notes == ()
    assert sum(effect.df for effect in (*table.effects, table.residual)) == len(rows) - 1


@given(st.integers(0, 2**32), st.floats(-1e6, 1e6), st.sampled_from([1e-9, 0.3, 1e3, 1e12]))
@settings(deadline=None, max_examples=30)
def test_neither_a_constant_nor_a_unit_changes_the_shares(seed: int, shift: float, scale: float) -> None:
    rng = random.Random(seed)
    rows = [row for row in crossed(3, 2, blocks=5) if rng.random() < 0.8 or row[0] == 0]
    values = noisy(rows, rng)
    close(fit(rows, values), fit(rows, [scale * (value + shift) for value in values]), scale)


def residual_ss(rows: Rows, values: Sequence[float], terms: Sequence[tuple[int, ...]]) -> float:
    """Of the model with these terms, by plain least squares on indicator columns: the other way to derive it."""
    columns = [np.ones(len(rows))]
    for term in terms:
        keys = [tuple(row[i] for i in term) for row in rows]
        columns += [np.array([key == level for key in keys], dtype=float) for level in sorted(set(keys))]
    x, y = np.column_stack(columns), np.asarray(values) - np.mean(values)
    beta = np.linalg.lstsq(x, y, rcond=1e-10)[0]
    return float(np.sum((y - x @ beta) ** 2))


TERMS = [(0,), *(term for size in (1, 2, 3) for term in itertools.combinations((1, 2, 3), size))]


def like_nested_models(rows: Rows, values: Sequence[float], table: Anova) -> None:
    for term, effect in zip(TERMS, table.effects, strict=True):
        others = [other for other in TERMS if not set(term) <= set(other)]
        expected = residual_ss(rows, values, others) - residual_ss(rows, values, [*others, term])
        assert effect.ss == pytest.approx(expected, rel=1e-8, abs=1e-8 * table.total_ss), effect.name
    assert table.residual.ss == pytest.approx(residual_ss(rows, values, TERMS), rel=1e-8)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("empty_cells", [False, True])
def test_type_ii_is_the_difference_of_two_nested_models(seed: int, empty_cells: bool) -> None:
    rng = random.Random(seed)
    gone = {(0, 0, 0), (2, 1, 1)} if empty_cells else set()
    rows = [row for row in crossed(3, 2, 2, blocks=6) if row[1:] not in gone and rng.random() < 0.75]
    values = noisy(rows, rng)
    table = fit(rows, values)
    like_nested_models(rows, values, table)
    assert any("percentages add up" in note for note in table.notes)
    assert any("A × B × C (0/2)" in note for note in table.notes) == empty_cells


@pytest.mark.parametrize("per_cell", [1, 3])
def test_the_short_way_of_balanced_designs_ends_where_nested_models_do(per_cell: int) -> None:
    rows = crossed(3, 2, 4, blocks=3) * per_cell
    values = noisy(rows, random.Random(per_cell))
    like_nested_models(rows, values, fit(rows, values))


def effect_of(table: Anova, *factors: str) -> Effect:
    return next(effect for effect in table.effects if effect.factors == factors)


def test_one_trial_less_changes_little_though_it_goes_the_long_way() -> None:
    rows = crossed(3, 2, 2, blocks=40)
    values = noisy(rows, random.Random(3))
    table = fit(rows, values)
    almost = fit(rows[:-1], values[:-1])
    for effect, other in zip(table.effects, almost.effects, strict=True):
        assert other.explained == pytest.approx(effect.explained, abs=0.02)


@pytest.mark.parametrize("lost", [0, 1])
def test_an_effect_that_rounding_alone_makes_is_none(lost: int) -> None:
    """Its size would depend on the processor. The long way needs a lost trial."""
    rows = crossed(3, 2, blocks=7)[lost:]
    table = fit(rows, [(-1) ** row[0] * 10.0 ** (2 * row[0]) for row in rows])
    assert {effect.factors: effect.ss for effect in table.effects if effect.factors[0] in "AB"} == {
        ("A",): 0.0, ("B",): 0.0, ("A", "B"): 0.0
    }  # fmt: skip


def test_without_blocks_one_factor_gives_the_f_test_of_scipy() -> None:
    rng = random.Random(5)
    groups = [[rng.gauss(i, 1) for _ in range(n)] for i, n in enumerate((4, 7, 3))]
    labels = [i for i, group in enumerate(groups) for _ in group]
    effect = effect_of(anova([value for group in groups for value in group], {"group": labels}), "group")
    expected = stats.f_oneway(*groups)
    assert (effect.f, effect.p) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))


def test_effects_that_multiply_are_additive_in_logarithms() -> None:
    rows = crossed(3, 3, blocks=4)
    rng = random.Random(8)
    values = [2.0 ** row[1] * 3.0 ** row[2] * rng.lognormvariate(0, 0.05) for row in rows]
    raw, log = (anova(values, factors_of(rows), log=log) for log in (False, True))
    assert effect_of(raw, "A", "B").explained > 0.05 > effect_of(log, "A", "B").explained
    with pytest.raises(ValueError, match="above 0"):
        anova([1.0, 0.0], {"A": ["x", "y"]}, log=True)


def test_a_lower_order_leaves_interactions_in_the_residual() -> None:
    rows = crossed(2, 2, 2, blocks=3)
    table = fit(rows, noisy(rows, random.Random(1)), order=1)
    assert [effect.name for effect in table.effects] == ["block", "A", "B", "C"]
    assert table.residual.df == 24 - 1 - 2 - 3


def test_interactions_beyond_what_can_be_fitted_are_left_out_and_said() -> None:
    rows = crossed(6, 6, 6, 6, blocks=1)
    table = anova([float(i % 7) for i in range(len(rows))], factors_of(rows))
    assert max(len(effect.factors) for effect in table.effects) == 3
    assert any("more than 3 factors" in note for note in table.notes)


@pytest.mark.parametrize(
    ("values", "levels", "note"),
    [
        ([5.1] * 6, "xxxyyy", "every value is the same"),
        ([1.0, 2.0, 3.0], "xyz", "no degrees of freedom"),
        ([1.0, 2.0, 4.0], "xxx", "A has one level"),
        ([0.1, 0.1, 0.7, 0.7], "xxyy", "residual does not vary: F and p cannot"),
        ([7.0], "x", "every value is the same"),
    ],
)
def test_what_cannot_be_tested_has_no_p_and_a_note(values: list[float], levels: str, note: str) -> None:
    table = anova(values, {"A": list(levels)}, block=["only"] * len(values))
    effect = effect_of(table, "A")
    assert (effect.f, effect.p) == (None, None)
    assert any(note in text for text in table.notes)
    assert any("one block" in text for text in table.notes)


def test_a_factor_with_one_level_does_not_hinder_the_others() -> None:
    rows = crossed(3, 1, blocks=4)
    values = [float(i * i % 11) for i in range(len(rows))]
    table = fit(rows, values)
    assert [(effect.name, effect.df) for effect in table.effects] == [("block", 3), ("A", 2), ("B", 0)]
    assert (
        effect_of(table, "A").p
        == effect_of(anova(values, {"A": [r[1] for r in rows]}, block=[r[0] for r in rows]), "A").p
    )


def test_a_factor_that_goes_with_the_blocks_loses_its_freedom() -> None:
    table = anova([1.0, 2.0, 4.0, 3.0], {"A": list("xxyy")}, block=[1, 1, 2, 2])
    assert effect_of(table, "A").df == 0 and effect_of(table, "A").f is None
    assert any("A (0/1)" in note for note in table.notes)


@pytest.mark.parametrize(
    ("values", "levels"), [([], []), ([1.0, 2.0], ["x"]), ([1.0, float("nan")], ["x", "y"]), ([float("inf")], ["x"])]
)
def test_what_is_no_data_is_refused(values: list[float], levels: list[str]) -> None:
    with pytest.raises(ValueError):
        anova(values, {"A": levels})


def test_a_note_keeps_its_message_for_translation() -> None:
    note = anova([1.0, 2.0, 4.0], {"A": list("xxx")}).notes[0]
    assert isinstance(note, Note) and note == "A has one level: there is nothing to compare"
    assert note.message.format(**note.values) == note


def test_false_positives_come_at_the_nominal_rate() -> None:
    rng = random.Random(11)
    rows = crossed(3, 2, blocks=4)
    rounds = 1200
    hits = dict.fromkeys(("block", "A", "B", "A × B"), 0)
    for _ in range(rounds):
        for effect in fit(rows, [rng.gauss(0, 1) for _ in rows]).effects:
            assert effect.p is not None
            hits[effect.name] += effect.p < 0.05
    assert all(0.034 <= hit / rounds <= 0.068 for hit in hits.values()), hits
