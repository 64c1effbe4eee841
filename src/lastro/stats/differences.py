"""The difference between a treatment's mean and its baseline's, with Student's or Welch's interval and test.

Sources: Jain, The Art of Computer Systems Performance Analysis (1991); Welch, The generalization of
'Student's' problem when several different population variances are involved, Biometrika 34 (1947) 28-35."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lastro.stats.intervals import Interval, sample_covariance, sample_mean, satterthwaite, t_quantile
from lastro.stats.notes import FEWER_THAN_TWO, Note
from lastro.stats.pairing import Pairing, match_blocks
from lastro.stats.student import least_paired_p, least_unpaired_p, t_p, without_rounding


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of means, in the unit of the metric: treatment minus baseline.

    `n` counts the values on either side (pairs, when paired). `p` is two-sided, for equal means; without any spread it
    is the least that this number of values can give (`student`). `interval`, `df` and `p` are None when there are too
    few values; `absent_because` then says so."""

    value: float
    interval: Interval | None
    pairing: Pairing
    n: tuple[int, int]
    df: float | None = None
    p: float | None = None
    absent_because: Note | None = None


def paired_difference(values: Sequence[float], baseline: Sequence[float], confidence: float) -> Difference:
    """Return the mean of the differences within blocks: values[i] and baseline[i] come from one block.

    It has n - 1 degrees of freedom. Source: Jain (1991), section 13.4.1.

    Raises: ValueError when the samples are empty or differ in length."""
    n = (len(values), len(baseline))
    pairs = list(zip(values, baseline, strict=True))
    differences = without_rounding([a - b for a, b in pairs], max(map(abs, (*values, *baseline)), default=0.0))
    mean = sample_mean(differences)
    if n[0] < 2:
        return _of_one("paired", mean, n)
    error = math.sqrt(sample_covariance(differences, differences) / n[0])
    return _student(mean, error, n[0] - 1, confidence, "paired", n)


def unpaired_difference(values: Sequence[float], baseline: Sequence[float], confidence: float) -> Difference:
    """Return the difference of the means of two independent samples whose variances may differ.

    Source: Welch (1947); degrees of freedom by Satterthwaite (1946).

    Raises: ValueError when a sample is empty."""
    n = (len(values), len(baseline))
    difference = sample_mean(values) - sample_mean(baseline)
    if min(n) < 2:
        return _of_one("unpaired", difference, n)
    parts = [sample_covariance(sample, sample) / len(sample) for sample in (values, baseline)]
    return _student(difference, math.sqrt(sum(parts)), satterthwaite(parts, n), confidence, "unpaired", n)


def difference_to_baseline(
    by_block: Mapping[int, float], baseline_by_block: Mapping[int, float], confidence: float
) -> Difference | None:
    """Return the difference of a treatment to its baseline, both {block: value}; None when either has no value.

    Paired within blocks by `pairing.match_blocks`, so always as in `ratios.ratio_to_baseline`."""
    matched = match_blocks(by_block, baseline_by_block)
    if matched is None:
        return None
    difference = paired_difference if matched.pairing == "paired" else unpaired_difference
    return difference(matched.values, matched.baseline, confidence)


def _of_one(pairing: Pairing, value: float, n: tuple[int, int]) -> Difference:
    return Difference(value, None, pairing, n, absent_because=Note(FEWER_THAN_TWO, n=min(n)))


def _student(
    value: float, error: float, df: float, confidence: float, pairing: Pairing, n: tuple[int, int]
) -> Difference:
    half = t_quantile(confidence, df) * error
    least = least_paired_p(n[0]) if pairing == "paired" else least_unpaired_p(n)
    p = t_p(value, error, df, least)
    return Difference(value, Interval(value - half, value + half, confidence), pairing, n, df, p)
