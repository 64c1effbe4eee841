"""Randomisation tests: published answers, enumeration, and their rate where noise lasts, is skewed, or is rounded."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from lastro.stats.anova import anova
from lastro.stats.block_model import BlockModel
from lastro.stats.randomisation import Randomisation, randomisation_test

from ..support.products import combinations, one_of
from .test_autocorrelation import noise, order

Values = npt.NDArray[np.float64]
Cells = dict[int, dict[int, float]]
# Darwin's maize: crossed minus self-fertilised plants, fifteen pairs, in eighths of an inch (Fisher 1935, section 21).
DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]


def judged(cells: Cells, log: bool = False) -> Randomisation:
    found = randomisation_test(cells, log=log)
    assert found is not None
    return found


def test_fishers_test_of_darwins_maize() -> None:
    """Of the 32,768 signs, 863 give a sum as large as that of Darwin's pairs, and as many one as small."""
    found = judged({0: dict(enumerate(map(float, DARWIN))), 1: dict.fromkeys(range(15), 0.0)})
    assert (found.p * 2**15, found.orders, found.exact) == (2 * 863, 2**15, True)
    assert found.p_of_f == pytest.approx(0.0497, abs=5e-5), "Fisher gives 4.97 % for Student's test"
    assert found.f == pytest.approx(2.148**2, rel=1e-3) and (found.df1, found.df2) == (1, 14)


def f_of(cells: Cells) -> float:
    """F of the treatments beside the blocks, by the analysis of variance."""
    rows = [(cell, block, value) for cell, own in cells.items() for block, value in own.items()]
    cell, block, values = zip(*rows, strict=True)
    found = anova(values, {"cell": cell}, block=block).effect("cell").f
    return math.inf if found is None else found


@pytest.mark.parametrize("lost", [(), ((0, 1),), ((0, 1), (2, 3))], ids=["all", "one lost", "two lost"])
def test_it_is_what_counting_all_orders_gives(lost: tuple[tuple[int, int], ...]) -> None:
    rng = random.Random(4)
    cells = {c: {b: rng.gauss(3 * b + c, 1) for b in range(4) if (c, b) not in lost} for c in range(3)}
    found = judged(cells)
    there = [[c for c in cells if b in cells[c]] for b in range(4)]
    seen = []
    for orders in itertools.product(*(itertools.permutations(at) for at in there)):
        other: Cells = {c: {} for c in cells}
        for block, (at, now) in enumerate(zip(there, orders, strict=True)):
            for one, to in zip(at, now, strict=True):
                other[to][block] = cells[one][block]
        seen.append(f_of(other))
    true = f_of(cells)
    assert found.exact and found.orders == len(seen) and found.f == pytest.approx(true)
    assert found.p == pytest.approx(sum(f >= true * (1 - 1e-9) for f in seen) / len(seen))
    assert found.least == pytest.approx(sum(f >= max(seen) * (1 - 1e-9) for f in seen) / len(seen))


def test_a_sample_of_orders_agrees_with_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(8)
    cells = {c: {b: rng.gauss(0.5 * c, 1) for b in range(5)} for c in range(3)}
    exact = judged(cells)
    monkeypatch.setattr("lastro.stats.randomisation.MOST_ORDERS", 0)
    sample = judged(cells)
    assert exact.exact and not sample.exact and sample.orders == 10_000
    assert sample.p == pytest.approx(exact.p, abs=4 * math.sqrt(exact.p / 10_000))
    assert judged(cells) == sample, "the seed is fixed"
    assert sample.least < 0.01


@pytest.mark.parametrize(("cells", "blocks", "least"), [(2, 2, 0.5), (2, 5, 0.0625), (2, 6, 0.03125), (3, 2, 1 / 6)])
def test_few_blocks_cannot_reject_whatever_the_difference(cells: int, blocks: int, least: float) -> None:
    rng = random.Random(2)
    apart = {c: {b: 100.0 * c + rng.gauss(0, 1) for b in range(blocks)} for c in range(cells)}
    found = judged(apart)
    assert found.p == found.least == pytest.approx(least)
    assert found.can_reject(0.05) == (least < 0.05)


def test_what_no_order_can_tell() -> None:
    assert randomisation_test({0: {1: 1.0, 2: 2.0}}) is None, "one treatment"
    assert randomisation_test({0: {1: 1.0}, 1: {1: 2.0}}) is None, "one block"
    assert randomisation_test({0: {1: 1.0, 2: 2.0}, 1: {3: 1.0, 4: 2.0}}) is None, "no block with two treatments"
    assert randomisation_test({0: {1: 5.0, 2: 7.0}, 1: {1: 5.0, 2: 7.0}}) is None, "nothing varies within blocks"
    sure = judged({c: dict.fromkeys(range(6), float(c)) for c in range(2)})
    assert sure.f is None and sure.p_of_f is None and sure.p == 2**-5, "nothing varies but the treatments"


@pytest.mark.parametrize("unit", [1e-170, 1.0, 1e120])
def test_the_unit_changes_nothing(unit: float) -> None:
    rng = random.Random(3)
    base = {c: {b: rng.gauss(10, 1) for b in range(4)} for c in range(3)}
    scaled = {c: {b: unit * value for b, value in own.items()} for c, own in base.items()}
    assert judged(scaled).p == judged(base).p and judged(scaled).f == pytest.approx(judged(base).f)


def _independent(rng: np.random.Generator, n: int) -> Values:
    return rng.standard_normal(n)


def _skewed(rng: np.random.Generator, n: int) -> Values:
    return rng.lognormal(0, 1, n)


def _lasting(rng: np.random.Generator, n: int) -> Values:
    return noise(rng, n, 0.95)


def _rounded(rng: np.random.Generator, n: int) -> Values:
    return np.round(rng.standard_normal(n))


@pytest.mark.parametrize(
    ("drawn", "design"), combinations((_independent, _skewed, _lasting, _rounded), ((3, 4), (2, 9)))
)
def test_without_an_effect_it_rejects_as_often_as_it_says(
    drawn: Callable[[np.random.Generator, int], Values], design: tuple[int, int]
) -> None:
    """In the order of time. Where values are equal there are fewer different orders, and it rejects less often."""
    treatments, blocks = design
    rng, rounds, rejected = np.random.default_rng([treatments, blocks]), 1000, 0
    for _ in range(rounds):
        values, places = drawn(rng, treatments * blocks), order(rng, treatments, blocks)
        cells: Cells = {cell: {} for cell in range(treatments)}
        for at, (cell, value) in enumerate(zip(places, values.tolist(), strict=True)):
            cells[cell][at // treatments] = value
        found = randomisation_test(cells)
        rejected += found is not None and found.p <= 0.05
    assert (0.01 if drawn is _rounded else 0.035) < rejected / rounds < 0.065


@pytest.mark.parametrize("drawn", one_of([_lasting, _independent]))
def test_so_it_does_where_trials_are_lost_and_on_the_scale_of_the_model(
    drawn: Callable[[np.random.Generator, int], Values],
) -> None:
    rng, rounds, rejected, logs = np.random.default_rng(6), 500, 0, 0
    for _ in range(rounds):
        values, places = np.exp(0.7 * drawn(rng, 20)), order(rng, 4, 5)
        cells: Cells = {cell: {} for cell in range(4)}
        for at, (cell, value) in enumerate(zip(places, values.tolist(), strict=True)):
            if rng.random() >= 0.15 or len(cells[cell]) < 2:
                cells[cell][at // 4] = value
        model = BlockModel.of(cells)
        assert model is not None
        found = randomisation_test(cells, log=model.log)
        rejected, logs = rejected + (found is not None and found.p <= 0.05), logs + model.log
    assert logs > 100 and 0.025 < rejected / rounds < 0.075
