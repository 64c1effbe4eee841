"""Moderated variances: the variance of each treatment is estimated from the values of all treatments.

The largest of many sample variances is large mostly by chance: among 171 equal variances with 4 degrees of freedom, the
largest estimate is about 3.6 times the true variance.

Source: Smyth, Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments, Statistical Applications in Genetics and Molecular Biology 3 (2004), article 3, section 6.2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, variance

# The pooled variance counts as at most this many degrees of freedom of a cell. More would give more power if all cells
# are equally noisy, but more false marks if one is noisier (benches/statistics_promises.py).
MOST_PRIOR_DF = 2.0


def moderated_variances(
    variances: Sequence[float], df: Sequence[float], most: float = MOST_PRIOR_DF
) -> tuple[list[float], list[float]]:
    """Return the variances, each shrunk towards the pooled variance, and their new degrees of freedom.

    The pooled variance has a weight of at most `most` degrees of freedom, and less if the variances differ by far more
    than chance explains. With equal degrees of freedom, shrinking preserves the mean of the variances, so the error of
    a mean over many cells is the pooled error. A single variance is returned unchanged. Zeros, which rounded values
    give, affect the pooled variance, but not its weight.

    Raises: ValueError without a variance, for a negative one, for degrees of freedom that are not above zero, or for
    unequal lengths."""
    if not len(df) == len(variances) > 0 or min(variances) < 0 or min(df) <= 0:
        raise ValueError("one variance of zero or more, with degrees of freedom above zero, for each treatment")
    prior = _prior_df(variances, df, most)
    pooled = math.fsum(value * d for value, d in zip(variances, df, strict=True)) / math.fsum(df)
    shrunk = [(prior * pooled + d * value) / (prior + d) for value, d in zip(variances, df, strict=True)]
    return shrunk, [prior + d for d in df]


def _prior_df(variances: Sequence[float], df: Sequence[float], most: float) -> float:
    """Return the weight of the pooled variance, as degrees of freedom; 0 for fewer than two variances above zero."""
    known = [(value, freedom) for value, freedom in zip(variances, df, strict=True) if value > 0]
    if len(known) < 2:
        return 0.0
    logs, expected = [], []
    for value, freedom in known:
        digamma, trigamma = _digamma_and_trigamma(freedom)
        logs.append(math.log(value) - digamma + math.log(freedom / 2))
        expected.append(trigamma)
    excess = variance(logs) - fmean(expected)
    return min(2 * _trigamma_inverse(excess), most) if excess > 0 else most


@lru_cache(maxsize=4096)  # most cells of a campaign have the same degrees of freedom
def _digamma_and_trigamma(df: float) -> tuple[float, float]:
    """Return digamma and trigamma of half the degrees of freedom.

    They give the mean and the variance of the logarithm of a sample variance with these degrees of freedom."""
    from scipy.special import digamma, polygamma

    return float(digamma(df / 2)), float(polygamma(1, df / 2))


def _trigamma_inverse(value: float) -> float:
    """Return the y whose trigamma is this value, above zero. It lies between 1 / value and 1 / value + 1/2."""
    from scipy.optimize import brentq
    from scipy.special import polygamma

    return float(brentq(lambda y: polygamma(1, y) - value, 1 / value, 1 / value + 0.5))
