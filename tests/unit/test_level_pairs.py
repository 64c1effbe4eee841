"""All pairs of levels: no block's effect reaches them, and unequal spreads do not break their stated rate."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from lastro.analysis.measured import Measured
from lastro.analysis.model import LevelPairs
from lastro.analysis.pairs import level_pairs


def pairs_of(spreads: Sequence[float], block_sd: float, n_blocks: int, seed: int) -> LevelPairs:
    """Levels alike but for their spreads, measured in blocks that shift all of them together."""
    rng, shifts = random.Random(seed), random.Random(seed + 1)
    noise = [[rng.gauss(0, sd) for _ in range(n_blocks)] for sd in spreads]
    blocks = [shifts.gauss(0, block_sd) for _ in range(n_blocks)]
    names = tuple("abcdefgh"[: len(spreads)])
    data = Measured(
        cells={at: {b: 100 + blocks[b] + each[b] for b in range(n_blocks)} for at, each in enumerate(noise)},
        levels={at: {"f": name} for at, name in enumerate(names)},
        factors={"f": names},
        references={"f": "a"},
        confidence=0.95,
    )
    (found,) = level_pairs(data)
    return found


@pytest.mark.parametrize("spreads", [(1, 1, 1), (0.5, 0.5, 0.5, 0.5, 5)])
def test_what_a_block_does_to_all_levels_changes_nothing(spreads: tuple[float, ...]) -> None:
    for seed in range(10):
        calm, moved = pairs_of(spreads, 0, 8, seed), pairs_of(spreads, 50, 8, seed)
        assert calm.method == moved.method
        for one, other in zip(calm.comparisons, moved.comparisons, strict=True):
            assert one.interval is not None and other.interval is not None
            assert one.difference == pytest.approx(other.difference)
            assert one.interval.low == pytest.approx(other.interval.low)
            assert one.p == pytest.approx(other.p, abs=1e-9)


def test_a_level_with_a_larger_spread_is_seen_however_much_the_blocks_vary() -> None:
    found = [pairs_of((0.5, 0.5, 0.5, 0.5, 0.5, 5), 20, 12, seed) for seed in range(80)]
    assert sum(one.method == "paired-holm" for one in found) >= 76
    wrong = sum(any(pair.p is not None and pair.p < 0.05 for pair in one.comparisons) for one in found)
    assert wrong <= 9, "80 families at 5 %: more than nine has a chance below 1 %"
    quiet = [one.comparisons[0].interval for one in found if one.method == "paired-holm"]
    assert all(interval is not None and interval.half_width < 2 for interval in quiet), "its pair has its own error"


def test_levels_of_one_spread_are_compared_by_tukey_and_rarely_differ_falsely() -> None:
    found = [pairs_of((1, 1, 1, 1), 10, 8, seed) for seed in range(80)]
    assert sum(one.method == "tukey-hsd" for one in found) >= 72
    assert sum(any(pair.p is not None and pair.p < 0.05 for pair in one.comparisons) for one in found) <= 9


def test_where_nothing_varies_no_p_is_less_than_the_blocks_allow() -> None:
    """Values that were rounded to steps: within three blocks, no test can be surer than one in four."""
    data = Measured(
        cells={at: {b: 0.1 * b + 0.7 * at for b in range(3)} for at in range(3)},
        levels={at: {"f": name} for at, name in enumerate("abc")},
        factors={"f": ("a", "b", "c")},
        references={"f": "a"},
        confidence=0.95,
    )
    (found,) = level_pairs(data)
    assert found.method == "paired-holm" and all(pair.p is not None and pair.p >= 0.25 for pair in found.comparisons)
