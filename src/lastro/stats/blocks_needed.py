"""How many blocks make all intervals of a metric narrow enough, given what a pilot shows of the noise.

Each draw is one possible truth with one campaign under it: noises that the pilot allows, and the mean squares that such
noises show in a campaign. The number of blocks that this campaign needs is found by bisection. The draws give
a distribution of this number, and its 0.8 quantile is enough in 80 % of cases: it allows for the unknown noise of this
host and for the chance in the spread that a campaign shows. The same without that chance is the pilot's uncertainty.

Sources: Kupper and Hafner, The American Statistician 43 (1989) 101-105, for assurance; Spiegelhalter and Freedman,
Statistics in Medicine 5 (1986) 1-13, for averaging over a pilot's uncertainty; Wilson and Hilferty, Proc. Natl. Acad.
Sci. 17 (1931) 684-688, for chi-square from a normal. Loads numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lastro.stats._projections import Floats
from lastro.stats.future_widths import Intervals
from lastro.stats.noise_posterior import Residuals, drawn_noise

MOST = 1_000_000  # where not even this many blocks are enough, the plan is at fault and not the number
_LEAST_DRAWS, _MOST_NOISES = 300, 40_000  # fewer draws for many cells
_SEED = 1989


@dataclass(frozen=True, slots=True)
class SufficientBlocks:
    """The least number of blocks that suffices with a probability of at least `assurance`; None above a million.

    `reached` is the probability itself, which for few blocks is higher."""

    blocks: int | None
    assurance: float
    reached: float


@dataclass(frozen=True, slots=True)
class BlocksNeeded:
    """The numbers of blocks with which all intervals are narrow enough, one for each assurance.

    `low` to `high` is an interval for the number that the true noise requires on average: after this pilot, it contains
    that number with the requested probability. None above a million. `widest` is the position of the interval that is
    most often the widest."""

    enough: tuple[SufficientBlocks, ...]
    low: int | None
    high: int | None
    widest: int


def blocks_needed(
    pilot: Residuals,
    intervals: Intervals,
    precision: float,
    assurances: tuple[float, ...],
    probable: float,
    draws: int = 1000,
) -> BlocksNeeded:
    """Return the numbers of blocks for half widths of at most `precision`, as a fraction of each estimate.

    `probable` is the probability of the interval of the number that the true noise requires. A probability is uncertain
    by 1.6 % with 1000 `draws`, and by 3 % with 300; on average over pilots, it is right with any number.

    Raises: ValueError where nothing varied, and for a precision that is not above zero."""
    if not precision > 0:
        raise ValueError(f"the half width must be above zero, not {precision}")
    rng = np.random.default_rng(_SEED)
    draws = min(draws, max(_LEAST_DRAWS, _MOST_NOISES // len(pilot.squares)))
    expected = intervals.expected(drawn_noise(pilot, draws, rng) ** 2)
    chance = _correlated(expected.shape, intervals.correlation, rng)
    needed, required = (np.sort(_least(intervals, expected, normal, precision)) for normal in (chance, None))
    middle = np.full((draws, 1), needed[draws // 2])
    widths = intervals.half_widths(_shown(expected, chance, middle), middle)
    return BlocksNeeded(
        tuple(_enough(needed, assurance) for assurance in assurances),
        _quantile(required, (1 - probable) / 2),
        _quantile(required, (1 + probable) / 2),
        int(np.bincount(widths.argmax(axis=1)).argmax()),
    )


def _enough(needed: Floats, assurance: float) -> SufficientBlocks:
    blocks = _quantile(needed, assurance)
    reached = np.searchsorted(needed, MOST if blocks is None else blocks, side="right") / (len(needed) + 1)
    return SufficientBlocks(blocks, assurance, float(reached))


def _quantile(ordered: Floats, q: float) -> int | None:
    """Return the value that one more draw does not exceed with probability q; None above a million."""
    at = min(math.ceil(q * (len(ordered) + 1)), len(ordered))
    value = int(ordered[max(at, 1) - 1])
    return value if value <= MOST else None


def _correlated(shape: tuple[int, ...], correlation: float, rng: np.random.Generator) -> Floats:
    """Return rows of standard normals with this correlation between mean squares of equal noise."""
    common, own = rng.standard_normal((shape[0], 1)), rng.standard_normal(shape)
    return np.asarray(math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own)


def _shown(expected: Floats, normal: Floats | None, n: Floats) -> Floats:
    """Return the mean squares that `n` blocks show, given a draw `normal`; without it, the expected ones."""
    if normal is None:
        return expected
    part = 2 / (9 * (n - 1))
    return np.asarray(expected * np.maximum(1e-3, 1 - part + normal * np.sqrt(part)) ** 3)


def _least(intervals: Intervals, expected: Floats, normal: Floats | None, precision: float) -> Floats:
    """Return for each row the least number of blocks, 2 or more, with narrow intervals; `MOST` + 1 if that is more."""
    low, high = np.ones((len(expected), 1)), np.full((len(expected), 1), MOST + 1.0)
    while np.any(open_ := high - low > 1):
        # The middle of the logarithms: most answers are far from a million.
        n = np.where(open_, np.clip(np.floor(np.sqrt(low * high)), low + 1, high - 1), np.maximum(high, 2))
        widths = intervals.half_widths(_shown(expected, normal, n), n)
        narrow = widths.max(axis=1, keepdims=True) <= precision
        high, low = np.where(open_ & narrow, n, high), np.where(open_ & ~narrow, n, low)
    return high[:, 0]
