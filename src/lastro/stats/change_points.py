"""Find where the level of a series of independent values changes, by binary segmentation with Student's t.

A segment is split at the place where the t of the difference between its two sides is largest, if that difference is
significant after Bonferroni's correction for all possible places. Each side is then split in the same way, and at the
end each change is tested once more between its neighbours. Either side of a change has at least `FEWEST` values, so a
single outlier is not a change, and a change among the newest `FEWEST - 1` values cannot be detected yet.

The usual method for such series is E-divisive with permutations, which does not need normal values. But its p for n
values cannot be less than 2 divided by the number of ways to draw three of them, 0.007 for n = 13: a short history
could not show any change at the error rates that are needed here. The values of a history are means, nearly normal.

Sources: Scott and Knott (1974), A cluster analysis method for grouping means; Worsley (1979), On the likelihood ratio
test for a shift in location of normal populations; Hansen (2000), Sample splitting and threshold estimation, for the
range of a change; Matteson and James (2014) for E-divisive. `benches/history_rates.py` measures the error rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lastro.stats.intervals import Estimate
from lastro.stats.ratios import pooled_ratio
from lastro.stats.student import least_unpaired_p, t_p

FEWEST = 3  # values on either side of a change
# Places that fit worse by up to this many times the variance are in the 95 % range of a change: Hansen (2000), table I.
_RANGE = 7.35
_ROUNDING = 1e-24  # the variance that rounding errors may cause in values up to 1
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of level of a series; with 95 % confidence, its true index lies from `first` to `last`."""

    at: int  # index of the first value after the change
    first: int
    last: int
    before: float  # mean of the segment before the change
    after: float  # mean of the segment after the change
    ratio: Estimate  # `after` / `before`
    p: float  # corrected for all places where the change could have been


@dataclass(frozen=True, slots=True)
class _SegmentSplit:
    """A division of a segment just before the index `at`; `first`, `last` and `p` are as in `ChangePoint`."""

    at: int
    first: int
    last: int
    p: float


def change_points(values: Sequence[float], alpha: float, confidence: float) -> tuple[ChangePoint, ...]:
    """Return the changes of level in the order of the series.

    `alpha` is the probability of finding any change in a segment without one. `confidence` is the confidence of the
    intervals of ratios. Values must be finite."""
    series = np.asarray(values, dtype=float)
    splits = _split_repeatedly(series, 0, len(series), alpha)
    while True:  # a split was made before later ones were known, so test each again between its neighbours
        edges = [0, *(split.at for split in splits), len(series)]
        retested = [_best_split(series, edges[n], edges[n + 2], alpha) for n in range(len(splits))]
        significant = [split for split in retested if split is not None and split.p <= alpha]
        if len(significant) == len(splits):
            break
        splits = significant
    by_place = {split.at: split for split in significant}
    edges = [0, *sorted(by_place), len(series)]
    changes = []
    for n, at in enumerate(edges[1:-1]):
        split, before, after = by_place[at], series[edges[n] : at], series[at : edges[n + 2]]
        ratio = pooled_ratio(after.tolist(), before.tolist(), confidence)
        means = float(before.mean()), float(after.mean())
        changes.append(ChangePoint(at, split.first, split.last, *means, ratio, split.p))
    return tuple(changes)


def _split_repeatedly(series: Values, start: int, end: int, alpha: float) -> list[_SegmentSplit]:
    """Split the values from `start` to `end`, and each side, while splits are significant; return them in order."""
    split = _best_split(series, start, end, alpha)
    if split is None or split.p > alpha:
        return []
    left = _split_repeatedly(series, start, split.at, alpha)
    return [*left, split, *_split_repeatedly(series, split.at, end, alpha)]


def _best_split(series: Values, start: int, end: int, alpha: float) -> _SegmentSplit | None:
    """Return the split of the values from `start` to `end` with the least p; None for too few or equal values.

    Fewer than `FEWEST` values at an end that differ significantly from all others are outliers, which would move the
    split; they are left out first."""
    while (n := end - start) >= 2 * FEWEST and np.ptp(part := series[start:end]):
        part = part - part[0]  # keep the digits in which large values differ
        part = part / np.abs(part).max()
        left = np.arange(1, n)
        sums = np.cumsum(part)
        steps = sums[:-1] / left - (sums[-1] - sums[:-1]) / (n - left)
        rest = np.maximum(0.0, np.sum((part - part.mean()) ** 2) - left * (n - left) / n * steps**2)
        anywhere = int(np.argmin(rest))
        if not FEWEST - 1 <= anywhere < n - FEWEST and _p(steps, rest, anywhere) <= alpha:
            start, end = (start + anywhere + 1, end) if anywhere < FEWEST else (start, start + anywhere + 1)
            continue
        allowed = rest[FEWEST - 1 : n - FEWEST]
        best = FEWEST - 1 + int(np.argmin(allowed))
        near = FEWEST + np.flatnonzero(allowed - rest[best] <= _RANGE * rest[best] / (n - 2))
        p = _p(steps, rest, best)
        return _SegmentSplit(start + best + 1, start + int(near[0]), start + int(near[-1]), p)
    return None


def _p(steps: Values, rest: Values, index: int) -> float:
    """Return the p of a change after `index`, corrected for all searched places.

    A split there has `steps` between the means of the two sides, and `rest` as its residual sum of squares."""
    n, n_left = len(rest) + 1, index + 1
    variance = float(rest[index]) / (n - 2)
    error = math.sqrt(variance * n / (n_left * (n - n_left))) if variance > _ROUNDING else 0.0
    p = t_p(float(steps[index]), error, n - 2, least_unpaired_p((n_left, n - n_left)))
    return min(1.0, (n - 2 * FEWEST + 1) * p)
