"""Comparisons of every treatment with its baseline: the corrected test of the model, and two tests beside it."""

from __future__ import annotations

import math

from lastro.analysis.campaign import Cell, MetricView, Row
from lastro.analysis.measured import Measured
from lastro.analysis.model import BaselineComparison, Correction, RankComparison
from lastro.stats.families import MOST_PLANNED
from lastro.stats.noise_floor import within
from lastro.stats.notes import N_, Note
from lastro.stats.pairing import Matched, match_blocks
from lastro.stats.randomisation import Randomisation, randomisation_test
from lastro.stats.ranks import (
    cliffs_delta,
    hodges_lehmann,
    mann_whitney,
    paired_hodges_lehmann,
    wilcoxon_signed_rank,
)

BETWEEN_CAMPAIGNS = N_("without common blocks, ranks would compare the campaigns, too")


def against_baseline(
    view: MetricView, data: Measured, floor: float | None = None
) -> tuple[tuple[BaselineComparison, ...], Correction]:
    """Return the comparisons of one metric, in the order of the report's rows, and the method of correction.

    Up to twenty (planned) comparisons are judged by their largest |t|; more than twenty, by Benjamini and Hochberg's
    method. `campaign` made them, with the intervals of the table of results."""
    pairs = [
        (row, row.baseline)
        for row in view.report.rows
        if row.baseline is not None
        and not row.is_baseline
        and row.treatment.index in data.cells
        and row.baseline.index in data.cells
    ]
    correction: Correction = "max-t" if len(pairs) <= MOST_PLANNED else "benjamini-hochberg"
    several = bool(view.report.members)
    return tuple(_comparison(row, view.of(row), data, floor, several) for row, _ in pairs), correction


def _comparison(row: Row, cell: Cell, data: Measured, floor: float | None, several: bool) -> BaselineComparison:
    assert row.baseline is not None and cell.comparison is not None
    values, baseline = data.cells[row.treatment.index], data.cells[row.baseline.index]
    p, ratio = cell.comparison.p, cell.comparison.ratio.value
    matched = match_blocks(values, baseline)
    ranks, no_ranks = None, None
    if matched and several and matched.pairing == "unpaired":
        matched, no_ranks = None, Note(BETWEEN_CAMPAIGNS)
    elif matched:
        ranks, no_ranks = _rank_comparison(matched, data.confidence)
    orders = _orders(matched, log=data.model is not None and data.model.log)
    alpha = 1 - data.confidence
    deciding = [ranks.p] if ranks is not None and ranks.can_reject else []
    deciding += [orders.p] if orders is not None and orders.can_reject(alpha) else []
    agrees = all((p < alpha) == (other < alpha) for other in deciding) if p is not None and deciding else None
    if ranks is not None and not ranks.can_reject:
        n = min(len(values), len(baseline))
        no_ranks = Note(N_("n = {n}: too few trials for a rank test to reach significance"), n=n)
    return BaselineComparison(
        treatment=row.treatment,
        baseline=row.baseline,
        ratio=cell.ratio,
        difference=cell.comparison.difference,
        p=p,
        p_adjusted=cell.comparison.p_adjusted,
        ranks=ranks,
        randomisation=orders,
        agrees=agrees,
        no_ranks=no_ranks,
        under_floor=within(floor, None if ratio is None else ratio - 1, (1, -1)),
        decision=cell.decision,
    )


def _orders(matched: Matched | None, *, log: bool) -> Randomisation | None:
    """Return the test that exchanges the two values of each block; None unless values are paired in blocks."""
    if matched is None or matched.pairing != "paired":
        return None
    sides = {"treatment": dict(enumerate(matched.values)), "baseline": dict(enumerate(matched.baseline))}
    return randomisation_test(sides, log=log)


def _rank_comparison(matched: Matched, confidence: float) -> tuple[RankComparison | None, Note | None]:
    a, b = matched.values, matched.baseline
    paired = matched.pairing == "paired"
    test = wilcoxon_signed_rank(a, b) if paired else mann_whitney(a, b)
    if test.p is None:
        return None, Note(N_("the values do not differ, so no rank test is possible"))
    shift = paired_hodges_lehmann(a, b, confidence) if paired else hodges_lehmann(a, b, confidence)
    delta = cliffs_delta(a, b, confidence)
    least_p = 2.0 ** (1 - test.n[0]) if paired else 2 / math.comb(len(a) + len(b), len(a))
    can = least_p < 1 - confidence
    return RankComparison(test.p, shift.value, shift.interval, delta.value, delta.interval, can), None
