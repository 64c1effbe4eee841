"""At which dose a limit breaks: a number such as the share of CPUs that a neighbour takes, measured at several doses.

The mean is taken to change with the dose in one direction only, by isotonic regression of posterior draws of all means
(`cell_means`). Between two doses nothing was measured, so what is known is the pair of neighbouring doses between which
the mean crosses the limit: an interval goes from the lower of one pair to the upper of another, and holds the truth
whatever the shape between them. `at` interpolates linearly. Beyond the doses that were measured, nothing is said.

Source: Barlow, Bartholomew, Bremner and Brunk, Statistical Inference under Order Restrictions (1972), section 1.2.
Loads numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lastro.stats.cell_means import MetricTrials, drawn_means

Draws = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class BreakingPoint:
    """The dose at which the limit breaks, and an interval for it.

    `at` is infinite if it probably holds at every dose, and minus infinite if it probably holds at none. `low` is minus
    infinite if it may be broken at the least dose, and `high` is infinite if it may hold at the greatest."""

    at: float
    low: float
    high: float


def breaking_points(
    trials: MetricTrials, doses: Sequence[float], n_candidates: int, limit: float, at_least: bool, alpha: float
) -> list[BreakingPoint | None]:
    """Return for each candidate where its mean crosses the limit, with an interval that misses with at most `alpha`.

    The conditions of `trials` are the doses, in ascending order; there are two or more. None for a candidate that was
    not measured at every dose, or of which only bounds are known."""
    draws = drawn_means(trials, n_candidates, len(doses))
    for cell in trials.floors:
        draws[:, *cell] = np.nan
    grid = (-math.inf, *doses, math.inf)
    found: list[BreakingPoint | None] = []
    for candidate in range(n_candidates):
        own = draws[:, candidate]
        if np.isnan(own).any():
            found.append(None)
            continue
        curves = _falling(own if at_least else -own)
        first = (curves < (limit if at_least else -limit)).argmax(axis=1)
        first[curves[:, -1] >= (limit if at_least else -limit)] = len(doses)
        low, high = (int(each) for each in np.quantile(first, (alpha / 2, 1 - alpha / 2), method="inverted_cdf"))
        middle = _falling(np.median(own if at_least else -own, axis=0, keepdims=True))[0]
        found.append(BreakingPoint(_crossing(middle, doses, limit if at_least else -limit), grid[low], grid[high + 1]))
    return found


def _falling(draws: Draws) -> Draws:
    """Return the isotonic regression of each row, which falls or stays: minima of maxima of means of stretches."""
    n = draws.shape[1]
    sums = np.concatenate([np.zeros((len(draws), 1)), draws.cumsum(axis=1)], axis=1)
    fitted = np.empty_like(draws)
    for at in range(n):
        fitted[:, at] = np.min(
            [
                np.max([(sums[:, end] - sums[:, start]) / (end - start) for end in range(at + 1, n + 1)], axis=0)
                for start in range(at + 1)
            ],
            axis=0,
        )
    return fitted


def _crossing(curve: Draws, doses: Sequence[float], limit: float) -> float:
    if curve[0] < limit:
        return -math.inf
    if curve[-1] >= limit:
        return math.inf
    first = int((curve < limit).argmax())
    share = float((curve[first - 1] - limit) / (curve[first - 1] - curve[first]))
    return doses[first - 1] + share * (doses[first] - doses[first - 1])
