"""Where the level of a series of independent values changes, by binary segmentation with Student's t.

A segment is divided where the t of a difference between its two sides is largest, if that is significant after
Bonferroni's correction for all places where it could have been divided. Each side is then divided in the same way, and
at the end each change is tested once more between its neighbours. Either side of a change has at least `FEWEST` values,
so an outlier is no change, and nothing can be said yet of the newest `FEWEST - 1` values.

E-divisive with permutations, which is usual for such series, needs no normal values. But the p of n permutable values
cannot be less than 2 over the number of ways to draw three of them: 0.007 for n = 13, so that a short history could
show nothing at the rates that are needed here. The values of a history are means, which are nearly normal.

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
_RANGE = 7.35  # how much worse a place may fit, in units of the variance, for 95 %: Hansen (2000), table I
_ROUNDING = 1e-24  # a variance that rounding alone may give, of values up to 1
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A change of level between two values of a series.

    `at` is the index of the first value after the change, and `first` to `last` are those that it may be, with 95 %
    confidence. `before` and `after` are the means of the two segments. `ratio` is after / before."""

    at: int
    first: int
    last: int
    before: float
    after: float
    ratio: Estimate
    p: float


@dataclass(frozen=True, slots=True)
class _Divided:
    at: int
    first: int
    last: int
    p: float


def change_points(values: Sequence[float], alpha: float, confidence: float) -> tuple[ChangePoint, ...]:
    """Return the changes in order. `alpha` is the probability to see any in a segment without one.

    Values must be finite; `confidence` is that of the ratios' intervals."""
    series = np.asarray(values, dtype=float)
    found = _segmented(series, 0, len(series), alpha)
    while True:  # a change may have been found where a later one was not known yet
        edges = [0, *(split.at for split in found), len(series)]
        again = [_best(series, edges[n], edges[n + 2], alpha) for n in range(len(found))]
        kept = [split for split in again if split is not None and split.p <= alpha]
        if len(kept) == len(found):
            break
        found = kept
    edges = [0, *sorted({split.at for split in kept}), len(series)]
    by_place = {split.at: split for split in kept}
    return tuple(_change(series, by_place[at], edges[n], edges[n + 2], confidence) for n, at in enumerate(edges[1:-1]))


def _segmented(series: Values, start: int, end: int, alpha: float) -> list[_Divided]:
    split = _best(series, start, end, alpha)
    if split is None or split.p > alpha:
        return []
    return [*_segmented(series, start, split.at, alpha), split, *_segmented(series, split.at, end, alpha)]


def _best(series: Values, start: int, end: int, alpha: float) -> _Divided | None:
    """Return where the values from `start` to `end` differ most, with its corrected p; None for too few, or alike.

    Fewer than `FEWEST` values at an end that surely differ are left out: they are no change yet, and would move one."""
    while (n := end - start) >= 2 * FEWEST and np.ptp(part := series[start:end]):
        part = part - part[0]  # large values that hardly differ would lose the digits in which they do
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
        return _Divided(start + best + 1, start + int(near[0]), start + int(near[-1]), p)
    return None


def _p(steps: Values, rest: Values, index: int) -> float:
    """Return p of a step after the value of this index, corrected for all places where it could have been."""
    n, n_left = len(rest) + 1, index + 1
    variance = float(rest[index]) / (n - 2)
    error = math.sqrt(variance * n / (n_left * (n - n_left))) if variance > _ROUNDING else 0.0
    p = t_p(float(steps[index]), error, n - 2, least_unpaired_p((n_left, n - n_left)))
    return min(1.0, (n - 2 * FEWEST + 1) * p)


def _change(series: Values, split: _Divided, start: int, end: int, confidence: float) -> ChangePoint:
    before, after = series[start : split.at], series[split.at : end]
    ratio = pooled_ratio(after.tolist(), before.tolist(), confidence)
    return ChangePoint(split.at, split.first, split.last, float(before.mean()), float(after.mean()), ratio, split.p)
