"""The growth of each metric with the sizes of a factor's levels, such as the routers and links of topologies. Pure.

The growth is determined for each combination of the other factors. With three sizes or more, a line is fitted to the
means; the model of the metric gives the intervals of its parameters and of its bend. Two means always lie on a line, so
with two sizes the ratio of the means is compared with the ratio of the sizes. The scenario defines which factor has
sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lastro.analysis.campaign import CampaignResults, MetricView, Point, Row, by_block
from lastro.results.additions import SizedFactor
from lastro.stats.contrasts import sum_of_model_means
from lastro.stats.intervals import Estimate, Interval, sample_mean
from lastro.stats.ratios import ratio_to_baseline
from lastro.stats.weights import bend_weights, intercept_weights, slope_weights

LEAST_OF_A_LINE = 3
Verdict = Literal[
    "in proportion", "slower", "slower or not", "faster", "shrinks", "line", "bends up", "bends down", "unknown",
]  # fmt: skip
Size = tuple[int, ...]  # in the order of the factor's measures


@dataclass(frozen=True, slots=True)
class SizeRelation:
    """The relation of a metric to one measure of size, such as the number of routers.

    With two sizes, `ratio` is the ratio of the larger size to the smaller. With more, `line` is through the means."""

    ratio: float | None
    line: Line | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Line:
    """The least-squares line through the means: slope, intercept, and `bend`, the quadratic coefficient.

    The estimates have no intervals if a mean is of a single value. If the means bend, `slope` is still that of the
    least-squares line."""

    slope: Estimate
    intercept: Estimate
    bend: Estimate

    @property
    def direction(self) -> int:
        """1 if the means bend upwards, -1 if downwards, and 0 if they are not distinguishable from a line."""
        return _sign(self.bend)


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of one metric in one combination of the other factors.

    `sizes` is {level with a value: {measure of size: number}}, the smallest first. `ratio` is the ratio of the means,
    the larger size to the smaller, if there are two sizes. `against` is {measure of size: relation to it}."""

    sizes: Mapping[str, Mapping[str, int]]
    ratio: Estimate | None
    against: Mapping[str, SizeRelation]


@dataclass(frozen=True, slots=True)
class GrowthRow:
    """One combination of levels of the other factors, with the growth of each metric; None without a value."""

    levels: tuple[str, ...]
    metrics: tuple[Growth | None, ...]


@dataclass(frozen=True, slots=True)
class Growths:
    """The growth of all metrics; false if no metric was measured at two sizes.

    `sized` is the factor with sizes. `others` are the names of the other factors that vary."""

    sized: SizedFactor
    others: tuple[str, ...]
    rows: tuple[GrowthRow, ...]

    def __bool__(self) -> bool:
        return any(growth is not None and len(growth.sizes) > 1 for row in self.rows for growth in row.metrics)


def growths(report: CampaignResults, sized: SizedFactor) -> Growths:
    """Return the growth of every metric in each combination of the other factors.

    The result has no rows if the factor with sizes does not vary, or if the report is of several campaigns."""
    others = tuple(factor.name for factor in report.varying if factor.name != sized.factor)
    if len(others) == len(report.varying) or report.members:  # sizes of different campaigns have no line
        return Growths(sized, (), ())
    sizes = _sizes(report, sized)
    grown = [
        GrowthRow(levels, tuple(_growth(rows, sized, sizes, view) for view in report.views))
        for levels, rows in report.by_levels(others).items()
    ]
    return Growths(sized, others, tuple(grown))


def _sizes(report: CampaignResults, sized: SizedFactor) -> dict[str, Size]:
    """Return {level: its size}, as its trials recorded it; for a level without such a trial, from its name."""
    recorded: dict[str, set[Size]] = defaultdict(set)
    levels = {row.treatment.index: str(row.treatment.levels[sized.factor]) for row in report.rows}
    for attempt in report.attempts:
        if attempt.valid and attempt.typed_notes.network.keys() >= set(sized.measures):
            recorded[levels[attempt.treatment]].add(tuple(attempt.typed_notes.network[name] for name in sized.measures))
    sizes = {}
    for level in dict.fromkeys(levels.values()):
        if len(recorded[level]) > 1:  # a file that was changed between trials has no size
            continue
        size = next(iter(recorded[level]), None) or sized.of_level(level)
        if size is not None:
            sizes[level] = size
    return sizes


def _growth(rows: Sequence[Row], sized: SizedFactor, sizes: Mapping[str, Size], view: MetricView) -> Growth | None:
    """Return the growth of a metric over these rows; None without a sized level, or if values are only lower bounds."""
    by_level = {str(row.treatment.levels[sized.factor]): row for row in rows if view.of(row).points}
    ordered = sorted((level for level in by_level if level in sizes), key=lambda level: sizes[level])
    rows = [by_level[level] for level in ordered]
    if not rows or any(view.of(row).bounded for row in rows):
        return None
    two = len(rows) == 2
    ratio = _ratio(view.of(rows[0]).points, view.of(rows[1]).points, view) if two else None
    against = {}
    for at, name in enumerate(sized.measures):
        x = [sizes[level][at] for level in ordered]
        if two:
            expected = x[1] / x[0]
            against[name] = SizeRelation(expected, None, _ratio_verdict(ratio.interval if ratio else None, expected))
        else:
            against[name] = _by_line(x, rows, view)
    return Growth({level: dict(zip(sized.measures, sizes[level], strict=True)) for level in ordered}, ratio, against)


def _ratio(small: Sequence[Point], large: Sequence[Point], view: MetricView) -> Estimate | None:
    """Return the ratio of the means; None if the mean of the smaller size is not above zero."""
    if sample_mean([point.value for point in small]) <= 0:
        return None
    ratio = ratio_to_baseline(by_block(large), by_block(small), view.confidence)
    return ratio.above_zero() if ratio and view.metric.non_negative else ratio


def _ratio_verdict(interval: Interval | None, expected: float) -> Verdict:
    """Return how a metric grows if its ratio has this interval while the size grows by the factor `expected`."""
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
    """Return the relation for three sizes `x` or more, one for each row: the line through the means."""
    if view.model is None or len(set(x)) < LEAST_OF_A_LINE:
        return SizeRelation(None, None, "unknown")
    cells = [row.treatment.index for row in rows]
    slope, intercept, bend = (
        sum_of_model_means(view.model, dict(zip(cells, weights(x), strict=True)), view.confidence)
        for weights in (slope_weights, intercept_weights, bend_weights)
    )
    line = Line(slope, intercept, bend)
    if line.direction:
        return SizeRelation(None, line, "bends up" if line.direction > 0 else "bends down")
    verdicts: dict[int, Verdict] = {-1: "shrinks", 0: "unknown", 1: "line"}
    return SizeRelation(None, line, verdicts[_sign(slope)])


def _sign(estimate: Estimate) -> int:
    """Return the sign of an estimate whose interval excludes zero, else 0."""
    if estimate.interval is None or estimate.interval.holds(0.0):
        return 0
    return 1 if estimate.interval.low > 0 else -1
