"""The noise floor of a host and a design, from values of one thing measured against itself (an A/A comparison).

Consecutive blocks (2i - 1, 2i) are a pair, and a seeded coin decides which of the two is A and which is B, so that
drift over the campaign favours neither. Everything is judged as a real comparison would be: the ratio B / A of n pairs
with Fieller's interval, n being the number of blocks of the study that is to be judged.

*Floor*: over pseudo-experiments of n pairs (drawn with replacement, a coin for each), the 95th percentile of half the
width of that interval, as a fraction of the ratio. It is Currie's critical level (Analytical Chemistry 40 (1968)
586-593) with A/A pairs for blanks: with this design, on this host, a difference below it is not distinguishable from
none. A true difference must be larger, up to twice as large, to be found most of the time.

*False positives*: how often the interval excludes 1 although nothing differs. `observed` counts the experiments of n
consecutive pairs that the A/A campaign really holds; they are few, and their interval says so. `resampled` counts
pseudo-experiments: many, but made of the same pairs, so that their interval is that of the resampling alone. The coin
has the same role as the random order inside a block of a study: noise that lasts over many blocks raises the floor, but
not the rate. A spread far from normal in few blocks can raise the rate.

A floor holds for one treatment against one, in n blocks. `scaled` gives it for means over several treatments,
`rescaled` for another number of blocks, and `hides` is the one place that judges by it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lastro.stats.intervals import Interval, t_quantile
from lastro.stats.ratios import Ratio, paired_ratio

RESAMPLINGS = 4000
PERCENTILE = 0.95

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `n`, with an exact interval (Clopper and Pearson); `share` is None for n = 0."""

    count: int
    n: int
    interval: Interval | None

    @property
    def share(self) -> float | None:
        return self.count / self.n if self.n else None


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The noise floor of one metric of one treatment. `floor` and `typical` (the median) are fractions: 0.03 is 3 %.

    They are fractions of the ratio; None, with the reason, when fewer than two pairs are whole or the mean is not
    distinguishable from zero. `pairs` counts the pairs that there were; `blocks` is the n of every experiment."""

    floor: float | None
    typical: float | None
    ratio: Ratio | None
    observed: Rate
    resampled: Rate
    pairs: int
    blocks: int
    absent_because: str | None = None


def rate(count: int, n: int, confidence: float) -> Rate:
    """Return a fraction of n cases with its interval. Source: Clopper and Pearson, Biometrika 26 (1934) 404-413."""
    if not n:
        return Rate(0, 0, None)
    from scipy.special import betaincinv

    alpha = 1 - confidence
    low = float(betaincinv(count, n - count + 1, alpha / 2)) if count else 0.0
    high = float(betaincinv(count + 1, n - count, 1 - alpha / 2)) if count < n else 1.0
    return Rate(count, n, Interval(low, high, confidence))


def pairs_of(by_block: Mapping[int, float]) -> list[Pair]:
    """Return the values of the blocks (1, 2), (3, 4) …, in order, without pairs in which a value is missing."""
    firsts = sorted(block for block in by_block if block % 2 and block + 1 in by_block)
    return [(by_block[block], by_block[block + 1]) for block in firsts]


def toss(pairs: Sequence[Pair], rng: random.Random) -> tuple[list[float], list[float]]:
    """Return A and B: for each pair, a coin decides which value belongs to which."""
    tossed = [(first, second) if rng.random() < 0.5 else (second, first) for first, second in pairs]
    return [a for a, _ in tossed], [b for _, b in tossed]


def noise_floor(
    pairs: Sequence[Pair], blocks: int, confidence: float, seed: str, resamplings: int = RESAMPLINGS
) -> NoiseFloor:
    """Return the noise floor of one metric from A/A pairs, for experiments of `blocks` blocks.

    The same seed gives the same answer. Raises: ValueError for blocks < 2, which give no interval."""
    if blocks < 2:
        raise ValueError(f"{blocks} blocks give no interval, and so no floor")
    nothing = rate(0, 0, confidence)
    if len(pairs) < 2:
        why = f"{len(pairs)} complete pair{'' if len(pairs) == 1 else 's'}: a floor needs 2 or more"
        return NoiseFloor(None, None, None, nothing, nothing, len(pairs), blocks, why)
    rng = random.Random(f"{seed}:coins")
    a, b = toss(pairs, rng)
    experiments = [
        paired_ratio(b[at : at + blocks], a[at : at + blocks], confidence)
        for at in range(0, max(1, len(a) - blocks + 1), blocks)
    ]
    known = [ratio for ratio in experiments if ratio.interval is not None]
    observed = rate(sum(ratio.differs for ratio in known), len(known), confidence)
    widths, excluded = _pseudo_experiments(pairs, blocks, confidence, seed, resamplings)
    resampled = rate(excluded, sum(map(math.isfinite, widths)), confidence)
    typical, floor = (_percentile(widths, q) for q in (0.5, PERCENTILE))
    absent = None if math.isfinite(floor) else "the mean is not distinguishable from zero with so few blocks"
    whole = paired_ratio(b, a, confidence)
    return NoiseFloor(_finite(floor), _finite(typical), whole, observed, resampled, len(pairs), blocks, absent)


def scaled(share: float, weights: Iterable[float]) -> float:
    """Return the floor of a weighted sum of treatments' means from `share`, the floor of one against one.

    Both are fractions of the mean. The noise of treatments is independent, so its variance is proportional to the sum
    of the squared weights: a mean of k treatments against a mean of k others has 1 / sqrt(k) of it."""
    return share * math.sqrt(math.fsum(weight * weight for weight in weights) / 2)


def hides(share: float | None, deviation: float | None, weights: Iterable[float]) -> bool | None:
    """Return whether a deviation (of a ratio from 1, of a fraction from 0) lies below the floor of its contrast.

    The contrast's weights sum to zero: {treated: 1, baseline: -1} has the whole `share`. None without a floor or a
    deviation."""
    if share is None or deviation is None:
        return None
    return abs(deviation) < scaled(share, weights)


def rescaled(share: float, made_for: int, blocks: int, confidence: float) -> float:
    """Return a floor for another number of blocks than it was made for, both 2 or more.

    Half the width of an interval is proportional to t(n - 1) / sqrt(n); as the spread is estimated, its 95th percentile
    is also proportional to the root of that of chi-squared over its degrees of freedom. Exact for normal noise that is
    small beside the mean.

    Raises: ValueError for fewer than two blocks, which give no interval."""
    if min(made_for, blocks) < 2:
        raise ValueError(f"no floor of {made_for} blocks for {blocks}: an interval needs 2 or more")
    if made_for == blocks:
        return share
    return share * _half_width(blocks, confidence) / _half_width(made_for, confidence)


def _half_width(n: int, confidence: float) -> float:
    """Return the 95th percentile of half the width of a Student interval of n normal values, in standard deviations."""
    from scipy.special import chdtri

    spread = math.sqrt(float(chdtri(n - 1, 1 - PERCENTILE)) / (n - 1))
    return t_quantile(confidence, n - 1) * spread / math.sqrt(n)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _percentile(widths: Sequence[float], q: float) -> float:
    """Return the least width that at least a fraction q of all do not exceed; infinite widths are larger than any."""
    return sorted(widths)[max(0, math.ceil(q * len(widths)) - 1)]


def _pseudo_experiments(
    pairs: Sequence[Pair], blocks: int, confidence: float, seed: str, resamplings: int
) -> tuple[list[float], int]:
    """Return the relative half widths of the intervals of pseudo-experiments, and how many intervals exclude 1.

    A width is infinite where there is no interval. The formulas are those of `stats.ratios`, on whole arrays."""
    import numpy as np

    rng = np.random.default_rng([*seed.encode(), blocks])
    chosen = np.asarray(pairs, dtype=float)[rng.integers(len(pairs), size=(resamplings, blocks))]
    coins = rng.random((resamplings, blocks)) < 0.5
    x, y = np.where(coins, chosen[..., 0], chosen[..., 1]), np.where(coins, chosen[..., 1], chosen[..., 0])
    a, b = x.mean(axis=1), y.mean(axis=1)
    dx, dy = x - a[:, None], y - b[:, None]
    freedom = blocks * (blocks - 1)
    var_a, var_b, cov = ((p * q).sum(axis=1) / freedom for p, q in ((dx, dx), (dy, dy), (dx, dy)))
    t2 = t_quantile(confidence, blocks - 1) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        square = b**2 - t2 * var_b
        linear = a * b - t2 * cov
        root = np.sqrt(np.maximum(0.0, linear**2 - square * (a**2 - t2 * var_a)))
        known = (square > 0) & (a != 0)
        low, high = (linear - root) / square, (linear + root) / square
        widths = np.where(known, root / square / np.abs(a / b), np.inf)
    # Rounding alone must not make values differ that are equal but for the last digits.
    slack = 1e-12
    excluded = known & ((low > 1 + slack) | (high < 1 - slack))
    return [float(width) for width in widths], int(excluded.sum())
