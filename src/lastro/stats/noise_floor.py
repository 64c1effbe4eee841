"""The noise floor of a host and a design, from trials of a treatment that is compared with itself (an A/A comparison).

A pair is two trials of the same treatment. On average, their distance in time equals the distance of a treatment from
its baseline in a block of the study that is to be judged (`pairs_of`). A seeded coin decides which of the two is A and
which is B, as the random order inside a block does in a study, so drift favours neither.

The floor is the critical level (Currie, Analytical Chemistry 40 (1968) 586-593) of a relative difference of two means
of n blocks, with A/A pairs as blanks. If the noise is normal, the mean difference of two equal treatments exceeds it in
the stated fraction of campaigns: 5 % at a confidence of 95 %. tests/known/test_noise_floor.py simulates other shapes.
If d are the differences B - A of m pairs, whose expectation the coin makes zero, and M is the mean of all values, the
floor is

    t(m) sqrt(sum of d^2 / (m n)) / |M|

A floor shows the size of differences that have no cause. It decides nothing: every p and interval of a campaign comes
from the noise inside the campaign's own blocks.

A floor applies to a comparison of two treatments, in n blocks. `floor_of_contrast` gives the floor of means over
several treatments, and `floor_for_blocks` the floor for another number of blocks."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lastro.stats.intervals import Estimate, sample_mean, t_quantile
from lastro.stats.notes import Note
from lastro.stats.ratios import paired_ratio

FORMAT = 2  # of floors that a campaign stores; those of format 1 had another definition
NO_PAIR = "0 complete pairs: a floor needs 2 or more"
ONE_PAIR = "1 complete pair: a floor needs 2 or more"
NEAR_ZERO = "the mean is not distinguishable from zero with so few blocks"

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The noise floor of one metric of one treatment, for `blocks` blocks; `floor` is a fraction of the mean.

    The floor is None, with the reason, with fewer than two complete pairs, or if the mean is not distinguishable from
    zero. `pairs` counts the complete pairs, and `ratio` is B / A over them."""

    floor: float | None
    ratio: Estimate | None
    pairs: int
    blocks: int
    absent_because: Note | None = None


def blocks_apart(trials: int, aa_trials: int) -> int:
    """Return the distance between the two trials of a pair in an A/A campaign, in blocks.

    A block of the study that is to be judged has `trials` trials in random order; two of them are (trials + 1) / 3
    positions apart on average. A block of the A/A campaign has `aa_trials` trials."""
    return max(1, round((trials + 1) / 3 / aa_trials))


def pairs_of(by_block: Mapping[int, float], blocks: int, distance: int) -> list[Pair]:
    """Pair the values of blocks 1 to `blocks`, in order; the two blocks of a pair are `distance` blocks apart.

    With `distance` = 2, blocks 1 and 3 are a pair, then 2 and 4, then 5 and 7. At the end of the campaign, pairs are as
    far apart as the remaining blocks allow. Pairs with a missing value are left out."""
    pairs, start = [], 1
    while step := min(distance, (blocks - start + 1) // 2):
        for first in range(start, start + step):
            if first in by_block and first + step in by_block:
                pairs.append((by_block[first], by_block[first + step]))
        start += 2 * step
    return pairs


def toss(pairs: Sequence[Pair], rng: random.Random) -> tuple[list[float], list[float]]:
    """Return the values of A and the values of B: for each pair, a coin decides which value is A's."""
    tossed = [(first, second) if rng.random() < 0.5 else (second, first) for first, second in pairs]
    return [a for a, _ in tossed], [b for _, b in tossed]


def noise_floor(pairs: Sequence[Pair], blocks: int, confidence: float, seed: str) -> NoiseFloor:
    """Return the noise floor of one metric from A/A pairs, for campaigns of `blocks` blocks.

    The same seed gives the same answer. Raises: ValueError for blocks < 2, which give no interval."""
    if blocks < 2:
        raise ValueError(f"{blocks} blocks give no interval, and so no floor")
    if len(pairs) < 2:
        absent = Note(ONE_PAIR) if pairs else Note(NO_PAIR)
        return NoiseFloor(None, None, len(pairs), blocks, absent)
    rng = random.Random(f"{seed}:coins")
    a, b = toss(pairs, rng)
    floor = critical_level(pairs, blocks, confidence)
    why = Note(NEAR_ZERO) if floor is None else None
    return NoiseFloor(floor, paired_ratio(b, a, confidence), len(pairs), blocks, why)


def critical_level(pairs: Sequence[Pair], blocks: int, confidence: float) -> float | None:
    """Return the floor by the formula in this module's docstring; None if the mean is not distinguishable from zero."""
    mean = sample_mean([value for pair in pairs for value in pair])
    spread = math.sqrt(math.fsum((b - a) ** 2 for a, b in pairs) / len(pairs))
    level = t_quantile(confidence, len(pairs)) * spread / math.sqrt(blocks)
    # The variance of one value is half of the variance of a difference.
    return level / abs(mean) if abs(mean) > level / math.sqrt(2) else None


def floor_of_contrast(floor: float, weights: Iterable[float]) -> float:
    """Return the floor of a weighted sum of treatments' means, from the `floor` of a comparison of two treatments.

    Both are fractions of the mean. The noise of treatments is independent, so the variance of the sum is proportional
    to the sum of the squared weights: the floor of a mean of k treatments against a mean of k others is `floor` divided
    by the root of k."""
    return floor * math.sqrt(math.fsum(weight * weight for weight in weights) / 2)


def is_below_floor(floor: float | None, deviation: float | None, weights: Iterable[float]) -> bool | None:
    """Return whether a deviation (of a ratio from 1, of a fraction from 0) is smaller than the floor of its contrast.

    `floor` is the floor of a comparison of two treatments. `weights` are the weights of the contrast, which sum to
    zero. None without a floor or a deviation."""
    if floor is None or deviation is None:
        return None
    return abs(deviation) < floor_of_contrast(floor, weights)


def floor_for_blocks(floor: float, made_for: int, blocks: int) -> float:
    """Return the floor for `blocks` blocks; `floor` is that for `made_for` blocks."""
    return floor * math.sqrt(made_for / blocks)
