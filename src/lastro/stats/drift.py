"""Test whether a metric drifted over a campaign, apart from the treatments: a trend in time and its slope.

Sources: Mann, Econometrica 13 (1945) 245-259, and Kendall, Rank Correlation Methods (1975), for the test; Sen, J. Am.
Stat. Assoc. 63 (1968) 1379-1389, for the slope and its interval."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

from lastro.stats.intervals import Interval, sample_mean
from lastro.stats.notes import Note, steps_too_coarse

# All pairs of points are compared: with more points than this, neighbours in time are averaged.
MOST_POINTS = 2000
EXACT_PAIRS = 50  # points up to which the distribution of Kendall's tau is exact, by counting
LEAST_POINTS = 5  # with four, no order of the points has a p below 0.08
TOO_FEW_POINTS = "n = {n} points in time: a trend needs 5 or more"
ONE_TIME = "all points are at the same time"

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Drift:
    """The trend of `n` points in time. `tau` is Kendall's, from -1 to 1; `p` is two-sided, for no trend.

    `slope_per_hour` is in the unit of the metric per hour, or in fractions of the treatment's mean per hour when
    `relative`. `points` are (hour, residual), in order of time, for a plot. `absent_because` explains what is None."""

    tau: float | None
    p: float | None
    slope_per_hour: float | None
    interval: Interval | None
    relative: bool
    n: int
    points: tuple[tuple[float, float], ...]
    absent_because: Note | None = None

    @property
    def span_hours(self) -> float:
        """The hours from the first point to the last: beyond them, nothing is known of the trend."""
        return self.points[-1][0] - self.points[0][0] if self.points else 0.0


def drift(
    values: Sequence[float],
    hours: Sequence[float],
    treatments: Sequence[Hashable],
    confidence: float,
    *,
    blocks: Sequence[int] | None = None,
    relative: bool = False,
) -> Drift:
    """Return the trend of values[i], taken at hours[i], after subtracting the mean of treatments[i].

    With `relative`, values are fractions of that mean, so that treatments of different size count alike (needs means
    other than zero). With `blocks`, the points are the means of the residuals of each block: trials of one block share
    the state of the host, and to count each as separate evidence would find drift wherever blocks differ at all. A
    treatment with one value contains no information on time and is left out; so is, with `relative`, one whose mean is
    zero.

    Sources: Mann (1945) and Kendall (1975) for tau and p, Sen (1968) for the slope and its interval.

    Raises: ValueError when the sequences differ in length."""
    names = [range(len(values)) if blocks is None else blocks, hours, treatments]
    if any(len(name) != len(values) for name in names):
        raise ValueError("values, hours, treatments and blocks must be of one length")
    residuals = _residuals(values, treatments, relative)
    points = _points(residuals, hours, blocks)
    n = len(points)
    if n < LEAST_POINTS:
        return Drift(None, None, None, None, relative, n, points, Note(TOO_FEW_POINTS, n=n))
    import numpy as np

    slopes, s = _slopes_and_s(points)
    if not slopes.size:
        return Drift(None, None, None, None, relative, n, points, Note(ONE_TIME))
    p, variance, tau = _mann_kendall(points, s)
    k, achieved = kendall_order(n, variance, confidence)
    slope = float(np.median(slopes))
    if k == 0 or 2 * k > slopes.size:
        return Drift(tau, p, slope, None, relative, n, points, steps_too_coarse(n, achieved, confidence))
    low, high = np.partition(slopes, [k - 1, slopes.size - k])[[k - 1, slopes.size - k]].tolist()
    return Drift(tau, p, slope, Interval(low, high, achieved), relative, n, points)


def _residuals(values: Sequence[float], treatments: Sequence[Hashable], relative: bool) -> dict[int, float]:
    """Return the residual of each value, by its position, after subtracting its treatment's mean."""
    members: dict[Hashable, list[int]] = {}
    for at, treatment in enumerate(treatments):
        members.setdefault(treatment, []).append(at)
    residuals: dict[int, float] = {}
    for places in members.values():
        mean = sample_mean([values[at] for at in places])
        if len(places) > 1 and (mean or not relative):
            residuals |= {at: (values[at] - mean) / (mean if relative else 1) for at in places}
    return residuals


def _points(
    residuals: dict[int, float], hours: Sequence[float], blocks: Sequence[int] | None
) -> tuple[tuple[float, float], ...]:
    """Return (hour, residual) in order of time, for each trial or block, or for neighbours when there are too many."""
    groups: dict[int, list[int]] = {}
    for at in residuals:
        groups.setdefault(at if blocks is None else blocks[at], []).append(at)
    points = sorted(
        (sample_mean([hours[at] for at in group]), sample_mean([residuals[at] for at in group]))
        for group in groups.values()
    )
    size = math.ceil(len(points) / MOST_POINTS) or 1
    neighbours = (points[start : start + size] for start in range(0, len(points), size))
    return tuple((sample_mean([h for h, _ in near]), sample_mean([r for _, r in near])) for near in neighbours)


def _slopes_and_s(points: Sequence[tuple[float, float]]) -> tuple[NDArray[np.float64], int]:
    """Return the slopes between all points at different times, and Kendall's S: rising pairs minus falling pairs."""
    import numpy as np

    hours, residuals = np.array(points).T
    first, second = np.triu_indices(len(points), 1)
    run, rise = hours[second] - hours[first], residuals[second] - residuals[first]
    later = run > 0
    return rise[later] / run[later], int(np.sign(rise[later]).sum())


def _mann_kendall(points: Sequence[tuple[float, float]], s: int) -> tuple[float, float, float]:
    """Return p, the variance of S, and tau. Source of the correction for ties in both: Kendall (1975), chapter 4."""
    n = len(points)
    ties = [[size for size in Counter(column).values() if size > 1] for column in zip(*points, strict=True)]
    pairs, (in_time, in_value) = n * (n - 1) / 2, (sum(t * (t - 1) / 2 for t in column) for column in ties)
    untied = (pairs - in_time) * (pairs - in_value)
    tau = s / math.sqrt(untied) if untied else 0.0
    lost = sum(t * (t - 1) * (2 * t + 5) for column in ties for t in column)
    in_threes = math.prod(sum(t * (t - 1) * (t - 2) for t in column) for column in ties)
    variance = (n * (n - 1) * (2 * n + 5) - lost) / 18
    variance += in_threes / (9 * n * (n - 1) * (n - 2)) + 2 * in_time * in_value / (n * (n - 1))
    if n <= EXACT_PAIRS and not any(ties):
        cdf, discordant = discordant_cdf(n), round((pairs - s) / 2)
        below = cdf[discordant - 1] if discordant else 0.0
        return min(1.0, 2 * min(cdf[discordant], 1 - below)), variance, tau
    # S moves in steps of 2, so the correction for continuity is that of S / 2.
    distance = max(0.0, abs(s / 2) - 0.5)
    p = min(1.0, 2 * NormalDist().cdf(-distance / math.sqrt(variance / 4))) if variance > 0 else 1.0
    return p, variance, tau


@lru_cache(maxsize=64)
def discordant_cdf(n: int) -> tuple[float, ...]:
    """Return P(D <= d) for d = 0, 1, … pairs out of order in n values without ties, all orders being equally likely.

    Source: Kendall, Rank Correlation Methods (1975), chapter 5."""
    import numpy as np

    shares = np.ones(1)
    for size in range(2, n + 1):
        shares = np.convolve(shares, np.full(size, 1 / size))
    return tuple(np.minimum(np.cumsum(shares), 1.0).tolist())


def kendall_order(n: int, variance: float, confidence: float) -> tuple[int, float]:
    """Return (k, achieved confidence) for the largest k whose order statistics bracket the slope of n points.

    They are the k-th least and the k-th greatest of the n (n - 1) / 2 slopes between the points. k = 0 when not even
    the outermost bracket it with the requested confidence; the confidence is then theirs. `variance` is that of
    Kendall's S. Source: Sen, J. Am. Stat. Assoc. 63 (1968) 1379-1389; Hollander and Wolfe (1999), section 9.3."""
    if n > EXACT_PAIRS:
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        return max(1, math.floor(n * (n - 1) / 4 + 0.5 - z * math.sqrt(variance / 4))), confidence
    cdf = discordant_cdf(n)
    # The slack keeps a tail of exactly (1 - confidence) / 2 from being lost to rounding.
    k = sum(1 for p in cdf if 2 * p <= (1 - confidence) * (1 + 1e-12))
    return k, 1 - 2 * cdf[max(k, 1) - 1]
