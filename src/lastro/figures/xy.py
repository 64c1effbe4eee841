"""Panels with points, lines, intervals and rules over two axes, as data, and the function that draws them.

The module `rows` draws figures in which each value has its own row with a name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lastro.figures.matplotlib_types import Axes, Figure
from lastro.figures.scale import AxisEnds, Ends, interval_bars
from lastro.figures.style import (
    GREY,
    GRID,
    SMALL_PT,
    add_heading,
    add_legend,
    fit_height,
    is_narrow,
    label_with_numbers,
    new_figure,
    width_of,
)
from lastro.figures.text import chars, width_em, wrapped
from lastro.words.language import Language

Look = Mapping[str, Any]  # what matplotlib's `plot` takes: color, marker, linestyle and so on
ACROSS = 3  # small panels in a row; two in a row on a narrow figure
_TITLE_PT = 8.5
_MOST_TICKS = 200  # without labels
_TICK_IN = 7.5 / 72  # the size of a tick's label
_IN_PANEL = frozenset({"alpha", "gid", "zorder"})  # what a legend leaves out of a look


def dot_look(colour: str, size_pt: float, alpha: float = 0.6, **more: Any) -> dict[str, Any]:
    """Return the look of round points, such as one per trial; in SVG, they become a single path (`svg.compact`)."""
    return {"linestyle": "none", "marker": "o", "ms": size_pt, "mew": 0, "color": colour, "alpha": alpha,
            "gid": f"points-{size_pt:g}", **more}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlotLine:
    """Points of a panel, joined by a line unless `look` has the linestyle 'none'.

    `band` has (low, high) for each point, and is drawn behind the line. With a `name`, they are in the legend."""

    x: Sequence[float]
    y: Sequence[float]
    look: Look
    name: str = ""
    band: Sequence[Ends] = ()

    def draw(self, axes: Axes) -> None:
        axes.plot(self.x, self.y, label=self.name or None, **self.look)
        if self.band:
            low, high = zip(*self.band, strict=True)
            axes.fill_between(self.x, low, high, color=self.look["color"], alpha=0.16, linewidth=0)


@dataclass(frozen=True, slots=True)
class Whiskers:
    """Intervals that are parallel to the axis `along`: {position on the other axis: (low, high)}.

    Both ends of the axis `along` must be given, because arrow heads depend on them."""

    bars: Mapping[float, Ends]
    colour: str
    along: Literal["x", "y"] = "y"
    width_pt: float = 1.2

    def draw(self, axes: Axes) -> None:
        caps = self.along == "y"
        interval_bars(axes, self.bars, self.colour, along=self.along, width_pt=self.width_pt, caps=caps)


@dataclass(frozen=True, slots=True)
class PlotBar:
    """A vertical bar between the two `ends` on y; its middle is `at` on x. `look` has options of a matplotlib patch."""

    at: float
    ends: Ends
    width: float
    look: Look

    def draw(self, axes: Axes) -> None:
        axes.bar(self.at, self.ends[1] - self.ends[0], self.width, bottom=self.ends[0], **self.look)


@dataclass(frozen=True, slots=True)
class PlotNote:
    """A text at (`x`, `y`) in a panel.

    On the axis named by `fraction`, the coordinate is a fraction of the panel, not a number, and may be outside of the
    panel."""

    x: float
    y: float
    text: str
    look: Look = field(default_factory=dict)
    fraction: Literal["x", "y"] | None = "x"

    def draw(self, axes: Axes) -> None:
        where: Any = tuple("axes fraction" if self.fraction == axis else "data" for axis in "xy")
        look: dict[str, Any] = {
            "fontsize": SMALL_PT - 0.5,
            "color": GREY,
            "va": "center",
            "annotation_clip": False,
        } | dict(self.look)
        axes.annotate(self.text, (self.x, self.y), xycoords=where, **look)


@dataclass(frozen=True, slots=True)
class PanelRule:
    """A line across the whole panel at the number `at` of an axis, or a band if `at` has two ends.

    With a `name`, it is in the legend."""

    axis: Literal["x", "y"]
    at: float | Ends
    look: Look
    name: str = ""

    def draw(self, axes: Axes) -> None:
        if isinstance(self.at, tuple):
            (axes.axvspan if self.axis == "x" else axes.axhspan)(*self.at, **self.look)
        else:
            (axes.axvline if self.axis == "x" else axes.axhline)(self.at, label=self.name or None, **self.look)


Item = PlotLine | PlotBar | Whiskers | PanelRule | PlotNote


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """One axis of a panel. An end that is None is chosen to fit the items."""

    text: str = ""  # title of the axis
    low: float | None = None
    high: float | None = None
    log: bool = False
    linear_below: float = 0.0  # the scale is linear below this number and logarithmic above it, so that it can show 0
    ticks: Sequence[tuple[float, str]] | None = None  # (number, label); None: as many round numbers as fit
    grid: bool = True

    @classmethod
    def of(cls, ends: AxisEnds, text: str = "") -> PlotAxis:
        return cls(text, ends.low, ends.high, ends.log)


@dataclass(frozen=True, slots=True)
class PlotPanel:
    """One pair of axes with its items and the lines of its title; `x` and `y`, if given, replace those of the plot."""

    items: Sequence[Item]
    title: Sequence[str] = ()
    x: PlotAxis | None = None
    y: PlotAxis | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """A figure of panels in a grid."""

    panels: Sequence[PlotPanel]
    title: str
    how: Sequence[str]  # to read it: lines below the title
    x: PlotAxis
    y: PlotAxis
    panel_in: float  # height of a panel in inches
    across: int = 1  # number of panels in a row
    narrow_across: int = 2  # number of panels in a row of a narrow figure
    # Entries after the items with a name; an entry with an empty look is only text.
    legend: Sequence[tuple[str, Look]] = ()
    legend_title: str = ""
    labelled: bool = False  # all panels have numbers on the horizontal axis; else only the lowest


def draw_plot(plot: Plot, say: Language) -> Figure:
    """Draw the panels in a grid, with title, legend and shared axes, in the width of the current style."""
    figure, n = new_figure(), len(plot.panels)
    small = plot.across > 1
    n_columns = min(plot.narrow_across if is_narrow() else plot.across, plot.across, n)
    n_rows, size_pt = math.ceil(n / n_columns), SMALL_PT if small else _TITLE_PT
    has_own_x, has_own_y = any(panel.x for panel in plot.panels), any(panel.y for panel in plot.panels)
    grid = list(figure.subplots(n_rows, n_columns, sharex=not has_own_x, sharey=not has_own_y, squeeze=False).flat)
    for axes in grid[n:]:
        axes.set_axis_off()
    room = chars(width_of(figure) / n_columns - (0.35 if small else 0.6), size_pt)
    for at, (axes, panel) in enumerate(zip(grid, plot.panels, strict=False)):
        _scale(axes, panel, plot)
        for item in panel.items:
            item.draw(axes)
        axes.set_title("\n".join(wrapped(line, room, 160) for line in panel.title), loc="left", fontsize=size_pt)
        for axis, shown in (("x", panel.x or plot.x), ("y", panel.y or plot.y)):
            if shown.grid:
                axes.grid(axis=axis, color=GRID, linewidth=0.6)
        axes.tick_params(axis="y", length=0)
        if small:
            axes.tick_params(labelsize=SMALL_PT)
        if not has_own_x:
            axes.tick_params(labelbottom=plot.labelled or at + n_columns >= n)
        if panel.x:
            axes.set_xlabel(wrapped(panel.x.text, room, 160), fontsize=SMALL_PT)
        if panel.y and panel.y.text:
            axes.set_ylabel(wrapped(panel.y.text, chars(plot.panel_in, _TITLE_PT), 90))
    for axes, panel in zip(grid, plot.panels, strict=False):  # last: an open end of a shared axis depends on all panels
        _end(axes, panel, plot, 0.85 * width_of(figure) / n_columns, say)
    height_in = plot.panel_in * n_rows
    if plot.y.text:
        figure.supylabel(wrapped(plot.y.text, chars(max(1.5, height_in), size_pt), 120), fontsize=size_pt)
    if plot.x.text and not small:
        grid[-1].set_xlabel(wrapped(plot.x.text, 40, 90))
    add_legend(figure, _handles(plot), (plot.legend_title or (plot.x.text if small else "")) or None, 5 if small else 3)
    add_heading(figure, plot.title, *plot.how)
    return fit_height(figure, grid[::n_columns], height_in)


def _scale(axes: Axes, panel: PlotPanel, plot: Plot) -> None:
    """Set the scales, and the range of each axis whose two ends are given.

    This comes before the items are drawn, because arrow heads depend on the range."""
    for axis, set_scale, set_ends in (
        (panel.x or plot.x, axes.set_xscale, axes.set_xlim),
        (panel.y or plot.y, axes.set_yscale, axes.set_ylim),
    ):
        if axis.linear_below:
            set_scale("symlog", linthresh=axis.linear_below, linscale=0.8)
        elif axis.log:
            set_scale("log")
        if axis.low is not None and axis.high is not None:
            set_ends(axis.low, axis.high)


def _end(axes: Axes, panel: PlotPanel, plot: Plot, width_in: float, say: Language) -> None:
    """Set the ends and the ticks of both axes, after all items are drawn.

    `width_in` is the width of the axes, by which the tick labels are staggered."""
    from matplotlib.ticker import NullLocator

    x, y = panel.x or plot.x, panel.y or plot.y
    axes.set_xlim(x.low, x.high)
    axes.set_ylim(y.low, y.high)
    label_with_numbers(axes, say, x=x.ticks is None, y=y.ticks is None)
    if x.ticks is not None:
        low, high = axes.get_xlim()
        inside = [(place, text) for place, text in x.ticks if low <= place <= high]
        at = [
            (math.log10(place / low) / math.log10(high / low) if x.log else (place - low) / (high - low)) * width_in
            for place, _ in inside
        ]
        labels = _staggered(at, [text for _, text in inside])
        # Thousands of ticks take a minute, and cover the axis.
        shown = [tick for tick in zip(inside, labels, strict=True) if tick[1] or len(inside) <= _MOST_TICKS]
        axes.set_xticks([place for (place, _), _ in shown], [label for _, label in shown])
        axes.xaxis.set_minor_locator(NullLocator())
    if y.ticks is not None:
        axes.set_yticks([place for place, _ in y.ticks], [text for _, text in y.ticks])
        axes.yaxis.set_minor_locator(NullLocator())


def _staggered(at_in: Sequence[float], texts: Sequence[str]) -> list[str]:
    """Return the tick labels; one that would touch its neighbour moves to a second line or, without room, is empty."""
    ends, labels = [-math.inf, -math.inf], []
    for middle_in, text in zip(at_in, texts, strict=True):
        half_in = _TICK_IN * (max(map(width_em, text.split("\n"))) + 1) / 2
        line = next((line for line, end in enumerate(ends) if middle_in - half_in > end), None)
        labels.append("" if line is None else "\n" * line + text)
        if line is not None:
            ends[line] = middle_in + half_in
    return labels


def _handles(plot: Plot) -> list[Any]:
    looks: dict[str, Look] = {}
    for panel in plot.panels:
        for item in panel.items:
            if isinstance(item, PlotLine | PanelRule) and item.name:
                looks.setdefault(item.name, item.look)
    return [legend_entry(name, look) for name, look in (*looks.items(), *plot.legend)]


def legend_entry(name: str, look: Look) -> Any:
    """Return an entry of a legend: a bar if the look has a facecolor, only text if the look is empty, else a line."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if "facecolor" in look:
        return Patch(label=name, **look)
    shown = {key: value for key, value in look.items() if key not in _IN_PANEL}
    if "marker" in shown:
        shown["ms"] = max(4.0, shown.get("ms", 0.0))
    return Line2D([], [], label=name, **(shown or {"linestyle": "none"}))
