"""All pairs of groups compared, with intervals and p-values that hold for the whole family together.

Sources: Tukey (1953) and Kramer, Biometrics 12 (1956) 307-310, for equal variances; Games and Howell, Journal of
Educational Statistics 1 (1976) 113-125, where they may differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from lastro.stats.intervals import Interval, sample_covariance, sample_mean, satterthwaite
from lastro.stats.notes import Note
from lastro.stats.student import least_paired_p, least_unpaired_p
from lastro.stats.studentized_range import range_quantile, range_sf

ONE_VALUE_EACH = "one value in each group: the spread is not known"
ONE_VALUE_IN = "n = 1 in {groups}: an interval needs 2 trials or more"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Mean of `first` minus mean of `second`, in the unit of the values.

    The later group comes first, so that it is compared with a baseline that leads. `interval` and `p` are adjusted for
    the family; they are None where there is no spread to judge by, and `absent_because` says why."""

    first: str
    second: str
    difference: float
    interval: Interval | None
    p: float | None
    absent_because: Note | None = None

    @property
    def differs(self) -> bool:
        if self.interval is None or self.interval.holds(0.0):
            return False
        return self.p is None or self.p < 1 - self.interval.confidence


def tukey_hsd(groups: Mapping[str, Sequence[float]], confidence: float) -> tuple[Comparison, ...]:
    """Compare all pairs of independent groups of one variance.

    Source: Tukey (1953), and Kramer (1956) for unequal sizes. Groups without values are left out; without two groups
    there is nothing to compare, and the tuple is empty."""
    made = {name: values for name, values in groups.items() if len(values)}
    means = {name: sample_mean(values) for name, values in made.items()}
    sizes = {name: len(values) for name, values in made.items()}
    df = sum(sizes.values()) - len(sizes)
    squares = math.fsum((value - means[name]) ** 2 for name, values in made.items() for value in values)
    return tukey_from_model(means, sizes, squares / df if df > 0 else math.nan, df, confidence)


def tukey_from_model(
    means: Mapping[str, float], sizes: Mapping[str, int], mean_square: float, df: float, confidence: float
) -> tuple[Comparison, ...]:
    """Compare all pairs as `tukey_hsd`, from means, their numbers of values, and the residual mean square of a model.

    The model has `df` degrees of freedom: with blocks in it, what they explain no longer widens the intervals."""
    found = []
    for second, first in combinations(means, 2):
        difference = means[first] - means[second]
        if df <= 0:
            found.append(Comparison(first, second, difference, None, None, Note(ONE_VALUE_EACH)))
            continue
        error = math.sqrt(mean_square / 2 * (1 / sizes[first] + 1 / sizes[second]))
        least = least_paired_p(min(sizes[first], sizes[second]))  # with blocks in the model; more than enough without
        found.append(_compare(first, second, difference, error, len(means), df, confidence, least))
    return tuple(found)


def games_howell(groups: Mapping[str, Sequence[float]], confidence: float) -> tuple[Comparison, ...]:
    """Compare all pairs of independent groups whose variances may differ. Empty groups are left out.

    Each pair has its own error and degrees of freedom. A group with one value has no variance: its pairs have no
    interval. Source: Games and Howell (1976)."""
    made = {name: values for name, values in groups.items() if len(values)}
    means = {name: sample_mean(values) for name, values in made.items()}
    parts = {name: sample_covariance(v, v) / len(v) for name, v in made.items() if len(v) > 1}
    found = []
    for second, first in combinations(made, 2):
        difference = means[first] - means[second]
        if alone := [name for name in (first, second) if name not in parts]:
            why = Note(ONE_VALUE_IN, groups="; ".join(alone))
            found.append(Comparison(first, second, difference, None, None, why))
            continue
        both = (parts[first], parts[second])
        n = (len(made[first]), len(made[second]))
        least = min(1.0, math.comb(len(made), 2) * least_unpaired_p(n))  # for all pairs: Bonferroni
        error = math.sqrt(sum(both) / 2)
        found.append(_compare(first, second, difference, error, len(made), satterthwaite(both, n), confidence, least))
    return tuple(found)


def _compare(
    first: str, second: str, difference: float, error: float, k: int, df: float, confidence: float, least: float
) -> Comparison:
    """Return a comparison; `error` is that of one mean, the unit of the studentized range: a difference's over sqrt 2.

    Without any spread p is `least`, as in `student.t_p`."""
    half = range_quantile(confidence, k, df) * error
    p = range_sf(abs(difference) / error, k, df) if error > 0 else least if difference else 1.0
    return Comparison(first, second, difference, Interval(difference - half, difference + half, confidence), p)
