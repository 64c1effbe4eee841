"""A comparison of two means in a family: do they differ, are they equivalent, or how many blocks would decide?"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from lastro.stats.contrasts import MeanComparison
from lastro.stats.intervals import Estimate, Interval, t_quantile

if TYPE_CHECKING:
    from lastro.stats._projections import Floats

    Room = tuple[Floats | float, Floats | float]
    Rooms = Callable[[Floats], Iterable[Room]]

MOST_BLOCKS = 1000  # larger numbers of blocks are not reported
_POINTS = 24  # equally probable quantiles of a variance


@dataclass(frozen=True, slots=True)
class Outlook:
    """What more blocks will make of an estimate: of `value`, with the standard `error` and its `df`, after `n_blocks`.

    Seen from now, the estimate after n blocks has a variance: the true squared error now, minus the true squared error
    after n blocks (Spiegelhalter, Freedman and Blackburn, Controlled Clinical Trials 7 (1986) 8-17). The true error
    itself is known with `df` degrees of freedom: where more blocks show a larger spread, the interval becomes wider,
    too. `confidence` is the confidence of a two-sided interval of this estimate alone."""

    value: float
    error: float
    df: float
    n_blocks: int
    confidence: float

    def half_width(self, n: int) -> float:
        """Return half the width of the interval after `n` blocks if these show the same spread."""
        return t_quantile(self.confidence, self.df + self._more_df(n)) * self.error * math.sqrt(self.n_blocks / n)

    def lies_in(self, rooms: Rooms, n: int) -> float:
        """Return the probability that the estimate lies in one of some disjoint `rooms` after `n` blocks.

        `rooms` maps half the width of the interval then to the ends (low, high) of each; a room whose low end is above
        its high one is empty. `n` must exceed the number of blocks so far."""
        import numpy as np
        from scipy.special import chdtri, ndtr

        points = (np.arange(_POINTS) + 0.5) / _POINTS
        more_df = self._more_df(n)
        true = self.df / chdtri(self.df, points)[:, None]  # variance, as a multiple of the one shown so far
        new = true * chdtri(more_df, points) / more_df  # that more blocks show
        half = self.half_width(n) * np.sqrt((self.df + more_df * new) / (self.df + more_df))
        change = self.error * np.sqrt(true * (1 - self.n_blocks / n))
        inside = np.zeros_like(half)
        for low, high in rooms(half):
            inside += np.maximum(ndtr((high - self.value) / change) - ndtr((low - self.value) / change), 0.0)
        return float(inside.mean())

    def excludes(self, ends: Sequence[float], n: int) -> float:
        """Return the probability that the interval after `n` blocks contains none of these values, in rising order."""
        pairs = list(itertools.pairwise((-math.inf, *ends, math.inf)))
        return self.lies_in(lambda half: [(a + half, b - half) for a, b in pairs], n)

    def _more_df(self, n: int) -> float:
        return self.df * (n - self.n_blocks) / max(1, self.n_blocks - 1)


def least_blocks(
    probability_with: Callable[[int], float], probability: float, least: int, most: int = MOST_BLOCKS
) -> int | None:
    """Return the least number of blocks, from `least` on, that reaches `probability`; None if it exceeds `most`."""
    n = bisect_left(range(most + 1), probability, lo=least, key=probability_with)
    return n if n <= most else None


def most_blocks(numbers: Sequence[int | None]) -> int | None:
    """Return the largest of several numbers of blocks; None if any is None, or if there are none."""
    known = [n for n in numbers if n is not None]
    return max(known) if known and len(known) == len(numbers) else None


@dataclass(frozen=True, slots=True)
class Pair:
    """A comparison of the means of two levels: a ratio if it is certain to be above zero, else a difference.

    `scale` is the size of the two means, by which a difference is judged. Means are over the `strata` conditions in
    which both levels were measured; `alpha` is the level of significance of the whole family."""

    comparison: MeanComparison
    scale: float
    strata: int
    alpha: float

    def reversed(self) -> Pair:
        """Return the comparison of the same levels in the other direction."""
        return replace(self, comparison=self.comparison.reversed())

    @property
    def relative(self) -> bool:
        """True if the ratio is shown, and not the difference."""
        interval = self.comparison.ratio.interval
        return self.comparison.log or (interval is not None and interval.low > 0)

    @property
    def shown(self) -> Estimate:
        """The ratio if the pair is relative, and otherwise the difference in the unit of the values."""
        return self.comparison.ratio if self.relative else self.comparison.difference

    @property
    def value(self) -> float:
        """The value of the ratio or difference. Raises: AssertionError if there is none."""
        assert self.shown.value is not None
        return self.shown.value

    @property
    def interval(self) -> Interval:
        """The interval of the ratio or difference. Raises: AssertionError where nothing varied in too few blocks."""
        assert self.shown.interval is not None
        return self.shown.interval

    @property
    def n_blocks(self) -> int:
        return self.shown.n

    @property
    def constant(self) -> bool:
        """True if neither mean ever varied, and both are equal."""
        return self.comparison.error == 0 and self.distance == 0

    @property
    def differs(self) -> bool:
        """True if the interval excludes a difference of zero, or a ratio of 1."""
        return self.comparison.differs(self.alpha)

    @property
    def distance(self) -> float:
        """The distance between the means, never negative: |log of the ratio| if relative, else the |difference|."""
        return abs(math.log(self.value)) if self.relative else abs(self.value)

    @property
    def most(self) -> float:
        """The most by which either mean may exceed the other, according to the interval; infinite without an interval.

        A fraction of the smaller mean if the pair is relative, else in the unit of the values."""
        if self.shown.interval is None:
            return math.inf
        low, high = self.interval.low, self.interval.high
        return max(high, 1 / low) - 1 if self.relative else max(abs(low), abs(high))

    def alike(self, share: float) -> bool:
        """Return whether, by the interval, neither mean exceeds the other by more than the fraction `share`."""
        return self.most <= (share if self.relative else share * self.scale)

    def blocks_to_decide(self, share: float, probability: float, least: int = 0) -> int | None:
        """Return how many blocks, including those so far, will probably show that the means differ or are equivalent.

        It is the least number, from `least` on, with which the predictive probability of such a result (`Outlook`)
        reaches `probability`. The means are equivalent if they differ by at most the fraction `share`. None if more
        than `MOST_BLOCKS` blocks would be needed, or if nothing varies."""
        if self.differs or self.alike(share):
            return max(self.n_blocks, least)
        if not self.comparison.error or self.shown.interval is None or not self.shown.df:
            return None
        decided = self._decided_with(share)
        if least > self.n_blocks and decided(least) >= probability:
            return least
        return least_blocks(decided, probability, max(self.n_blocks, least) + 1)

    def _decided_with(self, share: float) -> Callable[[int], float]:
        """Return a function that maps a number of blocks to the probability that they decide (`blocks_to_decide`).

        It uses the critical value of this comparison in its family, converted to a level of a single test. With more
        degrees of freedom, the level stays the same."""
        from scipy.special import stdtr

        df, critical = self.shown.df or 1.0, self.comparison.critical or 0.0
        confidence = 1 - 2 * float(stdtr(df, -critical))
        margin = math.log1p(share) if self.relative else share * self.scale
        low, high = self.interval.low, self.interval.high
        error = (math.log(high / low) if self.relative else high - low) / 2 / critical
        outlook = Outlook(self.distance, error, df, self.n_blocks, confidence)

        def rooms(half: Floats) -> Iterable[Room]:
            """Return the ranges in which an estimate whose interval is ± `half` decides: differs, is alike, differs."""
            alike = margin - half
            differs = abs(half - margin / 2) + margin / 2  # the larger of `half` and `alike`: no range overlaps another
            return (-math.inf, -differs), (-alike, alike), (differs, math.inf)

        return partial(outlook.lies_in, rooms)
