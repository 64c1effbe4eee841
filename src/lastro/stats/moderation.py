"""Moderated variances: many treatments with few values each share information on their variance.

The largest of many sample variances is large mostly by chance: of 171 with 4 degrees of freedom, all truly equal, it is
about 3.6 times the truth.

Source: Smyth, Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments, Statistical Applications in Genetics and Molecular Biology 3 (2004), article 3, section 6.2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

# The common variance counts as at most this many degrees of freedom of a cell's own. More would give more power where
# all cells are equally noisy, and more false marks where one is noisier (benches/statistics_promises.py).
MOST_PRIOR_DF = 2.0


@dataclass(frozen=True, slots=True)
class Moderated:
    """The variances, and the degrees of freedom of each."""

    variances: tuple[float, ...]
    df: tuple[float, ...]


def moderated(variances: Sequence[float], df: Sequence[float]) -> tuple[float, ...]:
    """Return each variance, drawn towards the common one by as much as chance alone would make them differ.

    Where they differ no more than their degrees of freedom explain, all become the pooled variance; where they differ
    widely, each stays nearly as it is. A single one stays as it is. Zeros, which rounded values give, contain no
    information on how the others scatter, and count in the pooled variance alone.

    Raises: ValueError for a negative variance, degrees of freedom that are not above zero, or unequal lengths."""
    logs, prior = _prior(variances, df)
    if not logs:
        return tuple(variances)
    if math.isinf(prior):
        return (_pooled(variances, df),) * len(variances)
    from scipy.special import digamma

    common = math.exp(fmean(logs) + float(digamma(prior / 2)) - math.log(prior / 2))
    return tuple((prior * common + d * value) / (prior + d) for value, d in zip(variances, df, strict=True))


def drawn_to_pooled(variances: Sequence[float], df: Sequence[float]) -> Moderated:
    """Return each variance, drawn towards the pooled one, which counts as at most `MOST_PRIOR_DF` degrees of freedom.

    Unlike `moderated`, this keeps the mean of equally certain variances, so that a mean over many cells has the pooled
    error, whatever the distribution of the noise. Raises: as `moderated`."""
    logs, prior = _prior(variances, df)
    prior = min(prior, MOST_PRIOR_DF) if logs else 0.0
    pooled = _pooled(variances, df)
    found = tuple((prior * pooled + d * value) / (prior + d) for value, d in zip(variances, df, strict=True))
    return Moderated(found, tuple(prior + d for d in df))


def _pooled(variances: Sequence[float], df: Sequence[float]) -> float:
    return math.fsum(v * d for v, d in zip(variances, df, strict=True)) / math.fsum(df)


def _prior(variances: Sequence[float], df: Sequence[float]) -> tuple[list[float], float]:
    """Return the unbiased logarithms of the variances, and the degrees of freedom that the common variance counts as.

    They are infinite if the variances differ no more than chance explains. No logarithms for fewer than two variances
    above zero."""
    if len(df) != len(variances) or min(variances, default=0.0) < 0 or min(df, default=1.0) <= 0:
        raise ValueError("one variance of zero or more, with degrees of freedom above zero, for each treatment")
    known = [(value, freedom) for value, freedom in zip(variances, df, strict=True) if value > 0]
    if len(known) < 2:
        return [], 0.0
    from scipy.special import digamma, polygamma

    logs = [math.log(value) - float(digamma(d / 2)) + math.log(d / 2) for value, d in known]
    excess = variance(logs) - fmean(float(polygamma(1, d / 2)) for _, d in known)
    return logs, 2 * _trigamma_inverse(excess) if excess > 0 else math.inf


def _trigamma_inverse(value: float) -> float:
    """Return the y whose trigamma is this value, above zero. It lies between 1 / value and 1 / value + 1/2."""
    from scipy.optimize import brentq
    from scipy.special import polygamma

    if value < 1e-6:
        return 1 / value
    return float(brentq(lambda y: polygamma(1, y) - value, 1 / value, 1 / value + 0.5))
