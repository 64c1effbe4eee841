"""Differences of means and adjusted p-values against R, and one rule of pairing for differences and ratios."""

from __future__ import annotations

import random
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastro.stats.adjust import benjamini_hochberg, holm
from lastro.stats.differences import difference_to_baseline, paired_difference, unpaired_difference
from lastro.stats.ratios import ratio_to_baseline
from lastro.stats.student import least_paired_p, least_unpaired_p

# Student's sleep data (Cushny and Peebles 1905), which R ships as `sleep`: extra hours under two drugs, ten patients.
FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_sleep_welch() -> None:
    """R: t.test(extra ~ group, data = sleep)."""
    found = unpaired_difference(FIRST, SECOND, 0.95)
    assert found.interval is not None
    assert found.value == pytest.approx(-1.58)
    assert (found.df, found.p) == pytest.approx((17.776, 0.07939), rel=1e-4)
    assert (found.interval.low, found.interval.high) == pytest.approx((-3.3654832, 0.2054832), abs=1e-7)
    assert found.interval.holds(0)


def test_sleep_paired() -> None:
    """R: t.test(extra ~ group, data = sleep, paired = TRUE), in the R that still took this."""
    found = paired_difference(FIRST, SECOND, 0.95)
    assert found.interval is not None
    assert (found.df, found.p) == pytest.approx((9, 0.002833), abs=5e-7)
    assert (found.interval.low, found.interval.high) == pytest.approx((-2.4598858, -0.7001142), abs=1e-7)
    assert not found.interval.holds(0)


def test_differences_pair_as_ratios_do() -> None:
    cases = [
        ({1: 2.0, 2: 4.2, 3: 5.8, 5: 9.0}, {1: 1.0, 2: 2.0, 3: 3.0, 4: 100.0}, "paired", (3, 3)),
        ({1: 2.0, 2: 2.1, 3: 1.9}, {3: 1.0, 4: 1.1, 5: 0.9}, "unpaired", (3, 3)),
        ({1: 2.0}, {1: 1.0, 2: 1.1}, "unpaired", (1, 2)),
    ]
    for treated, baseline, pairing, n in cases:
        difference, ratio = (rule(treated, baseline, 0.95) for rule in (difference_to_baseline, ratio_to_baseline))
        assert difference is not None and ratio is not None
        assert (difference.pairing, difference.n) == (ratio.pairing, ratio.n) == (pairing, n)
    assert difference_to_baseline({}, {1: 1.0}, 0.95) is None


def test_one_value_has_neither_interval_nor_p() -> None:
    for difference in (paired_difference([3.0], [4.0], 0.95), unpaired_difference([3.0], [4.0, 4.1], 0.95)):
        assert (difference.interval, difference.p, difference.df) == (None, None, None)
        assert difference.absent_because is not None and "n = 1" in difference.absent_because


def test_p_and_interval_agree_where_nothing_varies() -> None:
    for function, least in ((paired_difference, 2 / 2**6), (unpaired_difference, 2 / 924)):
        apart, same = function([3.0] * 6, [4.0] * 6, 0.95), function([3.0] * 6, [3.0] * 6, 0.95)
        assert (apart.value, apart.p) == (-1, pytest.approx(least))
        assert (same.value, same.p) == (0, 1)


def test_two_identical_differences_are_no_proof() -> None:
    """0.012 - 0.013 and 0.010 - 0.011 are not the same in binary: rounding is no spread."""
    found = difference_to_baseline({1: 0.010, 2: 0.012}, {1: 0.011, 2: 0.013}, 0.95)
    assert found is not None and found.p == 0.5
    rounded = paired_difference([0.1 + 0.2, 0.1 + 0.2], [0.3, 0.3], 0.95)
    assert (rounded.value, rounded.p) == (0, 1)


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("difference", [paired_difference, unpaired_difference])
def test_values_of_few_steps_keep_the_rate_of_a_family(difference, n: int) -> None:
    """Sixty treatments as good as their baselines, all values 10 or 11 by chance, corrected by Holm."""
    rng, wrong, families = random.Random(n), 0, 100
    for _ in range(families):
        drawn = [[[float(rng.choice((10, 11))) for _ in range(n)] for _ in "ab"] for _ in range(60)]
        wrong += min(p or 1 for p in holm([difference(a, b, 0.95).p for a, b in drawn])) < 0.05
    assert wrong / families <= 0.05


@pytest.mark.parametrize("n", [2, 3, 4])
def test_least_p_is_that_of_the_exact_permutation_test(n: int) -> None:
    """Every way to share out the values of two constant samples, and every sign of identical differences."""
    pool = [1.0] * n + [2.0] * n
    ways = [sum(pool[at] for at in chosen) for chosen in combinations(range(2 * n), n)]
    assert least_unpaired_p((n, n)) == pytest.approx(sum(abs(w - 1.5 * n) == n / 2 for w in ways) / len(ways))
    signs = [sum(way) for way in product((-1, 1), repeat=n)]
    assert least_paired_p(n) == sum(abs(way) == n for way in signs) / len(signs)
    assert least_unpaired_p((9, n, 5)) == least_unpaired_p((n, 5)) and least_unpaired_p((n,)) == least_paired_p(n)


def test_tiny_variances_do_not_underflow() -> None:
    found = unpaired_difference([1e-160, 2e-160, 3e-160], [1e-160, 2e-160, 4e-160], 0.95)
    assert found.interval is not None and found.df is not None


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12), st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12))
def test_p_is_under_5_percent_exactly_when_the_95_percent_interval_excludes_zero(
    a: list[float], b: list[float]
) -> None:
    found = unpaired_difference(a, b, 0.95)
    assert found.p is not None and found.interval is not None
    if abs(found.p - 0.05) > 1e-9 and found.interval.half_width:
        assert (found.p < 0.05) != found.interval.holds(0)


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
