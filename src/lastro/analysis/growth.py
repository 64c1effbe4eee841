"""The growth of each metric with the sizes of a factor's levels, such as the routers and links of topologies. Pure.

It is determined for each combination of the other factors. With three sizes or more, a line is fitted to the means,
whose parameters and curvature have the intervals of the model of the metric. A line fits any two means, so with two
sizes their ratio is compared with the ratios of the sizes. The scenario says which factor has sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lastro.analysis.campaign import CampaignResults, MetricView, Point, Row, by_block
from lastro.results.additions import SizedFactor
from lastro.stats.contrasts import combined
from lastro.stats.intervals import Estimate, Interval, sample_mean
from lastro.stats.ratios import ratio_to_baseline
from lastro.stats.scaling import bend_weights, intercept_weights, slope_weights

LEAST_OF_A_LINE = 3
Verdict = Literal[
    "in proportion", "slower", "slower or not", "faster", "shrinks", "line", "bends up", "bends down", "unknown",
]  # fmt: skip
Size = tuple[int, ...]  # in the order of the factor's measures


@dataclass(frozen=True, slots=True)
class SizeRelation:
    """A metric against one measure of size, such as the number of routers.

    With two sizes, `ratio` is that of the larger to the smaller. With more there is a line through the means, and its
    `bend` is the quadratic coefficient."""

    ratio: float | None
    line: Line | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Line:
    """The least-squares line through the means; without intervals where a mean is of one value.

    If the means bend, the slope is that of the line that lies nearest to them."""

    slope: Estimate
    intercept: Estimate
    bend: Estimate

    @property
    def direction(self) -> int:
        """1 if the means bend upwards, -1 if downwards, and 0 if neither is distinguishable from a line."""
        return _sign(self.bend)


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of one metric in one combination of the other factors.

    `sizes` has the levels with a value, smallest first; `ratio` is the ratio of the means if there are two sizes;
    `against` has the measures of size."""

    sizes: Mapping[str, Mapping[str, int]]
    ratio: Estimate | None
    against: Mapping[str, SizeRelation]


@dataclass(frozen=True, slots=True)
class GrowthRow:
    """One combination of the other factors' levels, with a growth for each metric, None if it has no value."""

    levels: tuple[str, ...]
    metrics: tuple[Growth | None, ...]


@dataclass(frozen=True, slots=True)
class Growths:
    """The growth of all metrics; false where no metric was measured at two sizes.

    `others` are the factors that vary besides `sized`."""

    sized: SizedFactor
    others: tuple[str, ...]
    rows: tuple[GrowthRow, ...]

    def __bool__(self) -> bool:
        return any(growth is not None and len(growth.sizes) > 1 for row in self.rows for growth in row.metrics)


def growths(report: CampaignResults, sized: SizedFactor) -> Growths:
    """Return the growth of every metric in each combination of the factors besides the one with sizes."""
    others = tuple(factor.name for factor in report.varying if factor.name != sized.factor)
    if len(others) == len(report.varying) or report.members:  # sizes of different campaigns have no line
        return Growths(sized, (), ())
    sizes = _sizes(report, sized)
    return Growths(
        sized,
        others,
        tuple(
            GrowthRow(levels, tuple(_growth(rows, sized, sizes, view) for view in report.views))
            for levels, rows in report.by_levels(others).items()
        ),
    )


def _sizes(report: CampaignResults, sized: SizedFactor) -> dict[str, Size]:
    """Return the size of each level as its trials recorded it; for a level without a trial, from its name."""
    seen: dict[str, set[Size]] = defaultdict(set)
    levels = {row.treatment.index: str(row.treatment.levels[sized.factor]) for row in report.rows}
    for attempt in report.attempts:
        if attempt.valid and attempt.noted.network.keys() >= set(sized.measures):
            seen[levels[attempt.treatment]].add(tuple(attempt.noted.network[name] for name in sized.measures))
    found = {}
    for level in dict.fromkeys(levels.values()):
        # A file that was changed between trials has no size.
        size = next(iter(seen[level])) if len(seen[level]) == 1 else None if seen[level] else sized.of_level(level)
        if size is not None:
            found[level] = size
    return found


def _growth(rows: Sequence[Row], sized: SizedFactor, sizes: Mapping[str, Size], view: MetricView) -> Growth | None:
    row_of = {
        level: row
        for row in rows
        if (level := str(row.treatment.levels[sized.factor])) in sizes and view.of(row).points
    }
    if not row_of or any(point.at_least for row in row_of.values() for point in view.of(row).points):
        return None
    ordered = sorted(row_of, key=lambda level: sizes[level])
    rows = [row_of[level] for level in ordered]
    two = len(rows) == 2
    ratio = _ratio(view.of(rows[0]).points, view.of(rows[1]).points, view) if two else None
    against = {}
    for at, name in enumerate(sized.measures):
        x = [sizes[level][at] for level in ordered]
        against[name] = _by_ratio(x[1] / x[0], ratio) if two else _by_line(x, rows, view)
    return Growth({level: dict(zip(sized.measures, sizes[level], strict=True)) for level in ordered}, ratio, against)


def _ratio(small: Sequence[Point], large: Sequence[Point], view: MetricView) -> Estimate | None:
    """Return the ratio of the means; None if the mean of the smaller size is not above zero."""
    if sample_mean([point.value for point in small]) <= 0:
        return None
    ratio = ratio_to_baseline(by_block(large), by_block(small), view.confidence)
    return ratio.above_zero() if ratio and view.metric.non_negative else ratio


def _by_ratio(expected: float, growth: Estimate | None) -> SizeRelation:
    interval = growth.interval if growth is not None else None
    return SizeRelation(expected, None, _ratio_verdict(interval, expected))


def _ratio_verdict(interval: Interval | None, expected: float) -> Verdict:
    if interval is None or expected <= 1:
        return "unknown"
    if interval.high < 1:
        return "shrinks"
    if interval.high < expected:
        return "slower" if interval.low > 1 else "slower or not"
    if interval.low > expected:
        return "faster"
    return "unknown" if interval.holds(1.0) or interval.holds(expected**2) else "in proportion"


def _by_line(x: Sequence[int], rows: Sequence[Row], view: MetricView) -> SizeRelation:
    if view.model is None or len(set(x)) < LEAST_OF_A_LINE:
        return SizeRelation(None, None, "unknown")
    cells = [row.treatment.index for row in rows]
    slope, intercept, bend = (
        combined(view.model, dict(zip(cells, weights(x), strict=True)), view.confidence)
        for weights in (slope_weights, intercept_weights, bend_weights)
    )
    line = Line(slope, intercept, bend)
    return SizeRelation(None, line, _line_verdict(line))


def _line_verdict(line: Line) -> Verdict:
    if line.direction:
        return "bends up" if line.direction > 0 else "bends down"
    if sign := _sign(line.slope):
        return "shrinks" if sign < 0 else "line"
    return "unknown"


def _sign(estimate: Estimate) -> int:
    """Return the sign of an estimate whose interval excludes zero, else 0."""
    if estimate.interval is None or estimate.interval.holds(0.0):
        return 0
    return 1 if estimate.interval.low > 0 else -1
