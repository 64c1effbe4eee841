"""How many blocks make all intervals of a metric narrow enough, given the intervals of a pilot.

With more blocks, the standard error shrinks with the root of their number, and has more degrees of freedom. The
variance that the next campaign will show, divided by the variance that the pilot showed, has an F distribution with the
degrees of freedom of both. So a number of blocks that is enough with a probability of 0.8 allows for chance in both
campaigns. Without chance in the next campaign, the true variance divided by the pilot's is df / chi-squared.

Intervals share cells, so they are not independent. The probability that all are narrow is at least the product of their
probabilities (Kimball), and at most the smallest of these. `enough` is computed from the product, which is too low if
noises are equal. For `low` and `high`, the bound is used that makes the interval wider. The variance of a treatment
that is much noisier than all others is shrunk towards the others' variance (`moderation`), so the advised number of
blocks is too low for such a treatment. benches/advice_promises.py shows how often the numbers are enough.

Sources: Kupper and Hafner, The American Statistician 43 (1989) 101-105, for assurance; Spiegelhalter and Freedman,
Statistics in Medicine 5 (1986) 1-13, for averaging over a pilot's uncertainty; Kimball, Ann. Math. Statist. 22 (1951)
600-602. Loads numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lastro.stats._projections import Floats
from lastro.stats.simultaneous import least_blocks

MOST = 1_000_000  # blocks; if not even these are enough, the plan must change
_LEAST_ROOM = 1e-300


class PilotInterval(NamedTuple):
    """An interval of a pilot, whose half width is `critical` times `error`, plus `rounding`.

    `error` is the standard error, above zero, with `df` degrees of freedom. `rounding` is what rounding may have added.
    Both are fractions of the estimate, or differences of logarithms."""

    error: float
    df: float
    critical: float
    rounding: float


@dataclass(frozen=True, slots=True)
class SufficientBlocks:
    """The least number of blocks with which all intervals are narrow enough with a probability of at least `assurance`.

    `blocks` is None if it would exceed a million. `reached` is the probability with this number of blocks; if few
    blocks are enough, it is well above `assurance`."""

    blocks: int | None
    assurance: float
    reached: float


@dataclass(frozen=True, slots=True)
class BlocksNeeded:
    """How many blocks make all intervals narrow enough: `enough` has one answer for each assurance.

    The number of blocks that the true noise requires on average is between `low` and `high` with the requested
    probability; an end above a million is None. `widest` is the index of the pilot's interval that is most probably too
    wide with the first number of blocks in `enough`."""

    enough: tuple[SufficientBlocks, ...]
    low: int | None
    high: int | None
    widest: int


def blocks_needed(
    intervals: Sequence[PilotInterval],
    pilot_blocks: int,
    half_width: float,
    assurances: tuple[float, ...],
    probable: float,
) -> BlocksNeeded:
    """Return how many blocks make the half width of each interval at most `half_width`.

    `half_width` is in the unit of the pilot's errors. `pilot_blocks` is the number of blocks of the pilot. `assurances`
    are the probabilities with which the blocks must be enough. `probable` is the probability of the interval `low` to
    `high` of the result.

    Raises: ValueError for a half width that is not above zero."""
    if not half_width > 0:
        raise ValueError(f"the half width must be above zero, not {half_width}")
    from scipy.special import chdtrc, fdtr, stdtr, stdtrit

    error, df, critical, rounding = np.array(intervals).T
    tail = stdtr(df, -critical)

    def freedom(blocks: int) -> Floats:
        return np.asarray(df * (blocks - 1) / (pilot_blocks - 1))

    def room(blocks: int) -> Floats:
        """Return for each interval the largest variance, as a multiple of the pilot's, that keeps it narrow enough."""
        half = -stdtrit(freedom(blocks), tail) * error * np.sqrt(pilot_blocks / blocks)
        return np.asarray((np.maximum(half_width - rounding, 0.0) / half) ** 2)

    def narrow_as_shown(blocks: int) -> Floats:
        """Return for each interval the probability that it is narrow enough in a campaign of this many blocks."""
        return np.asarray(fdtr(freedom(blocks), df, room(blocks)))

    def narrow_on_average(blocks: int) -> Floats:
        """Return for each interval the probability that it is narrow enough if the campaign shows the true noise."""
        return np.asarray(chdtrc(df, df / np.maximum(room(blocks), _LEAST_ROOM)))

    def all_narrow(blocks: int) -> float:
        return float(narrow_as_shown(blocks).prod())

    least = [least_blocks(all_narrow, assurance, 2, MOST) for assurance in assurances]
    enough = [
        SufficientBlocks(n, assurance, all_narrow(n or MOST)) for n, assurance in zip(least, assurances, strict=True)
    ]
    low = least_blocks(lambda blocks: float(narrow_on_average(blocks).min()), (1 - probable) / 2, 2, MOST)
    high = least_blocks(lambda blocks: float(narrow_on_average(blocks).prod()), (1 + probable) / 2, 2, MOST)
    return BlocksNeeded(tuple(enough), low, high, int(narrow_as_shown(least[0] or MOST).argmin()))
