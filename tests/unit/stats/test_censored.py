"""Statistics of values of which some are only lower bounds: what is told of them holds wherever the truth lies."""

from __future__ import annotations

import random

from lastro.stats.intervals import (
    BOTH_ARE_BOUNDS,
    RATIO_IS_BOUND,
    describe,
    describe_bounded,
    ratio_of_bounded,
)
from lastro.stats.ratios import unpaired_ratio


def test_without_a_bound_nothing_changes() -> None:
    values, exact = [3.0, 5.0, 9.0, 4.0, 4.0, 8.0], [False] * 6
    assert describe_bounded(values, exact, 0.95) == describe(values, 0.95)
    ratio = unpaired_ratio(values, [2.0, 3.0], 0.95)
    assert ratio_of_bounded(ratio, of=False, to=False) == ratio


def test_a_mean_with_a_bound_has_neither_spread_nor_interval() -> None:
    """Four searches that the study ended at 64 are alike for that alone: ± 0 would be a lie."""
    found = describe_bounded([64.0] * 4, [True] * 4, 0.95)
    assert (found.n, found.mean, found.sd, found.interval, found.bounded) == (4, 64.0, None, None, 4)
    assert describe_bounded([37.0, 64.0], [False, True], 0.95).bounded == 1


def test_what_is_told_holds_wherever_the_truth_lies() -> None:
    rng = random.Random(5)
    for _ in range(300):
        truth = [rng.gauss(100, 20) for _ in range(rng.randint(1, 9))]
        limits = [rng.gauss(110, 20) for _ in truth]
        seen = [min(pair) for pair in zip(truth, limits, strict=True)]
        bounded = [true > limit for true, limit in zip(truth, limits, strict=True)]
        assert describe_bounded(seen, bounded, 0.95).mean <= describe(truth, 0.95).mean + 1e-9


def test_a_ratio_to_or_of_a_bound_is_one() -> None:
    ratio = unpaired_ratio([64.0, 64.0, 63.0], [37.0, 38.0, 36.0], 0.95)
    above, below = ratio_of_bounded(ratio, of=True, to=False), ratio_of_bounded(ratio, of=False, to=True)
    assert (above.bound, below.bound) == ("≥", "≤") and above.value == below.value == ratio.value
    for bound in (above, below):
        assert bound.interval is None and not bound.differs
        assert bound.absent_because and bound.absent_because.message == RATIO_IS_BOUND
    both = ratio_of_bounded(ratio, of=True, to=True)
    assert both.value is None and both.absent_because and both.absent_because.message == BOTH_ARE_BOUNDS
