"""What to expect next of each treatment: its next trial, and its ratio to the baseline in the next campaign."""

from __future__ import annotations

from lastro.analysis.campaign import Cell, MetricView, Row, mean_width
from lastro.analysis.measured import MetricValues
from lastro.analysis.model import Expectation
from lastro.stats.contrasts import replicated
from lastro.stats.intervals import Estimate
from lastro.stats.notes import N_, Note
from lastro.stats.prediction import next_trial


def expected(view: MetricView, data: MetricValues) -> tuple[Expectation, ...]:
    """Return what to expect of each treatment with a value, in the order of the report's rows.

    Campaigns put together predict nothing: the next may be like any of them."""
    if view.report.members:
        return ()
    return tuple(
        Expectation(row.treatment, _trial(row.treatment.index, cell, data), _ratio(row, cell, data))
        for row, cell in view
        if cell.points
    )


def _trial(index: int, cell: Cell, data: MetricValues) -> Estimate:
    if data.model is None or index not in data.cells:
        return Estimate(None, None, 0, Note(N_("only a lower bound is known")))
    values, step = list(data.cells[index].values()), max(data.step, mean_width(cell.points))
    return next_trial(values, data.confidence, step, log=data.model.log, non_negative=cell.metric.non_negative)


def _ratio(row: Row, cell: Cell, data: MetricValues) -> Estimate | None:
    """Predict the ratio to the baseline. The next campaign compares within blocks, so this one must have done so.

    The interval of this campaign's ratio holds together with those of its family, and so may be wider than a prediction
    for itself, which then would promise too much."""
    if row.baseline is None or row.is_baseline:
        return None
    of, to = row.treatment.index, row.baseline.index
    if data.model is None or of not in data.cells or to not in data.cells:
        return Estimate(None, None, 0, Note(N_("the treatment or its baseline has no exact value")))
    found = replicated(data.model, {of: 1.0}, {to: 1.0}, data.confidence)
    if found.pairing == "unpaired" and found.interval is not None:
        return found.without(Note(N_("too few blocks have both the treatment and its baseline")))
    own = cell.ratio.interval if cell.ratio else None
    if found.interval is not None and own is not None and found.interval.half_width < own.half_width:
        return found.without(Note(N_("the ratio of this campaign is not known that well")))
    return found
