"""How often to repeat, and at which level: trials within a deployment, deployments within a block, blocks.

Source: Kalibera and Jones, Rigorous benchmarking in reasonable time, ISMM (2013) 63-74. Levels are
counted from the lowest: level 1 is repeated at the least cost, and the highest decides the width of the interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

from lastro.stats.intervals import sample_covariance, sample_mean

Nested = Sequence[Union[float, "Nested"]]

_ALWAYS_WORTH = 1_000_000  # repetitions, where no higher level varies


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
        return _ALWAYS_WORTH
    cost = math.fsum(costs[level + 1 : above + 1])
    # The slack keeps a whole number from being lifted to the next by rounding.
    return max(1, math.ceil(math.sqrt(cost / costs[level] * variances[level] / variances[above]) - 1e-9))


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
