"""How each metric grows with the number of routers and of links in the topologies of a study. Pure.

Growth is determined for each combination of the other factors. With three sizes or more it is a line, with intervals of
its parameters and of its bend. A line fits any two points, so with two sizes the ratio of their means is compared with
the ratio of the routers, and of the links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lastro.analysis.campaign import Point, Report, Row
from lastro.errors import InputError
from lastro.report.language import Language
from lastro.report.numbers import interval_text, mean_text
from lastro.results.noted import NetworkSize
from lastro.stats.intervals import Interval, Summary, sample_mean
from lastro.stats.notes import N_
from lastro.stats.ratios import Ratio, ratio_to_baseline
from lastro.stats.scaling import Line, fit_bend, fit_line
from lastro.study.topology import grid, grid_size
from lastro.units import significant

FACTOR = "topology"
LEAST_OF_A_LINE = 3
Measure = Literal["routers", "links"]
Verdict = Literal[
    "in proportion", "slower", "slower or not", "faster", "shrinks", "line", "grows", "bends up", "bends down",
    "unknown",
]  # fmt: skip
MEASURES: tuple[Measure, ...] = ("routers", "links")
_WORDS: dict[Verdict, str] = {
    "in proportion": N_("yes: in proportion, ×{ratio}"),
    "slower": N_("no: more slowly than ×{ratio}"),
    "slower or not": N_("no: more slowly than ×{ratio}, or not at all"),
    "faster": N_("no: faster than ×{ratio}"),
    "shrinks": N_("no: it shrinks"),
    "line": N_("yes: consistent with a line"),
    "grows": N_("yes; whether on a line is unknown"),
    "bends up": N_("not on a line: it bends upwards"),
    "bends down": N_("not on a line: it bends downwards"),
    "unknown": N_("undecided"),
}
EXPLANATION = N_(
    "Does the metric grow with the routers, with the links? Two sizes: the ratio of the larger to the smaller, with "
    "its interval, against the ratio of their routers and links. Yes: the interval contains that ratio, but neither "
    "1 (no growth) nor its square. No: it does not contain that ratio. Two sizes cannot show whether growth is "
    "linear: a line fits any two points. Three sizes or more: the least-squares line through the valid trials, its "
    "parameters ± half their intervals. Yes: the slope is above 0, and the interval of a bend (the quadratic "
    "coefficient) contains 0. Each interval is for one metric alone, uncorrected."
)


@dataclass(frozen=True, slots=True)
class Against:
    """A metric against the number of routers, or of links.

    With two sizes, `ratio` is the ratio of their numbers. With more there is a `line`, and the interval of its `bend`
    if there are enough trials."""

    ratio: float | None
    line: Line | None
    bend: Interval | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of one metric in one combination of the other factors.

    `sizes` has the topologies with a value, smallest first; `ratio` is the ratio of the means if there are two sizes;
    `against` is in the order of MEASURES."""

    sizes: Mapping[str, NetworkSize]
    ratio: Ratio | None
    against: tuple[Against, ...]


@dataclass(frozen=True, slots=True)
class GrowthRow:
    """One combination of the other factors' levels, with a growth for each metric, None if it has no value."""

    levels: tuple[str, ...]
    metrics: tuple[Growth | None, ...]


@dataclass(frozen=True, slots=True)
class Growths:
    """The growth of all metrics; false where no metric was measured at two sizes.

    `others` are the factors that vary besides the topology."""

    others: tuple[str, ...]
    rows: tuple[GrowthRow, ...]

    def __bool__(self) -> bool:
        return any(growth is not None and len(growth.sizes) > 1 for row in self.rows for growth in row.metrics)


def growths(report: Report) -> Growths:
    others = tuple(factor.name for factor in report.varying if factor.name != FACTOR)
    if len(others) == len(report.varying):
        return Growths((), ())
    sizes, groups = _sizes(report), defaultdict[tuple[str, ...], list[Row]](list)
    for row in report.rows:
        groups[tuple(str(row.treatment.levels[name]) for name in others)].append(row)
    confidence, metrics = report.study.design.confidence, range(len(report.metrics))
    return Growths(
        others,
        tuple(
            GrowthRow(levels, tuple(_growth(rows, sizes, index, confidence) for index in metrics))
            for levels, rows in groups.items()
        ),
    )


def _sizes(report: Report) -> dict[str, NetworkSize]:
    """Return the size of each topology as its trials recorded it; for a grid without a trial, from its name."""
    told: dict[str, set[NetworkSize]] = defaultdict(set)
    levels = {row.treatment.index: str(row.treatment.levels[FACTOR]) for row in report.rows}
    for attempt in report.attempts:
        if attempt.valid and (size := attempt.noted.network):
            told[levels[attempt.treatment]].add(size)
    found = {}
    for level in dict.fromkeys(levels.values()):
        # A file that was changed between trials has no size.
        size = next(iter(told[level])) if len(told[level]) == 1 else None if told[level] else _of_grid(level)
        if size is not None:
            found[level] = size
    return found


def _of_grid(level: str) -> NetworkSize | None:
    try:
        topology = grid(*size) if (size := grid_size(level)) else None
    except InputError:
        return None
    return NetworkSize(len(topology.names), len(topology.links)) if topology else None


def _growth(rows: Sequence[Row], sizes: Mapping[str, NetworkSize], metric: int, confidence: float) -> Growth | None:
    found = {
        level: row.cells[metric].points
        for row in rows
        if (level := str(row.treatment.levels[FACTOR])) in sizes and row.cells[metric].points
    }
    if not found or any(point.at_least for points in found.values() for point in points):
        return None
    ordered = {level: sizes[level] for level in sorted(found, key=lambda level: sizes[level])}
    points = [(size, found[level]) for level, size in ordered.items()]
    if len(points) == 2:
        ratio = _ratio(points[0][1], points[1][1], confidence)
        return Growth(ordered, ratio, tuple(_by_ratio(points, at, ratio) for at in range(len(MEASURES))))
    return Growth(ordered, None, tuple(_by_line(points, at, confidence) for at in range(len(MEASURES))))


def _ratio(small: Sequence[Point], large: Sequence[Point], confidence: float) -> Ratio | None:
    """Return the ratio of the means; None if the mean of the smaller network is not above zero."""
    if sample_mean([point.value for point in small]) <= 0:
        return None
    by_block, base = ({point.block: point.value for point in points} for points in (large, small))
    return ratio_to_baseline(by_block, base, confidence)


Sized = Sequence[tuple[NetworkSize, Sequence[Point]]]


def _by_ratio(points: Sized, measure: int, growth: Ratio | None) -> Against:
    expected = points[1][0][measure] / points[0][0][measure]
    interval = growth.interval if growth is not None else None
    return Against(expected, None, None, _ratio_verdict(interval, expected))


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


def _by_line(points: Sized, measure: int, confidence: float) -> Against:
    x = [float(size[measure]) for size, own in points for _ in own]
    y = [point.value for _, own in points for point in own]
    if len(set(x)) < LEAST_OF_A_LINE:
        return Against(None, None, None, "unknown")
    line, bend = fit_line(x, y, confidence), fit_bend(x, y, confidence)
    return Against(None, line, bend, _line_verdict(line, bend))


def _line_verdict(line: Line | None, bend: Interval | None) -> Verdict:
    if bend is not None and not bend.holds(0.0):
        return "bends up" if bend.low > 0 else "bends down"
    if line is None or line.slope_interval is None or line.slope_interval.holds(0.0):
        return "unknown"
    if line.slope < 0:
        return "shrinks"
    return "grows" if bend is None else "line"


# Wording


def against_text(against: Against, say: Language) -> str:
    """Describe growth: 'yes: in proportion, ×1.78'; for a line, also its parameters and the interval of its bend."""
    ratio = say.number(significant(against.ratio, 3)) if against.ratio is not None else ""
    verdict = say(_WORDS[against.verdict], ratio=ratio)
    if (line := against.line) is None:
        return verdict
    slope = mean_text(Summary(line.n, line.slope, None, line.slope_interval), say)
    intercept = mean_text(Summary(line.n, line.intercept, None, line.intercept_interval), say)
    text = say("{verdict}; {slope} for 1 more, {intercept} at 0", verdict=verdict, slope=slope, intercept=intercept)
    if (bend := against.bend) is None:
        return text
    middle = Summary(line.n, (bend.low + bend.high) / 2, None, bend)
    return say("{text}; bend {interval}", text=text, interval=interval_text(middle, say))


def sizes_text(growth: Growth) -> Iterator[str]:
    """Format each topology with its number of routers and of links: '3x3 (9, 12)'."""
    return (f"{level} ({size.routers}, {size.links})" for level, size in growth.sizes.items())
