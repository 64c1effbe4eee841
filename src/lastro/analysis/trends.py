"""The trend of a metric over the time of a campaign, apart from the treatments."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from lastro.analysis.campaign import MetricView

if TYPE_CHECKING:
    from lastro.stats.drift import Drift


def drift_of(view: MetricView) -> Drift | None:
    """Estimate the trend of the metric over the duration of the campaign, from block means.

    It is relative to the means of the treatments if all means are above zero. None when no trial has both a value and
    a time."""
    times = {(a.trial, a.attempt): a.started_utc for a in view.report.attempts}
    found = [
        (point.value, at, row.treatment.index, point.block)
        for row, cell in view
        if not cell.bounded
        for point in cell.points
        if (at := parse_utc(times.get((point.trial, point.attempt), ""))) is not None
    ]
    if not found:
        return None
    from lastro.stats.drift import drift

    values, moments, treatments, blocks = zip(*found, strict=True)
    origin = min(moments)
    hours = [(at - origin).total_seconds() / 3600 for at in moments]
    relative = all(cell.summary.mean > 0 for cell in view.cells if cell.summary)
    return drift(values, hours, treatments, view.confidence, blocks=blocks, relative=relative)


def parse_utc(utc: str) -> datetime | None:
    """Parse a time as the journal writes it and drop its time zone; None for any other text."""
    try:
        at = datetime.fromisoformat(utc)
    except ValueError:
        return None
    return at.replace(tzinfo=None)


def deviations(view: MetricView) -> tuple[list[tuple[tuple[int, int], float]], bool]:
    """Return ((trial, attempt), deviation from the mean of its treatment) for treatments with several trials.

    If all means are above zero, deviations are percentages of these means, and the flag is true. Otherwise they are in
    the unit of the metric."""
    cells = [cell for cell in view.cells if cell.summary and len(cell.points) > 1]
    relative = all(cell.summary is not None and cell.summary.mean > 0 for cell in cells)
    found = []
    for cell in cells:
        assert cell.summary is not None
        mean = cell.summary.mean
        scale = 100 / mean if relative else 1.0
        found += [((point.trial, point.attempt), (point.value - mean) * scale) for point in cell.points]
    return found, relative
