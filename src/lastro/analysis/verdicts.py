"""The meaning of a ratio for a metric: better or worse, higher or lower, or not distinguishable from 1. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lastro.results.samples import Metric
from lastro.stats.ratios import Ratio

if TYPE_CHECKING:
    from lastro.analysis.model import Decision

Verdict = Literal["better", "worse", "higher", "lower", "same", ""]


def verdict(metric: Metric, ratio: Ratio | None) -> Verdict:
    """Return the verdict by the interval of the ratio, not corrected for the number of comparisons."""
    if ratio is None or ratio.interval is None or ratio.value is None:
        return ""
    return direction(metric, ratio.value) if ratio.differs else "same"


def decided(metric: Metric, decision: Decision, ratio: float | None) -> Verdict:
    """Return the verdict on a ratio by the test that is corrected for the number of comparisons."""
    if decision == "unknown" or ratio is None:
        return ""
    return "same" if decision == "same" else direction(metric, ratio)


def direction(metric: Metric, ratio: float) -> Verdict:
    """Return the meaning of a ratio that differs from 1: better or worse, higher or lower."""
    if metric.better == "neither":
        return "higher" if ratio > 1 else "lower"
    return "better" if (ratio > 1) == (metric.better == "higher") else "worse"
