"""The scaling of each metric with a numeric factor, for each combination of the other factors. Pure.

A line is fitted to every numeric factor. For counts, and metrics where higher is better, the Universal Scalability Law
is fitted, too."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from lastro.analysis.campaign import CampaignResults, MetricView, Row
from lastro.analysis.measured import MetricValues
from lastro.analysis.model import CountScaling
from lastro.stats.scaling import FittedLine, fit_line

LEAST_LEVELS = 3  # a line fits any two points
LEAST_COUNTS = 4  # levels for a curve with three parameters


@dataclass(frozen=True, slots=True)
class ScalingRow:
    """One combination of the other factors' levels, with a line for each metric of the report, or None."""

    levels: tuple[str, ...]
    lines: tuple[FittedLine | None, ...]


@dataclass(frozen=True, slots=True)
class Scaling:
    """The lines over one numeric factor; `others` are the other factors that vary."""

    factor: str
    others: tuple[str, ...]
    rows: tuple[ScalingRow, ...]


def scalings(report: CampaignResults) -> tuple[Scaling, ...]:
    """Return the lines for each factor with three or more levels, all numbers; leave out factors without a line.

    Campaigns put together have none: their levels may differ by the day."""
    if report.members:
        return ()
    found = []
    for factor in report.varying:
        numbers = [level for level in factor.levels if isinstance(level, int | float) and not isinstance(level, bool)]
        if len(numbers) == len(factor.levels) >= LEAST_LEVELS:
            found.append(_scaling(report, factor.name))
    return tuple(scaling for scaling in found if any(any(row.lines) for row in scaling.rows))


def _scaling(report: CampaignResults, factor: str) -> Scaling:
    others = tuple(other.name for other in report.varying if other.name != factor)
    return Scaling(
        factor,
        others,
        tuple(
            ScalingRow(levels, tuple(_line(rows, factor, view) for view in report.views))
            for levels, rows in report.by_levels(others).items()
        ),
    )


def _line(rows: list[Row], factor: str, view: MetricView) -> FittedLine | None:
    if any(view.of(row).bounded for row in rows):
        return None
    points = [(float(row.treatment.levels[factor]), p.value) for row in rows for p in view.of(row).points]
    if len({x for x, _ in points}) < LEAST_LEVELS:
        return None
    return fit_line([x for x, _ in points], [y for _, y in points], view.confidence)


def count_scalings(view: MetricView, data: MetricValues) -> tuple[CountScaling, ...]:
    """Fit the Universal Scalability Law to a metric where higher is better.

    There is one fit for each factor whose levels are integers of at least 1, and each combination of the other factors
    with at least four of these levels."""
    if view.metric.better != "higher":
        return ()
    from lastro.stats.usl import fit_usl

    found = []
    for factor in view.report.varying:
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
