"""How a metric goes with time, whatever the treatments do, and how a throughput goes with a number of something."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING

from lastro.report.analysis.measured import Measured
from lastro.report.analysis.model import CountScaling
from lastro.report.model import Report
from lastro.results.samples import Metric

if TYPE_CHECKING:
    from lastro.stats.drift import Drift

LEAST_COUNTS = 4  # levels, for a curve of three parameters


def drift_of(report: Report, index: int) -> Drift | None:
    """The trend of the metric over the campaign's time, block by block, as a share of the treatments' means where all

    are above zero; None when no trial has both a value and a time."""
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
    """A time as the journal writes it, without its zone; None for what is none."""
    try:
        at = datetime.fromisoformat(utc)
    except ValueError:
        return None
    return at.replace(tzinfo=None)


def count_scalings(report: Report, metric: Metric, data: Measured) -> tuple[CountScaling, ...]:
    """The Universal Scalability Law for a metric of which more is better, against each factor of whole numbers of one

    or more, in each combination of the other factors with four such levels or more."""
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
