"""Two means compared in a family: whether they differ, are alike within a margin, or how many blocks would decide."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from lastro.stats.contrasts import MeanComparison
from lastro.stats.intervals import Estimate, Interval, t_quantile

MOST_BLOCKS = 1000  # beyond it, no number of blocks is named


@dataclass(frozen=True, slots=True)
class Pair:
    """One level against another, as a ratio where both means are above zero, else as a difference.

    `scale` is the size of the two means, with which a difference can be compared. Means are over `strata` conditions
    in which both were measured; `alpha` is the level of significance of the whole family."""

    comparison: MeanComparison
    scale: float
    strata: int
    alpha: float

    @property
    def relative(self) -> bool:
        interval = self.comparison.ratio.interval
        return self.comparison.log or (interval is not None and interval.low > 0)

    @property
    def shown(self) -> Estimate:
        """The ratio if the pair is relative, and otherwise the difference in the unit of the values."""
        return self.comparison.ratio if self.relative else self.comparison.difference

    @property
    def value(self) -> float:
        assert self.shown.value is not None
        return self.shown.value

    @property
    def interval(self) -> Interval:
        """The interval of what is shown. Raises: AssertionError where nothing varied in too few blocks."""
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
        """The distance between the two in either order: a ratio as a logarithm, a difference in the values' unit."""
        return abs(math.log(self.value)) if self.relative else abs(self.value)

    @property
    def most(self) -> float:
        """The most by which either mean exceeds the other: a fraction of it for a ratio, else in the values' unit."""
        if self.shown.interval is None:
            return math.inf
        low, high = self.interval.low, self.interval.high
        return max(high, 1 / low) - 1 if self.relative else max(abs(low), abs(high))

    def alike(self, share: float) -> bool:
        """Return whether the whole interval lies within this fraction of the means, to either side of no difference."""
        return self.most <= (share if self.relative else share * self.scale)

    def blocks_to_decide(self, share: float, probability: float, least: int = 0) -> int | None:
        """Return how many blocks, in all, will probably show that the means differ, or are alike within `share`.

        It is `least` where that many suffice. This is the predictive probability: after this campaign, the difference
        that n blocks will show is uncertain by its error, less what n blocks leave of it (Spiegelhalter, Freedman and
        Blackburn, Controlled Clinical Trials 7 (1986) 8-17). The spread is taken to stay as it is. None where
        `MOST_BLOCKS` would not be enough, or nothing varies."""
        if self.differs or self.alike(share):
            return max(self.n_blocks, least)
        if not self.comparison.error or self.shown.interval is None or not self.shown.df:
            return None
        decided = self._decided_with(share)
        if least > self.n_blocks and decided(least) >= probability:
            return least
        n = bisect_left(range(MOST_BLOCKS + 1), probability, lo=max(self.n_blocks, least) + 1, key=decided)
        return n if n <= MOST_BLOCKS else None

    def _decided_with(self, share: float) -> Callable[[int], float]:
        """Return a function of the number of blocks: the probability that they decide.

        The critical value remains that of the same level for this comparison alone, with more degrees of freedom."""
        from scipy.special import stdtr

        now, df, critical = self.n_blocks, self.shown.df or 1.0, self.comparison.critical or 0.0
        confidence = 1 - 2 * float(stdtr(df, -critical))
        margin = math.log1p(share) if self.relative else share * self.scale
        low, high = self.interval.low, self.interval.high
        error = (math.log(high / low) if self.relative else high - low) / 2 / critical

        def decided(n: int) -> float:
            half = t_quantile(confidence, df * (n - 1) / max(1, now - 1)) * error * math.sqrt(now / n)
            if 2 * half <= margin:
                return 1.0

            def beyond(end: float) -> float:
                """Return the probability of a distance of more than `end` to either side."""
                known = error * math.sqrt(1 - now / n)
                return float(stdtr(df, (self.distance - end) / known) + stdtr(df, (-self.distance - end) / known))

            return beyond(half) + (1 - beyond(margin - half) if half < margin else 0.0)

        return decided
