"""How often intervals of effects miss the truth where whole blocks are shared out among testbeds that differ.

Each testbed has its own speed and its own noise, and takes the next block when it is done: so a fast one measures more
blocks. docs/explanation-statistics.md has the rates of 2,000 campaigns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import compare, compare_one

SPEEDS = np.array([1.0, 0.6, 1.7, 2.5])
NOISES = np.array([0.01, 0.02, 0.03, 0.06])  # of a trial on each testbed
RATIOS = np.array([1.0, 0.9, 1.1, 0.7])  # to the first treatment
SLOW = 0.9  # by which the second treatment is slower on one testbed alone
SIDES = [({treatment: 1.0}, {0: 1.0}) for treatment in range(1, len(RATIOS))]


@dataclass
class Rates:
    """The fractions of campaigns in which an interval misses.

    `family`: any of the three ratios, those of this fleet; `alone`: the ratio of the second treatment, by itself;
    `elsewhere`: the same, held against its ratio on the testbeds that do not slow it down."""

    family: float = 0.0
    alone: float = 0.0
    elsewhere: float = 0.0


def homes(rng: np.random.Generator, blocks: int) -> npt.NDArray[np.intp]:
    """The testbed of each block."""
    free_s, found = np.zeros(len(SPEEDS)), []
    for _ in range(blocks):
        found.append(at := int(np.argmin(free_s)))
        free_s[at] += (1 + 0.1 * rng.random()) / SPEEDS[at]
    return np.array(found)


def missed(blocks: int, slow_on: int | None, repeats: int) -> Rates:
    rng, rates = np.random.default_rng([blocks, slow_on or 0, 20261125]), Rates()
    for _ in range(repeats):
        home = homes(rng, blocks)
        ratios = np.tile(RATIOS[:, None], blocks)
        if slow_on is not None:
            ratios[1, home == slow_on] *= SLOW
        of_block = 100 * SPEEDS[home] * (1 + 0.05 * rng.standard_normal(blocks))
        values = of_block * ratios * (1 + NOISES[home] * rng.standard_normal(ratios.shape))
        model = BlockModel.of(
            {at: dict(enumerate(row)) for at, row in enumerate(values.tolist())},
            campaigns=dict(enumerate(home.tolist())),
        )
        assert model is not None
        # The mean that the model is of: over these blocks, of logarithms or of values.
        here = np.exp(np.log(ratios).mean(axis=1)) if model.log else ratios @ SPEEDS[home] / SPEEDS[home].sum()
        together = [one.ratio.interval for one in compare(model, SIDES, 0.95)]
        alone = compare_one(model, *SIDES[0], 0.95).ratio.interval
        assert alone is not None
        rates.family += any(not each.holds(truth) for each, truth in zip(together, here[1:], strict=True) if each)
        rates.alone += not alone.holds(here[1])
        rates.elsewhere += not alone.holds(RATIOS[1])
    return Rates(rates.family / repeats, rates.alone / repeats, rates.elsewhere / repeats)


def most(repeats: int) -> float:
    """Three standard errors above the stated rate.

    With 80 campaigns this rejects a rate of 20 %, but not reliably one of 10 %."""
    return 0.05 + 3 * math.sqrt(0.05 * 0.95 / repeats)


cases = pytest.mark.parametrize(
    ("blocks", "repeats"), [(8, 80), *(pytest.param(n, 2000, marks=pytest.mark.slow) for n in (4, 8, 20, 40))]
)


@cases
def test_testbeds_that_differ_as_a_whole_do_not_affect_the_rate(blocks: int, repeats: int) -> None:
    rates = missed(blocks, None, repeats)
    assert rates.family <= most(repeats) and rates.alone <= most(repeats)


@cases
def test_a_treatment_slower_on_one_testbed_is_covered_for_this_fleet_alone(blocks: int, repeats: int) -> None:
    fastest = int(SPEEDS.argmax())
    rates = missed(blocks, fastest, repeats)
    assert rates.family <= most(repeats) and rates.alone <= most(repeats)
    assert rates.elsewhere > {4: 0.0, 8: 0.03, 20: 0.4, 40: 0.9}[blocks], "no interval covers what is elsewhere"
