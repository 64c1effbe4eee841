"""The noise floor covers what it says, and the rate of false positives is the stated one: by simulation."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from lastro.analysis.noise_floor import Floor, kept_floors
from lastro.errors import InputError
from lastro.stats.noise_floor import _pseudo_experiments, hides, noise_floor, pairs_of, rate, rescaled, scaled, toss
from lastro.stats.ratios import paired_ratio
from lastro.study.aa_study import aa_study, first_treatments
from lastro.study.design import treatments
from lastro.study.model import Exclusion

from ..campaigns import SMALL, make_study

Pairs = list[tuple[float, float]]


def aa(rng: random.Random, n: int, sd: float = 5.0, drift: float = 0.0) -> Pairs:
    """n pairs of consecutive blocks of one thing, of mean 100, that grows by `drift` with each block."""
    return [
        (rng.gauss(100 + drift * 2 * at, sd), rng.gauss(100 + drift * (2 * at + 1), sd)) for at in range(n)
    ]  # fmt: skip


def test_pairs_are_blocks_one_and_two_three_and_four() -> None:
    assert pairs_of({1: 1.0, 2: 2.0, 3: 3.0, 5: 5.0, 6: 6.0, 8: 8.0}) == [(1.0, 2.0), (5.0, 6.0)]


def test_the_coin_is_fair_and_seeded() -> None:
    pairs = [(0.0, 1.0)] * 2000
    a, b = toss(pairs, random.Random(1))
    assert sum(a) == pytest.approx(1000, abs=100) and all(x + y == 1 for x, y in zip(a, b, strict=True))
    assert toss(pairs, random.Random(1)) == (a, b)


@pytest.mark.parametrize(("count", "n", "low", "high"), [(0, 20, 0.0, 0.16843), (3, 10, 0.06674, 0.65245)])
def test_clopper_and_pearson(count: int, n: int, low: float, high: float) -> None:
    interval = rate(count, n, 0.95).interval
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(low, abs=1e-5), pytest.approx(high, abs=1e-5))


def test_it_is_scipys_exact_interval() -> None:
    from scipy.stats import binomtest

    for count, n in ((0, 5), (5, 5), (17, 400)):
        theirs, ours = binomtest(count, n).proportion_ci(0.9, method="exact"), rate(count, n, 0.9).interval
        assert ours is not None and (ours.low, ours.high) == (pytest.approx(theirs.low), pytest.approx(theirs.high))


def test_pseudo_experiments_have_fiellers_interval() -> None:
    """With all pairs alike but for the coin, every pseudo-experiment can be checked against `paired_ratio`."""
    widths, excluded = _pseudo_experiments([(90.0, 110.0)], 4, 0.95, "x", 200)
    expected = set()
    for heads in range(5):
        a = [90.0] * heads + [110.0] * (4 - heads)
        ratio = paired_ratio([200 - x for x in a], a, 0.95)
        if ratio.interval is not None and ratio.value:
            expected.add(round(ratio.interval.half_width / ratio.value, 9))
    assert {round(width, 9) for width in widths} <= expected
    assert excluded / 200 == pytest.approx(2 / 16, abs=0.06), "all four coins alike: no spread, and no 1"


@pytest.mark.parametrize("n", [5, 10, 20])
@pytest.mark.parametrize("drift", [0.0, 0.5])
def test_what_differs_by_nothing_stays_below_the_floor(n: int, drift: float) -> None:
    """300 A/A campaigns, and for each one later comparison of two equal things: at least 95 % below the floor."""
    rng = random.Random(f"{n}:{drift}")
    below, floors = 0, []
    for run in range(300):
        found = noise_floor(aa(rng, n, drift=drift), n, 0.95, str(run), resamplings=300)
        assert found.floor is not None and found.typical is not None and found.typical <= found.floor
        floors.append(found.floor)
        later = fmean(rng.gauss(100, 5) for _ in range(n)) / fmean(rng.gauss(100, 5) for _ in range(n))
        below += bool(hides(found.floor, later - 1, (1, -1)))
    assert below >= 0.935 * 300
    # Half a Student interval is t s sqrt(2 / n): the floor lies above it, by no more than the spread of s explains.
    assert 1 < fmean(floors) / ({5: 2.776, 10: 2.262, 20: 2.093}[n] * 0.05 * math.sqrt(2 / n)) < 1.8


@pytest.mark.parametrize("n", [5, 10])
def test_the_rate_of_false_positives_is_the_stated_one(n: int) -> None:
    rng = random.Random(n)
    found = [noise_floor(aa(rng, n), n, 0.95, str(run), resamplings=400) for run in range(400)]
    observed = sum(each.observed.count for each in found) / sum(each.observed.n for each in found)
    resampled = fmean(each.resampled.share or 0.0 for each in found)
    assert observed == pytest.approx(0.05, abs=0.03)
    assert resampled == pytest.approx(0.05, abs=0.025)


def test_noise_that_lasts_over_many_pairs_raises_the_floor_and_not_the_rate() -> None:
    """As in a study, whose order inside a block is random. With more pairs than blocks there are 40 experiments."""
    rng, pairs = random.Random(3), Pairs()
    for _ in range(40):
        gap = rng.gauss(0, 10)
        pairs += [(100 + rng.gauss(0, 1), 100 + gap + rng.gauss(0, 1)) for _ in range(5)]
    found = noise_floor(pairs, 5, 0.95, "x")
    assert found.observed.n == 40 and found.observed.count <= 6
    assert found.floor is not None and found.floor > 0.1


@pytest.mark.parametrize(("made_for", "blocks"), [(5, 12), (12, 5), (10, 40)])
def test_a_floor_made_for_other_blocks_is_scaled_to_what_they_would_have_given(made_for: int, blocks: int) -> None:
    pairs = aa(random.Random(6), 400)
    found, wished = (noise_floor(pairs, n, 0.95, "x").floor for n in (made_for, blocks))
    assert found is not None and wished is not None
    assert rescaled(found, made_for, blocks, 0.95) == pytest.approx(wished, rel=0.04)
    assert rescaled(found, made_for, made_for, 0.95) == found
    with pytest.raises(ValueError, match="2 or more"):
        rescaled(found, made_for, 1, 0.95)


def test_the_floor_of_means_over_several_is_less_as_their_spread_is() -> None:
    assert scaled(0.03, (1, -1)) == pytest.approx(0.03)
    assert scaled(0.03, [1 / 4] * 4 + [-1 / 4] * 4) == pytest.approx(0.03 / 2)
    assert hides(0.03, 0.029, (1, -1)) and hides(0.03, -0.029, (1, -1)) and not hides(0.03, 0.031, (1, -1))
    assert hides(None, 0.1, (1, -1)) is None and hides(0.03, None, (1, -1)) is None


def test_more_blocks_resolve_less() -> None:
    pairs = aa(random.Random(4), 40)
    few, many = (noise_floor(pairs, blocks, 0.95, "x").floor for blocks in (5, 40))
    assert few and many and many < few / 2


def test_the_same_seed_gives_the_same_floor() -> None:
    pairs = aa(random.Random(5), 8)
    assert noise_floor(pairs, 8, 0.95, "x") == noise_floor(pairs, 8, 0.95, "x")
    assert noise_floor(pairs, 8, 0.95, "x") != noise_floor(pairs, 8, 0.95, "y")


def test_what_has_no_floor_says_why() -> None:
    assert "0 complete pairs" in str(noise_floor([], 5, 0.95, "x").absent_because)
    assert "1 complete pair:" in str(noise_floor([(1.0, 2.0)], 5, 0.95, "x").absent_because)
    for pairs in ([(0.0, 0.0)] * 5, [(-1.0, 1.0), (1.0, -1.0), (0.5, -2.0)]):
        found = noise_floor(pairs, 5, 0.95, "x")
        assert found.floor is None and "distinguishable from zero" in str(found.absent_because)
        assert found.resampled.n < 4000, "an experiment without an interval finds nothing, true or false"
    with pytest.raises(ValueError, match="1 blocks"):
        noise_floor([(1.0, 1.0)] * 3, 1, 0.95, "x")


def test_constant_values_have_a_floor_of_zero() -> None:
    found = noise_floor([(3.1, 3.1)] * 5, 5, 0.95, "x")
    assert found.floor == pytest.approx(0, abs=1e-12) and found.resampled.count == 0


# The A/A study of a study


def test_an_aa_study_has_the_baseline_alone_in_twice_the_blocks() -> None:
    study = make_study(SMALL, replicates=6, baseline={"isolation": "none"})
    aa = aa_study(study)
    assert [dict(t.levels) for t in treatments(aa)] == [
        {"platform": "native", "isolation": "none"}, {"platform": "runc", "isolation": "none"},
    ]  # fmt: skip
    assert aa.design.replicates == 12 and aa.settings == study.settings and aa.metrics == study.metrics
    assert [t.label for t in treatments(first_treatments(aa, 1))] == ["native · none"]


def test_a_study_without_a_baseline_has_no_aa_study() -> None:
    with pytest.raises(InputError, match="names no baseline"):
        aa_study(make_study(SMALL))
    with pytest.raises(InputError, match="one block"):
        aa_study(make_study(SMALL, replicates=1, baseline={"isolation": "none"}))
    excluded = Exclusion({"isolation": ("none",)}, "never")
    with pytest.raises(InputError, match="excludes its own baseline"):
        aa_study(make_study(SMALL, baseline={"isolation": "none"}, exclusions=(excluded,)))


def test_floors_are_read_from_what_was_kept_and_nothing_else() -> None:
    kept = {"format": 1, "blocks": 5, "metrics": {"a": {"floor": 0.03, "treatment": "t"}, "b": {"floor": None}}}
    assert kept_floors(kept) == {"a": Floor(0.03, 5)}
    assert kept_floors(None) == {} and kept_floors({}) == {}
