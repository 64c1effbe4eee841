"""A figure of every trial of a metric, treatment by treatment, with the mean and its interval.

A treatment without values is marked as missing at its position. With many treatments, those that differ only in the
least important factors share a position."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import lastro.figures.xy as xy
from lastro.analysis.campaign import CampaignResults, MetricView, Row
from lastro.analysis.metric_values import pooled_summary
from lastro.analysis.model import MetricAnalysis
from lastro.figures.matplotlib_types import Figure
from lastro.figures.scale import axis_ends_of
from lastro.figures.style import (
    DASHED,
    FAINT,
    SMALL_PT,
    axis_title,
    colour_of,
    is_narrow,
    marker_of,
    metric_title,
    page_in,
)
from lastro.figures.text import chars, lines_of, safe, wrapped
from lastro.grouping import by_key
from lastro.words.language import Language
from lastro.words.numbers import WHY_MISSING, percent
from lastro.words.remarks import short, signs

MOST_PLACES = 60
_SLOT_IN = 0.155  # height of one place
_LINE_IN = 0.135  # height of a line of a level's label
_GAP_SLOTS = 0.8  # between two levels of the factor on the axis
_MOST_COLOURS = 8
_MOST_LEVELS = 200
_FEW = 15  # points of one place: up to this many are drawn larger


@dataclass(frozen=True, slots=True)
class _Roles:
    """The role of each factor in the figure.

    `rows` are factors on the vertical axis, `colours` distinguish the treatments at one level of that axis, and
    `panels` have a panel for each of their combinations. Treatments that differ only in `pooled` factors share a
    position."""

    rows: tuple[str, ...]
    colours: tuple[str, ...]
    panels: tuple[str, ...]
    pooled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Grid:
    """The combinations of levels in each role, and the treatments at each position.

    `at` is {(row, colour, panel): rows of the report}. `absent` are the colours without any value: they share one slot,
    so that they are visible but do not fill half of the figure."""

    roles: _Roles
    rows: tuple[str, ...]
    colours: tuple[str, ...]
    absent: tuple[str, ...]
    panels: tuple[str, ...]
    at: Mapping[tuple[str, str, str], Sequence[Row]]
    least: float = 0.0  # slots that the label of a level takes

    @property
    def present(self) -> tuple[str, ...]:
        return tuple(colour for colour in self.colours if colour not in self.absent)

    @property
    def group(self) -> int:
        """The number of slots for one level of the axis: one per colour with values, and one for all other colours."""
        return len(self.present) + bool(self.absent)

    def top(self, row: int) -> float:
        """Return the vertical position of the first slot of the level with index `row`, in slots from the top."""
        height = max(self.group, self.least)
        return row * (height + _GAP_SLOTS) + (height - self.group) / 2

    @property
    def slots(self) -> float:
        """The height of a panel in slots, with a gap above and below."""
        return len(self.rows) * (max(self.group, self.least) + _GAP_SLOTS) + _GAP_SLOTS


def draw_distribution(view: MetricView, say: Language, analysis: MetricAnalysis) -> Figure:
    """Draw every trial of a metric; its `analysis` says which factors explain least and may share positions."""
    metric, grid = view.metric, _grid(view, analysis)
    labels = [wrapped(level, 14 if is_narrow() else 18) or say("all") for level in grid.rows]
    grid = replace(grid, least=max(map(lines_of, labels)) * _LINE_IN / _SLOT_IN)
    ends = axis_ends_of(metric, view.cells) if any(cell.points for cell in view.cells) else None
    baselines = _baseline_means(view)
    counts = Counter(n for rows in grid.at.values() if (n := sum(len(view.of(row).points) for row in rows)))
    usual_n = counts.most_common(1)[0][0] if counts else None  # the figure states it only once
    panels = [xy.PlotPanel(list(_items(view, grid, panel, usual_n, baselines, say)), [panel]) for panel in grid.panels]
    title = axis_title(metric)
    x = xy.PlotAxis.of(ends, title) if ends else xy.PlotAxis(title, ticks=())
    middles = [grid.top(at) + (grid.group - 1) / 2 for at in range(len(grid.rows))]
    places = list(zip(middles, labels, strict=True))
    y = xy.PlotAxis(low=grid.slots - _GAP_SLOTS - 0.5, high=-_GAP_SLOTS - 0.5, ticks=places, grid=False)
    how = [say("mean with its {confidence} interval, and every trial", confidence=percent(view.confidence, say))]
    if grid.roles.pooled:
        names = " × ".join(grid.roles.pooled)
        how.append(say("each position pools all levels of {factors}; its interval is over blocks", factors=names))
    how += [say("n = {n} unless noted", n=say.integer(usual_n))] if usual_n else []
    arrows = ends.words(metric.name, say) if ends else ()
    plot = xy.Plot(
        panels, metric_title(metric, say), [*how, *arrows], x, y,
        grid.slots * _SLOT_IN, legend=list(_legend(view, grid, say)),
        legend_title=safe(grid.roles.colours[0]) if grid.roles.colours else "", labelled=True,
    )  # fmt: skip
    return xy.draw_plot(plot, say)


def _grid(view: MetricView, analysis: MetricAnalysis) -> _Grid:
    report = view.report
    roles = _roles(report, analysis)
    levels = {factor.name: [str(level) for level in factor.levels] for factor in report.study.factors}

    def combined(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(" · ".join(combination) for combination in itertools.product(*(levels[name] for name in names)))

    def place(row: Row, names: tuple[str, ...]) -> str:
        return " · ".join(str(row.treatment.levels[name]) for name in names)

    shown = (roles.rows, roles.colours, roles.panels)
    at = by_key(((place(row, shown[0]), place(row, shown[1]), place(row, shown[2])), row) for row in report.rows)
    colours = combined(roles.colours)
    known = {colour for (_, colour, _), rows in at.items() if any(view.of(row).summary for row in rows)}
    absent = tuple(colour for colour in colours if colour not in known) if roles.colours else ()
    return _Grid(roles, combined(roles.rows), colours, absent, combined(roles.panels), at)


def _roles(report: CampaignResults, analysis: MetricAnalysis) -> _Roles:
    """Assign roles: the factor with the most levels to the axis, the next to colours, all others to panels.

    Only a factor with at most eight levels is shown by colours. If there would be more than sixty positions, some
    factors are pooled: those that explain least of the variation, alone and in interactions, of equal ones those with
    fewer levels, and a factor with more levels than a page can show."""
    sizes = {factor.name: len(factor.levels) for factor in report.varying}
    shown = list(sizes)
    if math.prod(sizes.values()) > MOST_PLACES:
        shown, effects = [], analysis.anova.effects if analysis.anova else ()
        explained = {name: math.fsum(each.explained for each in effects if name in each.factors) for name in sizes}
        for name in sorted(sizes, key=lambda name: (-explained[name], -sizes[name])):
            if math.prod(sizes[other] for other in shown) * sizes[name] <= (MOST_PLACES if shown else _MOST_LEVELS):
                shown.append(name)
    pooled = tuple(name for name in sizes if name not in shown)
    shown.sort(key=lambda name: -sizes[name])
    if not shown:
        return _Roles((), (), (), pooled)
    colour = next((name for name in shown[1:] if sizes[name] <= _MOST_COLOURS), None)
    panels = tuple(name for name in shown[1:] if name != colour)
    return _Roles((shown[0],), (colour,) if colour else (), panels, pooled)


def _baseline_means(view: MetricView) -> dict[int, float]:
    """Return {index of a treatment: mean of its baseline}, without treatments whose baseline has no mean."""
    means = {row.treatment.index: cell.summary.mean for row, cell in view if cell.summary}
    return {
        row.treatment.index: means[row.baseline.index]
        for row in view.report.rows
        if row.baseline is not None and row.baseline.index in means
    }


def _items(
    view: MetricView, grid: _Grid, panel: str, usual_n: int | None, baselines: Mapping[int, float], say: Language
) -> Iterator[xy.Item]:
    for row_at, level in enumerate(grid.rows):
        top = grid.top(row_at)
        for slot, colour in enumerate(grid.present):
            y, rows = top + slot, grid.at.get((level, colour, panel), ())
            if any(view.of(row).summary for row in rows):
                yield from _place(view, rows, y, grid.colours.index(colour), usual_n, say)
            else:
                yield from _missing(y, _why_missing(rows, say))
            means = [mean for row in rows if (mean := baselines.get(row.treatment.index)) is not None]
            if means:
                mean = math.fsum(means) / len(means)
                yield xy.PlotLine([mean, mean], [y - 0.5, y + 0.5], {**DASHED, "zorder": 1.5})
        if grid.absent:
            rows = [row for colour in grid.absent for row in grid.at.get((level, colour, panel), ())]
            yield from _missing(top + len(grid.present), f"{', '.join(grid.absent)}: {_why_missing(rows, say)}")


def _why_missing(rows: Sequence[Row], say: Language) -> str:
    kinds = {row.status if row.status in WHY_MISSING else "valueless" for row in rows} or {"excluded"}
    return ", ".join(sorted(say(WHY_MISSING[kind]) for kind in kinds))


def _missing(y: float, words: str) -> Iterator[xy.Item]:
    """Yield a hatched band across the panel at height `y`, with `words`, which say why there is no value."""
    hatched = {"facecolor": "none", "edgecolor": FAINT, "hatch": "//////", "linewidth": 0}
    yield xy.PanelRule("y", (y - 0.42, y + 0.42), hatched)
    text = safe(f"✕ {words}", int(chars(page_in() - 1.7, SMALL_PT)))
    yield xy.PlotNote(0.02, y, text, {"bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.6}})


def _place(
    view: MetricView, rows: Sequence[Row], y: float, colour_at: int, usual_n: int | None, say: Language
) -> Iterator[xy.Item]:
    """Yield the items of one position: every trial, the mean with its interval, and notes.

    `rows` are the treatments that share the position."""
    cells = [cell for cell in map(view.of, rows) if cell.summary]
    colour, summary = colour_of(colour_at), pooled_summary(view, cells)
    values = [point.value for cell in cells for point in cell.points]
    n, few = len(values), len(values) <= _FEW
    # Points of one position are spread vertically, in the order of their blocks.
    places = [y + (0.0 if n == 1 else 0.32 * (2 * at / (n - 1) - 1)) for at in range(n)]
    yield xy.PlotLine(values, places, xy.dot_look(colour, 3.4 if few else 2.2, 0.65 if few else 0.5, zorder=3.6))
    if summary.interval is not None:
        yield xy.Whiskers({y: (summary.interval.low, summary.interval.high)}, colour, "x", 1.5)
    mean = {"marker": marker_of(colour_at), "ms": 4.4, "color": colour, "mec": "white", "mew": 0.6, "zorder": 4}
    yield xy.PlotLine([summary.mean], [y], mean)
    notes = [
        signs(mark for cell in cells for mark in cell.marks).strip(),
        f"n = {say.integer(summary.n)}" if summary.n != usual_n else "",
        "" if summary.interval or summary.n == 1 else say("no interval"),
    ]
    if text := " ".join(note for note in notes if note):
        yield xy.PlotNote(1.01, y, text)


def _legend(view: MetricView, grid: _Grid, say: Language) -> Iterator[tuple[str, xy.Look]]:
    for at, level in enumerate(grid.colours if grid.roles.colours else ()):
        if level not in grid.absent:
            yield safe(level), {"color": colour_of(at), "marker": marker_of(at)}
    if _baseline_means(view):
        yield say("mean of its baseline"), DASHED
    if missing := [row for row, cell in view if cell.summary is None]:
        yield f"✕ {_why_missing(missing, say)}", {}
    for kind in view.kinds_of_marks:
        yield short(kind, say), {}
