"""Breaking points: the dose of an anomaly, such as its share of the CPUs, at which a mean crosses its limit.

The mean is assumed to change with the dose in one direction only: posterior draws of all means (`cell_means`) are
fitted by isotonic regression. Nothing was measured between two neighbouring doses, so a draw only shows between which
two doses the mean crosses the limit. The interval extends from the lower dose of one such pair to the upper dose of
another, and is valid for any shape of the curve in between. The estimate interpolates linearly. There is no
extrapolation beyond the measured doses.

Source: Barlow, Bartholomew, Bremner and Brunk, Statistical Inference under Order Restrictions (1972), section 1.2.
Loads numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lastro.stats.campaign_effects import Campaigns, draw_means
from lastro.stats.cell_means import MetricTrials
from lastro.stats.intervals import Estimate, Interval

Draws = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def breaking_points(
    trials: MetricTrials,
    doses: Sequence[float],
    n_candidates: int,
    limit: float,
    at_least: bool,
    alpha: float,
    campaigns: Campaigns | None = None,
) -> list[Estimate | None]:
    """Return for each candidate the dose at which its mean crosses the limit, with an interval of level 1 - `alpha`.

    The mean must be at least `limit` if `at_least`, else at most. The conditions of `trials` are the doses, two or
    more, in ascending order. `campaigns` are {block: campaign} if there are several. A dose is infinite if the limit
    probably holds at every dose, and minus infinity if it probably holds at none. Its interval begins at minus infinity
    if the limit may be violated even at the least dose, and ends at infinity if the limit may hold even at the greatest
    dose. None for a candidate that was not measured at every dose, or of which only bounds are known."""
    draws = draw_means(trials, (n_candidates, len(doses)), campaigns)
    if not at_least:  # at most `limit` is at least -`limit` for the negated mean
        draws, limit = -draws, -limit
    grid = (-math.inf, *doses, math.inf)
    points: list[Estimate | None] = []
    for candidate in range(n_candidates):
        of_candidate = draws[:, candidate]
        if np.isnan(of_candidate).any():
            points.append(None)
            continue
        curves = _fit_falling(of_candidate)
        first_broken = (curves < limit).argmax(axis=1)
        first_broken[curves[:, -1] >= limit] = len(doses)
        low, high = np.quantile(first_broken, (alpha / 2, 1 - alpha / 2), method="inverted_cdf")
        middle = _fit_falling(np.median(of_candidate, axis=0, keepdims=True))[0]
        interval = Interval(grid[int(low)], grid[int(high) + 1], 1 - alpha)
        points.append(Estimate(_crossing(middle, doses, limit), interval, len(draws)))
    return points


def _fit_falling(draws: Draws) -> Draws:
    """Return for each row the nearest curve that never rises (isotonic regression), by the min-max formula."""
    n = draws.shape[1]
    sums = np.concatenate([np.zeros((len(draws), 1)), draws.cumsum(axis=1)], axis=1)
    fitted = np.empty_like(draws)
    for at in range(n):
        maxima = []
        for start in range(at + 1):
            means = [(sums[:, end] - sums[:, start]) / (end - start) for end in range(at + 1, n + 1)]
            maxima.append(np.max(means, axis=0))
        fitted[:, at] = np.min(maxima, axis=0)
    return fitted


def _crossing(curve: Draws, doses: Sequence[float], limit: float) -> float:
    """Return the dose, by linear interpolation, at which a falling curve crosses the limit.

    Minus infinity if the curve is below the limit at every dose; infinity if it is not below the limit at any dose."""
    if curve[0] < limit:
        return -math.inf
    if curve[-1] >= limit:
        return math.inf
    first = int((curve < limit).argmax())
    fraction = float((curve[first - 1] - limit) / (curve[first - 1] - curve[first]))
    return doses[first - 1] + fraction * (doses[first] - doses[first - 1])
