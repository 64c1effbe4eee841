"""Every trial of a metric as a point, treatment by treatment, with the mean, its interval and the median.

A missing treatment is marked at its place. With many treatments, the factors that matter least share a place."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lastro.analysis.campaign import CampaignResults, MetricView, Row
from lastro.analysis.measured import pooled
from lastro.analysis.model import MetricAnalysis
from lastro.figures.scale import AxisEnds, interval_bar, reach
from lastro.figures.style import (
    DASHED,
    FAINT,
    GREY,
    GRID,
    SMALL_PT,
    axis_title,
    colour_of,
    fit,
    headed,
    is_narrow,
    legend,
    marker_of,
    metric_title,
    new_figure,
    numbers_in,
    points,
    titled,
    width_of,
)
from lastro.figures.text import chars, lines_of, safe, wrapped
from lastro.words.language import Language
from lastro.words.numbers import WHY_MISSING
from lastro.words.remarks import short, signs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PLACES = 60
_SLOT_IN = 0.155  # height of one place
_LINE_IN = 0.135  # height of a line of a level's label
_GAP_SLOTS = 0.8  # between two levels of the factor on the axis
_MOST_COLOURS = 8
_FEW = 15  # points of one place: up to this many are drawn larger


@dataclass(frozen=True, slots=True)
class _Roles:
    """The factors by role: `rows` on the axis, `colours`, `panels`; those that are `pooled` share places."""

    rows: tuple[str, ...]
    colours: tuple[str, ...]
    panels: tuple[str, ...]
    pooled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Grid:
    """The levels of every role, and the report's rows at each place: {(row, colour, panel): rows}.

    `absent` are the colours without any value: they share one slot, so that they are visible but do not fill half of
    the figure."""

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
        """The number of slots for one level of the axis."""
        return len(self.present) + bool(self.absent)

    def top(self, row: int) -> float:
        """Return the place of a level's first slot on the vertical axis, in slots from the top."""
        each = max(self.group, self.least)
        return row * (each + _GAP_SLOTS) + (each - self.group) / 2

    @property
    def slots(self) -> float:
        """The number of slots of a whole panel, with a gap above and below."""
        return len(self.rows) * (max(self.group, self.least) + _GAP_SLOTS) + _GAP_SLOTS


def draw_distribution(view: MetricView, say: Language, analysis: MetricAnalysis) -> Figure:
    """Draw every trial of a metric; the factors that matter most, by its analysis, come first."""
    metric, grid = view.metric, _grid(view, analysis)
    figure = new_figure()
    labels = [wrapped(level, 14 if is_narrow(figure) else 18) or say("all") for level in grid.rows]
    grid = replace(grid, least=max(map(lines_of, labels)) * _LINE_IN / _SLOT_IN)
    stacked = figure.subplots(len(grid.panels), 1, sharex=True, squeeze=False)[:, 0]
    ends = _scale(stacked[0], view)
    usual_n, baselines = _usual_n(grid, view), _baseline_means(view)
    for axes, panel in zip(stacked, grid.panels, strict=True):
        _panel(axes, view, grid, panel, usual_n, baselines, say)
        axes.set_yticks([grid.top(at) + (grid.group - 1) / 2 for at in range(len(grid.rows))], labels)
        if panel:
            titled(axes, panel)
        if ends is not None:
            numbers_in(axes, say)
    stacked[-1].set_xlabel(wrapped(axis_title(metric), 40, 90))
    arrows = ends.words(metric.name, say) if ends is not None else ()
    headed(figure, metric_title(metric, say), *_how_to_read(view, grid, usual_n, say), *arrows)
    _legend(figure, view, grid, say)
    return fit(figure, list(stacked), grid.slots * _SLOT_IN * len(grid.panels))


def _how_to_read(view: MetricView, grid: _Grid, usual_n: int | None, say: Language) -> Iterator[str]:
    confidence = say.number(f"{100 * view.confidence:g}") + " %"
    yield say("mean with its {confidence} interval, median (thin line) and every trial", confidence=confidence)
    if grid.roles.pooled:
        names = " × ".join(grid.roles.pooled)
        yield say("each position pools all levels of {factors}; its interval is over blocks", factors=names)
    if usual_n:
        yield say("n = {n} unless noted", n=say.integer(usual_n))


# The role of each factor


def _grid(view: MetricView, analysis: MetricAnalysis) -> _Grid:
    report = view.report
    roles = _roles(report, analysis)
    levels = {factor.name: [str(level) for level in factor.levels] for factor in report.study.factors}

    def combined(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(" · ".join(combination) for combination in itertools.product(*(levels[name] for name in names)))

    def place(row: Row, names: tuple[str, ...]) -> str:
        return " · ".join(str(row.treatment.levels[name]) for name in names)

    at: dict[tuple[str, str, str], list[Row]] = {}
    for row in report.rows:
        at.setdefault((place(row, roles.rows), place(row, roles.colours), place(row, roles.panels)), []).append(row)
    colours = combined(roles.colours)
    seen = {colour for (_, colour, _), rows in at.items() if any(view.of(row).summary for row in rows)}
    absent = tuple(colour for colour in colours if colour not in seen) if roles.colours else ()
    return _Grid(roles, combined(roles.rows), colours, absent, combined(roles.panels), at)


def _roles(report: CampaignResults, analysis: MetricAnalysis) -> _Roles:
    """Put the factor with most levels on the axis, the next into colours (if they suffice), the others into panels.

    If that makes more than sixty places, the factors that explain least, or have fewest levels, share places."""
    sizes = {factor.name: len(factor.levels) for factor in report.varying}
    kept = list(sizes)
    if math.prod(sizes.values()) > MOST_PLACES:
        kept = []
        for name in sorted(sizes, key=lambda name: (-_explained(analysis, name), -sizes[name])):
            if not kept or math.prod(sizes[other] for other in kept) * sizes[name] <= MOST_PLACES:
                kept.append(name)
    pooled = tuple(name for name in sizes if name not in kept)
    kept.sort(key=lambda name: -sizes[name])
    if not kept:
        return _Roles((), (), (), pooled)
    colour = next((name for name in kept[1:] if sizes[name] <= _MOST_COLOURS), None)
    panels = tuple(name for name in kept[1:] if name != colour)
    return _Roles((kept[0],), (colour,) if colour else (), panels, pooled)


def _explained(analysis: MetricAnalysis, factor: str) -> float:
    """Return the fraction of variation of the effects of a factor, alone or with others."""
    if analysis.anova is None:
        return 0.0
    return math.fsum(effect.explained for effect in analysis.anova.effects if factor in effect.factors)


def _usual_n(grid: _Grid, view: MetricView) -> int | None:
    """Return the n that most places have, written once; None when nothing was measured."""
    found = Counter(n for rows in grid.at.values() if (n := sum(len(view.of(row).points) for row in rows)))
    return found.most_common(1)[0][0] if found else None


def _baseline_means(view: MetricView) -> dict[int, float]:
    """Return {treatment: mean of its baseline}, for those whose baseline has one."""
    means = {row.treatment.index: cell.summary.mean for row, cell in view if cell.summary}
    return {
        row.treatment.index: means[row.baseline.index]
        for row in view.report.rows
        if row.baseline is not None and row.baseline.index in means
    }


# Drawing


def _panel(
    axes: Axes,
    view: MetricView,
    grid: _Grid,
    panel: str,
    usual_n: int | None,
    baselines: Mapping[int, float],
    say: Language,
) -> None:
    for row_at, level in enumerate(grid.rows):
        top = grid.top(row_at)
        for slot, colour in enumerate(grid.present):
            rows = grid.at.get((level, colour, panel), ())
            if not any(view.of(row).summary for row in rows):
                _missing(axes, top + slot, _why_missing(rows, say))
            else:
                _place(axes, view, rows, top + slot, grid.colours.index(colour), usual_n, say)
            means = [mean for row in rows if (mean := baselines.get(row.treatment.index)) is not None]
            if means:
                mean = math.fsum(means) / len(means)
                axes.plot([mean, mean], [top + slot - 0.5, top + slot + 0.5], zorder=1.5, **DASHED)
        if grid.absent:
            rows = [row for colour in grid.absent for row in grid.at.get((level, colour, panel), ())]
            _missing(axes, top + len(grid.present), f"{', '.join(grid.absent)}: {_why_missing(rows, say)}")
    axes.set_ylim(grid.slots - _GAP_SLOTS - 0.5, -_GAP_SLOTS - 0.5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelbottom=True)
    axes.grid(axis="x", color=GRID, linewidth=0.6)


def _why_missing(rows: Sequence[Row], say: Language) -> str:
    kinds = {row.status if row.status in WHY_MISSING else "valueless" for row in rows} or {"excluded"}
    return ", ".join(sorted(say(WHY_MISSING[kind]) for kind in kinds))


def _missing(axes: Axes, y: float, words: str) -> None:
    """Draw a hatched band over the whole width at the place of a missing treatment."""
    axes.axhspan(y - 0.42, y + 0.42, facecolor="none", edgecolor=FAINT, hatch="//////", linewidth=0)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    place: Any = ("axes fraction", "data")
    text = safe(f"✕ {words}", int(chars(width_of(axes.figure) - 1.7, SMALL_PT)))
    axes.annotate(text, (0.02, y), xycoords=place, va="center", fontsize=SMALL_PT - 0.5, color=GREY, bbox=box)


def _place(
    axes: Axes, view: MetricView, rows: Sequence[Row], y: float, colour_at: int, usual_n: int | None, say: Language
) -> None:
    """Draw the points of the treatments that share a place, their mean with its interval, and their median."""
    cells = [cell for cell in map(view.of, rows) if cell.summary]
    colour, marker = colour_of(colour_at), marker_of(colour_at)
    values = [point.value for cell in cells for point in cell.points]
    summary = pooled(view, cells)
    few = len(values) <= _FEW
    points(axes, values, _spread(y, len(values)), colour, 3.4 if few else 2.2, alpha=0.65 if few else 0.5, zorder=3.6)
    if summary.interval is not None:
        interval_bar(axes, (summary.interval.low, summary.interval.high), y, colour, width_pt=1.5)
    median = statistics.median(values)
    axes.plot([median, median], [y - 0.38, y + 0.38], color="black", linewidth=0.9, zorder=3.8)
    axes.plot(
        [summary.mean], [y], marker=marker, ms=4.4, color=colour, mec="white", mew=0.6, linestyle="none", zorder=4
    )
    notes = [
        signs(mark for cell in cells for mark in cell.marks).strip(),
        f"n = {say.integer(summary.n)}" if summary.n != usual_n else "",
        "" if summary.interval or summary.n == 1 else say("no interval"),
    ]
    if text := " ".join(note for note in notes if note):
        place: Any = ("axes fraction", "data")
        axes.annotate(
            text, (1.01, y), xycoords=place, va="center", fontsize=SMALL_PT - 0.5, color=GREY, annotation_clip=False
        )


def _spread(y: float, n: int) -> list[float]:
    """Return a position for each of `n` points that share a place, a little apart, in the order of their blocks."""
    return [y + (0.0 if n == 1 else 0.32 * (2 * at / (n - 1) - 1)) for at in range(n)]


def _scale(axes: Axes, view: MetricView) -> AxisEnds | None:
    """Set the ends of the axis by every trial and interval; None without any."""
    found = [cell.summary for cell in view.cells if cell.summary is not None]
    values = [point.value for cell in view.cells for point in cell.points]
    if not values:
        axes.set_xticks([])
        return None
    intervals = [(each.interval.low, each.interval.high) for each in found if each.interval is not None]
    ends = reach(view.metric, values, intervals, [each.mean for each in found])
    axes.set_xscale("log" if ends.log else "linear")
    axes.set_xlim(ends.low, ends.high)
    return ends


def _legend(figure: Figure, view: MetricView, grid: _Grid, say: Language) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], color=colour_of(at), marker=marker_of(at), ms=5, label=safe(level))
        for at, level in enumerate(grid.colours)
        if grid.roles.colours and level not in grid.absent
    ]
    if _baseline_means(view):
        handles.append(Line2D([], [], label=say("mean of its baseline"), **DASHED))
    missing = [row for row, cell in view if cell.summary is None]
    if missing:
        label = f"✕ {_why_missing(missing, say)}"
        handles.append(Patch(facecolor="none", edgecolor=FAINT, hatch="//////", linewidth=0, label=label))
    handles += [Line2D([], [], linestyle="none", label=short(kind, say)) for kind in view.kinds_of_marks]
    legend(figure, handles, safe(grid.roles.colours[0]) if grid.roles.colours else None)
