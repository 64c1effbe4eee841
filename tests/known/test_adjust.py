"""Adjusted p-values against R, and the least p of values without a spread."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import compare
from lastro.stats.families import benjamini_hochberg, holm
from lastro.stats.student import least_paired_p, least_unpaired_p

from ..support.products import combinations


@pytest.mark.parametrize(("n", "n_treatments"), combinations((2, 3, 5), (12, 40)))
def test_values_of_few_steps_keep_the_rate_of_a_family(n: int, n_treatments: int) -> None:
    """Treatments as good as their baseline, all values 10 or 11 by chance: planned comparisons, and a screening."""
    rng, wrong, families = random.Random(n), 0, 100
    for _ in range(families):
        cells = {at: {b: float(rng.choice((10, 11))) for b in range(n)} for at in range(n_treatments + 1)}
        model = BlockModel.of(cells)
        assert model is not None
        found = compare(
            model, [({at: 1.0}, {0: 1.0}) for at in range(1, n_treatments + 1)], 0.95, planned=n_treatments < 20
        )
        wrong += any(one.differs(0.05) for one in found)
    assert wrong / families <= 0.115, "5 % and three standard errors"


@pytest.mark.parametrize("n", [2, 3, 4])
def test_least_p_is_that_of_the_exact_permutation_test(n: int) -> None:
    """Every way to share out the values of two constant samples, and every sign of identical differences."""
    pool = [1.0] * n + [2.0] * n
    ways = [sum(pool[at] for at in chosen) for chosen in itertools.combinations(range(2 * n), n)]
    assert least_unpaired_p((n, n)) == pytest.approx(sum(abs(w - 1.5 * n) == n / 2 for w in ways) / len(ways))
    signs = [sum(way) for way in itertools.product((-1, 1), repeat=n)]
    assert least_paired_p(n) == sum(abs(way) == n for way in signs) / len(signs)
    assert least_unpaired_p((9, n, 5)) == least_unpaired_p((n, 5)) and least_unpaired_p((n,)) == least_paired_p(n)


PS = [0.01, 0.02, 0.03, 0.04, 0.05]


def test_holm_and_benjamini_hochberg_as_r_adjusts() -> None:
    """R: p.adjust(1:5 / 100, "holm") and "BH"; Benjamini and Hochberg's own example (1995, section 4.1)."""
    assert holm(PS) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert benjamini_hochberg(PS) == pytest.approx([0.05] * 5)
    fifteen = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
        0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0,
    ]  # fmt: skip
    rejected = [p for p, adjusted in zip(fifteen, benjamini_hochberg(fifteen), strict=True) if (adjusted or 0) <= 0.05]
    assert rejected == fifteen[:4]
    assert sum((p or 0) <= 0.05 for p in holm(fifteen)) == 3


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_tests_that_were_not_made_do_not_count(adjust) -> None:
    with_gaps = adjust([None, 0.03, None, 0.01, 0.02, 0.05, 0.04])
    assert with_gaps[0] is None and with_gaps[2] is None
    assert [p for p in with_gaps if p is not None] == pytest.approx([adjust(PS)[at] for at in (2, 0, 1, 4, 3)])
    assert adjust([]) == [] and adjust([None]) == [None] and adjust([0.7]) == [0.7]


@given(st.lists(st.floats(0, 1), max_size=20))
def test_adjusting_lowers_no_p_and_keeps_their_order(ps: list[float]) -> None:
    for adjust in (holm, benjamini_hochberg):
        adjusted = [p for p in adjust(ps) if p is not None]
        assert all(p * (1 - 1e-12) <= after <= 1 for p, after in zip(ps, adjusted, strict=True))
        in_order = [after for _, after in sorted(zip(ps, adjusted, strict=True))]
        assert in_order == sorted(in_order)
