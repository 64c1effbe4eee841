"""Rank tests, shifts and Cliff's delta against the examples of Hollander and Wolfe (1973), as R prints them."""

from __future__ import annotations

import itertools
import random

import pytest

from lastro.stats import rank_distributions
from lastro.stats.rank_distributions import mann_whitney_order, mid_ranks, signed_rank_order
from lastro.stats.ranks import (
    cliffs_delta,
    hodges_lehmann,
    mann_whitney,
    paired_hodges_lehmann,
    wilcoxon_signed_rank,
)

# Permeability of the chorioamnion at term and at 12 to 26 weeks (p. 69f).
AT_TERM = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
EARLY = [1.15, 0.88, 0.90, 0.74, 1.21]
# Hamilton depression scale before and after a tranquillizer (p. 29f).
BEFORE = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
AFTER = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]


def test_permeability_mann_whitney() -> None:
    test = mann_whitney(AT_TERM, EARLY)
    assert test.statistic == 35
    assert test.p == pytest.approx(0.2544, abs=5e-5), "twice the one-sided 0.1272"


def test_permeability_shift() -> None:
    shift = hodges_lehmann(AT_TERM, EARLY, 0.95)
    assert shift.value == pytest.approx(0.305)
    assert shift.interval is not None
    assert (shift.interval.low, shift.interval.high) == pytest.approx((-0.15, 0.76))
    assert shift.interval.confidence == pytest.approx(0.96, abs=5e-3)


def test_depression_signed_rank() -> None:
    test = wilcoxon_signed_rank(BEFORE, AFTER)
    assert (test.statistic, test.n) == (40, (9,))
    assert test.p == pytest.approx(2 * 0.01953, abs=2e-5)


def test_depression_shift() -> None:
    shift = paired_hodges_lehmann(AFTER, BEFORE, 0.95)
    assert shift.value == pytest.approx(-0.46)
    assert shift.interval is not None
    assert (shift.interval.low, shift.interval.high) == pytest.approx((-0.786, -0.010))
    assert shift.interval.confidence == pytest.approx(1 - 2 * 10 / 512)


def test_ties_against_scipy() -> None:
    from scipy import stats

    rng = random.Random(4)
    a, b = ([float(rng.randint(0, 9)) for _ in range(40)] for _ in range(2))
    u = stats.mannwhitneyu(a, b, method="asymptotic")
    assert (mann_whitney(a, b).statistic, mann_whitney(a, b).p) == pytest.approx((u.statistic, u.pvalue))
    a, b = ([float(rng.randint(0, 9)) for _ in range(90)] for _ in range(2))
    v = stats.wilcoxon(a, b, correction=True, method="asymptotic")
    assert wilcoxon_signed_rank(a, b).p == pytest.approx(v.pvalue)


def test_exact_with_ties_is_what_counting_all_permutations_gives() -> None:
    a, b = [1.0, 2.0, 2.0, 5.0], [2.0, 3.0, 5.0, 5.0, 7.0]
    ranks = mid_ranks([*a, *b])
    observed = sum(ranks[:4])
    sums = [sum(chosen) for chosen in itertools.combinations(ranks, 4)]
    tail = min(sum(s <= observed for s in sums), sum(s >= observed for s in sums)) / len(sums)
    assert mann_whitney(a, b).p == pytest.approx(2 * tail)

    differences = [1.0, 1.0, -2.0, 3.0, 3.0, 4.0]
    ranks = mid_ranks([abs(d) for d in differences])
    observed = sum(rank for rank, d in zip(ranks, differences, strict=True) if d > 0)
    sums = [sum(itertools.compress(ranks, signs)) for signs in itertools.product((0, 1), repeat=6)]
    tail = min(sum(s <= observed for s in sums), sum(s >= observed for s in sums)) / len(sums)
    assert wilcoxon_signed_rank([*differences, 9.0], [0.0] * 6 + [9.0]).p == pytest.approx(2 * tail)


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_exact_and_approximate_meet_where_one_takes_over(confidence: float, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = [*mann_whitney_order(25, 25, confidence), *signed_rank_order(50, confidence)]
    monkeypatch.setattr(rank_distributions, "EXACT_BOTH", 0)
    monkeypatch.setattr(rank_distributions, "EXACT_PAIRS", 0)
    approximate = [*mann_whitney_order(25, 25, confidence), *signed_rank_order(50, confidence)]
    assert approximate == pytest.approx(exact, abs=3)


@pytest.mark.parametrize(("m", "n"), [(3, 3), (2, 7), (1, 30)])
def test_too_few_values_for_an_interval_of_the_shift(m: int, n: int) -> None:
    shift = hodges_lehmann([float(x) for x in range(m)], [float(x) for x in range(n)], 0.95)
    assert shift.interval is None


def test_pairs_need_six_for_95_percent() -> None:
    five, six = ([float(x) for x in range(n)] for n in (5, 6))
    shift = paired_hodges_lehmann(five, [0.0] * 5, 0.95)
    assert shift.interval is None
    interval = paired_hodges_lehmann(six, [0.0] * 6, 0.95).interval
    assert interval is not None and (interval.low, interval.high) == (0, 5)


def test_cliffs_delta_of_samples_apart_keeps_an_interval_of_some_width() -> None:
    apart = cliffs_delta([5.0, 6.0, 7.0, 8.0, 9.0], [0.0, 1.0, 2.0, 3.0, 4.0], 0.95)
    assert apart.value == 1 and apart.interval is not None
    assert 0 < apart.interval.low < 0.7 and apart.interval.high == pytest.approx(1)
    equal = cliffs_delta([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], 0.95)
    assert equal.value == 0 and equal.interval is not None
    assert equal.interval.low == pytest.approx(-equal.interval.high)
    mirrored = cliffs_delta(AT_TERM, EARLY, 0.95), cliffs_delta(EARLY, AT_TERM, 0.95)
    assert mirrored[0].value == pytest.approx(2 * 35 / 50 - 1)
    assert mirrored[0].interval is not None and mirrored[1].interval is not None
    assert mirrored[0].interval.low == pytest.approx(-mirrored[1].interval.high)


def test_what_no_rank_can_tell() -> None:
    assert mann_whitney([], [1.0]).p is None
    assert mann_whitney([2.0] * 4, [2.0] * 4).p == 1
    assert mann_whitney([2.0] * 40, [2.0] * 40).p == 1
    assert wilcoxon_signed_rank([2.0] * 4, [2.0] * 4).p is None
    assert cliffs_delta([1.0], [0.0, 2.0], 0.95).interval is None
    for function in (hodges_lehmann, paired_hodges_lehmann, cliffs_delta):
        with pytest.raises(ValueError, match="no values"):
            function([], [], 0.95)
