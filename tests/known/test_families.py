"""Families of comparisons: Tukey's and Dunnett's tables, and that a mark and its interval never disagree."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtr

from lastro.stats.block_model import BlockModel, CellEstimate
from lastro.stats.contrasts import compare
from lastro.stats.families import Family, judge
from lastro.stats.intervals import t_quantile


def errors(weights: list[list[float]]) -> list[npt.NDArray[np.float64]]:
    """Errors of estimates from cells that are equally noisy, as vectors of length one."""
    rows = np.array(weights, dtype=float)
    return list(rows / np.linalg.norm(rows, axis=1)[:, None])


def estimates(weights: list[list[float]], df: float, values: list[float]) -> list[CellEstimate]:
    """Estimates with one standard error."""
    return [
        CellEstimate(value, 1.0, df, error, 0.0, 0.01, 10, True)
        for error, value in zip(errors(weights), values, strict=True)
    ]


def against_first(k: int) -> list[list[float]]:
    return [[-1.0] + [float(i == at) for i in range(k)] for at in range(k)]


def all_pairs(k: int) -> list[list[float]]:
    return [[float(i == a) - float(i == b) for i in range(k)] for a, b in combinations(range(k), 2)]


@pytest.mark.parametrize(
    ("k", "df", "q"), [(3, 27, 3.506), (3, 4, 5.040), (5, 10, 4.654), (10, 20, 5.008), (20, 120, 5.126)]
)
def test_all_pairs_have_tukeys_critical_value(k: int, df: float, q: float) -> None:
    """The tables of the studentized range."""
    assert Family(errors(all_pairs(k))).critical(0.95, df) * np.sqrt(2) == pytest.approx(q, rel=0.005)


@pytest.mark.parametrize(
    ("k", "df", "critical"), [(2, 10, 2.57), (5, 10, 2.99), (9, 10, 3.24), (2, 20, 2.38), (5, 20, 2.73), (9, 20, 2.95)]
)
def test_comparisons_with_one_reference_have_dunnetts(k: int, df: float, critical: float) -> None:
    """Dunnett, Biometrics 20 (1964) 482-491, two-sided at 5 %."""
    assert Family(errors(against_first(k))).critical(0.95, df) == pytest.approx(critical, rel=0.006)


def test_one_comparison_is_students_and_many_of_one_thing_are_one() -> None:
    family = Family(errors([[1, -1]]))
    assert family.critical(0.95, 7) == t_quantile(0.95, 7)
    assert family.p(2.0, 7) == pytest.approx(2 * float(stdtr(7, -2.0)))
    assert Family(errors([[1, -1], [2, -2]])).critical(0.95, 7) == t_quantile(0.95, 7)


def test_far_from_zero_p_is_nearly_bonferronis_and_never_above() -> None:
    family, alone = Family(errors(against_first(5))), 2 * float(stdtr(20, -6.0))
    assert alone < family.p(6.0, 20) <= 5 * alone
    assert family.p(6.0, 20) > 4 * alone


def test_an_estimate_without_error_does_not_count() -> None:
    known = estimates(all_pairs(3), 10, [5.0, 0.0, 1.0])
    unknown = CellEstimate(3.0, None, 0.0, None, 0.0, 0.5, 1, True)
    with_gap = judge([known[0], unknown, *known[1:]], 0.95)
    assert with_gap[1].p is None and with_gap[1].critical is None
    assert [with_gap[0], *with_gap[2:]] == list(judge(known, 0.95))
    assert judge([], 0.95) == ()


def test_paired_and_unpaired_comparisons_make_one_family() -> None:
    rng = random.Random(6)
    cells = {c: {b: 10 + rng.gauss(0, 1) for b in range(4)} for c in "abc"} | {"d": {b: 9.0 + b for b in range(7, 11)}}
    model = BlockModel.of(cells)
    assert model is not None
    found = compare(model, [({c: 1.0}, {"a": 1.0}) for c in "bcd"], 0.95)
    assert [one.ratio.pairing for one in found] == ["paired", "paired", "unpaired"]
    assert all(one.p is not None and one.p_adjusted is not None and one.p_adjusted > one.p for one in found)


def test_a_screening_has_as_many_false_marks_as_it_says() -> None:
    """Of 40 comparisons 20 differ: among those that are marked, at most 5 % on average are false ones."""
    rng, wrong = np.random.default_rng(2), []
    for _ in range(150):
        truth = np.array([0.0] * 20 + [4.0] * 20)
        found = judge(
            estimates(np.eye(40).tolist(), 30, (truth + rng.standard_t(30, 40)).tolist()), 0.95, planned=False
        )
        marked = [at for at, one in enumerate(found) if one.p_adjusted is not None and one.p_adjusted < 0.05]
        wrong.append(sum(at < 20 for at in marked) / max(1, len(marked)))
    assert 0.01 < np.mean(wrong) < 0.045


@given(
    st.integers(2, 6),
    st.integers(2, 5),
    st.integers(0, 10_000),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.9, 0.95]),
)
@settings(deadline=None, max_examples=80)
def test_a_mark_and_its_intervals_never_disagree(
    n_cells: int, n_blocks: int, seed: int, planned: bool, rounded: bool, confidence: float
) -> None:
    rng = random.Random(seed)
    spread = rng.choice((0.01, 0.1, 0.5))
    cells = {
        c: {b: (10 + c % 3) * max(0.01, 1 + spread * rng.gauss(0, 1)) for b in range(n_blocks) if rng.random() < 0.9}
        for c in range(n_cells)
    }
    cells = {c: {b: round(v, 1) if rounded else v for b, v in own.items()} for c, own in cells.items() if own}
    model = BlockModel.of(cells)
    if model is None or len(cells) < 2:
        return
    sides = [({a: 1.0}, {b: 1.0}) for b, a in combinations(cells, 2)]
    for found in compare(model, sides, confidence, planned=planned):
        for contrast, nothing in ((found.ratio, 1.0), (found.difference, 0.0)):
            if contrast.interval is not None and found.p_adjusted is not None:
                close = abs(found.p_adjusted - (1 - confidence)) < 1e-6
                assert close or (found.p_adjusted < 1 - confidence) != contrast.interval.holds(nothing)
            else:
                assert contrast.absent_because is not None
        reverse = found.reversed()
        assert reverse.p_adjusted == found.p_adjusted
        if reverse.ratio.interval is not None and found.ratio.interval is not None:
            assert reverse.ratio.interval.holds(1.0) == found.ratio.interval.holds(1.0)
