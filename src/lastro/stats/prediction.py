"""The interval in which the next trial of a treatment will lie.

A confidence interval says where a mean lies; a prediction interval, where a new value will. The next trial differs from
the mean by its own noise and by the effect of its block, and the mean itself is uncertain. Blocks are few, and so are
the degrees of freedom of their variance. Therefore noise and blocks each have their own quantile of Student's t, and
the squares of the half widths add up (Howe). Satterthwaite's degrees of freedom of the sum would make intervals of two
or three blocks too narrow where blocks vary more than trials.

Sources: Hahn and Meeker, Statistical Intervals (1991), chapter 4; Howe, J. Am. Stat. Assoc. 69 (1974) 789-794. The
ratio of the next campaign is `contrasts.replicated`."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lastro.stats.contrasts import NO_SPREAD, ONE_VALUE, exponential
from lastro.stats.intervals import Interval, t_quantile
from lastro.stats.notes import Note

if TYPE_CHECKING:
    from lastro.stats.block_model import BlockModel


@dataclass(frozen=True, slots=True)
class Prediction:
    """A value to expect, and the interval in which one new value will lie; `absent_because` explains what is None."""

    value: float | None
    interval: Interval | None
    absent_because: Note | None = None


def next_trial(model: BlockModel, cell: Hashable, n: int, confidence: float) -> Prediction:
    """Predict a trial of a cell of `n` values in a further block, in the unit of the values.

    Raises: KeyError for a cell without values."""
    found = model.next_trial(cell)
    value = exponential(found.value) if model.log else found.value
    if found.noise is None:
        return Prediction(value, None, Note(ONE_VALUE))
    if found.noise == found.between == 0 and _may_differ_next(n, 1 - confidence):
        return Prediction(value, None, Note(NO_SPREAD))
    parts = ((found.noise, found.df), (found.between, found.df_between))
    half = math.sqrt(sum(part * t_quantile(confidence, df) ** 2 for part, df in parts if part)) + found.bias
    low, high = found.value - half, found.value + half
    if model.log:
        low, high = exponential(low), exponential(high)
    return Prediction(value, Interval(low, high, confidence))


def _may_differ_next(n: int, alpha: float) -> bool:
    """Return whether n equal values and then another one could have a probability of alpha or more.

    If a value comes with probability q, that is q^n (1 - q), which is largest for q = n / (n + 1)."""
    return (n / (n + 1)) ** n / (n + 1) >= alpha
