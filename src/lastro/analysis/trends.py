"""The drift of a metric over a campaign, and the correlation of consecutive trials, without the treatments' effects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from lastro.analysis.campaign import Cell, MetricView, Point, Row
from lastro.analysis.model import SerialDependence
from lastro.results.members import campaigns_of_blocks
from lastro.stats.autocorrelation import Autocorrelation, autocorrelation, p_within_blocks, variance_factor
from lastro.stats.drift import Drift, drift


def drift_of(view: MetricView) -> Drift | None:
    """Estimate the trend of the metric over the duration of the campaign, from block means.

    The trend is relative to the means of the treatments if all means are above zero. None if no trial has both a value
    and a time, and for a report of several campaigns, since their trends differ."""
    if view.report.members or not (timed := _timed(view)):
        return None
    moments, rows, points = zip(*timed, strict=True)
    hours = [(at - moments[0]).total_seconds() / 3600 for at in moments]
    values, blocks = [point.value for point in points], [point.block for point in points]
    treatments = [row.treatment.index for row in rows]
    return drift(values, hours, treatments, view.confidence, blocks=blocks, relative=_all_above_zero(view))


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """The order in time of a metric's trials, as {(trial, attempt): position}, and their autocorrelation."""

    autocorrelation: Autocorrelation
    places: Mapping[tuple[int, int], int]

    def variance_factor(self, cell: Cell) -> float:
        """Return the factor by which the variance of a cell's mean exceeds that of a mean of independent trials."""
        places = [self.places[point.trial, point.attempt] for point in cell.points]
        return variance_factor(self.autocorrelation.lag1, places)


def trial_order(view: MetricView) -> TrialOrder | None:
    """Return the order of a metric's trials; None if there are too few, or if some have no time.

    For the autocorrelation, values are divided by their treatment's mean if all means are above zero, so that all
    treatments have equal weight."""
    timed = _timed(view)
    correlation = autocorrelation(*_values_and_cells(view, timed))
    if correlation is None or len(timed) < sum(len(cell.points) for cell in view.cells):
        return None
    return TrialOrder(correlation, {(point.trial, point.attempt): at for at, (_, _, point) in enumerate(timed)})


def _values_and_cells(
    view: MetricView, timed: Iterable[tuple[datetime, Row, Point]]
) -> tuple[list[float], list[tuple[int, int]]]:
    """Return the values, as fractions of their treatment's mean if all means are above zero, and the cell of each.

    A cell is a treatment or, with several campaigns, a treatment in one of them."""
    means = {row.treatment.index: cell.summary.mean for row, cell in view if cell.summary}
    relative, campaigns = _all_above_zero(view), campaigns_of_blocks(view.report.members) or {}
    values = [point.value / (means[row.treatment.index] if relative else 1.0) for _, row, point in timed]
    return values, [(row.treatment.index, campaigns.get(point.block, 0)) for _, row, point in timed]


def correlated_orders(views: Iterable[MetricView], alpha: float) -> dict[str, TrialOrder]:
    """Return {metric: the order of its trials} of metrics whose consecutive trials are correlated at level `alpha`."""
    orders = ((view.metric.name, trial_order(view)) for view in views)
    return {name: order for name, order in orders if order and order.autocorrelation.p < alpha}


def serial_dependence(view: MetricView) -> SerialDependence | None:
    """Return the correlation of consecutive trials, and its effect on the treatment that it affects most.

    The p-value is computed within blocks, so that differences between blocks do not count as a correlation. None if the
    correlation or its p-value cannot be estimated."""
    if (order := trial_order(view)) is None:
        return None
    timed = _timed(view)
    p = p_within_blocks(*_values_and_cells(view, timed), [point.block for _, _, point in timed])
    if p is None:
        return None
    worst = max((cell for cell in view.cells if cell.points), key=order.variance_factor)
    n = len(worst.points)
    return SerialDependence(order.autocorrelation.lag1, p, order.autocorrelation.n, n, n / order.variance_factor(worst))


def _timed(view: MetricView) -> list[tuple[datetime, Row, Point]]:
    """Return (time, row, point) for the exact values that have a time, in the order of time."""
    times = {(a.trial, a.attempt): a.started_utc for a in view.report.attempts}
    timed = []
    for row, cell in view:
        for point in () if cell.bounded else cell.points:
            started = parse_utc(times.get((point.trial, point.attempt), ""))
            if started is not None:
                timed.append((started, row, point))
    return sorted(timed, key=lambda value: value[0])


def _all_above_zero(view: MetricView) -> bool:
    return all(cell.summary.mean > 0 for cell in view.cells if cell.summary)


def parse_utc(utc: str) -> datetime | None:
    """Parse a time of the journal, in ISO 8601, and drop its time zone; None for any other text."""
    try:
        at = datetime.fromisoformat(utc)
    except ValueError:
        return None
    return at.replace(tzinfo=None)


def deviations(view: MetricView) -> tuple[list[tuple[tuple[int, int], float]], bool]:
    """Return [((trial, attempt), deviation from the treatment's mean)], and whether the deviations are relative.

    Only treatments with several trials are included. If all of their means are above zero, deviations are percentages
    of the means, and the flag is true. Otherwise they are in the unit of the metric."""
    cells = [cell for cell in view.cells if cell.summary and len(cell.points) > 1]
    relative = all(cell.summary is not None and cell.summary.mean > 0 for cell in cells)
    result = []
    for cell in cells:
        assert cell.summary is not None
        mean = cell.summary.mean
        scale = 100 / mean if relative else 1.0
        result += [((point.trial, point.attempt), (point.value - mean) * scale) for point in cell.points]
    return result, relative
