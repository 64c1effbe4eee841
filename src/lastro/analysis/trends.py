"""Trends of a metric: its drift over time apart from the treatments, and its scaling with a count."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING

from lastro.analysis.campaign import Report
from lastro.analysis.measured import Measured
from lastro.analysis.model import CountScaling
from lastro.results.samples import Metric

if TYPE_CHECKING:
    from lastro.stats.drift import Drift

LEAST_COUNTS = 4  # levels for a curve with three parameters


def drift_of(report: Report, index: int) -> Drift | None:
    """Estimate the trend of the metric over the duration of the campaign, from block means.

    It is relative to the treatments' means where all means are above zero. None when no trial has both a value and a
    time."""
    times = {(a.trial, a.attempt): a.started_utc for a in report.attempts}
    found = [
        (point.value, at, row.treatment.index, point.block)
        for row in report.rows
        if not row.cells[index].bounded
        for point in row.cells[index].points
        if (at := parse_utc(times.get((point.trial, point.attempt), ""))) is not None
    ]
    if not found:
        return None
    from lastro.stats.drift import drift

    values, moments, treatments, blocks = zip(*found, strict=True)
    origin = min(moments)
    hours = [(at - origin).total_seconds() / 3600 for at in moments]
    relative = all(cell.summary.mean > 0 for row in report.rows if (cell := row.cells[index]).summary)
    confidence = report.study.design.confidence
    return drift(values, hours, treatments, confidence, blocks=blocks, relative=relative)


def parse_utc(utc: str) -> datetime | None:
    """Parse a time as the journal writes it and drop its time zone; None for any other text."""
    try:
        at = datetime.fromisoformat(utc)
    except ValueError:
        return None
    return at.replace(tzinfo=None)


def count_scalings(report: Report, metric: Metric, data: Measured) -> tuple[CountScaling, ...]:
    """Fit the Universal Scalability Law to a metric where higher is better.

    There is one fit for each factor whose levels are integers of at least 1, and each combination of the other factors
    with at least four of these levels."""
    if metric.better != "higher":
        return ()
    from lastro.stats.usl import fit_usl

    found = []
    for factor in report.varying:
        counts = [level for level in factor.levels if isinstance(level, int) and not isinstance(level, bool)]
        if len(counts) < len(factor.levels) or min(counts) < 1 or factor.name not in data.factors:
            continue
        groups: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = defaultdict(list)
        for treatment, _, value in data.trials():
            levels = data.levels[treatment]
            others = tuple((name, levels[name]) for name in data.factors if name != factor.name)
            groups[others].append((float(levels[factor.name]), value))
        for others, points in groups.items():
            if len({x for x, _ in points}) >= LEAST_COUNTS:
                fit = fit_usl([x for x, _ in points], [y for _, y in points], data.confidence)
                if fit is not None:
                    found.append(CountScaling(factor.name, dict(others), tuple(points), fit))
    return tuple(found)
