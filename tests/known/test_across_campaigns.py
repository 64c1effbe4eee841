"""Treatments of different campaigns, compared through the baseline that both measured, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import APART, compare, linear, replicated, share

LXC, XEN = 1.1, 0.9  # ratios to native
BLOCKS = 5
CAMPAIGNS = {block: block // BLOCKS for block in range(2 * BLOCKS)}


def cells(rng: np.random.Generator, shift: float, lost: int = 0) -> dict[str, dict[int, float]]:
    """Native in both campaigns, lxc in the first, xen in the second, on which everything is `shift` times as large."""
    found: dict[str, dict[int, float]] = {"native": {}, "lxc": {}, "xen": {}}
    for block, campaign in CAMPAIGNS.items():
        of_block = (1 + 0.05 * rng.standard_normal()) * (shift if campaign else 1.0)
        for name, ratio in (("native", 1.0), ("xen", XEN) if campaign else ("lxc", LXC)):
            found[name][block] = 100 * ratio * of_block * (1 + 0.03 * rng.standard_normal())
    for block in range(lost):
        del found["native"][block]
    return found


def missed(repeats: int, *, lost: int, known: bool) -> float:
    """The rate at which the interval of lxc to xen misses the truth, where the campaigns differ by 10 %."""
    rng, misses = np.random.default_rng(20261125), 0
    for _ in range(repeats):
        model = BlockModel.of(cells(rng, 1.1, lost), campaigns=CAMPAIGNS if known else None)
        assert model is not None
        (found,) = compare(model, [({"lxc": 1.0}, {"xen": 1.0})], 0.95)
        assert found.ratio.interval is not None
        misses += not found.ratio.interval.holds(LXC / XEN)
    return misses / repeats


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_the_interval_through_the_common_baseline_keeps_its_rate(lost: int) -> None:
    assert missed(400, lost=lost, known=True) <= 0.075


def test_taken_for_one_campaign_it_would_not() -> None:
    assert missed(200, lost=1, known=False) > 0.3


def test_without_a_common_treatment_there_is_no_number() -> None:
    alone = {name: own for name, own in cells(np.random.default_rng(1), 1.1).items() if name != "native"}
    model = BlockModel.of(alone, campaigns=CAMPAIGNS)
    assert model is not None
    lxc, xen = {"lxc": 1.0}, {"xen": 1.0}
    (found,) = compare(model, [(lxc, xen)], 0.95)
    gap = {"lxc": 1.0, "xen": -1.0}
    others = replicated(model, lxc, xen, 0.95), linear(model, gap, 0.95), share(model, gap, lxc, 0.95)
    for contrast in (found.ratio, found.difference, *others):
        assert (contrast.value, contrast.interval, contrast.p) == (None, None, None)
        assert contrast.absent_because == APART


def test_a_single_campaign_is_what_it_was() -> None:
    values = cells(np.random.default_rng(2), 1.0, lost=2)
    one, same = BlockModel.of(values), BlockModel.of(values, campaigns=dict.fromkeys(CAMPAIGNS, 0))
    assert one is not None and same is not None
    pair = [({"lxc": 1.0}, {"native": 1.0})]
    assert compare(one, pair, 0.95) == compare(same, pair, 0.95)
