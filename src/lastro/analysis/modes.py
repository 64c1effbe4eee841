"""The second mode of a metric: in which treatments its trials are, and contrasts of quantiles, which show it."""

from __future__ import annotations

from lastro.analysis.campaign import Cell, MetricView, by_block
from lastro.analysis.model import QuantileContrast, TwoModes
from lastro.stats.order import median_interval
from lastro.stats.pairing import match_blocks
from lastro.stats.quantiles import quantile
from lastro.study.design import Treatment

LOW, HIGH = 0.1, 0.9  # quantiles, far enough out for a second mode of a sixth of the trials to move one of them


def two_modes(view: MetricView) -> TwoModes | None:
    """Return what is known of the second mode of a metric; None without one."""
    found = view.second_mode
    if found is None:
        return None
    exact = [(row, cell) for row, cell in view if cell.points and not cell.bounded]
    counts = [(row.treatment, len(found.trials.get(row.treatment.index, ())), len(cell.points)) for row, cell in exact]
    values = {row.treatment.index: cell for row, cell in exact}
    contrasts = [
        _contrast(row.treatment, row.baseline, cell, values[row.baseline.index], view.confidence)
        for row, cell in exact
        if row.baseline is not None and not row.is_baseline and row.baseline.index in values
        if not view.report.members  # quantiles ignore blocks
    ]
    return TwoModes(
        n=found.n,
        trials=sum(len(cell.points) for _, cell in exact),
        distance=found.distance,
        relative=found.relative,
        sds=found.sds,
        counts=tuple(sorted(counts, key=lambda each: -each[1] / each[2])),
        contrasts=tuple(filter(None, contrasts)),
    )


def _contrast(
    treatment: Treatment, baseline: Treatment, cell: Cell, reference: Cell, confidence: float
) -> QuantileContrast | None:
    """Return the contrast of two cells; None where a value is not above zero, so that a ratio means nothing."""
    own, other = by_block(cell.points), by_block(reference.points)
    matched = match_blocks(own, other)
    if matched is None or min(*own.values(), *other.values()) <= 0:
        return None
    ratios = (
        [a / b for a, b in zip(matched.values, matched.baseline, strict=True)] if matched.pairing == "paired" else []
    )
    low, middle, high = (quantile([*own.values()], q) / quantile([*other.values()], q) for q in (LOW, 0.5, HIGH))
    return QuantileContrast(
        treatment, baseline, middle, median_interval(ratios, confidence) if ratios else None, low, high
    )
