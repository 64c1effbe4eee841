"""The ratio of a treatment's mean to its baseline's mean, with Fieller's interval.

Source: Fieller, Some problems in interval estimation, J. R. Stat. Soc. B 16 (1954) 175-185. The interval is the set of
ratios r for which a - r b is not distinguishable from zero. It is unbounded when the baseline's mean itself is not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lastro.stats._fieller import ends_of_ratio
from lastro.stats.intervals import (
    Estimate,
    Interval,
    sample_covariance,
    sample_mean,
    satterthwaite,
    t_quantile,
    unit_of,
)
from lastro.stats.notes import FEWER_THAN_TWO, UNBOUNDED_BY_BASELINE, ZERO_BASELINE, Note
from lastro.stats.pairing import Pairing, match_blocks
from lastro.stats.sampled import SampledMean


@dataclass(frozen=True, slots=True)
class Moments:
    """The means a and b of a ratio a / b, their variances and covariance, and the degrees of freedom `df` of these.

    `biases` are how far rounding may have moved a and b."""

    a: float
    b: float
    var_a: float
    var_b: float
    cov: float
    df: float
    biases: tuple[float, float] = (0.0, 0.0)


def unpaired_ratio(values: Sequence[float], baseline: Sequence[float], confidence: float) -> Estimate:
    """Return the ratio of the means of two independent samples whose variances may differ.

    Degrees of freedom by Satterthwaite's approximation for a - r b at the estimated ratio (Tamhane and Logan 2004)."""
    unit = unit_of(values, baseline)
    a, b = (SampledMean.of([value / unit for value in side]) for side in (values, baseline))
    return ratio_of_means(a, b, confidence)


def pooled_ratio(values: Sequence[float], baseline: Sequence[float], confidence: float) -> Estimate:
    """Return the ratio of the means of two independent samples with equal variances, by their pooled variance."""
    n, unit = (len(values), len(baseline)), unit_of(values, baseline)
    sides = [[value / unit for value in side] for side in (values, baseline)]
    a, b = map(sample_mean, sides)
    if b == 0:
        return _ratio(None, None, "unpaired", n, Note(ZERO_BASELINE))
    df = sum(n) - 2
    if df < 1:
        return _ratio(a / b, None, "unpaired", n, Note(FEWER_THAN_TWO, n=min(n)))
    variance = sum(math.fsum((value - mean) ** 2 for value in side) for side, mean in zip(sides, (a, b), strict=True))
    variance /= df
    return _fieller(Moments(a, b, variance / n[0], variance / n[1], 0.0, df), confidence, "unpaired", n)


def ratio_of_means(a: SampledMean, b: SampledMean, confidence: float) -> Estimate:
    """Return the ratio of two independent means, as `unpaired_ratio` does for their samples."""
    n = (a.n, b.n)
    if b.value == 0:
        return _ratio(None, None, "unpaired", n, Note(ZERO_BASELINE))
    if min(n) < 2:
        return _ratio(a.value / b.value, None, "unpaired", n, Note(FEWER_THAN_TWO, n=min(n)))
    parts = (a.variance, (a.value / b.value) ** 2 * b.variance)
    df = satterthwaite(parts, (a.df, b.df))
    moments = Moments(a.value, b.value, a.variance, b.variance, 0.0, df, (a.bias, b.bias))
    return _fieller(moments, confidence, "unpaired", n)


def paired_ratio(values: Sequence[float], baseline: Sequence[float], confidence: float) -> Estimate:
    """Return the ratio of the means of paired samples: values[i] and baseline[i] come from one block.

    It has n - 1 degrees of freedom. Raises: ValueError when the samples are empty or differ in length."""
    n, unit = (len(values), len(baseline)), unit_of(values, baseline)
    values, baseline = ([value / unit for value in side] for side in (values, baseline))
    a, b = sample_mean(values), sample_mean(baseline)
    if b == 0:
        return _ratio(None, None, "paired", n, Note(ZERO_BASELINE))
    if n[0] < 2:
        return _ratio(a / b, None, "paired", n, Note(FEWER_THAN_TWO, n=n[0]))
    var_a, var_b, cov = (
        sample_covariance(x, y) / n[0] for x, y in ((values, values), (baseline, baseline), (values, baseline))
    )
    return _fieller(Moments(a, b, var_a, var_b, cov, n[0] - 1), confidence, "paired", n)


def ratio_to_baseline(
    by_block: Mapping[int, float], baseline_by_block: Mapping[int, float], confidence: float
) -> Estimate | None:
    """Return the ratio of a treatment to its baseline, both {block: value}; None when either has no value.

    `pairing.match_blocks` decides whether they are paired within blocks."""
    matched = match_blocks(by_block, baseline_by_block)
    if matched is None:
        return None
    ratio = paired_ratio if matched.pairing == "paired" else unpaired_ratio
    return ratio(matched.values, matched.baseline, confidence)


def ratio_of(contrast: Estimate, n: tuple[int, int]) -> Estimate:
    """Return a ratio from a model (`contrasts`), with the `sides` and the notes that a ratio to a baseline has.

    `n` counts the values of the treatment and of the baseline, and is used unless the contrast is paired."""
    why = contrast.absent_because
    if contrast.unbounded:
        why = Note(ZERO_BASELINE if contrast.value is None else UNBOUNDED_BY_BASELINE)
    sides = (contrast.n, contrast.n) if contrast.pairing == "paired" else n
    return replace(contrast, sides=sides, absent_because=why)


def _ratio(
    value: float | None, interval: Interval | None, pairing: Pairing, n: tuple[int, int], why: Note | None = None
) -> Estimate:
    return Estimate(value, interval, n[0] if pairing == "paired" else sum(n), why, pairing=pairing, sides=n)


def _fieller(m: Moments, confidence: float, pairing: Pairing, n: tuple[int, int]) -> Estimate:
    """Return the ratio a / b with Fieller's interval; `n` counts the values of either side."""
    ends = ends_of_ratio(m.a, m.b, (m.var_a, m.var_b, m.cov), t_quantile(confidence, m.df), m.biases)
    if ends is None:
        return _ratio(m.a / m.b, None, pairing, n, Note(UNBOUNDED_BY_BASELINE))
    return _ratio(m.a / m.b, Interval(*ends, confidence), pairing, n)
