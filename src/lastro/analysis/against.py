"""Comparisons of every treatment with its baseline: the corrected t test, and the rank test beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from lastro.analysis.campaign import Cell, MetricView, Row
from lastro.analysis.effects import decide
from lastro.analysis.measured import Measured
from lastro.analysis.model import BaselineComparison, Correction, RankTwin
from lastro.stats.adjust import benjamini_hochberg, holm
from lastro.stats.differences import difference_to_baseline
from lastro.stats.noise_floor import within
from lastro.stats.notes import N_, Note
from lastro.stats.pairing import Matched, match_blocks
from lastro.stats.ranks import (
    cliffs_delta,
    hodges_lehmann,
    mann_whitney,
    paired_hodges_lehmann,
    wilcoxon_signed_rank,
)

MOST_PLANNED = 20  # a larger family of comparisons is a screening, not planned comparisons


def against_baseline(
    view: MetricView, data: Measured, floor: float | None = None
) -> tuple[tuple[BaselineComparison, ...], Correction]:
    """Return the comparisons of one metric, in the order of the report's rows, and the method of correction.

    The p-values of up to twenty (planned) comparisons are corrected by Holm's method; those of more than twenty, by
    Benjamini and Hochberg's."""
    pairs = [
        (row, row.baseline)
        for row in view.report.rows
        if row.baseline is not None
        and not row.is_baseline
        and row.treatment.index in data.cells
        and row.baseline.index in data.cells
    ]
    raw = [_comparison(row, view.of(row), data) for row, _ in pairs]
    correction: Correction = "holm" if len(raw) <= MOST_PLANNED else "benjamini-hochberg"
    adjust = holm if correction == "holm" else benjamini_hochberg
    return _decided(raw, adjust([comparison.p for comparison in raw]), data, floor), correction


def _decided(
    raw: Sequence[BaselineComparison], adjusted: Sequence[float | None], data: Measured, floor: float | None
) -> tuple[BaselineComparison, ...]:
    found = []
    for comparison, p in zip(raw, adjusted, strict=True):
        ratio = comparison.ratio.value if comparison.ratio else None
        under = within(floor, None if ratio is None else ratio - 1, (1, -1))
        found.append(replace(comparison, p_adjusted=p, under_floor=under, decision=decide(p, 1 - data.confidence)))
    return tuple(found)


def _comparison(row: Row, cell: Cell, data: Measured) -> BaselineComparison:
    assert row.baseline is not None
    values, baseline = data.cells[row.treatment.index], data.cells[row.baseline.index]
    difference = difference_to_baseline(values, baseline, data.confidence)
    p = difference.p if difference else None
    matched = match_blocks(values, baseline)
    twin, no_twin = _twin(matched, data.confidence) if matched else (None, None)
    alpha = 1 - data.confidence
    agrees = (p < alpha) == (twin.p < alpha) if p is not None and twin is not None and twin.can_reject else None
    if twin is not None and not twin.can_reject:
        n = min(len(values), len(baseline))
        no_twin = Note(N_("n = {n}: too few trials for a rank test to reach significance"), n=n)
    return BaselineComparison(
        treatment=row.treatment,
        baseline=row.baseline,
        ratio=cell.ratio,
        difference=difference,
        p=p,
        p_adjusted=None,
        ranks=twin,
        agrees=agrees,
        no_twin=no_twin,
        under_floor=None,
        decision="unknown",
    )


def _twin(matched: Matched, confidence: float) -> tuple[RankTwin | None, Note | None]:
    a, b = matched.values, matched.baseline
    paired = matched.pairing == "paired"
    test = wilcoxon_signed_rank(a, b) if paired else mann_whitney(a, b)
    if test.p is None:
        return None, Note(N_("the values do not differ, so no rank test is possible"))
    shift = paired_hodges_lehmann(a, b, confidence) if paired else hodges_lehmann(a, b, confidence)
    delta = cliffs_delta(a, b, confidence)
    least_p = 2.0 ** (1 - test.n[0]) if paired else 2 / math.comb(len(a) + len(b), len(a))
    can = least_p < 1 - confidence
    return RankTwin(test.p, shift.value, shift.interval, delta.value, delta.interval, can), None
