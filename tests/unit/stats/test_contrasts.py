"""Comparisons of two sides: what is absent and why, the sides exchanged, and how many blocks would decide."""

from __future__ import annotations

import math
import random

import pytest

from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import compare_one, one_sided_p, p_above, sum_of_means
from lastro.stats.simultaneous import Pair


def fitted(**cells: list[float]) -> BlockModel:
    found = BlockModel.of({name: dict(enumerate(values)) for name, values in cells.items()})
    assert found is not None
    return found


def pair_of(model: BlockModel, of: str = "b", to: str = "a") -> Pair:
    return Pair(compare_one(model, {of: 1.0}, {to: 1.0}, 0.95), 1.0, 1, 0.05)


def test_without_weights_there_is_no_comparison() -> None:
    model = fitted(a=[1.0, 2.0, 4.0], b=[2.0, 3.0, 4.5])
    found = compare_one(model, {}, {}, 0.95)
    assert found.ratio.value is None and found.p is None and found.ratio.absent_because == "no cell has a weight"
    assert sum_of_means(model, {"a": 0.0}, 0.95).absent_because == "no cell has a weight"
    with pytest.raises(KeyError):
        compare_one(model, {"c": 1.0}, {"a": 1.0}, 0.95)


def test_a_baseline_of_zero_has_a_difference_and_no_ratio() -> None:
    found = compare_one(fitted(a=[0.0, 0.0, 0.0], b=[2.0, 3.0, 4.5]), {"b": 1.0}, {"a": 1.0}, 0.95)
    assert found.ratio.value is None and found.ratio.absent_because == "the difference to compare with is zero"
    assert found.difference.interval is not None and found.difference.value == pytest.approx(9.5 / 3)
    near = compare_one(fitted(a=[1.0, -1.0, 0.5], b=[2.0, 3.0, 4.5]), {"b": 1.0}, {"a": 1.0}, 0.95)
    assert near.ratio.interval is None and "unbounded" in (near.ratio.absent_because or "")


def test_means_differ_by_an_amount_which_is_alike_only_beside_their_size() -> None:
    small, large = (
        {"a": [-0.1, 0.2, 0.0], "b": [0.0, 0.2, 0.1]},
        {"a": [100.0, 100.2, 100.1], "b": [100.1, 100.2, 100.1]},
    )
    near = Pair(compare_one(fitted(**small), {"b": 1.0}, {"a": 1.0}, 0.95), 0.07, 1, 0.05)
    assert not near.relative and not near.differs and not near.alike(0.1)
    far = pair_of(fitted(**large))
    assert far.relative and far.alike(0.1) and far.most < 0.01


def test_so_many_blocks_decide() -> None:
    pair = pair_of(fitted(a=[100.0, 101.0, 99.0], b=[101.5, 100.5, 102.4]))
    likely, sure = (pair.blocks_to_decide(0.0, probability) for probability in (0.5, 0.8))
    assert not pair.differs and likely is not None and sure is not None and 3 < likely < sure
    shown = pair.blocks_to_decide(0.05, 0.5)
    assert shown is not None and shown < likely, "that two are alike within a wide margin is shown sooner"
    assert pair.alike(0.1) and pair.blocks_to_decide(0.1, 0.8) == 3, "no more than there are"


def test_what_never_varies_is_proven_only_by_enough_blocks() -> None:
    few, many = (pair_of(fitted(a=[5.0] * n, b=[8.0] * n)) for n in (5, 6))
    assert not few.differs and not few.alike(0.5) and few.blocks_to_decide(0.1, 0.5) is None
    assert (
        many.differs
        and many.interval.low == pytest.approx(7.5 / 5.5)
        and many.interval.high == pytest.approx(8.5 / 4.5)
    )
    assert not pair_of(fitted(a=[5.0] * 6, b=[6.0] * 6)).differs, "one step"


@pytest.mark.parametrize("log", [True, False])
def test_one_sided_tests_of_a_bound_agree_with_the_interval(log: bool) -> None:
    """The end of a 90 % interval is where a one-sided test has 5 %."""
    rng = random.Random(4)
    noise = {c: [math.exp(rng.gauss(0, 0.2)) if log else 1 + rng.gauss(0, 0.02) for _ in range(8)] for c in "abc"}
    level = {"a": 1.0, "b": 9.0, "c": 80.0} if log else {"a": 1.0, "b": 1.2, "c": 1.3}
    model = fitted(**{c: [level[c] * v for v in own] for c, own in noise.items()})
    assert model.log == log
    interval = compare_one(model, {"b": 1.0}, {"a": 1.0}, 0.9).ratio.interval
    assert interval is not None
    assert one_sided_p(model, {"b": 1.0}, {"a": 1.0}, interval.low) == pytest.approx(0.05, abs=2e-3)
    assert one_sided_p(model, {"b": 1.0}, {"a": 1.0}, interval.high) == pytest.approx(0.95, abs=2e-3)
    mean = sum_of_means(model, {"b": 1.0}, 0.9)
    assert mean.interval is not None
    assert p_above(model, {"b": 1.0}, mean.interval.low) == pytest.approx(0.05)
