"""The ratio of a treatment's mean to its baseline's mean, with Fieller's interval.

Source: Fieller, Some problems in interval estimation, J. R. Stat. Soc. B 16 (1954) 175-185. The interval is the set of
ratios r for which a - r b is not distinguishable from zero. It is unbounded when the baseline's mean itself is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lastro.stats.intervals import (
    Estimate,
    Interval,
    Pairing,
    sample_covariance,
    sample_mean,
    satterthwaite,
    t_quantile,
    unit_of,
)
from lastro.stats.notes import FEWER_THAN_TWO, UNBOUNDED_BY_BASELINE, ZERO_BASELINE, Note
from lastro.stats.sampled_mean import SampledMean


def unpaired_ratio(values: Sequence[float], baseline: Sequence[float], confidence: float) -> Estimate:
    """Return the ratio of the means of two independent samples whose variances may differ.

    The degrees of freedom are Satterthwaite's for a - r b at the estimated ratio r (Tamhane and Logan 2004)."""
    unit = unit_of(values, baseline)
    a, b = (SampledMean.of([value / unit for value in side]) for side in (values, baseline))
    return ratio_of_means(a, b, confidence)


def pooled_ratio(values: Sequence[float], baseline: Sequence[float], confidence: float) -> Estimate:
    """Return the ratio of two means by the pooled variance of their samples, of three values or more together."""
    n, unit = (len(values), len(baseline)), unit_of(values, baseline)
    sides = [[value / unit for value in side] for side in (values, baseline)]
    a, b = map(sample_mean, sides)
    if b == 0:
        return _ratio(None, None, "unpaired", n, Note(ZERO_BASELINE))
    df = sum(n) - 2
    variance = sum(math.fsum((value - mean) ** 2 for value in side) for side, mean in zip(sides, (a, b), strict=True))
    variance /= df
    return _fieller((a, b), (variance / n[0], variance / n[1], 0.0), df, confidence, "unpaired", n)


def ratio_of_means(a: SampledMean, b: SampledMean, confidence: float) -> Estimate:
    """Return the ratio of two independent means, as `unpaired_ratio` does for their samples."""
    n = (a.n, b.n)
    if b.value == 0:
        return _ratio(None, None, "unpaired", n, Note(ZERO_BASELINE))
    if min(n) < 2:
        return _ratio(a.value / b.value, None, "unpaired", n, Note(FEWER_THAN_TWO, n=min(n)))
    parts = (a.variance, (a.value / b.value) ** 2 * b.variance)
    df = satterthwaite(parts, (a.df, b.df))
    covariances = (a.variance, b.variance, 0.0)
    return _fieller((a.value, b.value), covariances, df, confidence, "unpaired", n, (a.bias, b.bias))


def paired_ratio(values: Sequence[float], baseline: Sequence[float], confidence: float) -> Estimate:
    """Return the ratio of the means of paired samples: values[i] and baseline[i] come from one block.

    The ratio has n - 1 degrees of freedom. Raises: ValueError if the samples are empty or differ in length."""
    n, unit = (len(values), len(baseline)), unit_of(values, baseline)
    values, baseline = ([value / unit for value in side] for side in (values, baseline))
    a, b = sample_mean(values), sample_mean(baseline)
    if b == 0:
        return _ratio(None, None, "paired", n, Note(ZERO_BASELINE))
    if n[0] < 2:
        return _ratio(a / b, None, "paired", n, Note(FEWER_THAN_TWO, n=n[0]))
    pairs = ((values, values), (baseline, baseline), (values, baseline))
    covariances = [sample_covariance(x, y) / n[0] for x, y in pairs]
    return _fieller((a, b), covariances, n[0] - 1, confidence, "paired", n)


def ratio_to_baseline(
    by_block: Mapping[int, float], baseline_by_block: Mapping[int, float], confidence: float
) -> Estimate | None:
    """Return the ratio of a treatment to its baseline, both {block: value}; None if either has no value.

    Values are paired if at least two blocks, and at least half of the blocks of each side, have values of both: pairing
    within fewer blocks would discard more than the blocks explain. Otherwise all values are used, unpaired."""
    if not by_block or not baseline_by_block:
        return None
    common = sorted(by_block.keys() & baseline_by_block.keys())
    if len(common) >= 2 and 2 * len(common) >= max(len(by_block), len(baseline_by_block)):
        return paired_ratio([by_block[b] for b in common], [baseline_by_block[b] for b in common], confidence)
    return unpaired_ratio([*by_block.values()], [*baseline_by_block.values()], confidence)


def as_baseline_ratio(contrast: Estimate, n: tuple[int, int]) -> Estimate:
    """Return a ratio from a model (`contrasts`) with the `sides` and the notes of a ratio to a baseline.

    `n` has the numbers of values of the treatment and of the baseline; it is used unless the contrast is paired."""
    why = contrast.absent_because
    if contrast.unbounded:
        why = Note(ZERO_BASELINE if contrast.value is None else UNBOUNDED_BY_BASELINE)
    sides = (contrast.n, contrast.n) if contrast.pairing == "paired" else n
    return replace(contrast, sides=sides, absent_because=why)


def _ratio(
    value: float | None, interval: Interval | None, pairing: Pairing, n: tuple[int, int], why: Note | None = None
) -> Estimate:
    return Estimate(value, interval, n[0] if pairing == "paired" else sum(n), why, pairing=pairing, sides=n)


def _fieller(
    means: tuple[float, float],
    covariances: Sequence[float],
    df: float,
    confidence: float,
    pairing: Pairing,
    n: tuple[int, int],
    biases: tuple[float, float] = (0.0, 0.0),
) -> Estimate:
    """Return the ratio of two means with Fieller's interval; `covariances` and `biases` are as in `ends_of_ratio`."""
    a, b = means
    ends = ends_of_ratio(a, b, covariances, t_quantile(confidence, df), biases)
    if ends is None:
        return _ratio(a / b, None, pairing, n, Note(UNBOUNDED_BY_BASELINE))
    return _ratio(a / b, Interval(*ends, confidence), pairing, n)


def ends_of_ratio(
    a: float, b: float, covariances: Sequence[float], critical: float, biases: Sequence[float]
) -> tuple[float, float] | None:
    """Return the lower and the upper end of Fieller's interval of a / b; None if it is unbounded.

    `covariances` has the variance of a, the variance of b, and their covariance. `critical` is the critical value, in
    standard errors. `biases` has the distances by which rounding may have moved a and b, which widen the interval."""
    var_a, var_b, cov = covariances

    def excess(r: float) -> float:
        """Return by how much |a - r b| exceeds what chance and rounding explain if its true value is zero."""
        spread = math.sqrt(max(0.0, var_a - 2 * r * cov + r * r * var_b))
        return abs(a - r * b) - critical * spread - biases[0] - abs(r) * biases[1]

    if abs(b) <= critical * math.sqrt(var_b) + biases[1]:
        return None
    square = b**2 - critical**2 * var_b
    linear = a * b - critical**2 * cov
    # Rounding errors can make the discriminant negative if the variances are zero or the pairs exactly proportional.
    root = math.sqrt(max(0.0, linear**2 - square * (a**2 - critical**2 * var_a)))
    low, high = (linear - root) / square, (linear + root) / square
    return (_widen(excess, low, -1), _widen(excess, high, 1)) if any(biases) else (low, high)


def _widen(excess: Callable[[float], float], end: float, side: int) -> float:
    """Move the `end` of an interval without biases outwards to a zero of `excess`; `side` is -1 (low) or 1 (high)."""
    from scipy.optimize import brentq

    if excess(end) >= 0:  # biases are smaller than the rounding of floating-point numbers
        return end
    step = side * 1e-12 * max(1.0, abs(end))
    while excess(end + step) <= 0:
        step *= 2
    return float(brentq(excess, end, end + step))
