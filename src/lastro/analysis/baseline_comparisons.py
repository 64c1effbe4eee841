"""Comparisons of every treatment with its baseline: the corrected test of the model."""

from __future__ import annotations

from lastro.analysis.campaign import Cell, MetricView, Row
from lastro.analysis.measured import MetricValues
from lastro.analysis.model import BaselineComparison, Correction
from lastro.stats.families import MOST_PLANNED
from lastro.stats.noise_floor import within


def against_baseline(
    view: MetricView, data: MetricValues, floor: float | None = None
) -> tuple[tuple[BaselineComparison, ...], Correction]:
    """Return the comparisons of one metric, in the order of the report's rows, and the method of correction.

    Up to twenty (planned) comparisons are judged by their largest |t|; more than twenty, by Benjamini and Hochberg's
    method. `campaign` made them, with the intervals of the table of results."""
    rows = [
        row
        for row in view.report.rows
        if row.baseline is not None
        and not row.is_baseline
        and row.treatment.index in data.cells
        and row.baseline.index in data.cells
    ]
    correction: Correction = "max-t" if len(rows) <= MOST_PLANNED else "benjamini-hochberg"
    return tuple(_comparison(row, view.of(row), floor) for row in rows), correction


def _comparison(row: Row, cell: Cell, floor: float | None) -> BaselineComparison:
    assert row.baseline is not None and cell.comparison is not None
    ratio = cell.comparison.ratio.value
    return BaselineComparison(
        treatment=row.treatment,
        baseline=row.baseline,
        ratio=cell.ratio,
        difference=cell.comparison.difference,
        p=cell.comparison.p,
        p_adjusted=cell.comparison.p_adjusted,
        under_floor=within(floor, None if ratio is None else ratio - 1, (1, -1)),
        decision=cell.decision,
    )
