"""Of comparisons that a campaign leaves undecided, further blocks decide as many as they promise."""

from __future__ import annotations

import numpy as np
import pytest

from lastro.stats.block_model import BlockModel
from lastro.stats.contrasts import compare_one
from lastro.stats.simultaneous import MOST_BLOCKS, Outlook, Pair, least_blocks

from ..support.products import one_of

REPEATS, ALIKE = 250, 0.1


def pair_of(values: np.ndarray) -> Pair:
    """Compare two treatments, each a row with a column for each block."""
    model = BlockModel.of({at: dict(enumerate(row)) for at, row in enumerate(values.tolist())}, log=True)
    assert model is not None
    return Pair(compare_one(model, {1: 1.0}, {0: 1.0}, 0.95), 1.0, 1, 0.05)


@pytest.mark.parametrize("noise", [0.05, 0.2])
@pytest.mark.parametrize("blocks", one_of([5, 10]))
def test_the_further_blocks_decide_with_their_probability(blocks: int, noise: float) -> None:
    """True differences are uniform, well beyond what is called alike, and the campaign goes on with more blocks.

    Blocks are whole, so that the probability with the number of blocks is higher than the promised one."""
    rng, promised, decided = np.random.default_rng([blocks, int(100 * noise)]), (0.5, 0.8), [0, 0]
    stated = [0.0, 0.0]
    undecided = 0
    while undecided < REPEATS:
        truth, of_blocks = rng.uniform(-0.4, 0.4), 0.1 * rng.standard_normal(1001)
        values = np.exp(np.array([[0.0], [truth]]) + of_blocks + noise * rng.standard_normal((2, 1001)))
        pair = pair_of(values[:, :blocks])
        if pair.differs or pair.alike(ALIKE):
            continue
        undecided += 1
        for at, probability in enumerate(promised):
            needed = pair.blocks_to_decide(ALIKE, probability)
            assert needed is not None
            then = pair_of(values[:, :needed])
            decided[at] += then.differs or then.alike(ALIKE)
            stated[at] += pair._decided_with(ALIKE)(needed)
    for n, probability, with_these in zip(decided, promised, stated, strict=True):
        assert n / REPEATS >= probability - 0.06
        assert -0.06 <= (n - with_these) / REPEATS <= 0.15


@pytest.mark.parametrize(("ends", "now"), [((0.0,), 8), ((-0.5, 0.5), 8), ((-0.5, 0.5), 4)])
def test_an_interval_excludes_the_ends_as_often_as_predicted(ends: tuple[float, ...], now: int) -> None:
    """True means are uniform, and each campaign goes on to the number of blocks that it was told.

    So few blocks know their spread so badly that what they see as small is often larger."""
    rng, repeats, stated, excluded = np.random.default_rng([9, len(ends), now]), 2 * REPEATS, 0.0, 0
    for _ in range(repeats):
        values = rng.uniform(-2, 2) + rng.standard_normal(1001)
        outlook = Outlook(values[:now].mean(), values[:now].std(ddof=1) / now**0.5, now - 1, now, 0.95)
        n = least_blocks(lambda blocks, seen=outlook: seen.excludes(ends, blocks), 0.8, now + 1) or MOST_BLOCKS
        stated += outlook.excludes(ends, n)
        error = values[:n].std(ddof=1) / n**0.5
        half = Outlook(0.0, error, n - 1, n, 0.95).half_width(n)
        excluded += min(abs(values[:n].mean() - end) for end in ends) > half
    assert stated / repeats >= 0.8 and excluded / repeats == pytest.approx(stated / repeats, abs=0.06)
