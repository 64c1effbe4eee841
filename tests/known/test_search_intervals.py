"""The results of searches are cells of a grid: intervals of their means and ratios hold the truth between cells."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lastro.results.samples import Metric
from lastro.scenarios.load.goals import Goal
from lastro.scenarios.load.measuring import METRICS
from lastro.scenarios.load.search import Bounds, GoalInterval, Probe, binary
from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import MeanComparison, compare_one
from lastro.stats.intervals import describe, describe_bounded
from lastro.stats.sampled_mean import SampledMean

from ..support.products import combinations

GOAL, BOUNDS = Goal("ndr", 0.0), Bounds(1_000, 1_000_000)


def searched(capacity_fps: float) -> tuple[float, float]:
    """The cell in which a binary search finds the capacity of a function."""

    def measure(rate_fps: float, duration_s: float) -> Probe:
        sent = round(rate_fps * duration_s)
        return Probe(rate_fps, duration_s, sent, min(sent, int(capacity_fps * duration_s)), duration_s, {})

    (found,) = binary((GOAL,), BOUNDS, measure)
    assert isinstance(found, GoalInterval) and found.upper_fps is not None
    return found.lower_fps, found.upper_fps


def compared(cells: list[list[tuple[float, float]]]) -> MeanComparison:
    model = BlockModel.of(
        {at: {block: (low + high) / 2 for block, (low, high) in enumerate(own)} for at, own in enumerate(cells)},
        widths={at: sum(high - low for low, high in own) / len(own) for at, own in enumerate(cells)},
    )
    assert model is not None
    return compare_one(model, {1: 1.0}, {0: 1.0}, 0.95)


@pytest.mark.parametrize(("noise", "n"), combinations((0.0003, 0.001, 0.003, 0.01, 0.03), (3, 5, 10)))
def test_means_and_ratios_hold_the_truth(noise: float, n: int) -> None:
    rng, rounds, held, false, of_ratio = np.random.default_rng([n, int(1e5 * noise)]), 120, 0, 0, 0
    for _ in range(rounds):
        truth = math.exp(rng.uniform(math.log(5e4), math.log(5e5)))
        first, second, slower = truth * (1 + noise * rng.standard_normal((3, n))) * np.array([[1.0], [1.0], [0.97]])
        cells = [[searched(capacity) for capacity in own] for own in (first, second, slower)]
        lower = [low for low, _ in cells[0]]
        widths = [high - low for low, high in cells[0]]
        found = describe_bounded(lower, [False] * n, 0.95, widths=widths)
        assert found.mean == describe(lower, 0.95).mean and found.interval is not None
        held += found.interval.holds(truth)
        false += compared([cells[0], cells[1]]).differs(0.05)
        ratio = compared([cells[0], cells[2]]).ratio.interval
        of_ratio += ratio is None or ratio.holds(0.97)
    assert held / rounds >= 0.93 and false / rounds <= 0.06 and of_ratio / rounds >= 0.94


def test_one_step_of_the_grid_is_not_a_difference_and_more_are() -> None:
    low, middle, high, top = 99_000.0, 100_000.0, 101_000.0, 104_000.0
    blocks = 10
    one, two = ([(middle, high)] * blocks, [(low, middle)] * blocks)
    assert not compared([two, one]).differs(0.05)
    assert compared([two, [(high + 2000, top)] * blocks]).differs(0.05)
    assert SampledMean.of([middle] * 5, width=1000.0).bias == 500


def test_the_metrics_of_a_search_know_their_cell() -> None:
    by_name = {metric.name: metric for metric in METRICS}
    measured = {"pdr": 100.0, "pdr_upper": 101.0, "pdr_conditional": 99.8}
    widths = {name: by_name[name].width(measured) for name in measured}
    assert widths == {"pdr": 1.0, "pdr_upper": -1.0, "pdr_conditional": 1.0}
    assert by_name["pdr"].width({"pdr": 100.0}) == by_name["pdr_exceed"].width(measured) == 0.0
    assert Metric("throughput", "Mbit/s", "higher", "").width(measured) == 0.0
