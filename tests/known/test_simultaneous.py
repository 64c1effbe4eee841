"""Intervals of all pairs at once: known answers, and how often a family misses the truth."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from lastro.analysis.joint import joint_pairs
from lastro.analysis.measured import Measured
from lastro.stats.intervals import t_quantile
from lastro.stats.simultaneous import Pair, all_pairs, critical_value

EFFECTS = {"native": 1.0, "runc": 0.97, "kvm": 0.6, "bridge": 1.0, "macvlan": 1.1}
PLATFORMS, LINKS = ("native", "runc", "kvm"), ("bridge", "macvlan")
REPEATS = 1000


def logs(**groups: Sequence[float]) -> dict[str, list[float]]:
    return {name: [math.log(value) for value in values] for name, values in groups.items()}


def test_of_two_groups_the_interval_is_students_of_the_logarithms() -> None:
    pair = all_pairs(logs(a=[100, 104, 98], b=[110, 116, 107]), 0.95, logs=True)["b", "a"]
    gaps = [math.log(x) for x in (110 / 100, 116 / 104, 107 / 98)]
    mean = sum(gaps) / 3
    error = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / 2 / 3)
    assert pair.value == pytest.approx(math.exp(mean))
    assert pair.interval.low == pytest.approx(math.exp(mean - t_quantile(0.95, 2) * error))
    assert pair.differs and pair.most == pytest.approx(pair.interval.high - 1)


def test_the_critical_value_is_tukeys() -> None:
    """q(0.95; 3, 4) = 5.040, from the tables."""
    assert critical_value(0.95, 3, 3) * math.sqrt(2) == pytest.approx(5.040, abs=5e-4)


def test_means_differ_by_an_amount_which_is_alike_only_beside_their_size() -> None:
    pairs = all_pairs({"a": [0.0, 0.2, 0.1], "b": [3.0, 3.3, 3.1]}, 0.95)
    assert not pairs["b", "a"].relative and pairs["b", "a"].value == pytest.approx(3.0333333)
    assert pairs["a", "b"].interval.high == pytest.approx(-pairs["b", "a"].interval.low)
    near = all_pairs({"a": [0.0, 0.2, 0.1], "b": [0.1, 0.2, 0.1]}, 0.95)["a", "b"]
    assert not near.differs and not near.alike(0.1), "less than 0.2, which is more than either"
    far = all_pairs({"a": [100.0, 100.2, 100.1], "b": [100.1, 100.2, 100.1]}, 0.95)["a", "b"]
    assert far.alike(0.1) and far.most == pytest.approx(near.most)


def test_what_never_varies_is_proven_only_by_enough_blocks() -> None:
    few, many = (all_pairs(logs(a=[5] * n, b=[6] * n), 0.95, logs=True)["b", "a"] for n in (5, 6))
    assert not few.differs and not few.alike(0.5) and few.blocks_to_decide(0.1) is None
    assert many.differs and many.interval.low == many.interval.high == pytest.approx(1.2)
    few, many = (all_pairs({"a": [5.0] * n, "b": [5.0] * n}, 0.95)["b", "a"] for n in (2, 9))
    assert not many.differs and many.alike(0.1) and not few.alike(0.1)


def test_so_many_blocks_decide() -> None:
    """Values that repeat themselves have the same spread in so many blocks, and just then differ."""
    group, other = [100.0, 101.0, 99.0], [101.5, 100.5, 102.4]

    def repeated(times: int) -> Pair:
        return all_pairs(logs(a=group * times, b=other * times), 0.95, logs=True)["b", "a"]

    pair = repeated(1)
    needed = pair.blocks_to_decide(0.0)
    assert not pair.differs and needed is not None and needed > 3
    # Three values that are repeated spread a little less than three do: by up to a third in their variance.
    times = math.ceil(needed / 3)
    assert repeated(times).differs and not repeated(times // 2).differs
    assert repeated(times).blocks_to_decide(0.0) == 3 * times, "no more than there are"
    shown = pair.blocks_to_decide(0.05)
    assert shown is not None and shown < needed, "that two are alike within a wide margin is shown sooner"
    assert pair.alike(0.1) and pair.blocks_to_decide(0.1) == 3


@pytest.mark.parametrize("groups", [{"a": [1.0, 2.0]}, {"a": [1.0], "b": [1.0]}, {"a": [1.0, 2.0], "b": [1.0]}, {}])
def test_without_two_groups_in_two_blocks_there_is_no_pair(groups: dict[str, list[float]]) -> None:
    with pytest.raises(ValueError, match="are needed"):
        all_pairs(groups, 0.95)


def campaign(rng: random.Random, n_blocks: int, spreads: Sequence[float], noise: Callable[[], float]) -> Measured:
    """Three platforms on two links: factors multiply, as what a block does to all of them, and noise of each trial."""
    levels = {
        at: {"platform": p, "link": link} for at, (p, link) in enumerate((p, k) for p in PLATFORMS for k in LINKS)
    }
    blocks = [1 + rng.gauss(0, 0.05) for _ in range(n_blocks)]
    cells = {
        at: {
            b: 1000 * math.prod(EFFECTS[level] for level in of.values()) * blocks[b] * (1 + spreads[at % 3] * noise())
            for b in range(n_blocks)
        }
        for at, of in levels.items()
    }
    factors = {"platform": PLATFORMS, "link": LINKS}
    return Measured(cells, levels, factors, {name: of[0] for name, of in factors.items()}, 0.95)


@pytest.mark.parametrize("n_blocks", [2, 3, 5])
@pytest.mark.parametrize(
    ("spreads", "noise", "most"),
    [
        ((0.02, 0.02, 0.02), "normal", 0.05),
        ((0.05, 0.05, 0.05), "skewed", 0.05),
        ((0.05, 0.05, 0.05), "heavy", 0.05),
        ((0.01, 0.01, 0.03), "normal", 0.09),
    ],
)
def test_seldom_does_any_interval_of_a_metric_miss_the_truth(
    n_blocks: int, spreads: Sequence[float], noise: str, most: float
) -> None:
    """The stated 5 % where treatments are equally noisy in proportion to their means; 9 % where one is three times as
    noisy. `most` leaves out three standard errors of so many repeats."""
    rng = random.Random(f"{n_blocks}:{spreads}:{noise}")
    draws = {
        "normal": lambda: rng.gauss(0, 1),
        "skewed": lambda: rng.expovariate(1) - 1,
        "heavy": lambda: rng.gauss(0, 1) / math.sqrt(rng.gammavariate(2.5, 2) / 5) / math.sqrt(5 / 3),
    }
    missed = 0
    for _ in range(REPEATS):
        found = joint_pairs(campaign(rng, n_blocks, spreads, draws[noise]))
        missed += any(
            not pair.interval.holds(EFFECTS[level] / EFFECTS[other])
            for factor in found
            for (level, other), pair in factor.pairs.items()
        )
    assert missed / REPEATS <= most + 3 * math.sqrt(most * (1 - most) / REPEATS)


def in_true_order(rng: random.Random, n_blocks: int, disturb: Callable[[random.Random, int], list[float]]) -> Measured:
    """The campaign, with the disturbances of its trials in the order in which they ran: random within each block."""
    order = [(b, at) for b in range(n_blocks) for at in rng.sample(range(6), 6)]
    of = dict(zip(order, disturb(rng, len(order)), strict=True))
    data = campaign(rng, n_blocks, (0, 0, 0), lambda: 0.0)
    cells = {at: {b: value * (1 + of[b, at]) for b, value in row.items()} for at, row in data.cells.items()}
    return replace(data, cells=cells)


def autocorrelated(rng: random.Random, n: int) -> list[float]:
    """Noise of 2 %, of which each trial keeps 95 % of the one before it: AR(1)."""
    noise = [rng.gauss(0, 1)]
    for _ in range(n - 1):
        noise.append(0.95 * noise[-1] + math.sqrt(1 - 0.95**2) * rng.gauss(0, 1))
    return [0.02 * each for each in noise]


def shifted(rng: random.Random, n: int) -> list[float]:
    """Noise of 2 % on a host that from some trial on is 5 % faster."""
    at = rng.randrange(1, n)
    return [rng.gauss(0, 0.02) + 0.05 * (i >= at) for i in range(n)]


def drifting(rng: random.Random, n: int) -> list[float]:
    """Noise of 2 % on a host that gets 10 % faster over the campaign."""
    return [rng.gauss(0, 0.02) + 0.1 * i / n for i in range(n)]


@pytest.mark.parametrize("disturb", [autocorrelated, shifted, drifting])
def test_nor_does_it_where_trials_depend_on_each_other(
    disturb: Callable[[random.Random, int], list[float]],
) -> None:
    """The order within a block is random, so a host that changes with time is as unkind to each treatment."""
    rng, missed = random.Random(disturb.__name__), 0
    for _ in range(REPEATS):
        found = joint_pairs(in_true_order(rng, 3, disturb))
        missed += any(
            not pair.interval.holds(EFFECTS[level] / EFFECTS[other])
            for factor in found
            for (level, other), pair in factor.pairs.items()
        )
    assert missed / REPEATS <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / REPEATS)


def test_a_trial_that_is_lost_changes_no_ratio() -> None:
    """Docker is twice native under each condition, one of which makes everything ten times larger."""
    rng = random.Random(1)
    levels = {
        at: {"platform": p, "size": s} for at, (p, s) in enumerate((p, s) for p in ("a", "b") for s in ("1", "9"))
    }
    factor = {"a": 1.0, "b": 2.0, "1": 1.0, "9": 10.0}
    cells = {
        at: {
            b: 100 * math.prod(factor[level] for level in of.values()) * (1 + rng.gauss(0, 0.005))
            for b in range(8)
            if b < 1 or of != {"platform": "a", "size": "9"}
        }
        for at, of in levels.items()
    }
    factors = {"platform": ("a", "b"), "size": ("1", "9")}
    data = Measured(cells, levels, factors, {"platform": "a", "size": "1"}, 0.95)
    platform, _ = joint_pairs(data)
    pair = platform.of("b")
    assert pair.interval.holds(2.0) and pair.interval.half_width < 0.1
