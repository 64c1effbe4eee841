"""Test whether a metric drifted over a campaign, apart from the treatments: a trend in time and its slope.

Sources: Mann, Econometrica 13 (1945) 245-259, and Kendall, Rank Correlation Methods (1975), for the test; Sen, J. Am.
Stat. Assoc. 63 (1968) 1379-1389, for the slope and its interval."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from lastro.grouping import by_key
from lastro.stats.intervals import Estimate, Interval, sample_mean
from lastro.stats.notes import Note

# All pairs of points are compared: with more points than this, neighbours in time are averaged.
MOST_POINTS = 2000
LEAST_POINTS = 5  # with four, no order of the points has a p below 0.08
TOO_FEW_POINTS = "n = {n} points in time: a trend needs 5 or more"
ONE_TIME = "all points are at the same time"


@dataclass(frozen=True, slots=True)
class Drift:
    """The trend of points in time: Kendall's `tau`, from -1 to 1, and the slope with the two-sided p of no trend.

    The slope is in the unit of the metric per hour, or in fractions of the treatment's mean per hour if `relative`; its
    `n` counts the points. `points` are (hour, residual) in the order of time, for a plot. `tau` is None if the slope
    has no value."""

    tau: float | None
    slope_per_hour: Estimate
    relative: bool
    points: tuple[tuple[float, float], ...]

    @property
    def span_hours(self) -> float:
        """The hours from the first point to the last one, which the trend describes."""
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
    """Return the trend in time of the residuals of the values from the means of their treatments.

    The sequences have an entry for each trial. With `relative`, residuals are fractions of the treatment's mean, so
    that large and small treatments count equally. With `blocks`, a point is the mean residual of a block: trials of one
    block share the state of the host, so counting each trial as separate evidence would show a drift whenever blocks
    differ. Treatments with one value contain no information on time and are left out; with `relative`, so are
    treatments whose mean is zero.

    Raises: ValueError when the sequences differ in length."""
    sequences = [range(len(values)) if blocks is None else blocks, hours, treatments]
    if any(len(sequence) != len(values) for sequence in sequences):
        raise ValueError("values, hours, treatments and blocks must be of one length")
    residuals: dict[int, float] = {}  # {index of a value: its residual from the mean of its treatment}
    for places in by_key((treatment, at) for at, treatment in enumerate(treatments)).values():
        mean = sample_mean([values[at] for at in places])
        if len(places) > 1 and (mean or not relative):
            residuals |= {at: (values[at] - mean) / (mean if relative else 1) for at in places}
    groups = by_key((at if blocks is None else blocks[at], at) for at in residuals)
    every = sorted(
        (sample_mean([hours[at] for at in group]), sample_mean([residuals[at] for at in group]))
        for group in groups.values()
    )
    size = math.ceil(len(every) / MOST_POINTS) or 1
    neighbours = (every[start : start + size] for start in range(0, len(every), size))
    points = tuple((sample_mean([h for h, _ in near]), sample_mean([r for _, r in near])) for near in neighbours)
    n = len(points)
    if n < LEAST_POINTS:
        return Drift(None, Estimate(None, None, n, Note(TOO_FEW_POINTS, n=n)), relative, points)
    times, mean_residuals = zip(*points, strict=True)
    if times[0] == times[-1]:
        return Drift(None, Estimate(None, None, n, Note(ONE_TIME)), relative, points)
    from scipy.stats import kendalltau, theilslopes

    slope, _, low, high = map(float, theilslopes(mean_residuals, times, confidence))
    varies = min(mean_residuals) < max(mean_residuals)
    tau, p = map(float, kendalltau(times, mean_residuals)) if varies else (0.0, 1.0)
    return Drift(tau, Estimate(slope, Interval(low, high, confidence), n, p=p), relative, points)
