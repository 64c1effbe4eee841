"""The meaning of a ratio for a metric: better or worse, higher or lower, or not distinguishable from 1. Pure.

Every table and figure shows the verdict of the corrected test of a ratio, with which the interval agrees."""

from __future__ import annotations

from typing import Literal

from lastro.analysis.campaign import Cell, Decision
from lastro.results.samples import Metric

Verdict = Literal["better", "worse", "higher", "lower", "same", ""]


def cell_verdict(cell: Cell) -> Verdict:
    """Return the verdict on the ratio of a cell to its baseline; empty without a ratio or a test."""
    return verdict_on_ratio(cell.metric, cell.decision, cell.ratio.value if cell.ratio else None)


def verdict_on_ratio(metric: Metric, decision: Decision, ratio: float | None) -> Verdict:
    """Return the verdict on a ratio, given the decision of its corrected test; empty without a decision or a ratio."""
    if decision == "unknown" or ratio is None:
        return ""
    return "same" if decision == "same" else verdict_on_change(metric, ratio)


def verdict_on_change(metric: Metric, ratio: float) -> Verdict:
    """Return the meaning of a ratio that differs from 1: better or worse, higher or lower."""
    if metric.better == "neither":
        return "higher" if ratio > 1 else "lower"
    return "better" if (ratio > 1) == (metric.better == "higher") else "worse"
