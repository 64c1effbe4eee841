"""The growth of each metric with the sizes of a factor's levels, such as the routers and links of topologies. Pure.

It is determined for each combination of the other factors. With three sizes or more, a line is fitted, with intervals
of its parameters and of its curvature. A line fits any two points, so with two sizes the ratio of the means is compared
with the ratios of the sizes. The scenario says which factor has sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lastro.analysis.campaign import CampaignResults, MetricView, Point, Row, by_block
from lastro.results.additions import SizedFactor
from lastro.stats.intervals import Estimate, Interval, sample_mean
from lastro.stats.ratios import ratio_to_baseline
from lastro.stats.scaling import FittedLine, fit_bend, fit_line

LEAST_OF_A_LINE = 3
Verdict = Literal[
    "in proportion", "slower", "slower or not", "faster", "shrinks", "line", "grows", "bends up", "bends down",
    "unknown",
]  # fmt: skip
Size = tuple[int, ...]  # in the order of the factor's measures


@dataclass(frozen=True, slots=True)
class SizeRelation:
    """A metric against one measure of size, such as the number of routers.

    With two sizes, `ratio` is that of the larger to the smaller. With more there is a `line`, and the interval of its
    `bend` if there are enough trials."""

    ratio: float | None
    line: FittedLine | None
    bend: Interval | None
    verdict: Verdict


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
    points_of = {
        level: view.of(row).points
        for row in rows
        if (level := str(row.treatment.levels[sized.factor])) in sizes and view.of(row).points
    }
    if not points_of or any(point.at_least for points in points_of.values() for point in points):
        return None
    ordered = sorted(points_of, key=lambda level: sizes[level])
    points = [(sizes[level], points_of[level]) for level in ordered]
    ratio = _ratio(points[0][1], points[1][1], view) if len(points) == 2 else None
    against = {
        name: _by_ratio(points, at, ratio) if len(points) == 2 else _by_line(points, at, view.confidence)
        for at, name in enumerate(sized.measures)
    }
    return Growth({level: dict(zip(sized.measures, sizes[level], strict=True)) for level in ordered}, ratio, against)


def _ratio(small: Sequence[Point], large: Sequence[Point], view: MetricView) -> Estimate | None:
    """Return the ratio of the means; None if the mean of the smaller size is not above zero."""
    if sample_mean([point.value for point in small]) <= 0:
        return None
    ratio = ratio_to_baseline(by_block(large), by_block(small), view.confidence)
    return ratio.above_zero() if ratio and view.metric.non_negative else ratio


Sized = Sequence[tuple[Size, Sequence[Point]]]


def _by_ratio(points: Sized, measure: int, growth: Estimate | None) -> SizeRelation:
    expected = points[1][0][measure] / points[0][0][measure]
    interval = growth.interval if growth is not None else None
    return SizeRelation(expected, None, None, _ratio_verdict(interval, expected))


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


def _by_line(points: Sized, measure: int, confidence: float) -> SizeRelation:
    x = [float(size[measure]) for size, own in points for _ in own]
    y = [point.value for _, own in points for point in own]
    if len(set(x)) < LEAST_OF_A_LINE:
        return SizeRelation(None, None, None, "unknown")
    line, bend = fit_line(x, y, confidence), fit_bend(x, y, confidence)
    return SizeRelation(None, line, bend, _line_verdict(line, bend))


def _line_verdict(line: FittedLine | None, bend: Interval | None) -> Verdict:
    if bend is not None and not bend.holds(0.0):
        return "bends up" if bend.low > 0 else "bends down"
    if line is None or line.slope_interval is None or line.slope_interval.holds(0.0):
        return "unknown"
    if line.slope < 0:
        return "shrinks"
    return "grows" if bend is None else "line"
