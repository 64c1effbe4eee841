"""Moderated variances: many treatments with few values each share information on their variance.

The largest of many sample variances is large mostly by chance: of 171 with 4 degrees of freedom, all truly equal, it is
about 3.6 times the truth.

Source: Smyth, Linear models and empirical Bayes methods for assessing differential expression in microarray
experiments, Statistical Applications in Genetics and Molecular Biology 3 (2004), article 3, section 6.2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance


def moderated(variances: Sequence[float], df: Sequence[float]) -> tuple[float, ...]:
    """Return each variance, drawn towards the common one by as much as chance alone would make them differ.

    Where they differ no more than their degrees of freedom explain, all become the pooled variance; where they differ
    widely, each stays nearly as it is. A single one stays as it is. Zeros, which rounded values give, contain no
    information on how the others scatter, and count in the pooled variance alone.

    Raises: ValueError for a negative variance, degrees of freedom that are not above zero, or unequal lengths."""
    if len(df) != len(variances) or min(variances, default=0.0) < 0 or min(df, default=1.0) <= 0:
        raise ValueError("one variance of zero or more, with degrees of freedom above zero, for each treatment")
    known = [(value, freedom) for value, freedom in zip(variances, df, strict=True) if value > 0]
    if len(known) < 2:
        return tuple(variances)
    from scipy.special import digamma, polygamma

    logs = [math.log(value) - float(digamma(d / 2)) + math.log(d / 2) for value, d in known]
    excess = variance(logs) - fmean(float(polygamma(1, d / 2)) for _, d in known)
    if excess <= 0:
        pooled = math.fsum(v * d for v, d in zip(variances, df, strict=True)) / math.fsum(df)
        return (pooled,) * len(variances)
    half = _trigamma_inverse(excess)
    common = math.exp(fmean(logs) + float(digamma(half)) - math.log(half))
    return tuple((2 * half * common + d * value) / (2 * half + d) for value, d in zip(variances, df, strict=True))


def _trigamma_inverse(value: float) -> float:
    """Return the y whose trigamma is this value, above zero. It lies between 1 / value and 1 / value + 1/2."""
    from scipy.optimize import brentq
    from scipy.special import polygamma

    if value < 1e-6:
        return 1 / value
    return float(brentq(lambda y: polygamma(1, y) - value, 1 / value, 1 / value + 0.5))
