"""How often to repeat, and at which level: trials within a deployment, deployments within a block, blocks.

Source: Kalibera and Jones, Rigorous benchmarking in reasonable time, ISMM (2013) 63-74. Levels are
counted from the lowest: level 1 is repeated at the least cost, and the highest decides the width of the interval."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

from lastro.stats.intervals import sample_covariance, sample_mean, t_quantile

Nested = Sequence[Union[float, "Nested"]]

# Where not even this many blocks are enough, the plan is at fault and not the number.
MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Components:
    """The parts of the variance of a nested measurement.

    variances[0] is that of repetitions of the lowest level, variances[-1] that between units of the highest; what lower
    levels contribute is subtracted from each, and none is negative (unit of the metric, squared). `repetitions` is the
    number of units at each level (harmonic mean where units differ); `mean` is the mean of the means of the highest
    units."""

    variances: tuple[float, ...]
    repetitions: tuple[float, ...]
    mean: float


def variance_components(nested: Nested) -> Components:
    """Return the components of values nested in lists: [[a, b], [c, d, e]] is two deployments of two and three trials.

    A flat list has one level. Units of one level may differ in size; those of one value add nothing to the variance
    within. Source: Kalibera and Jones (2013), whose T² these are.

    Raises: ValueError when the depth differs between units, a unit is empty, or some level is never repeated."""
    by_level = _levels(nested)
    observed, sizes = [], []
    for level, units in enumerate(by_level, 1):
        repeated = [unit for unit in units if len(unit) > 1]
        if not repeated:
            raise ValueError(f"level {level} is never repeated: its variance cannot be known")
        freedom = sum(len(unit) - 1 for unit in repeated)
        observed.append(sum(sample_covariance(unit, unit) * (len(unit) - 1) for unit in repeated) / freedom)
        sizes.append(len(units) / math.fsum(1 / len(unit) for unit in units))
    below = [0.0, *(variance / size for variance, size in zip(observed, sizes, strict=True))]
    freed = tuple(max(0.0, variance - lower) for variance, lower in zip(observed, below, strict=False))
    return Components(freed, tuple(sizes), sample_mean(by_level[-1][0]))


def optimum_repetitions(variances: Sequence[float], costs: Sequence[float], most: int = 100) -> tuple[int, ...]:
    """Return how often to repeat every level but the highest for the narrowest interval at a given cost, up to `most`.

    costs[0] is the cost of one repetition of the lowest level, and costs[i] what each unit of level i + 1 costs beyond
    the repetitions inside it (such as the setup of a deployment), all in one unit. Level i is worth sqrt(c[i+1] v[i] /
    (c[i] v[i+1])) repetitions. A level that adds no variance is not repeated, and the level below it is compared with
    the next level that does, at the cost of both. Where no higher level varies, more repetitions are always worth their
    cost: `most`. Source: Kalibera and Jones (2013).

    Raises: ValueError unless there are as many costs, all above zero, as variances."""
    if len(costs) != len(variances) or min(costs) <= 0:
        raise ValueError(f"{len(variances)} levels need as many costs above zero, not {list(costs)}")
    return tuple(min(most, _worth(variances, costs, level)) for level in range(len(variances) - 1))


def _worth(variances: Sequence[float], costs: Sequence[float], level: int) -> int:
    if variances[level] == 0:
        return 1
    above = next((at for at in range(level + 1, len(variances)) if variances[at] > 0), None)
    if above is None:
        return MOST
    cost = math.fsum(costs[level + 1 : above + 1])
    # The slack keeps a whole number from being lifted to the next by rounding.
    return max(1, math.ceil(math.sqrt(cost / costs[level] * variances[level] / variances[above]) - 1e-9))


def half_width(variance: float, n: int, confidence: float) -> float:
    """Return half the expected width of Student's interval from n units of the highest level, each of this variance."""
    return t_quantile(confidence, n - 1) * math.sqrt(variance / n)


def least_n(variance: float, wanted_half_width: float, confidence: float, assurance: float = 0.5) -> int | None:
    """Return the least number of blocks, 2 or more, with at most this half width of the interval; None above a million.

    Blocks are units of the highest level. The variance that n of them will show varies by chance: with `assurance` 0.8
    the interval is narrow enough in 80 % of campaigns; 0.5 is about the average. The degrees of freedom are n - 1, as
    when paired; unpaired samples have more, and need slightly fewer. Source of the assurance: Kupper and Hafner, The
    American Statistician 43 (1989) 101-105. Raises: ValueError unless the half width is above zero and 0 < assurance <
    1."""
    if not wanted_half_width > 0 or not 0 < assurance < 1:
        raise ValueError(f"half width {wanted_half_width} must be above 0, and assurance {assurance} between 0 and 1")
    from scipy.special import chdtri

    def narrow(n: int) -> bool:
        shown = variance * float(chdtri(n - 1, 1 - assurance)) / (n - 1)
        return half_width(shown, n, confidence) <= wanted_half_width

    n = bisect_left(range(MOST + 1), True, lo=2, key=narrow)
    return n if n <= MOST else None


def ratio_variance(values: Sequence[float], baseline: Sequence[float], *, paired: bool) -> float | None:
    """Return the variance that one block adds to the ratio of the means, as a fraction of that ratio squared.

    With it, `least_n` takes the half width as a fraction of the ratio (0.05 for plus or minus 5 %). By the delta
    method; Fieller's interval tends to it once the baseline is far from zero. None when a mean is zero or there are
    fewer than two values. Unpaired, one block adds one value to either side."""
    if min(len(values), len(baseline)) < 2:
        return None
    a, b = sample_mean(values), sample_mean(baseline)
    if a == 0 or b == 0:
        return None
    if paired:
        shares = [x / a - y / b for x, y in zip(values, baseline, strict=True)]
        return sample_covariance(shares, shares)
    return sample_covariance(values, values) / a**2 + sample_covariance(baseline, baseline) / b**2


def _levels(nested: Nested) -> list[list[list[float]]]:
    """Return, for every level from the lowest, its units, each as the values or means inside it."""
    if not nested:
        raise ValueError("a unit without values")
    numbers = [item for item in nested if isinstance(item, (int, float))]
    if len(numbers) == len(nested):
        return [[[float(number) for number in numbers]]]
    parts = [_levels(item) for item in nested if not isinstance(item, (int, float))]
    if numbers or len({len(part) for part in parts}) > 1:
        raise ValueError("values at different depths")
    joined = [[unit for part in parts for unit in part[level]] for level in range(len(parts[0]))]
    return [*joined, [[sample_mean(part[-1][0]) for part in parts]]]
