"""All pairs of groups compared, with intervals and p-values that hold for the whole family together.

Sources: Tukey (1953) and Kramer, Biometrics 12 (1956) 307-310, for equal variances."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from lastro.stats.intervals import Interval
from lastro.stats.student import least_paired_p
from lastro.stats.studentized_range import range_quantile, range_sf


@dataclass(frozen=True, slots=True)
class PairComparison:
    """Mean of `first` minus mean of `second`, in the unit of the values.

    The later group comes first, so that it is compared with a baseline that leads. `interval` and `p` are adjusted for
    the family; they are None where there is no spread to judge by."""

    first: str
    second: str
    difference: float
    interval: Interval | None
    p: float | None


def tukey_from_model(
    means: Mapping[str, float], sizes: Mapping[str, int], mean_square: float, df: float, confidence: float
) -> tuple[PairComparison, ...]:
    """Compare all pairs by Tukey's HSD, from means, their numbers of values, and the residual mean square of a model.

    The model has `df` > 0 degrees of freedom: with blocks in it, what they explain no longer widens the intervals.
    Without any spread p is the least that this number of blocks can give, as in `student.t_p`."""
    found = []
    widest = range_quantile(confidence, len(means), df)
    for second, first in combinations(means, 2):
        difference = means[first] - means[second]
        # The unit of the studentized range is the error of one mean: a difference's over sqrt 2.
        error = math.sqrt(mean_square / 2 * (1 / sizes[first] + 1 / sizes[second]))
        if error > 0:
            p = range_sf(abs(difference) / error, len(means), df)
        else:
            p = least_paired_p(min(sizes[first], sizes[second])) if difference else 1.0
        half = widest * error
        interval = Interval(difference - half, difference + half, confidence)
        found.append(PairComparison(first, second, difference, interval, p))
    return tuple(found)
