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
from lastro.stats.pairing import Pairing, blocks_to_pair
from lastro.stats.sampled_mean import SampledMean


@dataclass(frozen=True, slots=True)
class _Moments:
    """The means a and b of a ratio a / b, and their variances and covariance, with `df` degrees of freedom.

    `biases` are the distances by which rounding may have moved a and b."""

    a: float
    b: float
    var_a: float
    var_b: float
    cov: float
    df: float
    biases: tuple[float, float] = (0.0, 0.0)


def unpaired_ratio(values: Sequence[float], baseline: Sequence[float], confidence: float) -> Estimate:
    """Return the ratio of the means of two independent samples whose variances may differ.

    The degrees of freedom are Satterthwaite's for a - r b at the estimated ratio r (Tamhane and Logan 2004)."""
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
    return _fieller(_Moments(a, b, variance / n[0], variance / n[1], 0.0, df), confidence, "unpaired", n)


def ratio_of_means(a: SampledMean, b: SampledMean, confidence: float) -> Estimate:
    """Return the ratio of two independent means, as `unpaired_ratio` does for their samples."""
    n = (a.n, b.n)
    if b.value == 0:
        return _ratio(None, None, "unpaired", n, Note(ZERO_BASELINE))
    if min(n) < 2:
        return _ratio(a.value / b.value, None, "unpaired", n, Note(FEWER_THAN_TWO, n=min(n)))
    parts = (a.variance, (a.value / b.value) ** 2 * b.variance)
    df = satterthwaite(parts, (a.df, b.df))
    moments = _Moments(a.value, b.value, a.variance, b.variance, 0.0, df, (a.bias, b.bias))
    return _fieller(moments, confidence, "unpaired", n)


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
    var_a, var_b, cov = (
        sample_covariance(x, y) / n[0] for x, y in ((values, values), (baseline, baseline), (values, baseline))
    )
    return _fieller(_Moments(a, b, var_a, var_b, cov, n[0] - 1), confidence, "paired", n)


def ratio_to_baseline(
    by_block: Mapping[int, float], baseline_by_block: Mapping[int, float], confidence: float
) -> Estimate | None:
    """Return the ratio of a treatment to its baseline, both {block: value}; None if either has no value.

    Values are paired within the blocks of `blocks_to_pair`. If there are none, all values are used, unpaired."""
    if not by_block or not baseline_by_block:
        return None
    if blocks := blocks_to_pair([by_block, baseline_by_block]):
        return paired_ratio([by_block[b] for b in blocks], [baseline_by_block[b] for b in blocks], confidence)
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


def _fieller(m: _Moments, confidence: float, pairing: Pairing, n: tuple[int, int]) -> Estimate:
    """Return the ratio a / b with Fieller's interval; `n` has the numbers of values of a and of b."""
    ends = ends_of_ratio(m.a, m.b, (m.var_a, m.var_b, m.cov), t_quantile(confidence, m.df), m.biases)
    if ends is None:
        return _ratio(m.a / m.b, None, pairing, n, Note(UNBOUNDED_BY_BASELINE))
    return _ratio(m.a / m.b, Interval(*ends, confidence), pairing, n)
