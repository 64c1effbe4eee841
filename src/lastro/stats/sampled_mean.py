"""The mean of a sample, with a variance that may include the spread between campaigns.

Two campaigns of the same study differ by more than the noise inside each of them: another day, another place in memory,
a warmer room. `CampaignSpread` is the spread between campaigns in which nothing changed. It is added to the variance of
both means, so that every test and interval of two campaigns (`margins`, `ratios`) takes it into account."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from statistics import variance as variance_of

from lastro.stats.intervals import sample_covariance, sample_mean, satterthwaite
from lastro.stats.resolution import rounding


@dataclass(frozen=True, slots=True)
class CampaignSpread:
    """The spread of the means of equal campaigns: the variance of their logarithms, with its degrees of freedom."""

    variance: float
    df: float

    @property
    def spread(self) -> float:
        """The standard deviation, as a fraction of the mean."""
        return math.sqrt(self.variance)


@dataclass(frozen=True, slots=True)
class SampledMean:
    """The mean of `n` values, the variance of this mean, and the degrees of freedom of that variance.

    `bias` is the distance by which the rounding of readings may have moved the mean (`resolution`)."""

    value: float
    variance: float
    df: float
    n: int
    bias: float = 0.0

    @classmethod
    def of(
        cls,
        values: Sequence[float],
        factor: float = 1.0,
        between: CampaignSpread | None = None,
        step: float = 0.0,
        width: float = 0.0,
    ) -> SampledMean:
        """Return the mean of a sample; its variance is `factor` times that for independent values.

        `step` is the resolution of the values; 0 if they are exact. If a search found the values in a grid, they are
        the middles of grid intervals with a mean width of `width`. `between` is the spread between campaigns.

        Raises: ValueError without values."""
        n, mean = len(values), sample_mean(values)
        if n < 2:
            return cls(mean, math.nan, 0.0, n)
        variance = sample_covariance(values, values)
        bias = max(width / 2, rounding(math.sqrt(variance), step))
        return cls(mean, factor * variance / n, n - 1, n, bias).shifted(between)

    def shifted(self, between: CampaignSpread | None) -> SampledMean:
        """Return the mean with the variance between campaigns added to its variance.

        Both means of a comparison include the same estimate of the spread between campaigns, so each counts only half
        of its degrees of freedom."""
        if between is None or not between.variance or not self.value:
            return self
        shift = (self.value * between.spread) ** 2
        df = satterthwaite((self.variance, shift), (self.df, between.df / 2))
        return replace(self, variance=self.variance + shift, df=df)

    @property
    def error(self) -> float:
        """The standard error, as a fraction of the mean, which must not be zero."""
        return math.sqrt(self.variance) / abs(self.value)


def spread_between(means: Sequence[Mapping[int, float]]) -> CampaignSpread | None:
    """Return the spread between equal campaigns; means[i] is {treatment: mean} of campaign i, all above zero.

    The variance of the logarithms is averaged over the treatments that all campaigns measured. A campaign may shift all
    of its treatments together, so more treatments do not add degrees of freedom. The noise inside campaigns remains
    part of the variance: subtracting an estimate of it would often remove a true spread, and so raise the error rate.
    None for fewer than two campaigns, or without a treatment that all of them measured."""
    if len(means) < 2:
        return None
    shared = set.intersection(*map(set, means))
    if not shared:
        return None
    variance = fmean(variance_of([math.log(campaign[treatment]) for campaign in means]) for treatment in shared)
    return CampaignSpread(variance, len(means) - 1)
