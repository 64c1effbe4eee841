"""The noise floor: its pairs, its scale with blocks and treatments, and what has none."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from lastro.analysis.noise_floor import Floor, stored_floors
from lastro.errors import InputError
from lastro.stats.intervals import t_quantile
from lastro.stats.noise_floor import (
    FORMAT,
    blocks_apart,
    floor_for_blocks,
    floor_of_contrast,
    is_below_floor,
    noise_floor,
    pairs_of,
    toss,
)
from lastro.study.aa_study import aa_study, first_treatments
from lastro.study.design import treatments
from lastro.study.model import Exclusion

from ...support.campaigns import SMALL, make_study

Pairs = list[tuple[float, float]]


def aa(rng: random.Random, n: int, sd: float = 5.0, drift: float = 0.0) -> Pairs:
    """n pairs of consecutive blocks of one thing, of mean 100, that grows by `drift` with each block."""
    return [
        (rng.gauss(100 + drift * 2 * at, sd), rng.gauss(100 + drift * (2 * at + 1), sd)) for at in range(n)
    ]  # fmt: skip


def test_pairs_are_as_far_apart_as_asked() -> None:
    values = {1: 1.0, 2: 2.0, 3: 3.0, 5: 5.0, 6: 6.0, 8: 8.0}
    assert pairs_of(values, 8, 1) == [(1.0, 2.0), (5.0, 6.0)]
    assert pairs_of(values, 8, 2) == [(1.0, 3.0), (6.0, 8.0)]
    whole = {block: float(block) for block in range(1, 11)}
    assert pairs_of(whole, 10, 2) == [(1, 3), (2, 4), (5, 7), (6, 8), (9, 10)], "as far as what is left allows"
    assert pairs_of(whole, 10, 99) == [(1, 6), (2, 7), (3, 8), (4, 9), (5, 10)]


@pytest.mark.parametrize(("trials", "aa_trials", "blocks"), [(2, 1, 1), (30, 1, 10), (30, 5, 2), (3, 8, 1)])
def test_the_trials_of_a_pair_are_as_far_apart_as_in_a_block_of_the_study(
    trials: int, aa_trials: int, blocks: int
) -> None:
    rng, n = random.Random(1), 4000
    assert blocks_apart(trials, aa_trials) == blocks
    apart = fmean(abs(a - b) for a, b in (rng.sample(range(trials), 2) for _ in range(n)))
    assert max(1, apart / aa_trials) == pytest.approx(blocks, abs=0.5)


def test_the_coin_is_fair_and_seeded() -> None:
    pairs = [(0.0, 1.0)] * 2000
    a, b = toss(pairs, random.Random(1))
    assert sum(a) == pytest.approx(1000, abs=100) and all(x + y == 1 for x, y in zip(a, b, strict=True))
    assert toss(pairs, random.Random(1)) == (a, b)


def test_noise_that_lasts_over_many_pairs_raises_the_floor() -> None:
    """As in a study, whose order inside a block is random."""
    rng, pairs = random.Random(3), Pairs()
    for _ in range(40):
        gap = rng.gauss(0, 10)
        pairs += [(100 + rng.gauss(0, 1), 100 + gap + rng.gauss(0, 1)) for _ in range(5)]
    found = noise_floor(pairs, 5, 0.95, "x")
    assert found.floor == pytest.approx(t_quantile(0.95, 200) * 0.1 / math.sqrt(5), rel=0.3), "that of the gaps"


@pytest.mark.parametrize(("made_for", "blocks"), [(5, 12), (12, 5), (10, 40)])
def test_a_floor_made_for_other_blocks_is_scaled_to_what_they_would_have_given(made_for: int, blocks: int) -> None:
    pairs = aa(random.Random(6), 400)
    found, wished = (noise_floor(pairs, n, 0.95, "x").floor for n in (made_for, blocks))
    assert found is not None and floor_for_blocks(found, made_for, blocks) == pytest.approx(wished)


def test_the_floor_of_means_over_several_is_less_as_their_spread_is() -> None:
    assert floor_of_contrast(0.03, (1, -1)) == pytest.approx(0.03)
    assert floor_of_contrast(0.03, [1 / 4] * 4 + [-1 / 4] * 4) == pytest.approx(0.03 / 2)
    assert (
        is_below_floor(0.03, 0.029, (1, -1))
        and is_below_floor(0.03, -0.029, (1, -1))
        and not is_below_floor(0.03, 0.031, (1, -1))
    )
    assert is_below_floor(None, 0.1, (1, -1)) is None and is_below_floor(0.03, None, (1, -1)) is None


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
    with pytest.raises(ValueError, match="1 blocks"):
        noise_floor([(1.0, 1.0)] * 3, 1, 0.95, "x")


def test_constant_values_have_a_floor_of_zero() -> None:
    found = noise_floor([(3.1, 3.1)] * 5, 5, 0.95, "x")
    assert found.floor == pytest.approx(0, abs=1e-12)


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
    kept = {
        "format": FORMAT,
        "blocks": 5,
        "metrics": {"a": {"floor": 0.03, "treatment": "t"}, "b": {"floor": None}},
    }
    assert stored_floors(kept) == {"a": Floor(0.03, 5)}
    assert stored_floors(None) == stored_floors({}) == {}
