"""Treatments of different campaigns, compared through the baseline that both measured, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import APART, compare, ratio_of_sums, sum_of_means
from lastro.stats.intervals import describe

LXC, XEN = 1.1, 0.9  # ratios to native
BLOCKS = 5
CAMPAIGNS = {block: block // BLOCKS for block in range(2 * BLOCKS)}


def cells(
    rng: np.random.Generator, shift: float, lost: int = 0, kept: float = 0.0, faster: float = 0.0
) -> dict[str, dict[int, float]]:
    """Native in both campaigns, lxc in the first, xen in the second, on which everything is `shift` times as large.

    A trial keeps the fraction `kept` of the noise of the one before it, in a random order within blocks. From some
    trial on, the host is faster by the fraction `faster`."""
    found: dict[str, dict[int, float]] = {"native": {}, "lxc": {}, "xen": {}}
    noise, since = float(rng.standard_normal()), rng.integers(4 * BLOCKS)
    for block, campaign in CAMPAIGNS.items():
        of_block = (1 + 0.05 * rng.standard_normal()) * (shift if campaign else 1.0)
        sides = [("native", 1.0), ("xen", XEN) if campaign else ("lxc", LXC)]
        for place, at in enumerate(rng.permutation(2)):
            name, ratio = sides[at]
            noise = kept * noise + np.sqrt(1 - kept**2) * float(rng.standard_normal())
            speed = 1 + faster * (2 * block + place >= since)
            found[name][block] = 100 * ratio * of_block * speed * (1 + 0.03 * noise)
    for block in range(lost):
        del found["native"][block]
    return found


def missed(repeats: int, *, known: bool = True, **world: float) -> float:
    """The rate at which the interval of lxc to xen misses the truth, where the campaigns differ by 10 %."""
    rng, misses = np.random.default_rng(20261125), 0
    for _ in range(repeats):
        model = BlockModel.of(cells(rng, 1.1, **world), campaigns=CAMPAIGNS if known else None)
        assert model is not None
        (found,) = compare(model, [({"lxc": 1.0}, {"xen": 1.0})], 0.95)
        assert found.ratio.interval is not None
        misses += not found.ratio.interval.holds(LXC / XEN)
    return misses / repeats


@pytest.mark.parametrize(
    "world",
    [{}, {"lost": 1}, {"lost": 2}, {"kept": 0.95}, {"faster": 0.05}],
    ids=["", "1 lost", "2 lost", "lasting", "shifted"],
)
def test_the_interval_through_the_common_baseline_keeps_its_rate(world: dict[str, float]) -> None:
    assert missed(300, **world) <= 0.075


def test_the_interval_of_a_mean_holds_that_over_these_campaigns() -> None:
    rng, misses = np.random.default_rng(7), 0
    for _ in range(300):
        native = list(cells(rng, 1.1)["native"].values())
        misses += not describe(native, 0.95).interval.holds(105.0)  # type: ignore[union-attr]
    assert misses / 300 <= 0.05


def test_taken_for_one_campaign_it_would_not() -> None:
    assert missed(200, known=False, lost=1) > 0.3


def test_without_a_common_treatment_there_is_no_number() -> None:
    alone = {name: own for name, own in cells(np.random.default_rng(1), 1.1).items() if name != "native"}
    model = BlockModel.of(alone, campaigns=CAMPAIGNS)
    assert model is not None
    lxc, xen = {"lxc": 1.0}, {"xen": 1.0}
    (found,) = compare(model, [(lxc, xen)], 0.95)
    gap = {"lxc": 1.0, "xen": -1.0}
    others = sum_of_means(model, gap, 0.95), ratio_of_sums(model, gap, lxc, 0.95)
    for contrast in (found.ratio, found.difference, *others):
        assert (contrast.value, contrast.interval, contrast.p) == (None, None, None)
        assert contrast.absent_because == APART


def test_a_single_campaign_is_what_it_was() -> None:
    values = cells(np.random.default_rng(2), 1.0, lost=2)
    one, same = BlockModel.of(values), BlockModel.of(values, campaigns=dict.fromkeys(CAMPAIGNS, 0))
    assert one is not None and same is not None
    pair = [({"lxc": 1.0}, {"native": 1.0})]
    assert compare(one, pair, 0.95) == compare(same, pair, 0.95)
