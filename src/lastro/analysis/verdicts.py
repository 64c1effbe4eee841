"""The meaning of a ratio for a metric: better or worse, higher or lower, or not distinguishable from 1. Pure.

Every table and figure has the same verdict on a ratio to the baseline: that of the corrected test, with which the
interval agrees."""

from __future__ import annotations

from typing import Literal

from lastro.analysis.campaign import Cell, Decision
from lastro.results.samples import Metric

Verdict = Literal["better", "worse", "higher", "lower", "same", ""]


def verdict(cell: Cell) -> Verdict:
    """Return the verdict on the ratio of a cell to its baseline; empty without a ratio or a test."""
    return decided(cell.metric, cell.decision, cell.ratio.value if cell.ratio else None)


def decided(metric: Metric, decision: Decision, ratio: float | None) -> Verdict:
    """Return the verdict on a ratio, given the decision of its corrected test; empty without a decision or a ratio."""
    if decision == "unknown" or ratio is None:
        return ""
    return "same" if decision == "same" else direction(metric, ratio)


def direction(metric: Metric, ratio: float) -> Verdict:
    """Return the meaning of a ratio that differs from 1: better or worse, higher or lower."""
    if metric.better == "neither":
        return "higher" if ratio > 1 else "lower"
    return "better" if (ratio > 1) == (metric.better == "higher") else "worse"
